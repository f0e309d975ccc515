"""What a bound may look at: moments of the votes at given weights, and numbers of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from pacvote._rounding import EPS
from pacvote.counts import PairCounts
from pacvote.tilts import coarse

Floats = NDArray[np.float64]


class Quantity(Enum):
    """A posterior mean over voters or over pairs of voters, each between 0 and 1."""

    GIBBS = "gibbs"
    TANDEM = "tandem"
    ONE_ERRS = "one_errs"
    NONE_ERRS = "none_errs"
    DISAGREEMENT = "disagreement"  # on unlabelled rows
    SPREAD_BOTH_ONE = "spread_both_one"
    SPREAD_BOTH_NONE = "spread_both_none"
    SPREAD_ONE_NONE = "spread_one_none"
    VOTE = "vote"  # the weighted vote itself errs
    DRAWN = "drawn"  # so many of so many drawn voters err


@final
@dataclass(frozen=True, slots=True)
class Sizes:
    """What of the evidence may be known beforehand: numbers of rows and voters, no votes."""

    n_voters: int
    n_single: int
    n_pair: int
    even_single: bool = True  # all voters, or pairs, have as many rows as the least
    even_pair: bool = True
    n_unlabelled: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Vote:
    """Weights under evaluation, with what they are weights of."""

    evidence: Evidence
    weights: Floats
    prior: Floats


@final
@dataclass(frozen=True, slots=True)
class Moments:
    """Posterior means at given weights; each is exact up to the relative error ``slack``."""

    values: Mapping[Quantity, float]
    divergence: float
    slack: float
    threshold: float = 0.5  # the vote errs only where voters who hold this much err
    vote: Vote | None = None  # absent while weights are sought

    def upper(self, quantity: Quantity) -> float:
        """Return the quantity's empirical value, rounded up."""
        return min(1.0, self.values[quantity] * (1 + self.slack))

    def lower(self, quantity: Quantity) -> float:
        """Return the quantity's empirical value, rounded down."""
        return self.values[quantity] * (1 - self.slack)


class Counted(Protocol):
    """Evidence of any kind: it can be counted."""

    @property
    def counts(self) -> PairCounts:
        """The pair counts."""


@final
class Evidence:
    """The loss of each voter and pair as floats, computed from the counts when first needed."""

    def __init__(self, counts: PairCounts) -> None:
        self.counts = counts
        self.sizes = Sizes(
            counts.n_voters,
            counts.n_single,
            counts.n_pair,
            even_single=bool((counts.rows == counts.n_single).all()),
            even_pair=bool((counts.pair_rows == counts.n_pair).all()),
            n_unlabelled=counts.n_unlabelled,
        )
        self._losses: dict[Quantity, Floats] = {}

    def losses(self, quantity: Quantity) -> Floats:
        """Return one number for each voter, or a symmetric matrix of one for each pair."""
        if quantity not in self._losses:
            self._losses[quantity] = self._compute(quantity)
        return self._losses[quantity]

    def _compute(self, quantity: Quantity) -> Floats:
        counts = self.counts
        if quantity is Quantity.GIBBS:
            return np.asarray(counts.errors / counts.rows)
        if quantity is Quantity.DISAGREEMENT and counts.disagreements is not None:
            return np.asarray(counts.disagreements / counts.n_unlabelled)
        rows, both = counts.pair_rows, counts.pair_errors
        if quantity is Quantity.TANDEM:
            return np.asarray(both / rows)
        one = counts.left_errors + counts.left_errors.T - 2 * both
        if quantity is Quantity.ONE_ERRS:
            return np.asarray(one / rows)
        none = rows - both - one
        if quantity is Quantity.NONE_ERRS:
            return np.asarray(none / rows)
        unbiased = rows * np.maximum(rows - 1.0, 1.0)
        left, right = {
            Quantity.SPREAD_BOTH_ONE: (both, one),
            Quantity.SPREAD_BOTH_NONE: (both, none),
            Quantity.SPREAD_ONE_NONE: (one, none),
        }[quantity]
        return np.asarray(left / unbiased * right)

    def masses(self, order: int, weights: Floats) -> tuple[Floats, Floats]:
        """Return the distinct sizes, coarsened, of voters or pairs, and the weight on each."""
        counts = self.counts
        rows = counts.rows[None] if order == 1 else counts.pair_rows
        least, sums = int(rows.min()), dict[int, float]()
        for row, weight in zip(rows, [1.0] if order == 1 else weights, strict=True):
            sizes, where = np.unique(coarse(row, least), return_inverse=True)
            held = weight * np.bincount(where, weights=weights)
            for size, mass in zip(sizes.tolist(), held.tolist(), strict=True):
                sums[size] = sums.get(size, 0.0) + mass
        kept = sorted(size for size, mass in sums.items() if mass > 0)
        return np.array([least, *kept], float), np.array([0.0, *(sums[size] for size in kept)])

    def gradient(self, quantity: Quantity, weights: Floats) -> Floats:
        """Return the gradient of the quantity's posterior mean with respect to the weights."""
        losses = self.losses(quantity)
        return losses if losses.ndim == 1 else 2 * (losses @ weights)

    def moments(
        self,
        quantities: Sequence[Quantity],
        weights: Floats,
        prior: Floats,
        parameters: Mapping[str, float] | None = None,
    ) -> tuple[Moments, dict[Quantity, Floats]]:
        """Return the moments at ``weights`` and their gradients, for any parameters."""
        del parameters
        gradients = {q: self.gradient(q, weights) for q in quantities}
        orders = {q: self.losses(q).ndim for q in quantities}
        values = {q: float(gradients[q] @ weights) / orders[q] for q in quantities}
        slack = 4 * (len(weights) + 8) * EPS
        return Moments(values, divergence(weights, prior), slack), gradients

    def over(
        self,
        grid: Sequence[Mapping[str, float]],
        quantities: Sequence[Quantity],
        weights: Floats,
        prior: Floats,
    ) -> list[Moments]:
        """Return the moments for each choice of the parameters: here the same."""
        return [self.moments(quantities, weights, prior)[0]] * len(grid)


def divergence(weights: Floats, prior: Floats) -> float:
    """Return KL(weights || prior), rounded up; weights that are zero cost nothing."""
    held = weights > 0
    kept = weights[held]
    terms = kept * np.log(kept / prior[held])
    error = 4 * (len(weights) + 8) * EPS * float(np.abs(terms).sum() + 1)
    return max(0.0, math.fsum(terms)) + error if np.any(weights != prior) else 0.0
