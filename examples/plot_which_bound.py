"""
Which bound should I declare?
=============================

The bound is declared before the rows are seen: the lowest of four certificates, each at 95 %, is
not one at 95 %. So look at data of *the same kind* that you will not certify, as here.

Many voters of similar strength: ``tnd`` and ``cctnd``. One voter far above the rest, or too few
rows for every pair: ``fo``. Weak voters on many rows: ``cctnd``, which is the default.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from pacvote import count, minimize, votes_of
from pacvote.datasets import load_pendigits

digits, cancer = load_digits(return_X_y=True), load_breast_cancer(return_X_y=True)
forest = RandomForestClassifier(100, random_state=0)
stumps = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 100, random_state=0)
ensembles = {
    "10,992 pen strokes, forest": (forest, *load_pendigits(return_X_y=True)),
    "1,797 digits, forest": (forest, *digits),
    "569 tumours, forest": (forest, *cancer),
    "569 tumours, stumps": (stumps, *cancer),
}

# %%
# Each bound is minimised by itself, on the rows outside of the bags.

found = {}
for name, (ensemble, X, y) in ensembles.items():
    counts = count(votes_of(ensemble.fit(X, y), X, y))
    found[name] = {key: minimize(key, counts).value for key in ("fo", "tnd", "cctnd", "ccpbb")}
    print(f"{name:28}", *(f"{key} {value:.3f}  " for key, value in found[name].items()))

# %%
# A bound of 1 says nothing. On few rows no bound on pairs says much: spare rows for a hold-out, or
# let a few strong voters vote by folds.

figure, axes = plt.subplots(figsize=(6.4, 3), layout="constrained")
for key, marker in zip(("fo", "tnd", "cctnd", "ccpbb"), "osD^", strict=True):
    axes.plot([values[key] for values in found.values()], list(found), marker, label=key, ms=7)
axes.set(xlabel="certified risk, 95 % confidence", xlim=(0, 1.03))
axes.invert_yaxis()
axes.grid(axis="x", alpha=0.3)
axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1), frameon=False)
plt.show()
