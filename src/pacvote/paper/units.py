"""One repetition of one experiment on one data set: fit once, keep what was said.

A unit is what takes long and is never done twice: fitted voters, heard on the rows out of their
bags and on the test rows. What weights make of it is computed from its file in seconds.
"""

from __future__ import annotations

import io
import time
import warnings
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from pacvote import PairCounts, count, paper_ensemble
from pacvote._files import atomic_write
from pacvote.bags import Bags, draw_bags
from pacvote.fitting import Rowset, fit_voters, gather, said
from pacvote.paper.datasets import Spec, split
from pacvote.paper.neighbours import Neighbours, NeighboursClassifier

Experiment = Literal["rf", "mce"]
N_TREES = 100
# The paper's regression stops there, converged or not: scikit-learn's default.
REGRESSION_STEPS = 100


@final
@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """Which repetition of which experiment on which data set, and the seed of them all."""

    experiment: Experiment
    dataset: str
    repetition: int
    seed: int = 0

    @property
    def stem(self) -> str:
        """Name of its files."""
        return f"{self.experiment}-{self.dataset.lower()}-{self.repetition}-seed{self.seed}"

    def random(self, purpose: str) -> np.random.RandomState:
        """Return random numbers of its own; both experiments split the rows alike."""
        key = zlib.crc32(f"{self.dataset}/{purpose}".encode())
        sequence = np.random.SeedSequence([self.seed, key, self.repetition])
        return np.random.RandomState(np.random.MT19937(sequence))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What the voters of a unit said, and how long fitting and hearing them took."""

    counts: PairCounts
    votes: NDArray[np.unsignedinteger[Any]]
    labels: NDArray[np.unsignedinteger[Any]]
    seconds: float

    def save(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        counts, buffer = self.counts, io.BytesIO()
        np.savez_compressed(
            buffer,
            pair_rows=counts.pair_rows.astype(np.int32),
            pair_errors=counts.pair_errors.astype(np.int32),
            left_errors=counts.left_errors.astype(np.int32),
            voters=np.array(counts.voters),
            votes=self.votes,
            labels=self.labels,
            seconds=np.float64(self.seconds),
        )
        atomic_write(path, buffer.getvalue())

    @staticmethod
    def load(path: Path) -> Heard:
        """Read what `save` has written."""
        with np.load(path, allow_pickle=False) as arrays:
            pairs = {name: arrays[name].astype(np.int64) for name in _PAIRS}
            counts = PairCounts(**pairs, voters=tuple(arrays["voters"].tolist()))
            return Heard(counts, arrays["votes"], arrays["labels"], float(arrays["seconds"]))


_PAIRS = ("pair_rows", "pair_errors", "left_errors")


def hear(
    unit: Unit,
    spec: Spec,
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    neighbours: Neighbours | None = None,
) -> Heard:
    """Fit the voters of a unit and note what they say, on one thread.

    More threads would add numbers up in another order: a repetition is to give the same votes
    wherever and beside whatever else it runs.
    """
    clock = time.perf_counter()
    train, test = split(y, unit.random("split"))
    names, voters = _voters(unit.experiment)
    bags = draw_bags("bootstrap", None, len(train), len(voters), unit.random(unit.experiment))
    table = X.astype(np.float32) if unit.experiment == "rf" else X
    classes = np.arange(spec.n_classes)
    groups = _groups(voters, table, neighbours)
    heard: list[NDArray[Any]] = [np.empty(0)] * len(voters)
    votes = np.empty((len(test), len(voters)), dtype=np.min_scalar_type(len(classes) - 1))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for rows, members in groups:
            part = replace(bags, seeds=tuple(bags.seeds[voter] for voter in members))
            labelled = Rowset(rows[train], y[train], classes)
            chosen = _prepared(members, voters, part, neighbours)
            fitted, bits = fit_voters(chosen, labelled, part, n_jobs=None, verbose=0)
            at_test = rows[test]
            for voter, one, said_out in zip(members, fitted, bits, strict=True):
                heard[voter], votes[:, voter] = said_out, said(one, at_test, classes)
    labelled = Rowset(None, y[train], classes)
    counts = count(gather(heard, labelled, names, None))
    return Heard(counts, votes, y[test].astype(votes.dtype), time.perf_counter() - clock)


def _voters(experiment: Experiment) -> tuple[list[str], list[Any]]:
    if experiment == "rf":
        trees = [DecisionTreeClassifier(max_features="sqrt")] * N_TREES
        return [f"tree{number:02}" for number in range(N_TREES)], trees
    pairs = dict(paper_ensemble())
    pairs["logistic"].set_params(max_iter=REGRESSION_STEPS)
    return list(pairs), list(pairs.values())


def _groups(
    voters: list[Any], X: NDArray[Any], neighbours: Neighbours | None
) -> list[tuple[NDArray[Any], list[int]]]:
    """Return which voters read which table: rows, or for shared neighbours their positions."""
    near = [
        place
        for place, voter in enumerate(voters)
        if neighbours is not None and isinstance(voter, KNeighborsClassifier)
    ]
    others = [place for place in range(len(voters)) if place not in near]
    groups = [(np.arange(len(X))[:, None], near)] if near else []
    return [*groups, (X, others)]


def _prepared(
    members: list[int], voters: list[Any], bags: Bags, neighbours: Neighbours | None
) -> list[Any]:
    """Return unfitted voters, each with the seed of its bag."""
    prepared = []
    for place, seed in zip(members, bags.seeds, strict=True):
        voter = clone(voters[place])
        if neighbours is not None and isinstance(voter, KNeighborsClassifier):
            voter = NeighboursClassifier(neighbours, voter.n_neighbors, voter.weights)
        elif "random_state" in voter.get_params():
            voter.set_params(random_state=seed)
        prepared.append(voter)
    return prepared
