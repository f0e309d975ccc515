"""What every bound is made of: moments of the votes, one-sided claims, and a value with slopes.

A bound is a function of a few *moments* (posterior means of what voters or pairs of voters did)
and of KL(rho || pi). Its file says which claims it makes, how it splits delta among them, and
how it puts them together; evaluation, gradients and minimisation follow from that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, final

from pacvote import concentration as on
from pacvote._rounding import ln_inverse_upper, round_up
from pacvote.bounds.coalition import smallest_losing
from pacvote.bounds.evidence import Moments, Quantity, Sizes

Parameters = Mapping[str, float]
Limits = Mapping[tuple[str, str], Fraction]  # by quantity and side
Side = Literal["upper", "lower"]
Inequality = Literal["mixture", "kl_paper"]
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

    ``mixture`` is the mixture of slopes, one event for each side; ``kl_paper`` is PAC-Bayes-kl
    with 2 sqrt(n), one event for both sides.
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
        return f"{name} {self.side}" if self.inequality == "mixture" else name

    def complexity(self, kl_divergence: float) -> float:
        """Return KL(rho || pi), twice for pairs, plus ln(1/share) and what the form adds."""
        order = 1 if self.quantity is Quantity.GIBBS else 2
        extra = on.ln_xi_paper(self.n_samples) if self.inequality == "kl_paper" else 0.0
        return round_up(order * kl_divergence + extra + ln_inverse_upper(self.share))

    def resolve(self, moments: Moments) -> Resolved:
        """Return the limit at these moments."""
        upper = self.side == "upper"
        p_hat = moments.upper(self.quantity) if upper else moments.lower(self.quantity)
        complexity, n = self.complexity(moments.divergence), self.n_samples
        if self.inequality == "mixture":
            value, by_p, by_c = self._mixture(p_hat, complexity)
        else:
            solve = on.pac_bayes_kl_upper if upper else on.pac_bayes_kl_lower
            value = solve(p_hat, complexity, n)
            by_p, by_budget = on.kl_inverse_slopes(p_hat, value)
            by_c = by_budget / n
        order = 1 if self.quantity is Quantity.GIBBS else 2
        return Resolved(self._witness(p_hat, complexity, value), by_p, order * by_c)

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
    def counts_coalitions(self) -> bool:
        """Whether the threshold is the smallest losing coalition, else 1/2."""
        return self.constants == "sharp"

    def threshold(self, weights: Sequence[int], slack: int = 0) -> Fraction:
        """Return what voters must hold for their errors to make the vote err, or less."""
        if not self.counts_coalitions:
            return Fraction(1, 2)
        return Fraction(smallest_losing(weights, slack), sum(weights))

    @property
    def needs_pairs(self) -> bool:
        """Whether every pair of voters must share a validation row."""
        return any(q is not Quantity.GIBBS for q in self.quantities)

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
