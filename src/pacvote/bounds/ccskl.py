"""The Chebyshev-Cantelli bound with what pairs of voters do bounded event by event (split-kl)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from pacvote.bounds.base import (
    Claim,
    ClaimBound,
    Constants,
    Limits,
    Outcome,
    Parameters,
    Resolved,
    combine,
)
from pacvote.bounds.cantelli import best_mu, cantelli, exact_mus
from pacvote.bounds.evidence import Quantity, Sizes
from pacvote.concentration import chebyshev_cantelli

HALF = Fraction(1, 2)


@final
@dataclass(frozen=True, slots=True)
class CCSplit(ClaimBound):
    r"""Chebyshev-Cantelli bound with limits on both, one and none of two drawn voters erring.

    With p11, p10 and p00 the probabilities that both, exactly one and none err, the Gibbs risk is
    p11 + p10/2 and (1 + p11 - p00)/2, so that for every mu

    .. math:: L(\mathrm{MV}_\rho) \le \frac{p_{11}^+ - 2\mu g + \mu^2}{(c - \mu)^2}, \quad
        g = p_{11}^+ + p_{10}^-/2 \ (0 \le \mu \le \tfrac12), \quad
        g = (1 + p_{11}^+ - p_{00}^-)/2 \ (\mu < 0),

    mu < c, the weight of the smallest losing coalition. The events do not depend on mu, so mu is
    free: parameter ``mu``, by default the best.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights and all mu
    at once. Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not
    trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "ccskl"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (
        Quantity.TANDEM,
        Quantity.ONE_ERRS,
        Quantity.NONE_ERRS,
    )
    parameter_names: ClassVar[tuple[str, ...]] = ("mu",)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Both err from above, with nine tenths of delta; one and none err from below."""
        most, rest = delta * Fraction(9, 10), delta * Fraction(1, 20)
        return (
            Claim(Quantity.TANDEM, "upper", "mixture", sizes.n_pair, most),
            Claim(Quantity.ONE_ERRS, "lower", "mixture", sizes.n_pair, rest),
            Claim(Quantity.NONE_ERRS, "lower", "mixture", sizes.n_pair, rest),
        )

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Chebyshev-Cantelli inequality, its loss split by events."""
        both, one, none = claims
        below, above = both.value + one.value / 2, (1 + both.value - none.value) / 2
        mu = parameters.get("mu")
        if mu is None:
            mu = best_mu(both.value, above, below, threshold, most=0.5)
        elif not mu <= HALF:
            msg = f"`mu` must be below the threshold and at most 1/2, but is {mu!r}"
            raise ValueError(msg)
        used, idle = (one, none) if mu >= 0 else (none, one)
        value = chebyshev_cantelli(both.value, below if mu >= 0 else above, mu, threshold)
        if value <= 0:  # no mean of a square: an event failed
            return combine(1.0, {"mu": mu}, [], *claims)
        scale = (threshold - mu) ** 2
        by_both = 1 - 2 * mu if mu >= 0 else 1 - mu
        by_used = -mu if mu >= 0 else mu
        parts = [(both, by_both / scale), (used, by_used / scale)]
        return combine(value, {"mu": mu}, parts, idle)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality, in exact numbers."""
        return cantelli(*self._moments(limits), parameters["mu"], threshold)

    def choices(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> list[Mapping[str, Fraction]]:
        """Return the best mu of either sign, and 0."""
        del parameters
        return [{"mu": mu} for mu in exact_mus(*self._moments(limits), threshold, most=HALF)]

    @staticmethod
    def _moments(limits: Limits) -> tuple[Fraction, Fraction, Fraction]:
        """Return E[Z^2], and E[Z] where mu < 0 and where mu >= 0."""
        both, none = limits["tandem", "upper"], limits["none_errs", "lower"]
        return both, (1 + both - none) / 2, both + limits["one_errs", "lower"] / 2
