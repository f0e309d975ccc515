"""The C-bound: Chebyshev-Cantelli at its best mu, with the oracle quantities bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from pacvote._rounding import round_up
from pacvote.bounds.base import (
    Claim,
    ClaimBound,
    Constants,
    Limits,
    Outcome,
    Parameters,
    Resolved,
    combine,
    tandem_and_gibbs,
)
from pacvote.bounds.evidence import Quantity, Sizes

HALF = Fraction(1, 2)
LEAST_REST = 1e-9  # below it the ratio has lost its digits


@final
@dataclass(frozen=True, slots=True)
class CBound(ClaimBound):
    r"""C-bound of Lacasse et al. (2007) (Thm. Cbound).

    .. math:: L(\mathrm{MV}_\rho) \le \frac{t - g^2}{1/4 + t - g}, \quad g < 1/2,

    Paper constants: upper and lower limits put where each makes the ratio largest, as in CTD of
    Masegosa et al. (2020). Sharp: the largest ratio on the box of the limits, which stands at
    ``t = t_upper`` and ``g = clip(t_upper / c, g_lower, g_upper)`` and equals `CCTandem` at its
    best mu; c is the weight of the smallest losing coalition, in the place of 1/2. Where
    ``g_upper >= c`` the sharp bound falls back on the tandem bound.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "c_bound"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.TANDEM, Quantity.GIBBS)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Tandem loss from above, and in paper constants from below; Gibbs from both sides."""
        claims = tandem_and_gibbs(sizes, delta, self.constants)
        if self.constants == "sharp":
            return claims
        return (
            *claims,
            Claim(Quantity.TANDEM, "lower", "kl_paper", sizes.n_pair, delta / 2),
        )

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Return the largest ratio that the claims leave open."""
        if self.constants == "sharp":
            return _largest_on_box(claims, parameters, threshold)
        tandem, above, below, tandem_below = claims
        rest = 0.25 + tandem_below.value - above.value
        over = tandem.value - below.value**2  # a variance: at 0 an event has failed
        if above.value >= 0.5 or rest <= LEAST_REST or over <= 0:
            return combine(1.0, parameters, [], *claims)
        parts = [
            (tandem, 1 / rest),
            (below, -2 * below.value / rest),
            (tandem_below, -over / rest**2),
            (above, over / rest**2),
        ]
        return combine(_ratio_upper(over, rest, tandem.value), parameters, parts)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Return the largest ratio that the claims leave open, in exact numbers."""
        del parameters
        t = limits["tandem", "upper"]
        above, below = limits["gibbs", "upper"], limits["gibbs", "lower"]
        if self.constants == "paper":
            over, rest = t - below**2, Fraction(1, 4) + limits["tandem", "lower"] - above
            return over / rest if above < HALF and rest > 0 and over > 0 else Fraction(1)
        g = min(max(t / threshold, below), above)
        flat = g * threshold == t or above >= threshold or t < g**2
        return t / threshold**2 if flat else (t - g**2) / (threshold**2 + t - 2 * threshold * g)


def _largest_on_box(
    claims: Sequence[Resolved], parameters: Parameters, threshold: float
) -> Outcome:
    tandem, above, below = claims
    t, factor = tandem.value, threshold**-2
    side = below if t < threshold * below.value else above
    g = side.value
    over, rest = t - g**2, threshold**2 + t - 2 * threshold * g
    inside = threshold * below.value <= t <= threshold * above.value
    if inside or above.value >= threshold or over < 0 or rest <= LEAST_REST:
        return combine(round_up(factor * t), parameters, [(tandem, factor)], above, below)
    parts = [
        (tandem, (threshold - g) ** 2 / rest**2),
        (side, (2 * threshold * over - 2 * g * rest) / rest**2),
    ]
    idle = above if side is below else below
    return combine(_ratio_upper(over, rest, t), parameters, parts, idle)


def _ratio_upper(over: float, rest: float, tandem: float) -> float:
    """Return over / rest, rounded up for the cancellation in both."""
    return max(0.0, round_up(over / rest, (tandem + 1) / rest + 4 * abs(over) / rest**2))
