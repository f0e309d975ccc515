"""Run units, where they are not done yet, and write what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from pacvote.paper.datasets import DATASETS, MissingDataError, Spec, load
from pacvote.paper.neighbours import Neighbours
from pacvote.paper.results import Results
from pacvote.paper.units import Experiment, Heard, Unit, hear
from pacvote.paper.weigh import Weighed, weigh


@final
@dataclass(frozen=True, slots=True)
class Store:
    """Where data come from and units go; a unit whose file is there is done.

    Parameters
    ----------
    data_dir : Path, optional
        As in `load`.
    out : Path
        Directory of the results; units are in its ``units``.
    download : bool
        As in `load`.
    """

    data_dir: Path | None
    out: Path
    download: bool

    @property
    def units(self) -> Path:
        """Directory of the units."""
        return self.out / "units"

    def data(self, spec: Spec) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return a data set."""
        return _load(spec, self.data_dir, self.download)

    def heard(self, unit: Unit) -> Path:
        """Return the file of what voters said."""
        return self.units / f"{unit.stem}.npz"

    def weighed(self, unit: Unit) -> Path:
        """Return the file of what weights made of it."""
        return self.units / f"{unit.stem}.json"

    def neighbours(self, spec: Spec) -> Neighbours:
        """Return the neighbours of all rows, searched once."""
        path = self.units / f"neighbours-{spec.stem}.npz"
        if path.is_file():
            return Neighbours.load(path)
        X, _ = self.data(spec)
        found = Neighbours.of(np.rint(X * (255 / X.max())).astype(np.uint8))
        found.save(path)
        return found


@lru_cache(maxsize=1)
def _load(
    spec: Spec,
    data_dir: Path | None,
    download: bool,  # noqa: FBT001
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return load(spec, data_dir, download=download)


def plan(
    experiments: Iterable[Experiment], datasets: Sequence[str], repetitions: int, seed: int
) -> list[Unit]:
    """Return the units to run, the most expensive data set first."""
    specs = sorted((DATASETS[name] for name in datasets), key=_size, reverse=True)
    return [
        Unit(experiment, spec.name, repetition, seed)
        for spec in specs
        for experiment in experiments
        for repetition in range(repetitions)
    ]


def _size(spec: Spec) -> int:
    return spec.n_samples * spec.n_features


def cost(unit: Unit) -> int:
    """Return roughly how long a unit takes, in units of its own."""
    spec = DATASETS[unit.dataset]
    return 1000 + spec.n_samples * (spec.n_features if unit.experiment == "mce" else 100) // 1000


def run_units(
    units: Sequence[Unit], store: Store, *, n_jobs: int, done: Callable[[Unit], None]
) -> tuple[Results, dict[str, str]]:
    """Run what is not done; return all results, and why data sets are missing."""
    store.units.mkdir(parents=True, exist_ok=True)
    missing: dict[str, str] = {}
    todo = []
    for unit in units:
        if store.weighed(unit).is_file():
            done(unit)
        elif unit.dataset not in missing and _there(unit, store, missing):
            todo.append(unit)
    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for unit in run(delayed(_run)(unit, store) for unit in todo):
        done(unit)
    kept = (unit for unit in units if unit.dataset not in missing)
    return Results.of((unit, Weighed.load(store.weighed(unit))) for unit in kept), missing


def _there(unit: Unit, store: Store, missing: dict[str, str]) -> bool:
    """Return whether the data are there; search neighbours before processes need them."""
    spec = DATASETS[unit.dataset]
    if store.heard(unit).is_file():
        return True
    try:
        store.data(spec)
    except MissingDataError as error:
        missing[unit.dataset] = str(error)
        return False
    if spec.pixels and unit.experiment == "mce":
        store.neighbours(spec)
    return True


def _run(unit: Unit, store: Store) -> Unit:
    path, spec = store.heard(unit), DATASETS[unit.dataset]
    if path.is_file():
        heard = Heard.load(path)
    else:
        near = store.neighbours(spec) if spec.pixels and unit.experiment == "mce" else None
        heard = hear(unit, spec, *store.data(spec), near)
        heard.save(path)
    weigh(heard).save(store.weighed(unit))
    return unit
