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
GIBBS_AND_UNLABELLED = (Quantity.GIBBS, Quantity.DISAGREEMENT)


@final
@dataclass(frozen=True, slots=True)
class TwoMoment(ClaimBound):
    r"""Gibbs risk plus disagreement: z + z(1 - z)/c >= 1[z >= c] on [0, 1].

    .. math:: L(\mathrm{MV}_\rho) \le g_\rho + \frac{d_\rho}{2c}, \qquad
        d_\rho = P(\text{exactly one of two drawn voters errs}),

    c the weight of the smallest losing coalition. At a single voter d is 0 and the bound is that
    voter's risk, with no factor 2. Where unlabelled rows were counted, the probability that two
    drawn voters disagree on them takes the place of d, which it is never below.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "two_moment"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS, Quantity.ONE_ERRS)

    def moments(self, sizes: Sizes) -> tuple[Quantity, ...]:
        """Return the Gibbs risk, and the disagreement that is known."""
        return self.quantities if not sizes.n_unlabelled else GIBBS_AND_UNLABELLED

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Half of delta for each of the two moments, from above."""
        _, differ = self.moments(sizes)
        n_rows = sizes.n_unlabelled or sizes.n_pair
        return (
            Claim(Quantity.GIBBS, "upper", "mixture", sizes.n_single, delta * HALF),
            Claim(differ, "upper", "mixture", n_rows, delta * HALF),
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
        differ = limits.get(("disagreement", "upper"))
        differ = limits["one_errs", "upper"] if differ is None else differ
        return limits["gibbs", "upper"] + differ / (2 * threshold)
