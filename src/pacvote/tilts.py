"""One-sided limits on a posterior mean of voters, or pairs, validated on unequal numbers of rows.

For K > 0 fixed beforehand and a loss of mean L over n rows, E exp(n g_n(L) - K L^) <= 1 with
g_n(L) = -ln(1 - (1 - e^(-K/n)) L): the same tilt K for all, whatever n. Mixed over several K as
in `concentration.mixture_upper`, one convex constraint holds for all weights at once, and the
limit is the largest posterior mean under it. What is returned is the value of the dual at given
multipliers ``nu`` and ``tau``: by weak duality a limit wherever they stand, and checked by
forward evaluation. Smaller n is safe for either side, so that sizes may be rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax

from pacvote._rounding import EPS, root, round_down, round_up
from pacvote.concentration import mixture_weights

Floats = NDArray[np.float64]
Side = Literal["upper", "lower"]

TAU_UNIT = 2**16  # shares of the slopes are multiples of 1 / TAU_UNIT
SIZE_BITS = 8  # significant bits of a size
ROUNDS = 12
MOST_TILTED = 2**32  # rows; beyond, floats are too coarse for it, and the least size is plenty


@final
@dataclass(frozen=True, slots=True, eq=False)
class Tilted:
    """A limit, the multipliers that prove it, and its slopes; without multipliers it is trivial."""

    value: float
    nu: float
    tau: Floats
    by_moment: float
    by_complexity: float


def coarse(sizes: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Round numbers of rows down to 8 significant bits, but not below the least of them."""
    exponent = np.maximum(0, np.frexp(sizes.astype(np.float64))[1] - SIZE_BITS)
    return np.asarray(np.maximum(least, sizes >> exponent << exponent))


def tilted(
    side: Side, p_hat: float, complexity: float, sizes: Floats, masses: Floats, slopes: Floats
) -> Tilted:
    """Return a limit on the mean of losses whose ``masses`` lie on rows of those ``sizes``.

    ``slopes`` are those of the least size; ``complexity`` is KL + ln(1/delta).
    """
    problem = _Dual(side, p_hat, complexity, sizes, masses, slopes)
    trivial = Tilted(1.0 if side == "upper" else 0.0, 0.0, slopes[:0], 0.0, 0.0)
    if problem.excess(problem.ends) <= complexity:
        return trivial
    alike = root(lambda p: problem.excess(p + 0 * problem.ends) - complexity, p_hat, trivial.value)
    losses = alike + 0 * problem.ends
    tau, best = problem.posterior(losses), trivial
    nu = 1 / float(problem.masses @ problem.slope(losses, tau))
    for _ in range(ROUNDS):
        shares = _to_units(tau)
        nu = _to_bits(problem.multiplier(shares, nu))
        found = problem.limit(nu, shares)
        better = found.value < best.value if side == "upper" else found.value > best.value
        if not better:
            break
        best = found
        tau = problem.posterior(problem.extremes(nu, shares))
    return best


