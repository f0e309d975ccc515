"""
What does a file of counts give away?
=====================================

Sites that may not share rows send counts: for each two voters, how often both erred. No feature,
no label and no row is in the file. That is little, but it is not nothing. Here is what somebody
can learn who sees the counts twice, before and after one patient was added, and what they can
learn by bringing a voter of their own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from pacvote import count

X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(3).permutation(len(y))
public, site = order[:300], order[300:]
forest = RandomForestClassifier(12, max_depth=3, random_state=0).fit(X[public], y[public])


def votes(rows):
    """Return what each tree says of each row."""
    said = [tree.predict(X[rows]).astype(int) for tree in forest.estimators_]
    return forest.classes_[np.stack(said, axis=1)]


# %%
# **Two files, a day apart.** The difference is the last patient: which voters erred on him. Whoever
# has his features knows what the voters say of him, and so knows his diagnosis.

before, after = count(votes(site[:-1]), y[site[:-1]]), count(votes(site), y[site])
erred = after.errors - before.errors
print("who erred on the last patient:", np.flatnonzero(erred).tolist())

patient = votes(site[-1:])[0]
guess = next(label for label in (0, 1) if ((patient != label) == erred.astype(bool)).all())
print("his diagnosis, worked out:", guess, " the truth:", y[site[-1]])

# %%
# **A voter made for the purpose.** It says "malignant" of one person, and what all others must
# have is of no interest: compared with its twin, which says "benign" of him too, its number of
# errors is one less, or one more.

target = site[7]
curious = votes(site)
curious[:, 0] = curious[:, 1] = 1
curious[7, 0] = 0
counts = count(curious, y[site])
print("errors of the curious voter and its twin:", counts.errors[:2].tolist())
print("so he is", "benign" if counts.errors[0] > counts.errors[1] else "malignant")
print("the truth:", ["malignant", "benign"][y[target]])

# %%
# So: agree on the voters first, all sites together; send counts once, or of whole batches; do not
# send counts of a handful of rows; and treat them as what they are, statistics of real people.

difference = after.pair_errors - before.pair_errors
figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for axes, matrix, title in zip(
    panels,
    (after.pair_errors, difference),
    (f"the file: {len(site)} patients", "two files compared: 1 patient"),
    strict=True,
):
    figure.colorbar(axes.imshow(matrix), ax=axes, label="rows on which both voters err")
    axes.set(title=title, xlabel="voter", ylabel="voter")
plt.show()
