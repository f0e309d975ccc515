"""What every bound is made of: moments of the votes, one-sided claims, and a value with slopes.

A bound is a function of a few *moments* (posterior means of what voters or pairs of voters did)
and of KL(rho || pi). Its file says which claims it makes, how it splits delta among them, and
how it puts them together; evaluation, gradients and minimisation follow from that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Literal, final

import numpy as np

from pacvote import concentration as on
from pacvote._rounding import ln_inverse_upper, round_up
from pacvote.bounds.coalition import smallest_losing
from pacvote.bounds.evidence import Counted, Floats, Moments, Quantity, Sizes, Vote
from pacvote.counts import PairCounts
from pacvote.tilts import MOST_TILTED, tilted

Parameters = Mapping[str, float]
Limits = Mapping[tuple[str, str], Fraction]  # by quantity and side
SURE = 1 - Fraction(1, 2**50)  # of a share of delta: a prior in floats may sum to a little over 1
Side = Literal["upper", "lower"]
Inequality = Literal["mixture", "kl_paper", "binomials"]
Constants = Literal["sharp", "paper"]


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """A claim that was made: enough to check it by forward evaluation, without solving.

    ``share`` is what its event spends of delta, the whole grid of ``parameters`` included
    (``grid`` points); claims with the same ``event`` hold together for one share.
    """

    event: str
    quantity: str
    side: Side
    inequality: str
    p_hat: float
    n_samples: int
    complexity: float
    share: Fraction
    value: float
    grid: int = 1
    parameters: Parameters = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Resolved:
    """A claim at given weights: its witness, and the slopes of its value."""

    witness: Witness
    by_moment: float
    by_divergence: float

    @property
    def value(self) -> float:
        """The claimed limit."""
        return self.witness.value


@final
@dataclass(frozen=True, slots=True)
class Claim:
    r"""A one-sided limit on a posterior mean, for all weights at once, and its share of delta.

    ``mixture`` is the mixture of slopes, one event for each side, which at given weights becomes
    ``tilts`` where numbers of rows differ; ``kl_paper`` is PAC-Bayes-kl with 2 sqrt(n), one event
    for both sides; ``binomials`` is the mean of the voters' exact limits, each at its prior's
    share.
    """

    quantity: Quantity
    side: Side
    inequality: Inequality
    n_samples: int
    share: Fraction

    @property
    def event(self) -> str:
        """The event whose failure the share pays for."""
        name = self.quantity.value
        return name if self.inequality == "kl_paper" else f"{name} {self.side}"

    def complexity(self, kl_divergence: float) -> float:
        """Return KL(rho || pi), twice for pairs, plus ln(1/share) and what the form adds."""
        extra = on.ln_xi_paper(self.n_samples) if self.inequality == "kl_paper" else 0.0
        return round_up(self.order * kl_divergence + extra + ln_inverse_upper(self.share))

    def resolve(self, moments: Moments) -> Resolved:
        """Return the limit at these moments."""
        upper = self.side == "upper"
        p_hat = moments.upper(self.quantity) if upper else moments.lower(self.quantity)
        complexity, n = self.complexity(moments.divergence), self.n_samples
        vote = moments.vote
        if self.inequality == "binomials":
            return self._binomials(p_hat, vote, moments.slack)
        if self.inequality == "mixture" and vote is not None and self._uneven(vote):
            return self._tilted(p_hat, complexity, vote, moments.slack)
        if self.inequality == "mixture":
            value, by_p, by_c = self._mixture(p_hat, complexity)
        else:
            solve = on.pac_bayes_kl_upper if upper else on.pac_bayes_kl_lower
            value = solve(p_hat, complexity, n)
            by_p, by_budget = on.kl_inverse_slopes(p_hat, value)
            by_c = by_budget / n
        return Resolved(self._witness(p_hat, complexity, value), by_p, self.order * by_c)

    @property
    def order(self) -> int:
        """Of how many drawn voters the quantity is."""
        return 1 if self.quantity is Quantity.GIBBS else 2

    def _uneven(self, vote: Vote) -> bool:
        sizes = vote.evidence.sizes
        if self.quantity is Quantity.DISAGREEMENT or self.n_samples > MOST_TILTED:
            return False
        return not (sizes.even_single if self.order == 1 else sizes.even_pair)

    def _tilted(self, p_hat: float, complexity: float, vote: Vote, slack: float) -> Resolved:
        """Return the limit by equal tilts, where the numbers of rows differ."""
        sizes, masses = vote.evidence.masses(self.order, vote.weights)
        slopes = on.mixture_slopes(self.n_samples, self.share)
        masses = masses * (1 + slack)
        found = tilted(self.side, p_hat, complexity, sizes, masses, slopes)
        tau = {f"tau_{j}": float(share) for j, share in enumerate(found.tau)}
        witness = self._witness(p_hat, complexity, found.value)
        witness = replace(witness, inequality="tilts", parameters={"nu": found.nu, **tau})
        return Resolved(witness, found.by_moment, self.order * found.by_complexity)

    def _binomials(self, p_hat: float, vote: Vote | None, slack: float) -> Resolved:
        """Return the mean of each voter's own limit: no weights are sought by it."""
        if vote is None:
            msg = "a mean of exact limits has no slopes; its bounds are settled, not minimised"
            raise ValueError(msg)
        held = np.flatnonzero(vote.weights)
        limits = voter_limits(vote.evidence.counts, vote.prior, self.share, held)
        mean = sum(float(vote.weights[i]) * limit for i, limit in limits.items())
        value = min(1.0, round_up(mean * (1 + slack)))
        witness = replace(
            self._witness(p_hat, 0.0, value),
            parameters={f"limit_{i}": limit for i, limit in limits.items()},
        )
        return Resolved(witness, 0.0, 0.0)

    def _mixture(self, p_hat: float, complexity: float) -> tuple[float, float, float]:
        n = self.n_samples
        slopes = on.mixture_slopes(n, self.share)
        if self.side == "upper":
            value = on.mixture_upper(p_hat, complexity, n, slopes)
            return value, *on.mixture_upper_slopes(value, p_hat, n, slopes)
        value = on.mixture_lower(p_hat, complexity, n, slopes)
        return value, *on.mixture_lower_slopes(value, p_hat, n, slopes)

    def _witness(self, p_hat: float, complexity: float, value: float) -> Witness:
        name, n = self.quantity.value, self.n_samples
        return Witness(
            self.event, name, self.side, self.inequality, p_hat, n, complexity, self.share, value
        )


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """A bound at given weights: its value before clipping to 1, and its slopes."""

    value: float
    parameters: Parameters
    witnesses: tuple[Witness, ...]
    by_moment: Mapping[Quantity, float]
    by_divergence: float


