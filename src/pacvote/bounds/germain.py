"""The first C-bound of Germain et al.: Gibbs risk from above, disagreement from below."""

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
from pacvote.bounds.dis import gibbs_and_disagreement
from pacvote.bounds.evidence import Quantity, Sizes

QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)
LEAST_REST = 1e-9  # below it the ratio has lost its digits


@final
@dataclass(frozen=True, slots=True)
class GermainOne(ClaimBound):
    r"""C-bound in Gibbs risk and disagreement (PAC-Bound 1 of Germain et al. 2015).

    .. math:: L(\mathrm{MV}_\rho) \le 1 - \frac{(1 - 2g)^2}{1 - 2d}, \quad g < 1/2,

    which rises with g and falls with d. It holds for any number of classes, with d the
    probability that exactly one of two drawn voters errs.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "c1"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS, Quantity.ONE_ERRS)

    @property
    def counts_coalitions(self) -> bool:
        """The ratio is not monotone in g past 1/2."""
        return False

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Half of delta for the Gibbs risk from above, half for the disagreement from below."""
        return gibbs_and_disagreement(sizes, delta)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Chebyshev-Cantelli inequality at its best mu."""
        del threshold
        gibbs, one = claims
        g, d = gibbs.value, one.value
        over, rest = g - g**2 - d / 2, 0.25 - d / 2
        if g >= 0.5 or over <= 0 or rest <= LEAST_REST:
            return combine(1.0, parameters, [], *claims)
        value = round_up(over / rest, (g + d + 1) / rest + 4 * over / rest**2)
        by_one = (over - rest) / (2 * rest**2)
        return combine(value, parameters, [(gibbs, (1 - 2 * g) / rest), (one, by_one)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality at its best mu, in exact numbers."""
        del parameters, threshold
        g, half_d = limits["gibbs", "upper"], limits["one_errs", "lower"] / 2
        over, rest = g - g**2 - half_d, QUARTER - half_d
        return over / rest if g < HALF and over > 0 and rest > 0 else Fraction(1)
