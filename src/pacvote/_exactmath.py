"""Arithmetic to 60 digits for the claims of a certificate: slopes, binomial tails, duals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import ceil, factorial

DIGITS = 60
SERIES = 256  # from here on Stirling's series has all the digits
BERNOULLI = tuple(
    Fraction(*pair)
    for pair in (
        (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
        (43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730), (8553103, 6),
    )
)  # fmt: skip


def decimal(value: Fraction) -> Decimal:
    """Return a fraction to the digits of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


# ---------------------------------------------------------------- the mixture of slopes


@cache
def slope_table(n: int, share: Fraction, sign: int) -> list[tuple[Decimal, Decimal, Decimal]]:
    """Return each slope C, its weight, and e^(sign C)."""
    slopes = exact_slopes(n, share)
    masses = [min(Fraction(1), Fraction(3, 2) / c) for c in slopes]
    with localcontext(prec=DIGITS):
        return [
            (decimal(c), decimal(mass / sum(masses)), (sign * decimal(c)).exp())
            for c, mass in zip(slopes, masses, strict=True)
        ]


def exact_slopes(n: int, share: Fraction) -> list[Fraction]:
    """Return what `mixture_slopes` approximates in floats, whatever a machine's libm.

    No value but the ends 1 and 6 is rational, so none is a tie and all have one rounding.
    """
    with localcontext(prec=DIGITS):
        most = Decimal(6)
        least = min(Decimal(1), (8 * decimal(1 / share).ln() / n).sqrt())
        width = (most / least).ln()
        count = max(6, 1 + ceil(width / Decimal("1.6").ln()))
        return [
            _to_12_bits(most * (width * (i + 1 - count) / (count - 1)).exp()) for i in range(count)
        ]


def _to_12_bits(value: Decimal) -> Fraction:
    exact = Fraction(value)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent += exact >= Fraction(2) ** exponent  # 2^(exponent - 1) <= exact < 2^exponent
    unit = Fraction(2) ** (exponent - 12)
    return round(exact / unit) * unit


# ---------------------------------------------------------------- binomial tails


def ln_tail(n: int, k: int, p: Fraction) -> Decimal:
    """Return ln P(Bin(n, p) <= k), for a p above k / n."""
    with localcontext(prec=DIGITS):
        q, x = decimal(1 - p), decimal(p)
        term = total = Decimal(1)
        for i in range(k, 0, -1):
            term *= i * q / ((n - i + 1) * x)
            total += term
            if term < total * Decimal("1e-50"):
                break
        top = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
        top += k * x.ln() + ((n - k) * q.ln() if n > k else 0)
        return Decimal(top + total.ln())


def ln_factorial(n: int) -> Decimal:
    """Return ln n! to some 50 digits."""
    if n < SERIES:
        return Decimal(factorial(n)).ln()
    x = Decimal(n)
    series = sum(
        decimal(b / (2 * i * (2 * i - 1))) / x ** (2 * i - 1) for i, b in enumerate(BERNOULLI, 1)
    )
    return x * x.ln() - x + (2 * _pi() * x).ln() / 2 + series


@cache
def _pi() -> Decimal:
    """Return pi by Machin's formula."""
    with localcontext(prec=DIGITS + 10):
        return +(16 * _arctan_of_inverse(5) - 4 * _arctan_of_inverse(239))


def _arctan_of_inverse(n: int) -> Decimal:
    power, total, k = 1 / Decimal(n), Decimal(0), 0
    while power > Decimal("1e-75"):
        total += (-1) ** k * power / (2 * k + 1)
        power, k = power / (n * n), k + 1
    return total


# ---------------------------------------------------------------- equal tilts


def dual_value(
    sign: int,
    budget: Decimal,
    masses: Mapping[int, Fraction],
    multipliers: tuple[Decimal, Sequence[Decimal], Sequence[Decimal]],
) -> Decimal:
    """Return the limit that nu, shares tau and tilts K prove (see `pacvote.tilts`), not rounded."""
    nu, tau, tilts = multipliers
    value = sign * nu * budget
    for size, mass in masses.items():
        rises = [1 - (-sign * tilt / size).exp() for tilt in tilts]
        rates = list(zip([size * t for t in tau], rises, strict=True))
        value += decimal(mass) * _extreme(sign, nu, rates)
    return value


def _extreme(sign: int, nu: Decimal, rates: Sequence[tuple[Decimal, Decimal]]) -> Decimal:
    """Return the largest (least) L - nu U(L), bounded by the tangent at where it stands."""

    def slope(loss: Decimal) -> Decimal:
        parts = (rate * rise / (1 - rise * loss) for rate, rise in rates)
        return 1 - sign * nu * sum(parts, start=Decimal(0))

    low, high = Decimal(0), Decimal(1)
    if (slope(low) > 0) == (slope(high) > 0):
        loss = high if (slope(low) > 0) == (sign > 0) else low
    else:
        loss = _flat_point(sign, nu, rates)
    gains = sum((-rate * (1 - rise * loss).ln() for rate, rise in rates), start=Decimal(0))
    tangent = sign * slope(loss)
    return loss - sign * nu * gains + sign * max(tangent * (1 - loss), -tangent * loss)


def _flat_point(sign: int, nu: Decimal, rates: Sequence[tuple[Decimal, Decimal]]) -> Decimal:
    """Return where L - nu U(L) is flat: bisection in floats, then Newton's steps."""
    floats = [(float(rate), float(rise)) for rate, rise in rates]
    low, high, scale = 0.0, 1.0, sign * float(nu)
    for _ in range(54):
        middle = (low + high) / 2
        falls = scale * sum(rate * rise / (1 - rise * middle) for rate, rise in floats) > 1
        low, high = (low, middle) if falls == (sign > 0) else (middle, high)
    loss = Decimal((low + high) / 2)
    for _ in range(3):
        parts = [(rate, rise / (1 - rise * loss)) for rate, rise in rates]
        value = 1 - sign * nu * sum((rate * at for rate, at in parts), start=Decimal(0))
        curve = -sign * nu * sum((rate * at * at for rate, at in parts), start=Decimal(0))
        loss = min(Decimal(1), max(Decimal(0), loss - value / curve))
    return loss
