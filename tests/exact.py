"""Exact references for the tests: rationals, balls, and enumerations of every outcome."""

import itertools
from fractions import Fraction
from math import comb, factorial

import numpy as np
from flint import arb, fmpq
from scipy.special import gammaln, xlogy


def ball(number):
    """The number itself, a float taken as the dyadic rational that it is."""
    number = Fraction(number)
    return arb(fmpq(number.numerator, number.denominator))


# ---------------------------------------------------------------- inequalities, in balls


def kl_ball(q, p):
    """kl(q || p) for q and p as balls or numbers; infinite where it is."""
    q, p = (x if isinstance(x, arb) else ball(x) for x in (q, p))
    left = arb(0) if q == 0 else q * (q / p).log()
    right = arb(0) if q == 1 else (1 - q) * ((1 - q) / (1 - p)).log()
    return left + right


def mixture_ball(p, p_hat, n, slopes, side):
    """ln sum_j w_j exp(n phi_j), w_j in proportion to min(1, 1.5 / C_j): one side."""
    p, p_hat = (x if isinstance(x, arb) else ball(x) for x in (p, p_hat))
    sign, total, mass = (-1 if side == "upper" else 1), arb(0), Fraction(0)
    for slope in map(float, slopes):
        share = min(Fraction(1), Fraction(3, 2) / Fraction(slope))
        tilt = sign * ball(slope)
        total += ball(share) * (n * (tilt * p_hat - (1 + (tilt.exp() - 1) * p).log())).exp()
        mass += share
    return (total / ball(mass)).log()


def phi_ball(x):
    """e^x - x - 1."""
    return x.exp() - x - 1


def xi_exact(n):
    """sum_k C(n,k) (k/n)^k (1-k/n)^(n-k), as a fraction."""
    total = sum(comb(n, k) * k**k * (n - k) ** (n - k) for k in range(n + 1))
    return Fraction(total, n**n)


def xi_ramanujan(n, shift):
    """1 + Ramanujan's Q(n): above xi(n) at shift 8/45, below it at shift 2/21."""
    half = ((arb(n) + 1).lgamma() + n - n * arb(n).log()).exp() / 2
    return half + ball(Fraction(2, 3)) - 4 / (135 * (n + ball(shift)))


def binomial_tail(n, k, p):
    """P(Bin(n, p) <= k) as a ball."""
    return (1 - p).beta_lower(arb(n - k), arb(k + 1), regularized=True)


# ---------------------------------------------------------------- enumeration


def binomial_masses(n, risks):
    """P(Bin(n, p) = k), one row for each p."""
    k = np.arange(n + 1)
    log_choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    p = np.asarray(risks)[:, None]
    return np.exp(log_choose + xlogy(k, p) + xlogy(n - k, 1 - p))


def beside(values, count=401):
    """A grid of [0, 1] with each value and its neighbours on both sides."""
    values = np.asarray(values, dtype=float)
    near = [np.nextafter(values, -1), values, np.nextafter(values, 2)]
    return np.clip(np.concatenate([np.linspace(0, 1, count), *near]), 0, 1)


def compositions(total, parts):
    """All ways to write ``total`` as ``parts`` counts, one row each."""
    cuts = itertools.combinations(range(total + parts - 1), parts - 1)
    bars = np.array([(-1, *cut, total + parts - 1) for cut in cuts])
    return np.diff(bars, axis=1) - 1


def multinomial_masses(counts, chances):
    """P(counts) under each row of ``chances``."""
    log_ways = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    return np.exp(log_ways + xlogy(counts, chances[:, None, :]).sum(axis=2))


def simplex(steps, parts):
    """The points of the simplex whose entries are multiples of 1 / steps."""
    return compositions(steps, parts) / steps


def worst_failure(counts, chances, violated):
    """The largest P(violated) in exact fractions, over chances given as integers of one sum.

    Floats find the worst few of them; ``violated`` has a row for each, a column for each count.
    """
    total = int(chances[0].sum())
    found = (multinomial_masses(counts, chances / total) * violated).sum(axis=1)
    return max(
        sum(exact_mass(count, chances[i].tolist(), total) for count in counts[violated[i]].tolist())
        for i in np.argsort(found)[-5:]
    )


def exact_mass(count, chances, total):
    """P(counts) as a fraction."""
    ways = Fraction(factorial(sum(count)))
    for k, chance in zip(count, chances, strict=True):
        ways *= Fraction(chance**k, factorial(k))
    return ways / total ** sum(count)


def just_above(limits, scale=2**30):
    """Where failures are likeliest: right above each limit, in units of 1 / scale; and a grid."""
    near = np.ceil(np.asarray(limits) * scale).astype(np.int64) + 1
    grid = np.linspace(0, scale, 41).astype(np.int64)
    return np.unique(np.clip(np.concatenate([near, grid]), 0, scale))
