"""
How many voters do I need when it runs?
=======================================

A hundred trees answer slowly, and most of them say what the others say. ``prune`` gives weight
zero to those that matter least, and certifies the vote of the rest. Prior and sizes stay those of
all hundred, since the choice was made by the same rows: a fresh prior over the chosen few would
claim too much.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacvote import MajorityVoteClassifier
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
rows, aside = order[:6000], order[6000:]
vote = MajorityVoteClassifier(n_estimators=100, random_state=0).fit(X[rows], y[rows])
said = vote.votes(X[aside])

# %%
# Each size is a certificate at 95 % of its own. Choose the size beforehand, or by how much risk you
# will pay: ``vote.prune(tol=0.01)``. To drop voters until the limit is *lowest* would be a choice
# by these rows.

sizes = [100, 70, 50, 35, 25, 17, 12, 8, 5, 3, 1]
certified, error = [], []
for size in sizes:
    vote.refit_weights()
    if size < np.count_nonzero(vote.weights_):
        vote.prune(n_voters=size)
    certified.append(vote.certificate_.risk)
    error.append(np.mean(vote.predict(X[aside]) != y[aside]))
    print(
        f"{size:4} voters: certified {100 * certified[-1]:5.2f} %, errs on {100 * error[-1]:.2f} %"
    )

# %%
# A third of the trees costs one point. One tree alone is another matter: nothing is lost between it
# and a majority, so its limit is low although it errs far more often as the vote.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(sizes, certified, "o-", label="certified, 95 % confidence")
axes.plot(sizes, error, "s--", color="C2", label="error on rows aside")
axes.set(xscale="log", xlabel="voters kept", ylabel="risk of the vote", ylim=(0, None))
axes.set_xticks(sizes, map(str, sizes))
axes.minorticks_off()
axes.legend()
plt.show()
