"""Rounding to a known side, guarded roots, and the checks that every inequality shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

EPS = 2.0**-52
TINY = 1e-300


def round_up(value: float, size: float | None = None) -> float:
    """Return a float above ``value`` by 16 units in the last place of ``size``.

    ``size`` bounds the magnitude of the terms that were added to make ``value``.
    """
    size = abs(value) if size is None else size
    return math.nextafter(value + 16 * EPS * (size + TINY), math.inf)  # TINY: for underflow


def round_down(value: float, size: float | None = None) -> float:
    """Return a float below ``value`` by 16 units in the last place of ``size``."""
    return -round_up(-value, size)


def to_12_bits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to 12 significant bits: grids of such numbers are the same on every machine."""
    mantissa, exponent = np.frexp(values)
    rounded: NDArray[np.float64] = np.ldexp(np.round(mantissa * 4096) / 4096, exponent)
    return rounded


def outward(proved: Callable[[float], bool], guess: float, limit: float) -> float:
    """Move ``guess`` towards ``limit``, which always holds, in doubling steps until proved."""
    step = max(2 * EPS * abs(guess), TINY)
    while abs(limit - guess) > step:
        if proved(guess):
            return guess
        guess += math.copysign(step, limit - guess)
        step *= 2
    return limit


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return about where the monotone ``function`` changes sign, or the end nearest to it."""
    at_low, at_high = function(low), function(high)
    if (at_low < 0) == (at_high < 0) or not at_low or not at_high:
        return low if abs(at_low) <= abs(at_high) else high
    return float(brentq(function, low, high, xtol=TINY, rtol=4 * EPS, maxiter=2000, disp=False))


def check_unit(name: str, value: float) -> None:
    """Refuse what is not in [0, 1]."""
    if not 0 <= value <= 1:
        msg = f"`{name}` must lie in [0, 1], but is {value!r}"
        raise ValueError(msg)


def check_rows(n: int, least: int = 1, most: float = math.inf) -> None:
    """Refuse a sample that is too small, or too large for what is exact."""
    if n > most:
        msg = f"`n` must be at most {most} for an exact limit, but is {n}; use a bound such as 'fo'"
        raise ValueError(msg)
    if not n >= least:
        msg = f"`n` must be at least {least} here, but is {n!r}; give more validation rows"
        raise ValueError(msg)


def check_size(**named: float) -> None:
    """Refuse what is negative or not a number."""
    for name, value in named.items():
        if not value >= 0:
            msg = f"`{name}` must be a number >= 0, but is {value!r}"
            raise ValueError(msg)


def check_positive(**named: float) -> None:
    """Refuse what is not above zero."""
    for name, value in named.items():
        if not value > 0:
            msg = f"`{name}` must be > 0, but is {value!r}"
            raise ValueError(msg)


def check_finite(**named: float) -> None:
    """Refuse infinities and what is not a number."""
    for name, value in named.items():
        if not math.isfinite(value):
            msg = f"`{name}` must be finite, but is {value!r}"
            raise ValueError(msg)


def check_claim(p_hat: float, complexity: float, n: int) -> None:
    """Refuse what cannot be an empirical mean, a complexity and a number of rows."""
    check_unit("p_hat", p_hat)
    check_price(complexity)
    check_rows(n)


def check_price(complexity: float) -> None:
    """Refuse a complexity that is negative or not a number."""
    check_size(complexity=complexity)


def ln_inverse_upper(delta: float | Fraction) -> float:
    """Return ln(1/delta), rounded up, for a delta in (0, 1] given exactly or as a float."""
    if not 0 < delta <= 1:
        msg = f"`delta` must lie in (0, 1], but is {delta!r}"
        raise ValueError(msg)
    share = Fraction(delta)
    if 2 * share > 1:  # two logarithms would cancel
        return 0.0 if share == 1 else round_up(-math.log1p(-float(1 - share)))
    large, small = math.log(share.denominator), math.log(share.numerator)
    return round_up(large - small, large + small)
