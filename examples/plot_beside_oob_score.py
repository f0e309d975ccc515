"""
Beside ``oob_score_``, cross-validation and a hold-out
======================================================

scikit-learn's numbers *estimate* the error; a certificate *limits* it. Both are useful, and they
answer different questions: "about how often does it err?" and "how often may it err at most, and
can you prove it?"
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold, cross_val_score, train_test_split

from pacvote import MajorityVoteClassifier, reweight

X, y = load_digits(return_X_y=True)
X_fit, X_held, y_fit, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
forest = RandomForestClassifier(100, random_state=0, oob_score=True)

# %%
# Estimates, which say nothing of how far they may be off. That of ``oob_score_`` is of another vote
# than the forest's: each row is judged by the third of the trees that have not seen it.
#
# The folds are shuffled. The rows of this table stand in the order of their writers; unshuffled,
# the error is twice as large. So every number here is about new digits of *these* writers.

folds = KFold(3, shuffle=True, random_state=0)
cross_validated = 1 - cross_val_score(forest, X, y, cv=folds).mean()
held_out = 1 - forest.fit(X_fit, y_fit).score(X_held, y_held)
out_of_bag = 1 - forest.fit(X, y).oob_score_

# %%
# Limits, from the same rows. For the hold-out, the forest is one voter that was fixed beforehand.

trees = reweight(forest, X, y).certificate_.risk
three = MajorityVoteClassifier(forest, n_estimators=3, validation="folds", random_state=0)
forests = three.fit(X, y).certificate_.risk
fixed = reweight([forest.fit(X_fit, y_fit)], X_held, y_held, bound="fo").certificate_.risk

lines = {
    "100 trees out of bag": (out_of_bag, trees),
    "3 forests by folds": (cross_validated, forests),
    "forest, a quarter held out": (held_out, fixed),
}
for name, (estimate, limit) in lines.items():
    print(f"{name:28} about {100 * estimate:4.1f} %   at most {100 * limit:4.1f} %")

# %%
# A classical confidence interval around ``oob_score_`` or a cross-validated score is no proof: its
# rows are not judged by one fixed vote.

figure, axes = plt.subplots(figsize=(6.4, 2.2), layout="constrained")
places = np.arange(len(lines))
axes.barh(places, [limit for _, limit in lines.values()], color="C0", alpha=0.5, label="at most")
axes.plot([estimate for estimate, _ in lines.values()], places, "oC2", label="about")
axes.set_yticks(places, list(lines))
axes.invert_yaxis()
axes.set(xlabel="error of the vote")
axes.legend()
plt.show()
