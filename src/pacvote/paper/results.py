"""All results in one tidy table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from pacvote._files import atomic_write
from pacvote.paper.units import Experiment, Unit
from pacvote.paper.weigh import Result, Weighed

Floats = NDArray[np.float64]
Way = tuple[str, str]
Mean = tuple[float, float]

COLUMNS = (
    "dataset", "experiment", "repetition", "constants", "method", "weighting", "quantity", "value",
)  # fmt: skip
PAPER: Way = ("paper", "paper")
OURS: Way = ("paper", "direct")
PUBLISHED: Way = ("published", "paper")
SHARP: Way = ("sharp", "direct")

FIXED = ("uniform", "best")

# Measured, so different each time: apart from the results, which are the same to the byte.
TIMES = ("seconds",)
DETAILS = ("lambda", "gamma", *TIMES)
# What stays out, to keep the file below a megabyte.
LEFT_OUT = {
    (*OURS, "gibbs"),
    (*OURS, "tandem"),
    (*OURS, "kl"),
    (*SHARP, "kl"),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Weighed units in a fixed order, and their numbers by all that they are of."""

    weighed: Mapping[Unit, Weighed]
    numbers: Mapping[tuple[str, ...], Sequence[float]]

    @staticmethod
    def of(units: Iterable[tuple[Unit, Weighed]]) -> Results:
        """Put units in order."""
        ordered = dict(sorted(units, key=lambda pair: pair[0]))
        numbers: dict[tuple[str, ...], list[float]] = {}
        for unit, weighed in ordered.items():
            for r in weighed.results:
                key = (
                    unit.experiment,
                    unit.dataset,
                    r.constants,
                    r.method,
                    r.weighting,
                    r.quantity,
                )
                numbers.setdefault(key, []).append(r.value)
        return Results(ordered, numbers)

    @property
    def experiments(self) -> list[Experiment]:
        """The experiments, in order."""
        return sorted({unit.experiment for unit in self.weighed})

    def datasets(self, experiment: Experiment) -> list[str]:
        """Return the data sets of an experiment, in order."""
        return sorted(
            {u.dataset for u in self.weighed if u.experiment == experiment}, key=str.lower
        )

    def values(
        self, experiment: Experiment, dataset: str, way: Way, weighting: str, quantity: str
    ) -> Floats:
        """Return one number for each repetition.

        Fixed weights know no way. The paper's `ccpbb` is the form that was published.
        """
        if weighting in FIXED:
            way = PAPER
        elif weighting == "ccpbb" and way == PAPER:
            way = PUBLISHED
        return np.array(self.numbers[(experiment, dataset, *way, weighting, quantity)])

    def mean(
        self, experiment: Experiment, dataset: str, way: Way, weighting: str, quantity: str
    ) -> Mean:
        """Return mean and standard deviation over the repetitions."""
        found = self.values(experiment, dataset, way, weighting, quantity)
        return float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else 0.0

    def weights(self, experiment: Experiment, dataset: str, name: str) -> Floats:
        """Return weights, one row for each repetition."""
        return np.array(
            [
                weighed.weights[name]
                for unit, weighed in self.weighed.items()
                if (unit.experiment, unit.dataset) == (experiment, dataset)
            ]
        )

    def write(self, out: Path) -> list[Path]:
        """Write ``results.csv``, and beside it ``details.csv`` with grid points and times."""
        paths = [out / "results.csv", out / "details.csv"]
        for path, detailed in zip(paths, (False, True), strict=True):
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            lines.writerow(COLUMNS)
            lines.writerows(self._lines(detailed=detailed))
            atomic_write(path, text.getvalue().encode())
        return paths

    def _lines(self, *, detailed: bool) -> Iterator[tuple[str, ...]]:
        for unit, weighed in self.weighed.items():
            for result in weighed.results:
                if (result.quantity in DETAILS) == detailed and _kept(result):
                    yield (
                        unit.dataset,
                        unit.experiment,
                        str(unit.repetition),
                        result.constants,
                        result.method,
                        result.weighting,
                        result.quantity,
                        f"{result.value:.5g}",
                    )


def _kept(result: Result) -> bool:
    return (result.constants, result.method, result.quantity) not in LEFT_OUT
