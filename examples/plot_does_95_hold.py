"""
Does 95 % mean 95 %?
====================

A certificate may be wrong in one of twenty draws of the rows. To see how often it is, one must
know the truth. So let a table of 8,992 digits be the *whole* world: rows drawn from it with
replacement are independent draws, and the risk of a vote in this world can be counted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from pacvote import count, minimize
from pacvote.concentration import binomial_upper
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
past, world = order[:2000], order[2000:]
trees = [
    DecisionTreeClassifier(max_depth=depth, max_features=8, random_state=depth)
    for depth in range(3, 12)
]
said = np.stack([tree.fit(X[past], y[past]).predict(X[world]) for tree in trees], axis=1)
erred = said != y[world][:, None]

# %%
# Sixty times: draw 800 rows, find the weights that minimise the bound on them, and compare
# what the bound claims with the risk of that very vote in the whole world. A row is an error where
# half of the weight or more errs, as the theorem counts it.

random = np.random.default_rng(1)
claims, risks = [], []
for _ in range(60):
    rows = random.integers(len(world), size=800)
    solution = minimize("tnd", count(said[rows], y[world][rows]))
    claims.append(solution.value)
    risks.append(np.mean(erred @ solution.weights >= 0.5))
claims, risks = np.array(claims), np.array(risks)

draws = random.integers(len(world), size=(2000, 800))
n_errors, which = np.unique(erred[draws, -1].sum(axis=1), return_inverse=True)
alone = np.array([binomial_upper(800, int(k), 0.05) for k in n_errors])[which]
risk_alone = erred[:, -1].mean()
for what, wrong in {
    "weights found from the rows": risks > claims,
    "one tree, fixed beforehand": risk_alone > alone,
}.items():
    print(f"{what}: {wrong.mean():.1%} of {len(wrong)} claims are wrong")

# %%
# One tree that was fixed beforehand has an exact limit, which fails about as often as it may. For
# weights found from the same rows the claim must hold for *all* weights at once and for every
# distribution; on a given one it is hardly ever close to failing. The gap is the price.

figure, axes = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
axes.plot(risks, claims, ".", alpha=0.6, label="weights found from the rows")
axes.plot(np.full_like(alone, risk_alone), alone, ".", alpha=0.6, label="one tree, fixed")
axes.plot([0, claims.max()], [0, claims.max()], "k--", lw=1, label="below this line: wrong")
axes.set(xlabel="true risk, counted", ylabel="risk, certified")
axes.set(xlim=(0, 0.3), ylim=(0, 1.1 * claims.max()))
axes.legend()
plt.show()
