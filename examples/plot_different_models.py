"""
Seven different models: is their vote worth it?
===============================================

Each model is fitted on its own bag and validated on the other rows. The weights that minimise the
bound say who is heard. Scaling belongs *into* the voter: fitted outside of the bags, on all rows,
it would have seen the rows that validate, and the certificate would be void.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pacvote import MajorityVoteClassifier, WeightsDisplay
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
rows, aside = order[:3000], order[3000:5000]
models = [
    ("discriminant", LinearDiscriminantAnalysis()),
    ("logistic", make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))),
    ("bayes", GaussianNB()),
    ("tree", DecisionTreeClassifier()),
    ("neighbours", KNeighborsClassifier(3)),
    ("support vectors", make_pipeline(StandardScaler(), SVC())),
    ("extra trees", ExtraTreesClassifier(50)),
]
vote = MajorityVoteClassifier(models, bound="tnd", random_state=0).fit(X[rows], y[rows])
print(vote.certificate_)

# %%
# Who is strong, and errs where others do not, has the weight. A model of weight zero may be
# dropped from service; the certificate stays as it is.

WeightsDisplay.from_estimator(vote).plot()
plt.show()

# %%
# Beside the vote, each model alone on rows that had no part in it.

said = vote.votes(X[aside])
for (name, _), weight, error in zip(
    models, vote.weights_, (said != y[aside][:, None]).mean(0), strict=True
):
    print(f"{name:16} weight {weight:.2f}  errs on {100 * error:4.1f} %")
error = np.mean(vote.predict(X[aside]) != y[aside])
print(f"{'the vote':29} errs on {100 * error:4.1f} %")
