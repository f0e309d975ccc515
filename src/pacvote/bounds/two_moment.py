"""The two-moment bound: the Gibbs risk plus what voters disagree."""

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
)
from pacvote.bounds.evidence import Quantity, Sizes

HALF = Fraction(1, 2)


@final
@dataclass(frozen=True, slots=True)
class TwoMoment(ClaimBound):
    r"""Gibbs risk plus disagreement: z + z(1 - z)/c >= 1[z >= c] on [0, 1].

    .. math:: L(\mathrm{MV}_\rho) \le g_\rho + \frac{d_\rho}{2c}, \qquad
        d_\rho = P(\text{exactly one of two drawn voters errs}),

    c the weight of the smallest losing coalition. At a single voter d is 0 and the bound is that
    voter's risk, with no factor 2.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "two_moment"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS, Quantity.ONE_ERRS)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Half of delta for each of the two moments, from above."""
        return (
            Claim(Quantity.GIBBS, "upper", "mixture", sizes.n_single, delta * HALF),
            Claim(Quantity.ONE_ERRS, "upper", "mixture", sizes.n_pair, delta * HALF),
        )

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Sum of the moments."""
        gibbs, one = claims
        factor = 1 / (2 * threshold)
        value = round_up(gibbs.value + factor * one.value)
        return combine(value, parameters, [(gibbs, 1.0), (one, factor)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Sum of the moments, in exact numbers."""
        del parameters
        return limits["gibbs", "upper"] + limits["one_errs", "upper"] / (2 * threshold)
