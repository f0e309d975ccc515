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
    Quantity,
    Resolved,
    Sizes,
    combine,
    tandem_and_gibbs,
)
from pacvote.concentration import chebyshev_cantelli, chebyshev_cantelli_mu


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
        mu = parameters["mu"]
        gibbs = limits["gibbs", "lower" if mu >= 0 else "upper"]
        over = limits["tandem", "upper"] - 2 * mu * gibbs + mu * mu
        return over / (threshold - mu) ** 2 if over > 0 else Fraction(1)


def best_mu(tandem_upper: float, gibbs_upper: float, gibbs_lower: float, threshold: float) -> float:
    """Return the mu of the least bound, each formula kept to the region it holds in.

    mu >= 0 goes with the lower limit on the Gibbs risk, mu < 0 with the upper one. A Gibbs
    limit of the threshold or more leaves no mu on its side that beats 0, and limits that
    contradict each other (a tandem risk below the squared Gibbs risk) are read as mu = 0.
    """
    candidates = [0.0]
    if gibbs_lower < threshold and tandem_upper >= gibbs_lower**2:
        candidates.append(max(0.0, chebyshev_cantelli_mu(tandem_upper, gibbs_lower, threshold)))
    if gibbs_upper < threshold:
        candidates.append(min(0.0, chebyshev_cantelli_mu(tandem_upper, gibbs_upper, threshold)))
    candidates = [mu for mu in candidates if mu < threshold]
    return min(
        candidates,
        key=lambda mu: chebyshev_cantelli(
            tandem_upper, gibbs_lower if mu >= 0 else gibbs_upper, mu, threshold
        ),
    )
