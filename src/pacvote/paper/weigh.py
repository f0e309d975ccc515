"""What each weighting makes of a unit: test loss, bound, and what the paper's tables print."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from pacvote import BOUNDS, Bound, PairCounts, minimize
from pacvote._files import atomic_write
from pacvote.bounds.evidence import Evidence, Quantity, divergence
from pacvote.bounds.shared import tally
from pacvote.exact import UNIT
from pacvote.paper.units import Heard

Floats = NDArray[np.float64]
# Constants and method of each minimisation; the second is the paper's bound with our minimiser.
WAYS = (("paper", "paper"), ("paper", "direct"), ("published", "paper"), ("sharp", "direct"))
KEYS = ("fo", "tnd", "cctnd", "ccpbb")
DELTA = 0.05
_BUILD: dict[str, Callable[..., Bound]] = {key: BOUNDS[key] for key in KEYS}


@final
@dataclass(frozen=True, slots=True)
class Result:
    """One number of a unit; the fields are the last columns of ``results.csv``."""

    constants: str
    method: str
    weighting: str
    quantity: str
    value: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """All numbers of a unit, and its weights by constants, method and weighting."""

    results: tuple[Result, ...]
    weights: Mapping[str, Floats]

    def save(self, path: Path) -> None:
        """Write one JSON file, whole or not at all."""
        rows = [[getattr(r, name) for name in Result.__slots__] for r in self.results]
        weights = {name: values.tolist() for name, values in self.weights.items()}
        atomic_write(path, json.dumps({"results": rows, "weights": weights}).encode())

    @staticmethod
    def load(path: Path) -> Weighed:
        """Read what `save` has written."""
        content = json.loads(path.read_bytes())
        weights = {name: np.array(values) for name, values in content["weights"].items()}
        return Weighed(tuple(Result(*row) for row in content["results"]), weights)


def weigh(heard: Heard) -> Weighed:
    """Weigh the voters in every way of the paper's tables, and soundly."""
    counts = heard.counts
    results: list[Result] = []
    weights: dict[str, Floats] = {}
    for weighting, fixed in (("uniform", uniform(counts)), ("best", best(counts))):
        weights[weighting] = fixed
        found = losses(heard, fixed)
        if weighting == "uniform":
            sizes = {"n_single": counts.n_single, "n_pair": counts.n_pair}
            found |= {**sizes, "seconds": heard.seconds}
        results += (Result("paper", "paper", weighting, *item) for item in found.items())
    for constants, method in WAYS:
        for key in KEYS:
            if constants in BOUNDS[key].known_constants:
                weights["/".join((constants, method, key))], found = _minimized(
                    heard, constants, method, key
                )
                results += (Result(constants, method, key, *item) for item in found.items())
    return Weighed(tuple(results), weights)


def uniform(counts: PairCounts) -> Floats:
    """Return equal weights."""
    return np.full(counts.n_voters, 1 / counts.n_voters)


def best(counts: PairCounts) -> Floats:
    """Return all weight on the voter that errs least where it was validated."""
    weights = np.zeros(counts.n_voters)
    weights[np.argmin(counts.errors / counts.rows)] = 1.0
    return weights


def _minimized(
    heard: Heard, constants: str, method: str, key: str
) -> tuple[Floats, dict[str, float]]:
    clock = time.perf_counter()
    bound: Bound = _BUILD[key](constants=constants)
    solution = minimize(bound, heard.counts, delta=DELTA, method=method)  # type: ignore[arg-type]
    seconds = time.perf_counter() - clock
    found = losses(heard, solution.weights)
    found |= {"bound": solution.value, **solution.parameters, "seconds": seconds}
    found["kl"] = divergence(solution.weights, uniform(heard.counts))
    return solution.weights, found


def losses(heard: Heard, weights: Floats) -> dict[str, float]:
    """Return the error of the vote on the test rows; Gibbs and tandem loss out of the bags."""
    evidence = Evidence(heard.counts)
    gibbs, tandem = evidence.losses(Quantity.GIBBS), evidence.losses(Quantity.TANDEM)
    return {
        "test_loss": float(np.mean(vote(heard, weights) != heard.labels)),
        "gibbs": float(weights @ gibbs),
        "tandem": float(weights @ tandem @ weights),
    }


def vote(heard: Heard, weights: Floats) -> NDArray[np.int64]:
    """Return what most of the weight says of each test row, in whole numbers of 2^-40."""
    n_classes = int(max(heard.votes.max(), heard.labels.max())) + 1
    mass = np.rint(weights * UNIT).astype(np.int64)
    held = np.flatnonzero(mass).tolist()
    said: Iterator[tuple[NDArray[np.int64], int]] = (
        (heard.votes[:, voter].astype(np.int64), int(mass[voter])) for voter in held
    )
    return np.asarray(np.argmax(tally(said, (len(heard.labels), n_classes)), axis=1))