def combine(
    value: float, parameters: Parameters, parts: Sequence[tuple[Resolved, float]], *more: Resolved
) -> Outcome:
    """Put claims together by the chain rule; ``parts`` pairs each with the value's slope in it.

    ``more`` are claims that were paid for but do not move the value at these parameters.
    """
    by_moment: dict[Quantity, float] = {}
    for claim, slope in parts:
        quantity = Quantity(claim.witness.quantity)
        by_moment[quantity] = by_moment.get(quantity, 0.0) + slope * claim.by_moment
    by_divergence = sum(slope * claim.by_divergence for claim, slope in parts)
    witnesses = tuple(claim.witness for claim, _ in parts) + tuple(c.witness for c in more)
    return Outcome(value, parameters, witnesses, by_moment, by_divergence)


class Bound(ABC):
    """A bound on the risk of the weighted majority vote, for all weights at once."""

    __slots__ = ()

    constants: str
    key: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    known_constants: ClassVar[tuple[str, ...]] = ("sharp", "paper")
    for_fixed_weights: ClassVar[bool] = False  # weights must not depend on the rows

    def __post_init__(self) -> None:
        if self.constants not in self.known_constants:
            known = ", ".join(map(repr, self.known_constants))
            msg = f"`constants` of `{self.key}` must be one of {known}, but is {self.constants!r}"
            raise ValueError(msg)

    @property
    def sound(self) -> bool:
        """Whether the bound is proven as computed; no certificate is issued otherwise."""
        return True

    @property
    def needs_rows(self) -> bool:
        """Whether counts are not enough: every row is needed, and all voters on it."""
        return False

    def alternatives(self) -> tuple[tuple[Bound, Fraction], ...]:
        """Return the bounds to take the least of, and the share of delta that each has."""
        return ((self, Fraction(1)),)

    @property
    def counts_coalitions(self) -> bool:
        """Whether the threshold is the smallest losing coalition, else 1/2."""
        return self.constants == "sharp"

    def threshold(self, weights: Sequence[int], slack: int = 0) -> Fraction:
        """Return what voters must hold for their errors to make the vote err, or less."""
        if not self.counts_coalitions:
            return Fraction(1, 2)
        return Fraction(smallest_losing(weights, slack), sum(weights))

    def moments(self, sizes: Sizes) -> tuple[Quantity, ...]:
        """Return the quantities that the bound looks at, given numbers of rows alone."""
        del sizes
        return self.quantities

    def needs_pairs(self, *, unlabelled: bool = False) -> bool:
        """Whether every pair of voters must share a validation row."""
        sizes = Sizes(1, 1, 1, n_unlabelled=int(unlabelled))
        free = {Quantity.GIBBS, Quantity.DISAGREEMENT}
        return not free.issuperset(self.moments(sizes))

    def grid(self, sizes: Sizes, delta: Fraction) -> Sequence[Parameters]:
        """Return the parameters that the minimiser must try one by one; one empty choice."""
        del sizes, delta
        return [{}]

    def points(self, given: Parameters) -> Sequence[Parameters]:
        """Return what `at` may take where these parameters are given; it finds the rest itself."""
        return [given]

    @abstractmethod
    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the bound at these moments, at the best of the parameters left open."""

    @abstractmethod
    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Return the bound from the limits that its claims set, in exact numbers."""

    def settled(self, evidence: Counted, prior: Floats, delta: Fraction) -> Floats | None:
        """Return the bound's weights where they are not to be sought, else None."""
        del evidence, prior, delta
        return None

    def choices(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Sequence[Mapping[str, Fraction]]:
        """Return the parameters to choose among at exact limits, given those found in floats.

        Where the Gibbs risk is near the threshold, the best mu of limits in floats is far from
        best: a bound whose events leave mu free solves for it anew.
        """
        del limits, threshold
        return [parameters]


class ClaimBound(Bound):
    """A bound whose delta pays for claims on single moments, by fixed shares."""

    __slots__ = ()

    @abstractmethod
    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Return the claims; sizes and delta are all that they may depend on."""

    @abstractmethod
    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Return the bound from its claims."""

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the bound at these moments, at the best of the parameters left open."""
        resolved = [claim.resolve(moments) for claim in self.claims(sizes, delta)]
        return self.put_together(resolved, parameters, moments.threshold)


def voter_limits(
    counts: PairCounts, prior: Floats, share: Fraction, voters: Iterable[int]
) -> dict[int, float]:
    """Return the exact limit on each voter's risk, at the share times its prior."""
    rows, errors, limits = counts.rows, counts.errors, {}
    for i in map(int, voters):
        spent = share * Fraction(float(prior[i])) * SURE
        limits[i] = on.binomial_upper(int(rows[i]), int(errors[i]), spent)
    return limits


def one_form(constants: Constants) -> Inequality:
    """Return the inequality that the constants stand for."""
    return "mixture" if constants == "sharp" else "kl_paper"


def tandem_and_gibbs(sizes: Sizes, delta: Fraction, constants: Constants) -> tuple[Claim, ...]:
    """Return the claims of the Chebyshev-Cantelli family: tandem above, Gibbs above and below.

    Sharp: nine tenths of delta for the tandem loss, a twentieth for each side of the Gibbs
    loss (MLIS20's halves waste most of it). Paper: halves, the kl serving both sides.
    """
    gibbs, tandem, single, pair = Quantity.GIBBS, Quantity.TANDEM, sizes.n_single, sizes.n_pair
    form = one_form(constants)
    shares = (Fraction(9, 10), Fraction(1, 20)) if constants == "sharp" else (Fraction(1, 2),) * 2
    return (
        Claim(tandem, "upper", form, pair, delta * shares[0]),
        Claim(gibbs, "upper", form, single, delta * shares[1]),
        Claim(gibbs, "lower", form, single, delta * shares[1]),
    )
