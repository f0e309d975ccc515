"""
My annotators skip rows: what may an empty cell mean?
=====================================================

A cell of the table of votes is empty. If a coin decided, before anybody saw the row, that this
annotator would not get it, then nothing is lost: ``null="out-of-bag"``. If the annotator skipped
it, perhaps because it was hard, then the rest of the row's votes look better than they are, and
only ``null="error"`` is sound. pacvote cannot see the difference. This is what it costs to mix
them up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import Votes, certify
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(1).permutation(len(y))
past, table, future = np.split(order, [1500, 4500])
annotators = [
    RandomForestClassifier(15, max_depth=4, random_state=seed).fit(X[rows], y[rows])
    for seed, rows in enumerate(np.split(past, 3))
]


def said(rows):
    """Return what each annotator says of each row."""
    return np.stack([annotator.predict(X[rows]) for annotator in annotators], axis=1)


# %%
# The truth, to compare with: how often the majority errs when all three must answer.

votes = said(future)
majority = np.where(votes[:, 1] == votes[:, 2], votes[:, 1], votes[:, 0])
error = np.mean(majority != y[future])

# %%
# Two ways of skipping, and two readings of the empty cells.

sure = np.stack([annotator.predict_proba(X[table]).max(1) for annotator in annotators], axis=1)
answered = {
    "a coin skipped": np.random.default_rng(2).random(sure.shape) < 0.8,
    "the hard rows are skipped": sure > 0.5,
}
claims = {}
for how, kept in answered.items():
    erred = said(table) != y[table][:, None]
    readings = {"out-of-bag": (erred, kept), "error": (erred | ~kept, np.ones_like(kept))}
    for null, (errors, validated) in readings.items():
        evidence = Votes.from_errors(errors, validated)
        claims[how, null] = certify(evidence, bound="fo", weights=np.full(3, 1 / 3)).risk
        print(f"{how:26} null={null:11} certified {100 * claims[how, null]:5.1f} %")
print(f"{'the vote errs on':44} {100 * error:5.1f} %")

# %%
# Hard rows skipped and called ``out-of-bag``: a certificate that is false. ``error`` never is.

figure, axes = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
names = [f'{how}\nnull="{null}"' for how, null in claims]
false = [claim < error for claim in claims.values()]
axes.barh(names, list(claims.values()), color=["C3" if bad else "C0" for bad in false])
axes.axvline(error, color="k", ls="--", label="error of the vote")
axes.invert_yaxis()
axes.set(xlabel="certified risk")
axes.legend()
plt.show()
