"""The Chebyshev-Cantelli bound with tandem and Gibbs losses bounded one by one."""

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
    tandem_and_gibbs,
)
from pacvote.bounds.cantelli import best_mu, cantelli, exact_mus
from pacvote.bounds.evidence import Quantity, Sizes
from pacvote.concentration import chebyshev_cantelli


@final
@dataclass(frozen=True, slots=True)
class CCTandem(ClaimBound):
    r"""Chebyshev-Cantelli bound with the tandem loss (Thm. first-mu-bound), in its kl form.

    .. math:: L(\mathrm{MV}_\rho) \le \frac{t^+ - 2\mu g^\mp + \mu^2}{(1/2 - \mu)^2},
        \quad \mu < 1/2,

    with the lower limit on the Gibbs risk where mu >= 0 and the upper one where mu < 0. The
    events do not depend on mu, so mu is free: parameter ``mu``, by default the best. Sharp
    constants replace 1/2 by the weight of the smallest losing coalition.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights and all mu
    at once. Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not
    trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "cctnd"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.TANDEM, Quantity.GIBBS)
    parameter_names: ClassVar[tuple[str, ...]] = ("mu",)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Tandem loss from above, Gibbs loss from both sides."""
        return tandem_and_gibbs(sizes, delta, self.constants)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Chebyshev-Cantelli inequality in the paper's parametric form (Thm. MV)."""
        tandem, above, below = claims
        mu = parameters.get("mu")
        if mu is None:
            mu = best_mu(tandem.value, above.value, below.value, threshold)
        used, idle = (below, above) if mu >= 0 else (above, below)
        value = chebyshev_cantelli(tandem.value, used.value, mu, threshold)
        if value <= 0:  # no mean of a square: an event failed
            return combine(1.0, {"mu": mu}, [], *claims)
        scale = (threshold - mu) ** 2
        parts = [(tandem, 1 / scale), (used, -2 * mu / scale)]
        return combine(value, {"mu": mu}, parts, idle)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality, in exact numbers."""
        return cantelli(*self._limits(limits), parameters["mu"], threshold)

    def choices(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> list[Mapping[str, Fraction]]:
        """Return the best mu of either sign, and 0."""
        del parameters
        return [{"mu": mu} for mu in exact_mus(*self._limits(limits), threshold)]

    @staticmethod
    def _limits(limits: Limits) -> tuple[Fraction, Fraction, Fraction]:
        return limits["tandem", "upper"], limits["gibbs", "upper"], limits["gibbs", "lower"]
