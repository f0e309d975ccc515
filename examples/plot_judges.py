"""
Seven judges that I cannot retrain: whom should I believe?
==========================================================

Judges may be language models, annotators, or vendors' services. All that is needed is a table of
what each said, beside the truth, on rows that no judge has learnt from. Here the judges are seven
models that read pen strokes: two large ones, one of them in two releases that are all but copies,
and four small ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pacvote import TandemDisplay, Votes, WeightsDisplay, certify, count
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
past, rows = order[:1000], order[1000:5000]
judges = {
    "large A": ExtraTreesClassifier(50, random_state=0),
    "large B": KNeighborsClassifier(3),
    "large B, new": KNeighborsClassifier(4),
    "small C": DecisionTreeClassifier(max_depth=7, random_state=0),
    "small D": GaussianNB(),
    "small E": RidgeClassifier(),
    "small F": DecisionTreeClassifier(max_depth=5, random_state=0),
}
said = [judge.fit(X[past], y[past]).predict(X[rows]) for judge in judges.values()]
table, truth = np.stack(said, axis=1), y[rows]

# %%
# From here on only the table counts: a row for each sample, a column for each judge. The bound was
# declared beforehand.

votes = Votes.from_predictions(table, truth, voters=list(judges))
certificate = certify(votes, bound="tnd")
print(certificate)
for judge, weight, error in zip(judges, certificate.weights, votes.errors.mean(0), strict=True):
    print(f"{judge:14} errs on {100 * error:4.1f} %, weight {weight:.2f}")

# %%
# Strong judges are heard; the two releases of B err on the same rows, and share what one of them
# would get. With equal weights four small judges outvote the large ones:

equal = certify(votes, bound="tnd", weights=np.full(len(judges), 1 / len(judges)))
print(equal)

counts = count(votes)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
WeightsDisplay.from_counts(counts, certificate.weights).plot(left)
TandemDisplay.from_counts(counts).plot(right)
plt.show()

# %%
# Is a vote what you want? One judge fixed *beforehand* is one mean of independent rows, and its
# limit is far nearer to its error. (Had it been chosen by these rows, as the best of seven, it
# would have to pay for the choice: ``selection=1/7``.)

print(certify(count(table[:, :1], truth), bound="fo"))
