"""
How many rows must be labelled?
===============================

Labels cost money. Before any are bought: how many does it take to certify that a classifier errs
on at most 5 % of data, if it errs on about 3 %? And was the answer right? Digits, of which we have
all labels, can tell.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pacvote import plan
from pacvote.datasets import load_pendigits

# %%
# A plan names the rows, how many errors they may hold, and the chance that they hold no more.

print(plan(0.03, risk=0.05))
print(plan(0.03, risk=0.05, power=0.5))

# %%
# Or the other way round: what would the rows buy that the budget allows?

for n_rows in (200, 1000, 5000):
    print(plan(0.03, n_rows=n_rows))

# %%
# Half the distance between what is expected and what is to be certified takes four times the rows.

targets = np.linspace(0.035, 0.1, 40)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for power in (0.5, 0.8, 0.95):
    rows = [plan(0.03, risk=target, power=power).n_rows for target in targets]
    axes.semilogy(100 * targets, rows, label=f"power {power:g}")
axes.set(xlabel="risk to certify (%), 3 % expected", ylabel="rows to label")
axes.legend()
plt.show()

# %%
# Now the test: a classifier of digits, whose error we pretend not to know but for a guess.

X, y = load_pendigits(return_X_y=True)
rng = np.random.default_rng(0)
train, rest = np.split(rng.permutation(len(y)), [2000])
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
said = model.fit(X[train], y[train]).predict(X[rest])
guess = round((said != y[rest]).mean(), 3)
planned = plan(guess, risk=guess + 0.03)
print(planned)

# %%
# Hold-outs of that size, drawn again and again: how often is the target reached?

wrong = said != y[rest]
draws = (rng.choice(len(rest), planned.n_rows, replace=False) for _ in range(2000))
reached = np.mean([wrong[rows].sum() <= planned.n_errors for rows in draws])
print(f"{reached:.1%} of 2,000 hold-outs certify it; planned were {planned.attained:.1%}")
