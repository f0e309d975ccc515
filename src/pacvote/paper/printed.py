"""The numbers that the paper prints, as they stand there."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Literal

from pacvote.paper.units import Experiment

Printed = Literal["risk", "bound", "values"]


@cache
def printed(experiment: Experiment, table: Printed) -> dict[str, dict[str, float]]:
    """Return a table of the paper's appendix: by data set, then by column.

    Columns are ``<weighting>_mean`` and ``<weighting>_std`` of test losses ("risk") and bounds,
    or ``<weighting>_<quantity>`` ("values": means of Gibbs loss, tandem loss and mu).
    """
    source = files("pacvote.paper") / "printed" / f"{experiment}_{table}.csv"
    with source.open(encoding="utf-8") as lines:
        return {
            row.pop("dataset"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(lines)
        }
