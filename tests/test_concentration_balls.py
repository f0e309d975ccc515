"""Ball arithmetic confirms the side, and the tightness, of whatever Hypothesis can find."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from exact import (
    ball,
    binomial_tail,
    kl_ball,
    mixture_ball,
    phi_ball,
    xi_exact,
    xi_ramanujan,
)
from pacvote import concentration as c

FINE = 2600  # bits: enough for 1 - p at the least denormal, and for differences of such
UNDERFLOW = 1e-313  # what rounding adds for results too small for full precision
LEAST = 1e-297  # below this an inverse may be taken for zero

often = settings(max_examples=2 * settings.default.max_examples, deadline=None)


@pytest.fixture(autouse=True)
def fine_balls():
    with ctx.workprec(FINE):
        yield


def spread(low, high):
    """Floats from 10^low to 10^high, evenly by their logarithm."""
    return st.floats(low, high).map(lambda x: 10.0**x)


edges = st.sampled_from([0.0, 5e-324, 1e-310, 1e-300, 1e-17, 0.5, 1 - 1e-9, 1 - 2.0**-53, 1.0])
units = st.one_of(st.floats(0, 1), edges, spread(-320, 0), spread(-16, -1).map(lambda x: 1 - x))
budgets = st.one_of(spread(-300, 3), spread(-4, 1), st.sampled_from([0.0, 5e-324, 1e300]))
prices = st.one_of(spread(-2, 4), spread(-300, 9))
rows = st.one_of(st.integers(1, 300), spread(0, 9).map(int))
shares = st.one_of(spread(-300, 0), st.floats(1e-3, 0.5))
exact_shares = st.one_of(
    shares,
    st.builds(lambda x, d: Fraction(x) / d, shares, st.integers(1, 10**400)),
    st.builds(lambda a, b: Fraction(min(a, b), max(a, b)), *[st.integers(1, 10**300)] * 2),
)


def inside(value, towards, relative, absolute=0.0):
    """A fraction a little nearer to ``towards``: what a tight bound has already passed."""
    value, towards = Fraction(value), Fraction(towards)
    step = Fraction(relative) * value + Fraction(absolute)
    return max(towards, value - step) if value > towards else min(towards, value + step)


# ---------------------------------------------------------------- kl and its inverses


@often
@given(units, budgets)
@example(0.0, 1e-300)
@example(0.5, 40.0)
def test_kl_upper(q, budget):
    upper = c.kl_upper(q, budget)
    assert q <= upper <= 1
    assert upper == 1 or kl_ball(q, upper) >= ball(budget)
    inner = inside(upper, q, 1e-12, LEAST)
    assert inner == Fraction(q) or kl_ball(q, inner) <= ball(budget) + ball(LEAST)


@often
@given(units, budgets)
@example(1.0, 1e-300)
@example(0.5, 300.0)
def test_kl_lower(q, budget):
    lower = c.kl_lower(q, budget)
    assert 0 <= lower <= q
    assert lower == 0 or kl_ball(q, lower) >= ball(budget)
    inner = inside(lower, q, 1e-10, LEAST)
    assert inner == Fraction(q) or kl_ball(q, inner) <= ball(budget) + ball(LEAST)


@often
@given(units, units)
def test_kl_is_right_to_ten_digits_of_its_larger_term(q, p):
    value = c.kl(q, p)
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        assert value == math.inf
    elif q == p:
        assert value == 0
    else:
        size = ball(abs(q - p) + 1e-290) + kl_ball(q, p)
        assert abs(ball(value) - kl_ball(q, p)) <= size * ball(1e-13)


@often
@given(units, prices, rows)
def test_pac_bayes_kl(p_hat, price, n):
    upper, lower = c.pac_bayes_kl_upper(p_hat, price, n), c.pac_bayes_kl_lower(p_hat, price, n)
    exact = ball(Fraction(price) / n)
    assert upper == 1 or kl_ball(p_hat, upper) >= exact
    assert lower == 0 or kl_ball(p_hat, lower) >= exact
    for value, relative in ((upper, 1e-12), (lower, 1e-10)):
        inner = inside(value, p_hat, relative, LEAST)
        assert inner == Fraction(p_hat) or kl_ball(p_hat, inner) <= exact + ball(LEAST)


@often
@given(st.lists(units, min_size=1, max_size=4), prices, rows, st.floats(-3, 1), st.data())
def test_split_kl(exceed, price, n, start, data):
    steps = data.draw(st.lists(spread(-6, 2), min_size=len(exceed), max_size=len(exceed)))
    values = np.concatenate([[start], start + np.cumsum(steps)]).tolist()
    assume(all(a < b for a, b in itertools.pairwise(values)))
    uppers = [Fraction(c.pac_bayes_kl_upper(q, price, n)) for q in exceed]
    widths = [Fraction(b) - Fraction(a) for a, b in itertools.pairwise(values)]
    exact = Fraction(values[0]) + sum(w * u for w, u in zip(widths, uppers, strict=True))
    value = Fraction(c.split_kl_upper(values, exceed, price, n))
    assert exact <= value <= exact + Fraction(1e-11) * (1 + sum(map(abs, map(Fraction, values))))


# ---------------------------------------------------------------- mixtures


slope_lists = st.lists(spread(-3, 1.2), min_size=1, max_size=6).map(np.array)


@often
@given(units, prices, rows, slope_lists)
@example(0.0, 9.21530363153846, 1, np.array([12.0]))  # x rounds, and 1 - x is e^-C
@example(0.0, 24684.170136481374, 1000, np.array([25.0]))
def test_mixture_upper_at_any_slopes(p_hat, price, n, slopes):
    check_mixture("upper", p_hat, price, n, slopes)


@often
@given(units, prices, rows, slope_lists)
def test_mixture_lower_at_any_slopes(p_hat, price, n, slopes):
    check_mixture("lower", p_hat, price, n, slopes)


@often
@given(units, prices, rows, shares, st.sampled_from(["upper", "lower"]))
def test_mixture_at_its_own_slopes(p_hat, price, n, delta, side):
    check_mixture(side, p_hat, price, n, c.mixture_slopes(n, delta))


def check_mixture(side, p_hat, price, n, slopes):
    function = c.mixture_upper if side == "upper" else c.mixture_lower
    value, limit = function(p_hat, price, n, slopes), (1.0 if side == "upper" else 0.0)
    with ctx.workprec(1200):
        left = mixture_ball(value, p_hat, n, slopes, side)
        assert value == limit or left >= ball(price)
        inner = inside(value, p_hat, 1e-10, 1e-9 / n)
        assert inner == Fraction(p_hat) or mixture_ball(
            ball(inner), p_hat, n, slopes, side
        ) <= ball(price)


@often
@given(rows, exact_shares)
def test_mixture_slopes_are_few_and_short(n, delta):
    slopes = c.mixture_slopes(n, delta)
    assert np.all(np.diff(slopes) > 0)
    assert slopes[-1] == c.LARGEST_SLOPE
    assert np.all(slopes[1:] / slopes[:-1] <= 1.6 * (1 + 2.0**-10))
    mantissas = np.frexp(slopes)[0] * 4096
    assert np.array_equal(mantissas, np.round(mantissas))
    least = min(1.0, math.sqrt(8 * c.ln_inverse_upper(delta) / n))
    assert least == 0 or abs(slopes[0] / least - 1) <= 2.0**-11


# ---------------------------------------------------------------- logarithms


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 1000, 3000], ids="n={}".format)
def test_ln_xi_against_the_sum(n):
    exact = ball(xi_exact(n)).log() if n <= 1000 else xi_by_balls(n).log()
    tolerance = 2e-7 if n >= 50 else 2e-3
    assert exact <= ball(c.ln_xi(n)) <= exact + ball(tolerance)


def xi_by_balls(n):
    """1 + Q(n), Q(n) = 1 + (n-1)/n + (n-1)(n-2)/n^2 + ..."""
    total = term = arb(1)
    for j in range(1, n):
        term = term * (n - j) / n
        total += term
    return 1 + total


@often
@given(st.integers(1, 10**9))
@example(10**9)
def test_ln_xi_against_the_bounds_on_ramanujans_q(n):
    with ctx.workprec(200):
        above, below = (
            xi_ramanujan(n, Fraction(8, 45)).log(),
            xi_ramanujan(n, Fraction(2, 21)).log(),
        )
        value = ball(c.ln_xi(n))
        assert above <= value <= below + ball(2e-7 if n >= 50 else 4e-3)


@often
@given(st.integers(1, 10**18))
def test_ln_xi_paper(n):
    with ctx.workprec(200):
        exact = (2 * arb(n).sqrt()).log()
        assert exact <= ball(c.ln_xi_paper(n)) <= exact * (1 + ball(1e-14))


@often
@given(exact_shares)
@example(1.0)
@example(1 - 2.0**-53)
@example(5e-324)
@example(Fraction(10**3000 - 1, 10**3000))
def test_ln_inverse_upper(delta):
    share = Fraction(delta)
    exact = -ball(share).log()
    value = ball(c.ln_inverse_upper(delta))
    size = 1 + math.log(share.denominator) + math.log(share.numerator)
    assert exact <= value <= exact + ball(1e-14 * size)


# ---------------------------------------------------------------- the binomial tail


many_rows = st.one_of(st.integers(1, 400), spread(0, 7).map(int))


@settings(max_examples=120, deadline=None)
@given(many_rows, st.floats(0, 1), st.one_of(spread(-300, -0.5), st.floats(1e-3, 0.3)))
@example(10**7, 0.5, 1e-300)
@example(10**7, 0.0, 1e-300)
@example(10**7, 1e-6, 0.05)
def test_binomial_bounds(n, share, delta):
    k = min(n - 1, round(share * n))
    with ctx.workprec(500):
        upper = c.binomial_upper(n, k, delta)
        # lgamma(n) is rounded at its own size; ln P falls by (n p - k) for each relative step of p
        tolerance = 1e-12 + 5e-13 * n / max(0.5, n * upper - k)
        assert upper == 1 or binomial_tail(n, k, ball(upper)) <= ball(delta)
        inner = ball(upper) * (1 - ball(tolerance))
        assert binomial_tail(n, k, inner) >= ball(delta)
        lower = c.binomial_lower(n, n - k, delta)  # P(Bin(n, p) >= n - k) = P(Bin(n, 1 - p) <= k)
        assert lower == 0 or binomial_tail(n, k, 1 - ball(lower)) <= ball(delta)
        outer = (1 - ball(lower)) * (1 - ball(tolerance)) - ball(1e-14)
        assert binomial_tail(n, k, outer) >= ball(delta)


@often
@given(st.integers(1, 50), st.integers(0, 50), exact_shares)
def test_binomial_upper_at_exact_shares(n, k, delta):
    assume(k < n)
    upper = c.binomial_upper(n, k, delta)
    assert upper == 1 or binomial_tail(n, k, ball(upper)) <= ball(delta)


# ---------------------------------------------------------------- lambda, Bennett, variance


@often
@given(units, prices, rows, st.one_of(st.floats(1e-9, 2, exclude_max=True), spread(-8, 0)))
@example(0.3, 2.0, 100, math.nextafter(2.0, 0.0))
def test_lambda_upper(p_hat, price, n, lam):
    half = 1 - Fraction(lam) / 2
    exact = Fraction(p_hat) / half + Fraction(price) / (Fraction(lam) * half * n)
    value = Fraction(c.lambda_upper(p_hat, price, n, lam))
    assert min(1, exact) <= value <= exact * (1 + Fraction(1e-14)) + Fraction(UNDERFLOW)


@often
@given(units, prices, rows, spread(-9, 9))
def test_lambda_lower(p_hat, price, n, gamma):
    charge = Fraction(price) / (Fraction(gamma) * n)
    exact = (1 - Fraction(gamma) / 2) * Fraction(p_hat) - charge
    size = (1 + Fraction(gamma)) * Fraction(p_hat) + charge
    value = Fraction(c.lambda_lower(p_hat, price, n, gamma))
    assert exact - Fraction(1e-14) * size - Fraction(UNDERFLOW) <= value <= max(0, exact)


@often
@given(st.one_of(st.floats(-700, 700), spread(-150, 0), spread(-150, 0).map(float.__neg__)))
def test_phi(x):
    exact = phi_ball(ball(x))
    assert abs(ball(c.phi(x)) - exact) <= exact * ball(1e-14) + ball(UNDERFLOW)


means = st.floats(-2, 4)
variances = st.one_of(st.just(0.0), st.floats(0, 1), spread(-320, 2))
lengths = spread(-2, 2)


@often
@given(means, variances, prices, rows, spread(-6, 2.8), lengths)
@example(0.1, 1e-26, 1.0, 100, 179.46221904813638, 1.6893976347274402)
def test_bennett_upper(mean, variance, price, n, tilt, length):
    gamma = tilt / length
    g, width = ball(gamma), ball(length)
    charge = ball(price) / (g * n)
    rise = phi_ball(g * width) / (g * width**2) * ball(variance)
    value = ball(c.bennett_upper(mean, variance, price, n, gamma, length))
    size = abs(ball(mean)) + rise * (1 + g * width) + charge
    exact = ball(mean) + rise + charge
    assert exact <= value <= exact + size * ball(2e-14) + ball(UNDERFLOW)


@often
@given(means, variances, prices, rows, st.one_of(st.just(1.0), st.floats(1e-6, 1)), lengths)
def test_bernstein_upper(mean, variance, price, n, tilt, length):
    gamma = tilt / length
    charge = ball(price) / (ball(gamma) * n)
    rise = (arb(1).exp() - 2) * ball(gamma) * ball(variance)
    value = ball(c.bernstein_upper(mean, variance, price, n, gamma, length))
    exact = ball(mean) + rise + charge
    size = abs(ball(mean)) + rise + charge
    assert exact <= value <= exact + size * ball(2e-14) + ball(UNDERFLOW)


@often
@given(variances, prices, st.integers(2, 10**9), st.floats(1e-9, 1 - 1e-9), lengths)
@example(0.2, 3.0, 100, 1 - 1e-12, 1.0)
def test_variance_upper(hat, price, n, share, length):
    lam = share * 2 * (n - 1) / n
    keep = 1 - Fraction(lam) * n / (2 * (n - 1))
    assume(lam > 0 and keep > 1e-13)
    square = Fraction(length) ** 2
    exact = Fraction(hat) / keep + square * Fraction(price) / (n * Fraction(lam) * keep)
    value = Fraction(c.variance_upper(hat, price, n, lam, length))
    slack = Fraction(2e-14) * (1 + 1 / keep)
    assert min(exact, square / 4) <= value <= exact * (1 + slack) + Fraction(UNDERFLOW)


@often
@given(st.floats(0, 1), st.floats(0, 1), st.one_of(st.floats(-5, 0.5), spread(-16, 0)), st.data())
@example(0.25, 0.5, math.nextafter(0.5, 0.0), None)
@example(0.0, 0.375, 5e-324, None)
def test_chebyshev_cantelli(second, first, mu, data):
    threshold = 0.5 if data is None else data.draw(st.one_of(st.just(0.5), st.floats(0.4, 1)))
    assume(mu < threshold)
    gap = (Fraction(threshold) - Fraction(mu)) ** 2
    second_, first_, mu_ = map(Fraction, (second, first, mu))
    exact = (second_ - 2 * mu_ * first_ + mu_**2) / gap
    size = (second_ + 2 * abs(mu_) * first_ + mu_**2) / gap
    value = Fraction(c.chebyshev_cantelli(second, first, mu, threshold))
    assert exact <= value <= exact + Fraction(1e-14) * (size + Fraction(LEAST) / gap)


# ---------------------------------------------------------------- controls


@pytest.mark.parametrize("q", [0.0, 0.01, 0.3, 0.97])
def test_balls_tell_a_neighbour_on_the_wrong_side(q):
    wrong = c.kl_upper(q, 0.1) * (1 - 1e-13)
    assert not kl_ball(q, wrong) >= ball(0.1)
    slopes = c.mixture_slopes(100, 0.05)
    wrong = c.mixture_upper(q, 3.0, 100, slopes) * (1 - 1e-11)
    assert not mixture_ball(wrong, q, 100, slopes, "upper") >= ball(3.0)


def test_balls_tell_a_rounded_sum_from_an_exact_one():
    assert arb(fmpq(1, 10)) != ball(0.1)
    assert ball(0.1) + ball(0.2) < ball(0.1 + 0.2)
