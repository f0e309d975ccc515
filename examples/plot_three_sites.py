"""
Three hospitals, one certificate, no row shared
===============================================

The voters are fixed: here, trees trained on public rows. Each hospital asks them about its own
patients, counts who erred together with whom, and sends one small file. Counts add up, so the
sum is what one hospital with all the rows would have counted, and the certificate of the sum is
the same, bit for bit.

The certificate is about the mixture of the three hospitals, not about each of them.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import PairCounts, certify, count, verify
from pacvote.datasets import load_pendigits

# %%
# The public rows train the voters; the other rows lie in three hospitals. The split looks at no
# label.

X, y = load_pendigits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
public, *hospitals = np.split(order, [5000, 7000, 9000])
forest = RandomForestClassifier(100, random_state=0).fit(X[public], y[public])


def votes(rows):
    """Return what each tree says of each row."""
    said = [tree.predict(X[rows]).astype(int) for tree in forest.estimators_]
    return forest.classes_[np.stack(said, axis=1)]


# %%
# Each hospital counts, and sends a file of integers. No feature, no label and no row is in it.

folder = tempfile.TemporaryDirectory()
files = [Path(folder.name) / f"hospital_{i}.npz" for i in (1, 2, 3)]
for file, rows in zip(files, hospitals, strict=True):
    count(votes(rows), y[rows]).save(file)
    print(f"{file.name}: {len(rows)} rows counted, {file.stat().st_size / 1000:.0f} kB sent")

# %%
# Whoever receives the files adds them.

parts = [PairCounts.load(file) for file in files]
total = sum(parts)
certificate = certify(total, bound="tnd")
print(certificate)
print("verified:", verify(certificate, total).ok)

# %%
# It is the certificate of the pooled rows, in every digit.

together = np.concatenate(hospitals)
pooled = certify(count(votes(together), y[together]), bound="tnd")
print("the same as from pooled rows:", certificate.exact_risk == pooled.exact_risk)

# %%
# Three times the rows make a tighter claim than each hospital could make alone.

alone = [certify(part, bound="tnd").risk for part in parts]
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(["together", "hospital 3", "hospital 2", "hospital 1"], [certificate.risk, *alone[::-1]])
axes.set_xlabel("certified risk of the vote, 95 % confidence")
plt.show()
folder.cleanup()
