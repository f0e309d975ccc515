"""Three hospitals certify one vote, and none of them shows a row to anyone.

The voters are fixed: here, trees trained on public rows. Each hospital asks them about its own
patients, counts who erred together with whom, and sends one small file. Counts add up, so the
sum is what one hospital with all the rows would have counted, and the certificate of the sum is
the same, bit for bit.

The certificate is about the mixture of the three hospitals, not about each of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from pacvote import PairCounts, certify, count, verify
from pacvote.datasets import load_pendigits


def main() -> None:
    """Count at three sites, add, certify, verify."""
    X, y = load_pendigits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))  # a split that looks at no label
    public, *hospitals = np.split(order, [5000, 7000, 9000])
    forest = RandomForestClassifier(100, random_state=0).fit(X[public], y[public])

    def votes(rows: np.ndarray) -> np.ndarray:
        """Return what each tree says of each row."""
        said = [tree.predict(X[rows]).astype(int) for tree in forest.estimators_]
        return forest.classes_[np.stack(said, axis=1)]

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"hospital_{i}.npz" for i in range(len(hospitals))]
        for file, rows in zip(files, hospitals, strict=True):
            count(votes(rows), y[rows]).save(file)  # all that leaves the hospital
            print(
                f"{file.name}: {len(rows)} rows counted, {file.stat().st_size / 1000:.0f} kB sent"
            )

        total = sum(PairCounts.load(file) for file in files)
        certificate = certify(total, bound="tnd")
        print(certificate)

    together = np.concatenate(hospitals)
    pooled = certify(count(votes(together), y[together]), bound="tnd")
    print("the same as from pooled rows:", certificate.exact_risk == pooled.exact_risk)
    print("verified:", verify(certificate, total).ok)


if __name__ == "__main__":
    main()
