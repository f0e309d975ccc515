"""
What is a certificate worth when the data drift?
================================================

Nothing. It is about rows drawn like those that validated, and says so in its first assumption.
Here a forest is certified on digits as people wrote them, and then asked about digits that slant
more and more, as if the tablet were turned a little.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import MajorityVoteClassifier
from pacvote.datasets import load_pendigits

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
rows, future = order[:8000], order[8000:]
forest = RandomForestClassifier(50, random_state=0)
vote = MajorityVoteClassifier(forest, n_estimators=3, validation="folds", random_state=0)
vote.fit(X[rows], y[rows])
print(vote.certificate_)


def turned(strokes, degrees):
    """Turn each stroke about the middle of the tablet."""
    points = strokes.reshape(len(strokes), -1, 2) - 50
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (points @ turn + 50).reshape(strokes.shape)


# %%
# The certificate does not notice. Watch the features, label some new rows from time to time, and
# certify anew: a certificate is dated for that reason.

degrees = np.arange(0, 31, 3)
error = [np.mean(vote.predict(turned(X[future], angle)) != y[future]) for angle in degrees]
broken = degrees[np.array(error) > vote.certificate_.risk]
print(f"the certificate is false from {broken[0]} degrees on")

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(degrees, error, "o-", color="C2", label="error on turned digits")
axes.axhline(vote.certificate_.risk, color="C0", label="certified, for digits as before")
axes.axvspan(broken[0], degrees[-1], color="C3", alpha=0.1, label="the certificate is void")
axes.set(xlabel="tablet turned by (degrees)", ylabel="error of the vote", ylim=(0, None))
axes.legend()
plt.show()
