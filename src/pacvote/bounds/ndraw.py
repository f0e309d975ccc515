"""The bound of N draws: many voters are drawn, and too many of them err."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import ClassVar, Final, Literal, final

import numpy as np

from pacvote import concentration as on
from pacvote._rounding import ln_inverse_upper, round_up
from pacvote.bounds.base import Limits, Outcome, Parameters, Witness
from pacvote.bounds.evidence import Moments, Quantity, Sizes
from pacvote.bounds.shared import ACCURACY, SharedBound, chance

# (N, k), fixed once and for all: each point more makes every one of them dearer. Large N for
# weights near the prior, small N for weights far from it; k some sqrt(N) below N / 2, so that
# F(1/2) is near 1. The minimiser goes through them in this order.
GRID: Final = (
    (4096, 1976), (2048, 976), (1024, 481), (512, 235), (256, 115), (128, 56), (64, 27),
    (32, 14), (16, 7), (8, 4), (4, 2), (2, 2), (1, 1),
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class NDraw(SharedBound):
    r"""Bound from N voters drawn by the weights, of whom at least k err.

    .. math:: L(\mathrm{MV}_\rho) \le \frac{1}{F(c)}\,\mathrm{U}\Big(\tfrac1n \sum_i F(Z_i),\;
        N\,\mathrm{KL}(\rho\|\pi) + \ln\tfrac{|G|}{\delta},\; n\Big), \qquad
        F(z) = P(\mathrm{Bin}(N, z) \ge k)

    :math:`Z_i` is the weight of the voters that err on row i, c the weight of the smallest losing
    coalition, U the mixture of slopes, and (N, k) any point of the fixed grid G.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the shared rows, for all weights and all of the
    grid at once. Rows i.i.d.; prior fixed beforehand; no row had a part in making a voter.
    """

    constants: Literal["sharp"] = "sharp"
    key: ClassVar[str] = "ndraw"
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.DRAWN,)
    parameter_names: ClassVar[tuple[str, ...]] = ("draws", "erring")

    def grid(self, sizes: Sizes, delta: Fraction) -> Sequence[Parameters]:
        """Return all (N, k) that the bound pays for."""
        del sizes, delta
        return [{"draws": draws, "erring": erring} for draws, erring in GRID]

    def points(self, given: Parameters) -> Sequence[Parameters]:
        """Return the points of the grid that agree with what is given."""
        points = [{"draws": draws, "erring": erring} for draws, erring in GRID]
        found = [point for point in points if given.items() <= point.items()]
        if not found:
            msg = f"`parameters` {dict(given)} is not on the grid of `ndraw`, which is {GRID}"
            raise ValueError(msg)
        return found

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the bound at one point of the grid."""
        n, draws = sizes.n_single, parameters["draws"]
        p_hat, slopes = moments.upper(Quantity.DRAWN), on.mixture_slopes(n, delta)
        price = ln_inverse_upper(delta / len(GRID))
        complexity = round_up(draws * moments.divergence + price)
        limit = on.mixture_upper(p_hat, complexity, n, slopes)
        by_p, by_c = on.mixture_upper_slopes(limit, p_hat, n, slopes)
        threshold = np.array(moments.threshold)
        factor = 1 / (float(chance(threshold, draws, parameters["erring"])) * (1 - ACCURACY))
        witness = Witness(
            "drawn upper", "drawn", "upper", "mixture", p_hat, n, complexity, delta, limit,
            len(GRID), dict(parameters),
        )  # fmt: skip
        value = round_up(factor * limit)
        by_moment = {Quantity.DRAWN: factor * by_p}
        return Outcome(value, parameters, (witness,), by_moment, factor * draws * by_c)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Markov's inequality for F(Z), which is at least F(c) where the vote errs."""
        draws, erring = int(parameters["draws"]), int(parameters["erring"])
        return limits["drawn", "upper"] / exact_chance(threshold, draws, erring)


def exact_chance(z: Fraction, draws: int, erring: int) -> Fraction:
    """Return P(Bin(draws, z) >= erring), rounded down to a multiple of 2^-80."""
    over, under = z.numerator, z.denominator
    total, term = 0, comb(draws, erring) * over**erring
    for j in range(erring, draws + 1):
        total = total * (under - over) + term
        term = term * over * (draws - j) // (j + 1)
    return Fraction((total << 80) // under**draws, 2**80)
