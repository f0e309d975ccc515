"""Laws that the inequalities keep: order, slopes, best parameters, grids."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from pacvote import concentration as c

often = settings(max_examples=200, deadline=None)
units = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]))
prices = st.floats(-2, 3).map(lambda x: 10.0**x)
rows = st.floats(0.31, 8).map(lambda x: int(10.0**x))
deltas = st.floats(1e-9, 0.5)
pairs = st.tuples(units, units).map(sorted)
price_pairs = st.tuples(prices, prices).map(sorted)
ROUNDING = 1e-12  # two values, each rounded outward, may cross by this much


def mixed(function, p_hat, price, n):
    return function(p_hat, price, n, c.mixture_slopes(n, 0.05))


UPPERS = {
    "kl": c.pac_bayes_kl_upper,
    "mixture": lambda *a: mixed(c.mixture_upper, *a),
    "lambda": lambda *a: c.lambda_upper(*a, 0.7),
    "lambda at its best": lambda *a: c.lambda_upper(*a, c.lambda_best(*a)),
    "split kl": lambda p, price, n: c.split_kl_upper([0.0, 1.0], [p], price, n),
    "Bennett": lambda p, price, n: c.bennett_upper(p, 0.2, price, n, 0.7, 1.0),
    "Bernstein": lambda p, price, n: c.bernstein_upper(p, 0.2, price, n, 0.7, 1.0),
    "variance": lambda p, price, n: c.variance_upper(p, price, n, 0.7 * (n - 1) / n, 1.0),
}
LOWERS = {
    "kl": c.pac_bayes_kl_lower,
    "mixture": lambda *a: mixed(c.mixture_lower, *a),
    "lambda": lambda *a: c.lambda_lower(*a, 0.7),
    "lambda at its best": lambda *a: c.lambda_lower(*a, c.lambda_lower_best(*a)),
}
by_upper = pytest.mark.parametrize("upper", UPPERS.values(), ids=UPPERS)
by_lower = pytest.mark.parametrize("lower", LOWERS.values(), ids=LOWERS)


# ---------------------------------------------------------------- order


def at_most(a, b):
    return a <= b + ROUNDING * (1 + abs(b))


@by_upper
@settings(max_examples=60, deadline=None)
@given(pairs, price_pairs, rows)
def test_uppers_rise_with_p_hat_and_price(upper, p, price, n):
    n = max(n, 2)
    assert at_most(upper(p[0], price[0], n), upper(p[1], price[0], n))
    assert at_most(upper(p[0], price[0], n), upper(p[0], price[1], n))
    assert upper(p[0], price[0], n) >= p[0]


@by_lower
@settings(max_examples=60, deadline=None)
@given(pairs, price_pairs, rows)
def test_lowers_rise_with_p_hat_and_fall_with_price(lower, p, price, n):
    assert at_most(lower(p[0], price[0], n), lower(p[1], price[0], n))
    assert at_most(lower(p[0], price[1], n), lower(p[0], price[0], n))
    assert 0 <= lower(p[0], price[0], n) <= p[0]


@pytest.mark.parametrize("name", ["kl", "lambda", "lambda at its best"])
@settings(max_examples=60, deadline=None)
@given(units, prices, rows, st.integers(1, 10**6))
def test_more_rows_are_better(name, p, price, n, more):
    assert at_most(UPPERS[name](p, price, n + more), UPPERS[name](p, price, n))
    assert at_most(LOWERS[name](p, price, n), LOWERS[name](p, price, n + more))


@often
@given(units, prices, rows, st.integers(1, 10**6))
def test_more_rows_are_better_for_a_mixture_of_the_same_slopes(p, price, n, more):
    slopes = c.mixture_slopes(n, 0.05)
    few, many = (c.mixture_upper(p, price, size, slopes) for size in (n, n + more))
    assert at_most(many, few)
    few, many = (c.mixture_lower(p, price, size, slopes) for size in (n, n + more))
    assert at_most(few, many)


@often
@given(st.integers(1, 10**8))
def test_ln_xi_rises_and_stays_below_the_papers(n):
    assert c.ln_xi(n) <= c.ln_xi(n + 1) + 1e-14
    assert 0.5 * math.log(n) <= c.ln_xi(n)
    assert c.ln_xi(n) <= c.ln_xi_paper(n) + (2e-3 if n == 1 else 0)
    assert c.ln_xi(n) / n >= c.ln_xi(n + 1) / (n + 1)  # what the smallest size rests on


@often
@given(st.integers(2, 10**5), units, st.tuples(deltas, deltas).map(sorted))
def test_binomial_bounds_are_ordered(n, share, delta):
    k = min(n - 1, int(share * n))
    small, large = (c.binomial_upper(n, k, d) for d in delta)
    assert at_most(large, small)
    assert k / n <= large
    assert c.binomial_upper(n, k, delta[1]) <= c.binomial_upper(n, k + 1, delta[1]) + ROUNDING
    assert c.binomial_lower(n, k, delta[1]) <= k / n
    assert at_most(c.binomial_lower(n, k, delta[0]), c.binomial_lower(n, k, delta[1]))
    assert c.binomial_lower(n, k, delta[1]) <= c.binomial_lower(n, k + 1, delta[1]) + ROUNDING


@pytest.mark.parametrize("p_hat", [0.0, 0.1, 0.5])
def test_an_exact_binomial_bound_is_below_kl_and_mixture(p_hat):
    for n in (20, 200, 2000):
        price = c.ln_inverse_upper(0.05)
        exact = c.binomial_upper(n, round(p_hat * n), 0.05)
        chernoff = c.kl_upper(p_hat, price / n)
        assert at_most(exact, chernoff)
        assert chernoff <= mixed(c.mixture_upper, p_hat, price, n)


# ---------------------------------------------------------------- mixture against kl


SIZES = [50, 200, 1000, 10**4, 10**5, 10**6, 10**7]


def mixture_and_kl(side, p_hat, divergence, n, delta):
    price = divergence + c.ln_inverse_upper(delta)
    mixture = c.mixture_upper if side == "upper" else c.mixture_lower
    kl = c.pac_bayes_kl_upper if side == "upper" else c.pac_bayes_kl_lower
    return mixture(p_hat, price, n, c.mixture_slopes(n, delta)), kl(p_hat, price + c.ln_xi(n), n)


@pytest.mark.parametrize("delta", [0.05, 0.01, 0.0025], ids="delta={}".format)
@pytest.mark.parametrize("n", SIZES, ids="n={}".format)
def test_the_mixture_is_at_or_below_kl_wherever_that_is_below_99_percent(n, delta):
    for p_hat in (0.0, 1e-4, 0.003, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.93, 0.98, 0.999):
        for divergence in (0.0, 0.3, 1.0, 3.0, 6.0, 12.0):
            mixture, kl = mixture_and_kl("upper", p_hat, divergence, n, delta)
            assert mixture <= kl * (1 if kl < 0.99 else 1.0007)


@pytest.mark.parametrize("delta", [0.05, 0.01, 0.0025], ids="delta={}".format)
@pytest.mark.parametrize("n", SIZES, ids="n={}".format)
def test_the_lower_mixture_is_at_or_above_kl_but_near_zero(n, delta):
    for p_hat in (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95):
        for divergence in (0.0, 0.3, 1.0, 3.0, 6.0, 12.0):
            mixture, kl = mixture_and_kl("lower", p_hat, divergence, n, delta)
            assert mixture >= kl or kl <= 0.3 * p_hat


# ---------------------------------------------------------------- slopes


def kl_inverse_50(q, budget, start):
    """The inverse of kl to 50 digits, from a float next to it."""

    def gap(p):
        return q * mpmath.log(q / p) + (1 - q) * mpmath.log((1 - q) / (1 - p)) - budget

    return bracketed(gap, start)


def bracketed(function, start):
    """The root next to a float in (0, 1), by bisection."""
    width = mpmath.mpf(min(start, 1 - start)) / 10**4
    low, high = start - width, start + width
    rising = function(high) > 0
    assert (function(low) > 0) != rising
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (low, middle) if (function(middle) > 0) == rising else (middle, high)
    return low


def central(function, x):
    """The derivative of a 50-digit function."""
    step = mpmath.mpf(10) ** -15 * x
    return float((function(x + step) - function(x - step)) / (2 * step))


@pytest.mark.parametrize("inverse", [c.kl_upper, c.kl_lower])
@pytest.mark.parametrize("q", [1e-6, 0.03, 0.4, 0.97])
@pytest.mark.parametrize("budget", [1e-4, 0.02, 0.5])
def test_kl_inverse_slopes(inverse, q, budget):
    p = inverse(q, budget)
    if p == 0:
        assert c.kl_inverse_slopes(q, p) == (0, 0)
        return
    with mpmath.workdps(50):
        by_q = central(lambda x: kl_inverse_50(x, mpmath.mpf(budget), p), mpmath.mpf(q))
        by_budget = central(lambda b: kl_inverse_50(mpmath.mpf(q), b, p), mpmath.mpf(budget))
    assert c.kl_inverse_slopes(q, p) == pytest.approx((by_q, by_budget), rel=1e-9)


def mixture_50(p, p_hat, n, slopes, side):
    sign = -1 if side == "upper" else 1
    weights = [min(1, mpmath.mpf(1.5) / mpmath.mpf(s)) for s in slopes]
    terms = [
        w * mpmath.exp(n * (sign * s * p_hat - mpmath.log1p(mpmath.expm1(sign * s) * p)))
        for w, s in zip(weights, map(mpmath.mpf, slopes), strict=True)
    ]
    return mpmath.log(sum(terms) / sum(weights))


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("n", [30, 1000])
@pytest.mark.parametrize("p_hat", [0.05, 0.4, 0.8])
def test_mixture_slopes_of_the_bound(side, n, p_hat):
    bound = c.mixture_upper if side == "upper" else c.mixture_lower
    given_slopes = c.mixture_upper_slopes if side == "upper" else c.mixture_lower_slopes
    grid, price = c.mixture_slopes(n, 0.05), 3.5
    p = bound(p_hat, price, n, grid)
    if p == 0:
        assert given_slopes(p, p_hat, n, grid) == (0, 0)
        return
    nodes = [float(s) for s in grid]

    def inverse(x, nats):
        return bracketed(lambda t: mixture_50(t, x, n, nodes, side) - nats, p)

    with mpmath.workdps(50):
        by_hat = central(lambda x: inverse(x, mpmath.mpf(price)), mpmath.mpf(p_hat))
        by_price = central(lambda x: inverse(mpmath.mpf(p_hat), x), mpmath.mpf(price))
    assert given_slopes(p, p_hat, n, grid) == pytest.approx((by_hat, by_price), rel=1e-9)


def test_slopes_at_the_ends_are_zero():
    grid = c.mixture_slopes(100, 0.05)
    assert c.mixture_upper_slopes(1.0, 0.9, 100, grid) == (0, 0)
    assert c.mixture_lower_slopes(0.0, 0.1, 100, grid) == (0, 0)
    assert c.kl_inverse_slopes(0.5, 1.0) == (0, 0)
    assert c.kl_inverse_slopes(0.5, 0.0) == (0, 0)
    assert all(map(math.isfinite, c.kl_inverse_slopes(0.0, 0.1)))
    assert all(map(math.isfinite, c.kl_inverse_slopes(1.0, 0.9)))


# ---------------------------------------------------------------- best parameters


def beats_its_neighbours(value, best):
    """Lower at ``best`` than a percent to either side, and no flat function."""
    around = [value(best * factor) for factor in (0.9, 0.99, 1.01, 1.1)]
    here = value(best)
    return here <= min(around[1:3]) and here < min(around[0], around[3])


hats = st.floats(0.001, 0.4)
costs = st.floats(2, 30)
many = st.integers(100, 10**6)


@often
@given(hats, costs, many)
def test_lambda_best(p_hat, price, n):
    best = c.lambda_best(p_hat, price, n)
    assert 0 < best < 2
    assume(c.lambda_upper(p_hat, price, n, best) < 0.9)
    assert beats_its_neighbours(lambda x: c.lambda_upper(p_hat, price, n, x), best)
    root = math.sqrt(2 * n * p_hat / price + 1)
    assert best == pytest.approx(2 / (root + 1), rel=1e-14)


@often
@given(hats, costs, many)
def test_lambda_lower_best(p_hat, price, n):
    best = c.lambda_lower_best(p_hat, price, n)
    assume(c.lambda_lower(p_hat, price, n, best) > 0.01 * p_hat)
    assert beats_its_neighbours(lambda x: -c.lambda_lower(p_hat, price, n, x), best)
    assert c.lambda_lower(p_hat, price, n, best) == pytest.approx(
        p_hat - math.sqrt(2 * p_hat * price / n), abs=1e-12
    )


@often
@given(st.floats(1e-4, 0.25), costs, many, st.floats(0.2, 3))
def test_bennett_gamma_and_variance_lambda(variance, price, n, length):
    scaled = variance * length**2
    gamma = c.bennett_gamma(scaled, price, n, length)
    assert beats_its_neighbours(lambda x: c.bennett_upper(0.1, scaled, price, n, x, length), gamma)
    lam = c.variance_lambda(scaled, price, n, length)
    assert 0 < lam < 2 * (n - 1) / n
    values = [c.variance_upper(scaled, price, n, lam * f, length) for f in (0.99, 1, 1.005)]
    assert values[1] <= min(values)


@pytest.mark.parametrize("target", [0.01, 0.3, 1.0, 2.0, 50.0, 1e6, 1e100], ids="{:g}".format)
def test_bennett_gamma_is_the_papers_lambert_w(target):
    closed = 1 + lambertw((target - 1) / math.e).real
    assert c.bennett_gamma(1.0, target, 1, 1.0) == pytest.approx(closed, rel=1e-12)
    assert c.bennett_gamma(0.3, 0.3 * target, 1, 1.0) == pytest.approx(closed, rel=1e-12)
    assert c.bennett_gamma(4.0, target, 1, 2.0) == pytest.approx(closed / 2, rel=1e-12)


@pytest.mark.parametrize("target", [1e-3, 1e-6, 1e-9, 1e-12, 1e-16, 1e-30], ids="{:g}".format)
def test_bennett_gamma_keeps_its_digits_next_to_the_branch_point(target):
    with mpmath.workdps(60):
        closed = 1 + mpmath.lambertw((mpmath.mpf(target) - 1) / mpmath.e).real
        assert abs(c.bennett_gamma(1.0, target, 1, 1.0) / closed - 1) < 1e-14


def test_scipys_lambert_w_would_have_lost_them():
    assert abs((1 + lambertw((1e-12 - 1) / math.e).real) / math.sqrt(2e-12) - 1) > 1e-7


def test_no_variance_costs_only_the_price():
    gamma = c.bennett_gamma(0.0, 3.0, 1000, 1.0)
    assert 0.1 < c.bennett_upper(0.1, 0.0, 3.0, 1000, gamma, 1.0) < 0.10001


@often
@given(st.floats(0.01, 0.49), st.floats(0.01, 0.99), st.floats(0.5, 0.8))
def test_chebyshev_cantelli_mu(first, share, threshold):
    second = first**2 + share * (first - first**2)  # any Z in [0, 1] with that mean
    mu = c.chebyshev_cantelli_mu(second, first, threshold)
    variance = second - first**2
    assert mu == pytest.approx(first - variance / (threshold - first), abs=1e-9)
    here = c.chebyshev_cantelli(second, first, mu, threshold)
    for other in (mu - 0.05, mu - 1e-3, mu + 0.3 * (threshold - mu)):
        assert here <= c.chebyshev_cantelli(second, first, other, threshold) + 1e-12


# ---------------------------------------------------------------- grids


@pytest.mark.parametrize("ratio", [1.05, 1.3])
@pytest.mark.parametrize("delta", [0.05, 0.025, Fraction(1, 40)], ids=str)
@pytest.mark.parametrize("n", [2, 10, 500, 10**5, 10**9])
def test_the_papers_grid_of_lambda(n, delta, ratio):
    grid = c.variance_lambda_grid(n, delta, ratio)
    root = math.sqrt((n - 1) / math.log(1 / float(delta)) + 1)
    assert len(grid) == math.ceil(math.log(0.5 * root + 0.5) / math.log(ratio))
    assert grid[0] == pytest.approx(2 * (n - 1) / n / (root + 1), rel=1e-12)
    assert grid[1:] / grid[:-1] == pytest.approx(ratio, rel=1e-12)
    assert grid[-1] < 2 * (n - 1) / n
    # from the best lambda at the largest variance to the best at none
    assert grid[0] <= c.variance_lambda(0.25, math.log(1 / float(delta)), n, 1.0)
    assert grid[-1] * ratio >= (n - 1) / n * (1 - 1e-12)


@pytest.mark.parametrize("ratio", [1.05, 1.3])
@pytest.mark.parametrize("deltas", [(0.05, 0.05), (0.025, 0.01)], ids=str)
@pytest.mark.parametrize("n", [2, 10, 500, 10**5, 10**9])
def test_the_papers_grid_of_gamma(n, deltas, ratio):
    grid = c.gamma_grid(n, *deltas, ratio)
    nats_variance, nats_mean = (math.log(1 / delta) for delta in deltas)
    with mpmath.workdps(40):
        least = 1 + mpmath.lambertw((4 * nats_mean / mpmath.mpf(n) - 1) / mpmath.e).real
        alpha = 1 / (1 + (n - 1) / (2 * mpmath.mpf(nats_variance)))
        most = -mpmath.lambertw(-alpha * mpmath.exp(-alpha), -1).real - alpha
        count = max(1, math.ceil(mpmath.log(most / least) / mpmath.log(ratio)))
    assert grid[0] == pytest.approx(float(least), rel=1e-12)
    assert len(grid) == count
    assert grid[1:] / grid[:-1] == pytest.approx(ratio, rel=1e-12)


def test_grids_exist_where_nothing_is_claimed():
    assert np.all(c.variance_lambda_grid(100, 1.0) > 0)
    assert np.all(c.gamma_grid(100, 1.0, 1.0) > 0)
    assert np.all(c.mixture_slopes(100, 1.0) > 0)


@pytest.mark.parametrize("n", [1, 50, 10**7])
def test_mixture_weights_are_a_distribution_that_falls(n):
    slopes = c.mixture_slopes(n, 0.05)
    weights = c.mixture_weights(slopes)
    assert weights.sum() == pytest.approx(1, abs=1e-15)
    assert np.all(np.diff(weights) <= 0)
    assert np.all(weights > 0)


# ---------------------------------------------------------------- between the inequalities


@often
@given(st.floats(-1, 1), st.floats(0, 1), costs, many, st.floats(1e-3, 1), st.floats(0.2, 3))
def test_bennett_is_at_or_below_bernstein(mean, variance, price, n, tilt, length):
    gamma = tilt / length
    bennett = c.bennett_upper(mean, variance, price, n, gamma, length)
    assert at_most(bennett, c.bernstein_upper(mean, variance, price, n, gamma, length))


@often
@given(units, prices, rows)
def test_lambda_is_a_relaxation_of_kl(p_hat, price, n):
    lam, gamma = c.lambda_best(p_hat, price, n), c.lambda_lower_best(p_hat, price, n)
    assert at_most(c.pac_bayes_kl_upper(p_hat, price, n), c.lambda_upper(p_hat, price, n, lam))
    lower = c.pac_bayes_kl_lower(p_hat, price, n)
    assert at_most(c.lambda_lower(p_hat, price, n, gamma), lower)


@often
@given(units, prices, rows)
def test_split_kl_of_a_01_loss_is_kl(p_hat, price, n):
    split = c.split_kl_upper([0.0, 1.0], [p_hat], price, n)
    assert split == pytest.approx(c.pac_bayes_kl_upper(p_hat, price, n), abs=1e-13)


@often
@given(st.floats(0.01, 0.49), st.floats(0, 1))
def test_oracle_bounds(gibbs, share):
    tandem = gibbs**2 + share * (gibbs - gibbs**2)
    c_bound = c.c_bound_oracle(gibbs, tandem)
    assert c_bound <= c.tandem_oracle(tandem) + ROUNDING
    assert (c.first_order_oracle(gibbs) <= c.tandem_oracle(tandem)) == (tandem >= gibbs / 2)
    mu = c.chebyshev_cantelli_mu(tandem, gibbs)
    assert c.chebyshev_cantelli(tandem, gibbs, mu) == pytest.approx(c_bound, abs=1e-9)
    assert c.chebyshev_cantelli(tandem, gibbs, 0.0) == pytest.approx(4 * tandem, abs=1e-14)


@pytest.mark.parametrize("gibbs", [0.01, 0.2, 0.3, 0.45])
def test_mu_is_zero_where_the_tandem_loss_is_half_the_gibbs_loss(gibbs):
    assert c.chebyshev_cantelli_mu(gibbs / 2, gibbs) == 0
    assert c.chebyshev_cantelli_mu(gibbs / 2 + 1e-3, gibbs) < 0
    assert c.chebyshev_cantelli_mu(gibbs / 2 - 1e-3, gibbs) > 0


def test_chebyshev_cantelli_grows_without_limit_next_to_the_threshold():
    values = [c.chebyshev_cantelli(0.2, 0.3, 0.5 - gap) for gap in (1e-2, 1e-6, 1e-12, 2.0**-54)]
    assert values == sorted(values)
    assert values[-1] > 1e30
