"""The tandem bound by way of the Gibbs risk and the disagreement."""

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
class Disagreement(ClaimBound):
    r"""Tandem bound with the tandem risk as Gibbs risk less half the disagreement.

    .. math:: L(\mathrm{MV}_\rho) \le \frac{g_\rho - d_\rho/2}{c^2}, \qquad
        d_\rho = P(\text{exactly one of two drawn voters errs}),

    c the weight of the smallest losing coalition.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "dis"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS, Quantity.ONE_ERRS)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Half of delta for the Gibbs risk from above, half for the disagreement from below."""
        return gibbs_and_disagreement(sizes, delta)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Second-order Markov inequality."""
        gibbs, one = claims
        factor = threshold**-2
        value = round_up(factor * (gibbs.value - one.value / 2), factor)
        if value <= 0:  # no risk: an event failed
            return combine(1.0, parameters, [], *claims)
        return combine(value, parameters, [(gibbs, factor), (one, -factor / 2)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Second-order Markov inequality, in exact numbers."""
        del parameters
        tandem = limits["gibbs", "upper"] - limits["one_errs", "lower"] / 2
        return tandem / threshold**2 if tandem > 0 else Fraction(1)


def gibbs_and_disagreement(sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
    """Return the claims of bounds that hold for a small Gibbs risk and much disagreement."""
    return (
        Claim(Quantity.GIBBS, "upper", "mixture", sizes.n_single, delta * HALF),
        Claim(Quantity.ONE_ERRS, "lower", "mixture", sizes.n_pair, delta * HALF),
    )
