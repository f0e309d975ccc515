"""
How fast does a certificate tighten as rows come in?
====================================================

One forest, ever more labelled rows. Three numbers at each size: what is certified from the rows
outside of the bags, what is certified when a fifth of the rows is held out for a fixed vote, and
how often the vote does err.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import reweight
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
aside, pool = order[:2000], order[2000:]
sizes = [250, 500, 1000, 2000, 4000, 8000]

out_of_bag, held_out, error = [], [], []
for size in sizes:
    rows = pool[:size]
    forest = RandomForestClassifier(50, random_state=0).fit(X[rows], y[rows])
    vote = reweight(forest, X[rows], y[rows])
    out_of_bag.append(vote.certificate_.risk)
    error.append(np.mean(vote.predict(X[aside]) != y[aside]))

    fitted, spared = rows[size // 5 :], rows[: size // 5]
    forest = RandomForestClassifier(50, random_state=0).fit(X[fitted], y[fitted])
    held_out.append(reweight([forest], X[spared], y[spared], bound="fo").certificate_.risk)

# %%
# Rows outside of the bags cost nothing, and prove less: their limit stays a multiple of the error.
# A fifth held out costs the forest a fifth of its rows, and soon is far tighter. Who can spare the
# rows should.

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axes.plot(sizes, out_of_bag, "o-", label="certified, no row held out")
axes.plot(sizes, held_out, "s-", label="certified, a fifth held out")
axes.plot(sizes, error, ".--", color="C2", label="error on 2,000 rows aside")
axes.set(xscale="log", xlabel="labelled rows", ylabel="risk of the vote", ylim=(0, 1.02))
axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
axes.minorticks_off()
axes.grid(alpha=0.3)
axes.legend()
plt.show()
