"""
How many tumours are missed? A certificate for each class
=========================================================

A forest tells malignant from benign tumours. One number for all patients hides what a physician
asks first: of the *malignant* ones, how many does it miss? And is it as good for small tumours as
for large ones? Both are certified here, each question with half of the 5 % that may go wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from pacvote import Votes, certify_groups

# %%
# Half of the patients train the forest, the others judge it. The split looks at no label.

data = load_breast_cancer(as_frame=True)
X, diagnosis = data.data, data.target_names[data.target]
order = np.random.default_rng(0).permutation(len(X))
train, judged = np.split(order, [len(order) // 2])
forest = RandomForestClassifier(100, random_state=0).fit(X.iloc[train], diagnosis[train])


def votes(rows):
    """Return what each tree says."""
    said = [tree.predict(X.iloc[rows].to_numpy()).astype(int) for tree in forest.estimators_]
    return Votes.from_predictions(forest.classes_[np.stack(said, axis=1)], diagnosis[rows])


# %%
# The groups are declared: those that could occur, whether they do or not. Each gets an equal
# share of delta, and all limits hold at once.

evidence = votes(judged)
by_class = certify_groups(evidence, ["malignant", "benign"], delta=0.025)
print(by_class)

# %%
# The second question has a column of its own. No tumour here has a mean radius above 30, and the
# certificate says that it claims nothing of such.

size = np.select([X["mean radius"] < 12, X["mean radius"] < 15], ["small", "medium"], "large")
size = np.where(X["mean radius"] > 30, "huge", size)
names = ["small", "medium", "large", "huge"]
by_size = certify_groups(evidence, names, groups=size[judged], delta=0.025)
print(*by_size.groups, sep="\n")

# %%
# What was seen, and what is certified.

rows = [*by_class.groups, *by_size.groups]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for place, group in enumerate(reversed(rows)):
    axes.plot([0, 100 * group.risk], [place, place], color="C0", lw=5, alpha=0.4)
    if group.n_rows:
        axes.plot(100 * group.n_errors / group.n_rows, place, "o", color="C0")
axes.set_yticks(range(len(rows)), [f"{group.name} ({group.n_rows})" for group in reversed(rows)])
axes.set_xlabel("errors (%): seen, and certified at most")
plt.show()
