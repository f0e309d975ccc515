"""
How good is the forest that I already have?
===========================================

Every labelled row went into the fit, and none is left to test with. But each tree was fitted on a
bag of rows, and the other third is new to it. Counted on those rows, alone and in pairs, the trees
are weighed and their vote is certified. Nothing is trained again, and no label is spent.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from pacvote import BoundsDisplay, reweight
from pacvote.datasets import load_pendigits

# %%
# Only to see here how often the vote does err, 2,000 rows stay aside. You need none.

X, y = load_pendigits(return_X_y=True)
X, X_aside, y, y_aside = train_test_split(X, y, test_size=2000, random_state=0)
forest = RandomForestClassifier(100, random_state=0).fit(X, y)

vote = reweight(forest, X, y)
print(vote.certificate_)

# %%
# On one scale: the certificate, other bounds at the same weights, the best tree alone, and what
# the rows aside prove. The certificate is honest rather than sharp. It rests on how pairs of trees
# err, and from that alone nobody can conclude much more about a vote.

n_errors = int(np.sum(vote.predict(X_aside) != y_aside))
BoundsDisplay.from_estimator(vote, held_out=(len(y_aside), n_errors)).plot()
plt.show()

# %%
# What it does not say: anything about other writers of digits (rows of one writer are on both
# sides), about data that drift, or about one digit among the ten.
