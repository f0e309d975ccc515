"""All bounds on rows that all voters share: `python -m benchmarks.shared_rows --data-dir DIR`.

A forest of 100 trees is fitted on half of at most 12,000 rows; the other half is shared by all
trees. DIR (or PACVOTE_DATA) holds `NAME.npz` with arrays X and y.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pacvote import (
    BOUNDS,
    MajorityVoteClassifier,
    PairCounts,
    Votes,
    certify_holdout,
    evaluate,
    minimize,
)

BINARY = ("phishing", "adult", "w1a")
MANY_CLASSES = ("letter", "usps")
N_ROWS, N_TREES = 12_000, 100


@dataclass(frozen=True)
class Halves:
    """Out-of-bag counts of the half that was trained on, and votes on the other half."""

    training: PairCounts
    holdout: Votes

    @classmethod
    def of(cls, path: Path) -> "Halves":
        with np.load(path) as arrays:
            X, y = arrays["X"], arrays["y"]
        rows = np.random.default_rng(0).permutation(len(y))[:N_ROWS]
        train, new = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        vote = MajorityVoteClassifier(n_estimators=N_TREES, random_state=0).fit(X[train], y[train])
        return cls(vote.counts_, Votes.from_predictions(vote.votes(X[new]), y[new]))


def bounds(halves: Halves) -> dict[str, float]:
    """Return each bound at its best weights, and those of the best vote tuned out of bag."""
    values = {key: minimize(key, halves.holdout).value for key in BOUNDS}
    found = certify_holdout(halves.training, halves.holdout)
    return {**values, f"best of {len(found.certificates)} votes": found.best.risk}


def plurality(votes: Votes) -> tuple[float, float]:
    """Return the exact bound of the uniform vote: by its own labels, and as Z >= 1/2."""
    uniform = np.full(votes.n_voters, 1 / votes.n_voters)
    errors = Votes.from_errors(votes.errors)
    return tuple(evaluate("binomial", each, uniform).value for each in (votes, errors))


def measured(folder: Path) -> Iterator[tuple[str, float, str]]:
    for name in BINARY:
        halves = Halves.of(folder / f"{name}.npz")
        found = bounds(halves)
        for key, value in found.items():
            yield f"{name}, {key}", value / found["tnd"], f"of tnd; bound {value:.4f}"
    for name in MANY_CLASSES:
        own, half = plurality(Halves.of(folder / f"{name}.npz").holdout)
        yield f"{name}, Z >= 1/2", half / own, f"of plurality; bounds {half:.4f} and {own:.4f}"


def rows() -> list[tuple[str, float, str]]:
    folder = os.environ.get("PACVOTE_DATA")
    if folder is None:
        return [("shared rows", np.nan, "set PACVOTE_DATA to the folder of the data sets")]
    return list(measured(Path(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PACVOTE_DATA"))
    folder = parser.parse_args().data_dir
    if folder is None:
        parser.error("give --data-dir, or set PACVOTE_DATA")
    for what, ratio, remark in measured(Path(folder)):
        print(f"{what:<24}  {ratio:>6.3f}  {remark}", flush=True)


if __name__ == "__main__":
    main()
