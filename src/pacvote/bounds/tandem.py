"""The tandem bound: four times the risk that two drawn voters err together."""

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
class Tandem(ClaimBound):
    r"""Second-order bound of Masegosa et al. (2020), Theorem 9.

    .. math:: L(\mathrm{MV}_\rho) \le 4\,
        \mathrm{kl}^{-1,+}\!\Big(\hat t_\rho,
        \tfrac{2\mathrm{KL}(\rho\|\pi) + \ln(\xi(m)/\delta)}{m}\Big)

    Sharp constants replace the kl inverse by the mixture of slopes, and the factor 4 by one over
    the squared weight of the smallest losing coalition.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "tnd"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.TANDEM,)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """All of delta pays for the upper side of the tandem loss."""
        return (Claim(Quantity.TANDEM, "upper", one_form(self.constants), sizes.n_pair, delta),)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Second-order Markov inequality (Thm. tandembound)."""
        (tandem,) = claims
        factor = threshold**-2
        return combine(round_up(factor * tandem.value), parameters, [(tandem, factor)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Second-order Markov inequality, in exact numbers."""
        del parameters
        return limits["tandem", "upper"] / threshold**2
