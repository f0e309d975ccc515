"""The first-order bound: twice the Gibbs risk."""

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
    one_form,
)
from pacvote.bounds.evidence import Quantity, Sizes


@final
@dataclass(frozen=True, slots=True)
class FirstOrder(ClaimBound):
    r"""First-order bound (Thm. first-order with PAC-Bayes-kl).

    .. math:: L(\mathrm{MV}_\rho) \le 2\,
        \mathrm{kl}^{-1,+}\!\Big(\hat g_\rho,
        \tfrac{\mathrm{KL}(\rho\|\pi) + \ln(\xi(n)/\delta)}{n}\Big)

    Sharp constants replace the kl inverse by the mixture of slopes, and the factor 2 by one over
    the weight of the smallest losing coalition.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "fo"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS,)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """All of delta pays for the upper side of the Gibbs loss."""
        return (Claim(Quantity.GIBBS, "upper", one_form(self.constants), sizes.n_single, delta),)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Markov's inequality."""
        (gibbs,) = claims
        return combine(round_up(gibbs.value / threshold), parameters, [(gibbs, 1 / threshold)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Markov's inequality, in exact numbers."""
        del parameters
        return limits["gibbs", "upper"] / threshold
