"""Bounds by their keys, and the verb `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from pacvote._inputs import nearest
from pacvote._rounding import EPS
from pacvote.bounds.base import Bound, Outcome, Parameters, Witness
from pacvote.bounds.best_of import BestOf
from pacvote.bounds.binomial import Binomial
from pacvote.bounds.c_bound import CBound
from pacvote.bounds.ccpbb import CCBennett
from pacvote.bounds.ccskl import CCSplit
from pacvote.bounds.cctnd import CCTandem
from pacvote.bounds.dis import Disagreement
from pacvote.bounds.evidence import Evidence, Floats, Moments, Quantity, Vote
from pacvote.bounds.first_order import FirstOrder
from pacvote.bounds.folds import BestVoter, Folds
from pacvote.bounds.germain import GermainOne, GermainTwo
from pacvote.bounds.ndraw import NDraw
from pacvote.bounds.shared import Rows, SharedBound
from pacvote.bounds.tandem import Tandem
from pacvote.bounds.two_moment import TwoMoment
from pacvote.counts import PairCounts, count
from pacvote.votes import Votes

BOUNDS: Final[dict[str, type[Bound]]] = {
    bound.key: bound
    for bound in (
        FirstOrder,
        Tandem,
        CCTandem,
        CCBennett,
        CCSplit,
        TwoMoment,
        CBound,
        Disagreement,
        GermainOne,
        GermainTwo,
        Folds,
        BestVoter,
        BestOf,
        Binomial,
        NDraw,
    )
}


@final
@dataclass(frozen=True, slots=True)
class BoundValue:
    """The value of a bound at given weights, at most 1, and what it rests on."""

    value: float
    parameters: Parameters
    witnesses: tuple[Witness, ...]


def evaluate(
    bound: str | Bound,
    evidence: Votes | PairCounts,
    weights: ArrayLike,
    *,
    delta: float | Fraction = 0.05,
    prior: ArrayLike | None = None,
    parameters: Parameters | None = None,
) -> BoundValue:
    """Evaluate a bound at given weights.

    Parameters
    ----------
    bound : str or Bound
        A key of ``BOUNDS`` or a bound object, such as ``CCTandem(constants="paper")``.
    evidence : Votes or PairCounts
        The validation rows, counted or to be counted.
    weights : array-like of shape (n_voters,)
        Weights of the vote; they sum to 1.
    delta : float or Fraction, default=0.05
        Probability with which the bound may fail.
    prior : array-like of shape (n_voters,), default=None
        Weights fixed before the validation rows were seen; uniform by default.
    parameters : dict, default=None
        Values for some of the bound's ``parameter_names``; the rest are chosen for the least
        value among those that the bound pays for.

    Returns
    -------
    BoundValue
        ``value`` (rounded up, at most 1), ``parameters`` and ``witnesses``.
    """
    share, m = exact_delta(delta), evidence.n_voters
    rho = simplex("weights", weights, m)
    pi = np.full(m, 1 / m) if prior is None else simplex("prior", prior, m)
    outcomes = [
        Problem.of(member, evidence, part * share, pi).outcome(rho, parameters or {})
        for member, part in alternatives(resolve(bound), at_prior=np.array_equal(rho, pi))
    ]
    best = min(outcomes, key=lambda outcome: outcome.value)
    return BoundValue(min(1.0, best.value), dict(best.parameters), best.witnesses)


def alternatives(bound: Bound, *, at_prior: bool) -> list[tuple[Bound, Fraction]]:
    """Return the bounds to take the least of; one for fixed weights among several at those only.

    Weights that a member found by the rows are none that another may take for fixed.
    """
    members = bound.alternatives()
    if members[0][0] is bound:
        return list(members)
    held = [(one, share) for one, share in members if at_prior or not one.for_fixed_weights]
    if held:
        return held
    msg = f"`weights` must be the prior's for a `{bound.key}` of bounds for fixed weights alone"
    raise ValueError(msg)


@final
@dataclass(frozen=True, slots=True)
class Problem:
    """A bound, the evidence, delta and prior: all that weights are evaluated or sought for."""

    bound: Bound
    evidence: Evidence | Rows
    delta: Fraction
    prior: Floats

    @staticmethod
    def of(
        bound: Bound,
        evidence: Votes | PairCounts,
        delta: float | Fraction,
        prior: ArrayLike | None,
    ) -> Problem:
        """Check the inputs and count where needed."""
        share = exact_delta(delta)
        m = evidence.n_voters
        pi = np.full(m, 1 / m) if prior is None else simplex("prior", prior, m)
        if isinstance(bound, SharedBound):
            return Problem(bound, Rows.of(bound, evidence), share, pi)
        counts = evidence if isinstance(evidence, PairCounts) else count(evidence)
        refuse_empty_overlaps(counts, pairs=bound.needs_pairs(unlabelled=counts.n_unlabelled > 0))
        return Problem(bound, Evidence(counts), share, pi)

    @staticmethod
    def unchecked(bound: Bound, counts: PairCounts, delta: Fraction, prior: Floats) -> Problem:
        """Return a problem whose counts need not bear any bound."""
        return Problem(bound, Evidence(counts), delta, prior)

    def outcome(self, weights: Floats, parameters: Parameters) -> Outcome:
        """Return the bound at ``weights``."""
        for name in parameters:
            if name not in self.bound.parameter_names:
                known = ", ".join(self.bound.parameter_names) or "none"
                msg = f"`parameters` of `{self.bound.key}` has no {name!r}; it knows: {known}"
                raise ValueError(msg)
        self._refuse_weight_without_prior(weights)
        choices = self.bound.points(parameters)
        threshold, vote = self._threshold(weights), self._vote(weights)
        each = [
            replace(moments, threshold=threshold, vote=vote)
            for moments in self.over(choices, weights)
        ]
        outcomes = (
            self.bound.at(moments, self.evidence.sizes, self.delta, choice)
            for moments, choice in zip(each, choices, strict=True)
        )
        return min(outcomes, key=lambda outcome: outcome.value)

    def moments(
        self, weights: Floats, parameters: Parameters
    ) -> tuple[Moments, dict[Quantity, Floats]]:
        """Return the moments that the bound looks at, and their gradients."""
        quantities = self.bound.moments(self.evidence.sizes)
        return self.evidence.moments(quantities, weights, self.prior, parameters)

    def over(self, grid: Sequence[Parameters], weights: Floats) -> list[Moments]:
        """Return the moments that the bound looks at for each choice of its parameters."""
        quantities = self.bound.moments(self.evidence.sizes)
        return self.evidence.over(grid, quantities, weights, self.prior)

    def _vote(self, weights: Floats) -> Vote | None:
        evidence = self.evidence
        return Vote(evidence, weights, self.prior) if isinstance(evidence, Evidence) else None

    def _threshold(self, weights: Floats) -> float:
        """Return the bound's threshold at ``weights`` or any that a certificate rounds them to."""
        integers = np.rint(weights * 2.0**40).astype(np.int64).tolist()
        return float(self.bound.threshold(integers, slack=2 * len(weights) + 2))

    def _refuse_weight_without_prior(self, weights: Floats) -> None:
        outside = np.flatnonzero((weights > 0) & (self.prior == 0))
        if len(outside):
            name = self.evidence.counts.voters[outside[0]]
            msg = f"`prior` is zero for voter {name!r}, which has weight; give it prior mass"
            raise ValueError(msg)


