"""Which rows train a voter and which validate it, drawn without a look at any row or label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]
Scheme = Literal["bootstrap", "subsample", "folds", "holdout"]

MAX_SEED = np.iinfo(np.int32).max


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """The bag of each voter, drawn again from its seed whenever it is asked for.

    Parameters
    ----------
    scheme : {"bootstrap", "subsample", "folds", "holdout"}
        "holdout" is a bootstrap of the rows that are not held out.
    n_samples : int
        Rows of the table.
    size : int
        Rows to draw for a bag; folds do not use it.
    seeds : tuple of int
        One for each voter.
    order : integer array or None
        A permutation of the rows: cut into folds, or its start is held out.
    n_held_out : int
        Rows that validate all voters and train none.
    """

    scheme: Scheme
    n_samples: int
    size: int
    seeds: tuple[int, ...]
    order: Rows | None = None
    n_held_out: int = 0

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def held_out(self) -> Rows | None:
        """The rows that validate every voter; None where each has its own."""
        return None if self.order is None or not self.n_held_out else self.order[: self.n_held_out]

    def __getitem__(self, voter: int) -> Rows:
        """Return the rows that train a voter, one drawn twice given twice."""
        random = np.random.RandomState(self.seeds[voter])
        if self.order is None:
            if self.scheme == "subsample":
                return random.permutation(self.n_samples)[: self.size]
            # The same draws as scikit-learn's forests make from this seed.
            return random.randint(0, self.n_samples, self.size)
        if self.scheme == "folds":
            cuts = np.arange(len(self) + 1) * self.n_samples // len(self)
            return np.delete(self.order, np.s_[cuts[voter] : cuts[voter + 1]])
        rest = self.order[self.n_held_out :]
        return rest[random.randint(0, len(rest), self.size)]


def draw_bags(
    validation: object,
    max_samples: object,
    n_samples: int,
    n_voters: int,
    random: np.random.RandomState,
) -> Bags:
    """Draw a seed for each voter and, where needed, the order of the rows."""
    scheme, share = _scheme(validation)
    if scheme == "folds":
        _check_folds(max_samples, n_samples, n_voters)
    seeds = tuple(random.randint(MAX_SEED, size=n_voters).tolist())
    if scheme in ("bootstrap", "subsample"):
        return Bags(scheme, n_samples, _size(max_samples, n_samples, scheme), seeds)
    order = random.permutation(n_samples)
    if scheme == "folds":
        return Bags(scheme, n_samples, 0, seeds, order)
    n_held_out = math.ceil(share * n_samples)
    if n_held_out >= n_samples:
        msg = f"`validation`={share} holds out all {n_samples} rows; hold out a smaller share"
        raise ValueError(msg)
    size = _size(max_samples, n_samples - n_held_out, scheme)
    return Bags(scheme, n_samples, size, seeds, order, n_held_out)


def _scheme(validation: object) -> tuple[Scheme, float]:
    if isinstance(validation, str):
        for scheme in ("bootstrap", "subsample", "folds"):
            if validation == scheme:
                return scheme, 0.0
    elif isinstance(validation, int | float | np.number):
        if 0 < validation < 1:
            return "holdout", float(validation)
    else:
        msg = (
            f"`validation` must not be a {type(validation).__name__}: a split that may look at "
            'labels or groups voids the certificate; use "folds", or a share to hold out'
        )
        raise TypeError(msg)
    known = '"bootstrap", "subsample", "folds" or a share of the rows between 0 and 1'
    msg = f"`validation` must be {known}, got {validation!r}"
    raise ValueError(msg)


def _check_folds(max_samples: object, n_samples: int, n_voters: int) -> None:
    if max_samples is not None:
        msg = f"`max_samples`={max_samples!r} has no meaning with folds; leave it None"
        raise ValueError(msg)
    if not 2 <= n_voters <= n_samples:
        msg = (
            f"`n_estimators` is the number of folds: from 2 to n_samples = {n_samples}, "
            f"got {n_voters}"
        )
        raise ValueError(msg)


def _size(max_samples: object, n_samples: int, scheme: Scheme) -> int:
    """Return how many of ``n_samples`` rows a bag draws."""
    largest = n_samples - 1 if scheme == "subsample" else n_samples
    if max_samples is None:
        size = n_samples // 2 if scheme == "subsample" else n_samples
    elif isinstance(max_samples, int | np.integer) and max_samples is not True:
        size = int(max_samples)
    elif isinstance(max_samples, float | np.floating) and 0 < max_samples <= 1:
        size = max(1, int(max_samples * n_samples))
    else:
        size = 0
    if not 1 <= size <= largest:
        msg = (
            f"`max_samples` must be a share of the rows or a count from 1 to {largest} "
            f"with {scheme!r} bags, got {max_samples!r}"
        )
        raise ValueError(msg)
    return size