def _to_bits(number: float) -> float:
    """Round to 40 significant bits."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(mantissa * 2**40), exponent - 40)


def _to_units(tau: Floats) -> Floats:
    """Round shares to units that sum to 1, the largest rests up."""
    scaled = tau * TAU_UNIT
    whole = np.floor(scaled)
    missing = round(TAU_UNIT - whole.sum())
    whole[np.argsort(whole - scaled, kind="stable")[:missing]] += 1
    return np.asarray(whole / TAU_UNIT)


@final
class _Dual:
    """Upper: max E[L] with E[sum_j tau_j U_j(L)] <= R, U = n g_n. Lower: min, with -V for U."""

    def __init__(
        self,
        side: Side,
        p_hat: float,
        complexity: float,
        sizes: Floats,
        masses: Floats,
        slopes: Floats,
    ) -> None:
        self.sign = 1.0 if side == "upper" else -1.0
        self.p_hat, self.complexity, self.masses = p_hat, complexity, masses
        self.sizes, self.tilts = sizes[:, None], slopes * float(sizes.min())
        self.rise = -np.expm1(-self.sign * self.tilts / self.sizes)  # negative below
        self.prior = mixture_weights(slopes)
        self.ends = np.full(len(sizes), 1.0 if side == "upper" else 0.0)

    def gains(self, losses: Floats) -> Floats:
        """Return n g_n at each size and slope; below, its mirror, which falls."""
        return np.asarray(-self.sizes * np.log1p(-self.rise * losses[:, None]))

    def exponents(self, losses: Floats) -> Floats:
        return np.asarray(self.masses @ self.gains(losses) - self.sign * self.tilts * self.p_hat)

    def excess(self, losses: Floats) -> float:
        """Return the left side of the constraint: it holds where this is <= complexity."""
        return float(np.logaddexp.reduce(self.exponents(losses) + np.log(self.prior)))

    def posterior(self, losses: Floats) -> Floats:
        """Return the shares of the slopes that the losses call for."""
        return np.asarray(softmax(self.exponents(losses) + np.log(self.prior)))

    def slope(self, losses: Floats, tau: Floats) -> Floats:
        """Return d/dL of sum_j tau_j U_j at each size, its absolute value."""
        rates = self.sign * self.rise * self.sizes / (1 - self.rise * losses[:, None])
        return np.asarray(rates @ tau)

    def extremes(self, nu: float, tau: Floats) -> Floats:
        """Return the loss at each size where L - nu U(L) is extreme: Newton's steps, bracketed."""
        zero, one = np.zeros(len(self.sizes)), np.ones(len(self.sizes))
        # an end where the slope does not change its sign, else the whole of [0, 1]
        low = np.where(self._short(nu, one, tau), one, zero)
        high = np.where(self._short(nu, zero, tau), one, zero)
        losses = (low + high) / 2
        for _ in range(60):
            steep = self.rise / (1 - self.rise * losses[:, None])
            slope = nu * self.sign * ((self.sizes * steep) @ tau)
            curve = nu * self.sign * ((self.sizes * steep**2) @ tau)
            short = (slope < 1) == (self.sign > 0)
            low, high = np.where(short, losses, low), np.where(short, high, losses)
            step = losses + slope * (1 - slope) / curve  # of 1 / slope, which is all but linear
            inside = (step >= low) & (step <= high)  # else rounding undoes what converged
            moved = np.where(inside, step, (low + high) / 2)
            if np.all(np.abs(moved - losses) <= 2.0**-44):
                break
            losses = moved
        return losses

    def _short(self, nu: float, losses: Floats, tau: Floats) -> NDArray[np.bool_]:
        """Whether the extreme loss is above these."""
        return np.asarray((nu * self.slope(losses, tau) < 1) == (self.sign > 0))

    def budget(self, tau: Floats) -> float:
        held = tau > 0
        price = float(tau[held] @ np.log(tau[held] / self.prior[held]))
        return self.complexity + price + self.sign * float(tau @ self.tilts) * self.p_hat

    def multiplier(self, tau: Floats, near: float) -> float:
        """Return the nu at which the constraint is tight, sought around ``near``."""
        budget = self.budget(tau)

        def over(ln_nu: float) -> float:
            losses = self.extremes(math.exp(ln_nu), tau)
            return float(self.masses @ (self.gains(losses) @ tau)) - budget

        low = high = math.log(near)
        width = 0.05
        while over(low) < 0 and width < 100:  # the left side falls as nu grows
            low, width = low - width, 4 * width
        width = 0.05
        while over(high) > 0 and width < 100:
            high, width = high + width, 4 * width
        if low == high or over(low) < 0 or over(high) > 0:
            return near
        return math.exp(brentq(over, low, high, xtol=1e-9, rtol=1e-12))

    def limit(self, nu: float, tau: Floats) -> Tilted:
        """Return the dual's value, rounded outward: a limit whatever the multipliers."""
        losses, budget = self.extremes(nu, tau), self.budget(tau)
        gains = nu * (self.gains(losses) @ tau)
        tangent = self.sign * (1 - nu * self.slope(losses, tau))  # of +-(L - nu U), at the losses
        rest = np.maximum(tangent * (1 - losses), -tangent * losses)
        value = self.sign * nu * budget + float(
            self.masses @ (losses - self.sign * gains + self.sign * rest)
        )
        size = nu * (abs(budget) + 2 * self.complexity + 2 * float(tau @ self.tilts)) + 2
        size += float(self.masses @ np.abs(gains)) + EPS
        by_moment = nu * float(tau @ self.tilts)
        if self.sign > 0:
            value = min(1.0, round_up(value, 8 * size))
        else:
            value = max(0.0, round_down(value, 8 * size))
        return Tilted(value, nu, tau, by_moment, self.sign * nu)
