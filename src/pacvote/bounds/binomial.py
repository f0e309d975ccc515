"""The exact bound: how often a vote that was fixed beforehand errs on new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, final

from pacvote._rounding import ln_inverse_upper
from pacvote.bounds.base import Limits, Outcome, Parameters, Witness
from pacvote.bounds.evidence import Counted, Floats, Moments, Quantity, Sizes
from pacvote.bounds.shared import SharedBound
from pacvote.concentration import binomial_upper


@final
@dataclass(frozen=True, slots=True)
class Binomial(SharedBound):
    r"""Exact binomial bound on the errors of one vote, by its own labels.

    .. math:: L(\mathrm{MV}_\rho) \le \max\{p : P(\mathrm{Bin}(n, p) \le k) \ge \delta\}

    k counts the rows where the label does not have more weight than every other label.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the shared rows, for the one vote whose weights
    were fixed before these rows were seen, whichever way ties fall. Rows i.i.d.
    """

    constants: Literal["sharp"] = "sharp"
    key: ClassVar[str] = "binomial"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.VOTE,)
    for_fixed_weights: ClassVar[bool] = True

    def settled(self, evidence: Counted, prior: Floats, delta: Fraction) -> Floats:
        """Return the prior's weights, which were fixed beforehand."""
        del evidence, delta
        return prior

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the largest risk that leaves so few errors a chance of delta."""
        del parameters
        n, p_hat = sizes.n_single, moments.values[Quantity.VOTE]
        value = binomial_upper(n, round(p_hat * n), delta)
        witness = Witness(
            self.key, "vote", "upper", "binomial", p_hat, n, ln_inverse_upper(delta), delta, value
        )
        return Outcome(value, {}, (witness,), {Quantity.VOTE: 0.0}, 0.0)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Return the limit, which is about the vote itself."""
        del parameters, threshold
        return limits["vote", "upper"]