def resolve(bound: str | Bound) -> Bound:
    """Return the bound object that a key stands for."""
    if isinstance(bound, Bound):
        return bound
    given: object = bound
    if given is None:
        msg = "`bound` must be a key, such as 'cctnd', or a bound object, got None"
        raise TypeError(msg)
    key = str(bound)
    if key == "auto":
        msg = (
            "`bound` 'auto' is for `certify`; elsewhere give pacvote.bounds.choose(evidence).bound"
        )
        raise ValueError(msg)
    if key in BOUNDS:
        return BOUNDS[key]()
    names = {type_.__name__.lower(): known for known, type_ in BOUNDS.items()}
    names |= {known: known for known in BOUNDS}
    near = names[nearest(key, names)]
    msg = f"`bound` {bound!r} is not known; did you mean {near!r}? Known: {', '.join(BOUNDS)}"
    raise ValueError(msg)


def exact_delta(delta: float | Fraction, name: str = "delta") -> Fraction:
    """Return delta as the fraction that its shortest decimal spells, such as 1/20 for 0.05."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float, Fraction, np.floating)):
        msg = f"`{name}` must be a number in (0, 1), but is {type(delta).__name__}"
        raise TypeError(msg)
    if not 0 < delta < 1:
        advice = "; 0.05 gives 95 % confidence" if name == "delta" else ""
        msg = f"`{name}` must lie in (0, 1), but is {delta!r}{advice}"
        raise ValueError(msg)
    return delta if isinstance(delta, Fraction) else Fraction(repr(float(delta)))


def simplex(name: str, values: ArrayLike, n_voters: int) -> Floats:
    """Return float64 weights of ``n_voters`` voters that sum to 1, or say what is wrong."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.shape != (n_voters,):
        given = f"has shape {array.shape} and dtype {array.dtype}"
        msg = f"`{name}` must be {n_voters} numbers, one for each voter, but {given}"
        raise ValueError(msg)
    weights = array.astype(np.float64)
    if not np.all(weights >= 0):
        worst = int(np.argmin(np.where(np.isnan(weights), -np.inf, weights)))
        msg = f"`{name}` must be at least 0, but entry {worst} is {float(weights[worst])!r}"
        raise ValueError(msg)
    total = math.fsum(weights)
    if not abs(total - 1) <= 1e-6:
        msg = f"`{name}` must sum to 1, but sums to {total!r}; divide by the sum"
        raise ValueError(msg)
    return weights if abs(total - 1) <= 2 * EPS else weights / total


def refuse_empty_overlaps(counts: PairCounts, *, pairs: bool) -> None:
    """Refuse a voter that was never validated and, for ``pairs``, two that share no row."""
    never = np.flatnonzero(counts.rows == 0)
    if len(never):
        name = counts.voters[never[0]]
        msg = f"`evidence` has no validation row for voter {name!r}; give it rows or drop it"
        raise ValueError(msg)
    if pairs and counts.n_pair == 0:
        i, j = np.argwhere(counts.pair_rows == 0)[0]
        names = f"{counts.voters[i]!r} and {counts.voters[j]!r}"
        msg = (
            f"`evidence` has no validation row that voters {names} share, which a bound on pairs "
            "needs; give more rows or use a bound on single voters, such as 'fo'"
        )
        raise ValueError(msg)


def ledger(witnesses: Sequence[Witness]) -> dict[str, Fraction]:
    """Return what each event spends of delta; claims of one event are paid for once."""
    return {witness.event: witness.share for witness in witnesses}
