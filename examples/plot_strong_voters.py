"""
A few strong models, and no row to spare
========================================

A bound on a hundred trees in pairs is many times the error of their vote. Let whole forests vote
instead: three of them, each trained on two thirds of the rows and validated on the last third.
Two of three must err for the vote to err, so that its risk is at most 1.5 times their mean risk.
Any learner will do, boosted trees and pipelines too.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import MajorityVoteClassifier, reweight
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
aside, rows = order[:2000], order[2000:7000]
forest = RandomForestClassifier(100, random_state=0)

# %%
# Three ways to use the same 5,000 rows.

fitted, spared = rows[1000:], rows[:1000]
by_folds = MajorityVoteClassifier(forest, n_estimators=3, validation="folds", random_state=0)
ways = {
    "100 trees, out of bag": reweight(forest.fit(X[rows], y[rows]), X[rows], y[rows]),
    "3 forests, by folds": by_folds.fit(X[rows], y[rows]),
    "1 forest, a fifth held out": reweight(
        [forest.fit(X[fitted], y[fitted])], X[spared], y[spared], bound="fo"
    ),
}

# %%
# By folds the certificate is a few times tighter than that of trees, and every row has trained two
# of the voters. A fifth of the rows held out proves more still, for one forest fixed beforehand.

figure, axes = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
for name, vote in ways.items():
    risk, error = vote.certificate_.risk, np.mean(vote.predict(X[aside]) != y[aside])
    print(f"{name:28} certified {100 * risk:5.2f} %   errs on {100 * error:.2f} %")
    axes.plot([error, risk], [name, name], "C0", lw=1)
    axes.plot(error, name, "oC2")
    axes.plot(risk, name, "|C0", ms=14, mew=3)
axes.plot([], [], "oC2", label="error on rows aside")
axes.plot([], [], "|C0", ms=14, mew=3, label="certified, 95 % confidence")
axes.invert_yaxis()
axes.set(xlabel="risk of the vote", xlim=(0, None))
axes.legend()
plt.show()
