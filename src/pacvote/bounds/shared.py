"""Bounds on rows that all voters share: their evidence is the rows themselves, not counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, xlog1py, xlogy

from pacvote._rounding import EPS
from pacvote.bounds.base import Bound, Parameters
from pacvote.bounds.evidence import Evidence, Floats, Moments, Quantity, Sizes, divergence
from pacvote.counts import PairCounts, count
from pacvote.votes import Votes

UNIT = 2**40  # a certificate's weights are multiples of 1 / UNIT
ACCURACY = 2.0**-40  # relative, of SciPy's incomplete beta function: far from its limit

_CELLS = 1 << 22  # that are held at a time


class SharedBound(Bound):
    """A bound that needs every voter validated on every row."""

    __slots__ = ()

    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)

    @property
    def needs_rows(self) -> bool:
        """Whether counts are not enough: they are not."""
        return True


@final
class Rows:
    """Votes on shared rows, for a bound: what `Evidence` is to counts."""

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        self.sizes = Sizes(votes.n_voters, votes.n_samples, votes.n_samples)

    @classmethod
    def of(cls, bound: SharedBound, evidence: Votes | PairCounts) -> Rows:
        """Refuse evidence that does not hold shared rows."""
        if not isinstance(evidence, Votes):
            msg = (
                f"`evidence` is {type(evidence).__name__}, but `{bound.key}` needs the rows "
                "themselves; give Votes, such as Votes.from_predictions(predictions, y)"
            )
            raise TypeError(msg)
        if not evidence.shared:
            msg = (
                f"`evidence` has voters with different validation rows, but `{bound.key}` needs "
                "all voters on every row; hold rows out for all, let a missing vote count as an "
                "error, or use a bound on pairs, such as 'cctnd'"
            )
            raise ValueError(msg)
        return cls(evidence)

    @cached_property
    def counts(self) -> PairCounts:
        """The votes, counted."""
        return count(self.votes)

    @cached_property
    def _pairs(self) -> Evidence:
        return Evidence(self.counts)

    def losses(self, quantity: Quantity) -> Floats:
        """Return what `Evidence` has of voters and pairs."""
        return self._pairs.losses(quantity)

    @cached_property
    def patterns(self) -> tuple[Floats, NDArray[np.int64]]:
        """Who errs, a line for each set of voters that does so on some row, and on how many."""
        packed = np.packbits(self.votes.errors, axis=1)
        distinct, times = np.unique(packed, axis=0, return_counts=True)
        return np.unpackbits(distinct, axis=1, count=self.votes.n_voters).astype(float), times

    def moments(
        self,
        quantities: Sequence[Quantity],
        weights: Floats,
        prior: Floats,
        parameters: Parameters,
    ) -> tuple[Moments, dict[Quantity, Floats]]:
        """Return the moment at ``weights`` and its gradient."""
        (quantity,) = quantities
        if quantity is Quantity.VOTE:
            integers = np.rint(weights * UNIT).astype(np.int64)
            value = vote_errors(self.votes, integers) / self.votes.n_samples
            return Moments({quantity: value}, 0.0, 0.0), {quantity: np.zeros(len(weights))}
        errors, times = self.patterns
        draws, erring = parameters["draws"], parameters["erring"]
        z, share = np.minimum(errors @ weights, 1.0), times / self.votes.n_samples
        value = float(share @ chance(z, draws, erring))
        slack = draws * 4 * (len(weights) + 8) * EPS + ACCURACY
        slope = (share * chance_slope(z, draws, erring)) @ errors
        return Moments({quantity: value}, divergence(weights, prior), slack), {quantity: slope}

    def over(
        self,
        grid: Sequence[Parameters],
        quantities: Sequence[Quantity],
        weights: Floats,
        prior: Floats,
    ) -> list[Moments]:
        """Return the moments for each choice of the parameters."""
        return [self.moments(quantities, weights, prior, choice)[0] for choice in grid]


def chance(z: Floats, draws: float, erring: float) -> Floats:
    """Return the chance that at least ``erring`` of ``draws`` voters err, each with chance z."""
    return np.asarray(betainc(erring, draws - erring + 1, z))


def chance_slope(z: Floats, draws: float, erring: float) -> Floats:
    """Return the derivative of `chance` with respect to z."""
    left, right = erring - 1, draws - erring
    return np.asarray(np.exp(xlogy(left, z) + xlog1py(right, -z) - betaln(left + 1, right + 1)))


def vote_errors(votes: Votes, weights: NDArray[np.int64]) -> int:
    """Return on how many rows the label has not more weight than every other label.

    So a tie is an error, whichever way it falls.
    """
    codes, labels, classes = votes.vote_codes, votes.label_codes, votes.classes
    if codes is None or labels is None or classes is None:
        msg = "`votes` hold no labels, since its voters have different rows; use shared rows"
        raise ValueError(msg)
    step, errors = max(_CELLS // len(classes), 1), 0
    for start in range(0, votes.n_samples, step):
        part, label = codes[start : start + step], labels[start : start + step]
        held, rows = np.flatnonzero(weights), np.arange(len(part))
        mass = tally(
            ((part[:, voter], int(weights[voter])) for voter in held), (len(part), len(classes))
        )
        right = mass[rows, label]
        mass[rows, label] = -1
        errors += int((right <= mass.max(axis=1)).sum())
    return errors


def tally(votes: Iterable[tuple[NDArray[Any], int]], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the integer mass that each class gets on each row."""
    mass = np.zeros(shape, dtype=np.int64)
    rows = np.arange(shape[0])
    for codes, weight in votes:
        mass[rows, codes] += weight
    return mass
