"""The true failure probability of each inequality, by enumeration of every outcome."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from exact import (
    ball,
    beside,
    binomial_masses,
    compositions,
    multinomial_masses,
    phi_ball,
    simplex,
    xi_exact,
)
from pacvote import concentration as c

DELTAS = [0.2, 0.05, 0.01]
SIZES = [1, 2, 3, 5, 8, 13, 20, 50, 100, 200]
MUS = [-0.4, 0.0, 0.2, 0.45]
MARGIN = 1e-12  # far above the rounding of the sums, far below any failure that matters

by_delta = pytest.mark.parametrize("delta", DELTAS, ids="delta={}".format)
by_size = pytest.mark.parametrize("n", SIZES, ids="n={}".format)
by_mu = pytest.mark.parametrize("mu", MUS, ids="mu={}".format)


def nats(delta, cut=1.0):
    """ln(1/delta); a cut below 1 makes a claim that must fail."""
    return cut * c.ln_inverse_upper(delta)


# ---------------------------------------------------------------- one voter, 0/1 loss


def kl_interval(ln_xi):
    def interval(k, n, delta, cut):
        price = cut * (c.ln_xi(n) if ln_xi == "exact" else c.ln_xi_paper(n)) + nats(delta, cut)
        return c.pac_bayes_kl_lower(k / n, price, n), c.pac_bayes_kl_upper(k / n, price, n)

    return interval


def mixture_upper(k, n, delta, cut):
    return 0.0, c.mixture_upper(k / n, nats(delta, cut), n, c.mixture_slopes(n, delta))


def mixture_lower(k, n, delta, cut):
    return c.mixture_lower(k / n, nats(delta, cut), n, c.mixture_slopes(n, delta)), 1.0


def lambda_fixed(lam, gamma):
    def interval(k, n, delta, cut):
        price = cut * c.ln_xi(n) + nats(delta, cut)
        return c.lambda_lower(k / n, price, n, gamma), c.lambda_upper(k / n, price, n, lam)

    return interval


def lambda_at_best(k, n, delta, cut):
    price = cut * c.ln_xi(n) + nats(delta, cut)
    lam, gamma = c.lambda_best(k / n, price, n), c.lambda_lower_best(k / n, price, n)
    return c.lambda_lower(k / n, price, n, gamma), c.lambda_upper(k / n, price, n, lam)


def binomial_upper(k, n, delta, cut):
    return 0.0, c.binomial_upper(n, k, delta**cut)


def binomial_lower(k, n, delta, cut):
    return c.binomial_lower(n, k, delta**cut), 1.0


INTERVALS = {
    "kl, ln xi, both sides at once": kl_interval("exact"),
    "kl, paper's ln xi, both sides at once": kl_interval("paper"),
    "mixture upper": mixture_upper,
    "mixture lower": mixture_lower,
    "lambda .1 and gamma .1 at once": lambda_fixed(0.1, 0.1),
    "lambda 1 and gamma 1 at once": lambda_fixed(1.0, 1.0),
    "lambda 1.9 and gamma 5 at once": lambda_fixed(1.9, 5.0),
    "lambda and gamma at their data-dependent best": lambda_at_best,
    "binomial upper": binomial_upper,
    "binomial lower": binomial_lower,
}
by_interval = pytest.mark.parametrize("interval", INTERVALS.values(), ids=INTERVALS)


def worst_failure(interval, n, delta, cut=1.0):
    """The largest probability, over all risks, that the risk lies outside its interval."""
    lower, upper = np.array([interval(k, n, delta, cut) for k in range(n + 1)]).T
    risks = beside([*lower, *upper])
    outside = (risks[:, None] < lower) | (risks[:, None] > upper)
    return (binomial_masses(n, risks) * outside).sum(axis=1).max()


@by_delta
@by_size
@by_interval
def test_an_interval_fails_with_probability_at_most_delta(interval, n, delta):
    # the binomial bounds are exact: their failure probability reaches delta
    assert worst_failure(interval, n, delta) <= delta + MARGIN * (n + 1)


@by_interval
def test_at_a_fraction_of_the_price_it_fails_more_often(interval):
    fixed = interval.__qualname__.startswith("lambda_fixed")  # far from its best at most k
    assert worst_failure(interval, 50, 0.05, cut=0.02 if fixed else 0.25) > 0.05


@by_delta
@pytest.mark.parametrize("n", [1, 2, 7, 40, 200], ids="n={}".format)
def test_binomial_bounds_in_exact_rationals(n, delta):
    for k in range(0, n, 1 + n // 20):
        upper = c.binomial_upper(n, k, delta)
        assert tail(n, k, Fraction(upper)) <= Fraction(delta)
        assert tail(n, k, Fraction(upper * (1 - 1e-11))) > Fraction(delta)
        lower = c.binomial_lower(n, n - k, delta)
        assert tail(n, k, 1 - Fraction(lower)) <= Fraction(delta)
        assert tail(n, k, 1 - Fraction(lower + 1e-11)) > Fraction(delta)


def tail(n, k, p):
    """P(Bin(n, p) <= k), exactly: one fraction with the denominator of p to the n."""
    top, bottom = p.numerator, p.denominator
    terms = (math.comb(n, j) * top**j * (bottom - top) ** (n - j) for j in range(k + 1))
    return Fraction(sum(terms), bottom**n)


# ---------------------------------------------------------------- the moments behind the claims


@pytest.mark.parametrize("n", [*range(1, 41), 77, 150, 300], ids="n={}".format)
def test_ln_xi_is_above_the_exact_sum_by_at_most_a_third_of_a_percent(n):
    exact = ball(xi_exact(n)).log()
    assert exact <= ball(c.ln_xi(n)) <= exact + ball(0.003)
    assert exact <= ball(c.ln_xi_paper(n)) <= exact + arb(1) / 2


@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 3), Fraction(9, 10)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 9, 30], ids="n={}".format)
def test_mean_exp_of_n_kl_is_xi(n, p):
    # exp(n kl(k/n || p)) P(k) = C(n,k) (k/n)^k (1-k/n)^(n-k), whatever p is
    total = sum(
        mass(n, k, p)
        * Fraction(k, n) ** k
        * Fraction(n - k, n) ** (n - k)
        / (p**k * (1 - p) ** (n - k))
        for k in range(n + 1)
    )
    assert total == xi_exact(n)


def mass(n, k, p):
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("slope", [1e-3, 0.5, 2.5, 6.0], ids="C={}".format)
@pytest.mark.parametrize("n", [1, 7, 60], ids="n={}".format)
def test_mean_exp_of_a_slope_is_one(n, slope, side):
    sign = -1 if side == "upper" else 1
    with ctx.workprec(400):
        for p in map(Fraction, ("1/1000", "1/3", "1/2", "99/100")):
            moment = 1 + ((sign * ball(slope)).exp() - 1) * ball(p)
            total = sum(
                ball(mass(n, k, p)) * (sign * ball(slope) * k).exp() / moment**n
                for k in range(n + 1)
            )
            assert abs(total - 1) < arb(2) ** -300


@pytest.mark.parametrize("sign", [-1, 1], ids=["upper", "lower"])
def test_mean_exp_of_a_slope_is_at_most_one_for_a_loss_between_0_and_1(sign):
    for low, middle, high in simplex(10, 3):
        for slope in (0.1, 1.0, 6.0):
            mean = middle / 2 + high
            exact = low + middle * math.exp(sign * slope / 2) + high * math.exp(sign * slope)
            assert exact <= (1 + math.expm1(sign * slope) * mean) * (1 + MARGIN)


@by_mu
@pytest.mark.parametrize("gamma", [0.05, 0.5, 2.0, 8.0], ids="gamma={}".format)
def test_bennett_moment_is_at_most_one(mu, gamma):
    values, length = tandem_values(mu)
    for chances in simplex(10, 3):
        mean = ball(float(chances @ values))
        offsets = [mean - ball(v) for v in values]
        variance = sum(ball(q) * x * x for q, x in zip(chances, offsets, strict=True))
        moment = sum(
            ball(q) * (ball(gamma) * x).exp() for q, x in zip(chances, offsets, strict=True)
        )
        limit = (phi_ball(ball(gamma * length)) / ball(length) ** 2 * variance).exp()
        assert moment <= limit * (1 + ball(MARGIN))


@pytest.mark.parametrize("lam", [0.05, 0.5, 1.0, 1.4], ids="lam={}".format)
@pytest.mark.parametrize("n", [4, 9, 40], ids="n={}".format)
def test_variance_moment_is_at_most_one(n, lam):
    # E exp(lam n (V - V^) - lam^2 n^2 V / (2 (n-1))) <= 1 for a loss of range length 1
    k = np.arange(n + 1)
    risks = np.linspace(0, 1, 101)
    variance = (risks * (1 - risks))[:, None]
    exponent = lam * n * (variance - k * (n - k) / (n * (n - 1)))
    exponent = exponent - (lam * n) ** 2 / (2 * (n - 1)) * variance
    assert (binomial_masses(n, risks) * np.exp(exponent)).sum(axis=1).max() <= 1 + MARGIN


# ---------------------------------------------------------------- losses with three values


def tandem_values(mu):
    """The mu-tandem loss of both, one and none in error, and the length of its range."""
    return np.array([(1 - mu) ** 2, -mu * (1 - mu), mu**2]), max(1 - mu, 1 - 2 * mu)


def moments(counts, values):
    """Empirical means and unbiased variances, one for each row of counts."""
    n = counts.sum(axis=1)
    mean = counts @ values / n
    spread = (counts * (values - mean[:, None]) ** 2).sum(axis=1)
    return mean, spread / np.maximum(n - 1, 1)


def true_moments(chances, values):
    mean = chances @ values
    return mean, (chances * (values - mean[:, None]) ** 2).sum(axis=1)


def failure(counts, chances, truth, bounds):
    """The largest P(truth > bound); ``bounds`` for each outcome, or for each chance and outcome."""
    violated = truth[:, None] > bounds + MARGIN
    return (multinomial_masses(counts, chances) * violated).sum(axis=1).max()


THREE = {n: compositions(n, 3) for n in (2, 5, 12, 24)}
by_three = pytest.mark.parametrize("n", THREE, ids="n={}".format)
CHANCES = np.concatenate([simplex(20, 3), simplex(40, 3)[:80], 0.999 * simplex(8, 3) + 1e-3 / 3])


def known_variance_failure(bound, mu, n, delta, share, cut=1.0):
    """A bound from the true variance, at gamma = share of 1/length."""
    values, length = tandem_values(mu)
    price, gamma = nats(delta, cut), share / length
    means, _ = moments(THREE[n], values)
    truth, variances = true_moments(CHANCES, values)
    bounds = np.array([[bound(m, v, price, n, gamma, length) for m in means] for v in variances])
    return failure(THREE[n], CHANCES, truth, bounds)


@by_delta
@pytest.mark.parametrize("n", [2, 5, 12], ids="n={}".format)
@by_mu
@pytest.mark.parametrize("share", [0.3, 2.5], ids="gamma={}".format)
def test_bennett_with_the_true_variance(mu, n, delta, share):
    assert known_variance_failure(c.bennett_upper, mu, n, delta, share) <= delta - MARGIN


@by_delta
@by_mu
@pytest.mark.parametrize("share", [0.2, 1.0], ids="gamma={}".format)
def test_bernstein_with_the_true_variance(mu, delta, share):
    assert known_variance_failure(c.bernstein_upper, mu, 12, delta, share) <= delta - MARGIN


@by_mu
@pytest.mark.parametrize("bound", [c.bennett_upper, c.bernstein_upper])
def test_bennett_and_bernstein_at_a_quarter_of_the_price_fail(bound, mu):
    assert known_variance_failure(bound, mu, 12, 0.05, 0.8, cut=0.25) > 0.05


@by_delta
@pytest.mark.parametrize("n", [1, 10, 50, 200], ids="n={}".format)
@pytest.mark.parametrize("gamma", [0.1, 1.0, 3.0], ids="gamma={}".format)
@pytest.mark.parametrize("bound", [c.bennett_upper, c.bernstein_upper])
def test_bennett_and_bernstein_on_a_01_loss(bound, gamma, n, delta):
    gamma = min(gamma, 1.0) if bound is c.bernstein_upper else gamma
    risks = np.linspace(0, 1, 101)
    bounds = np.array(
        [
            [bound(k / n, p * (1 - p), nats(delta), n, gamma, 1.0) for k in range(n + 1)]
            for p in risks
        ]
    )
    violated = risks[:, None] > bounds
    assert (binomial_masses(n, risks) * violated).sum(axis=1).max() <= delta - MARGIN


def variance_failure(mu, n, delta, lam, cut=1.0):
    values, length = tandem_values(mu)
    _, spreads = moments(THREE[n], values)
    _, variances = true_moments(CHANCES, values)
    share = lam * (n - 1) / n
    bounds = np.array([c.variance_upper(v, nats(delta, cut), n, share, length) for v in spreads])
    return failure(THREE[n], CHANCES, variances, bounds)


@by_delta
@by_three
@by_mu
@pytest.mark.parametrize("lam", [0.3, 1.0, 1.7], ids="lam={}".format)
def test_variance_bound_for_three_values(mu, n, delta, lam):
    assert variance_failure(mu, n, delta, lam) <= delta - MARGIN


def binary_variance_failure(n, delta, lam, cut=1.0):
    hats = [k * (n - k) / (n * (n - 1)) for k in range(n + 1)]
    bounds = np.array([c.variance_upper(v, nats(delta, cut), n, lam, 1.0) for v in hats])
    jumps = (1 - np.sqrt(np.clip(1 - 4 * bounds, 0, None))) / 2
    risks = beside([*jumps, *(1 - jumps)])
    violated = (risks * (1 - risks))[:, None] > bounds
    return (binomial_masses(n, risks) * violated).sum(axis=1).max()


@by_delta
@pytest.mark.parametrize("n", [2, 3, 10, 50, 200], ids="n={}".format)
@pytest.mark.parametrize("lam", [0.01, 0.1, 0.5, 0.9], ids="lam={}".format)
def test_variance_bound_on_a_01_loss(lam, n, delta):
    assert binary_variance_failure(n, delta, lam) <= delta - MARGIN


def test_variance_bound_at_a_tenth_of_the_price_fails():
    assert binary_variance_failure(50, 0.05, 0.3, cut=0.1) > 0.05


def split_bennett_failure(mu, n, delta, cut=1.0):
    """Bennett on top of the variance bound, half of delta for each."""
    values, length = tandem_values(mu)
    price, lam, gamma = nats(delta / 2, cut), (n - 1) / n, 0.8 / length
    bounds = np.array(
        [
            c.bennett_upper(m, c.variance_upper(v, price, n, lam, length), price, n, gamma, length)
            for m, v in zip(*moments(THREE[n], values), strict=True)
        ]
    )
    return failure(THREE[n], CHANCES, true_moments(CHANCES, values)[0], bounds)


@by_delta
@by_three
@by_mu
def test_bennett_with_the_empirical_variance(mu, n, delta):
    assert split_bennett_failure(mu, n, delta) <= delta - MARGIN


@by_mu
def test_bennett_with_the_empirical_variance_at_a_tenth_of_the_price_fails(mu):
    assert split_bennett_failure(mu, 12, 0.05, cut=0.1) > 0.05


def split_kl_failure(mu, n, delta, cut=1.0):
    """Both steps between the three values, half of delta for each."""
    values = tandem_values(mu)[0]
    order = np.argsort(values)
    above = THREE[n][:, order][:, ::-1].cumsum(axis=1)[:, 1::-1] / n
    price = cut * c.ln_xi(n) + nats(delta / 2, cut)
    bounds = np.array([c.split_kl_upper(values[order], row, price, n) for row in above])
    return failure(THREE[n], CHANCES, CHANCES @ values, bounds)


DISTINCT = pytest.mark.parametrize("mu", [mu for mu in MUS if mu], ids="mu={}".format)


@by_delta
@by_three
@DISTINCT
def test_split_kl(mu, n, delta):
    assert split_kl_failure(mu, n, delta) <= delta - MARGIN


@DISTINCT
def test_split_kl_at_a_tenth_of_the_price_fails(mu):
    assert split_kl_failure(mu, 12, 0.05, cut=0.1) > 0.05


# ---------------------------------------------------------------- several voters, all weights


def kl_of(weights, prior):
    terms = [w * math.log(w / p) for w, p in zip(weights, prior, strict=True) if w > 0]
    return max(0.0, math.fsum(terms))


@functools.cache
def sided_bound(kind, p_hat, divergence, n, delta, cut):
    """The value of a claim, with its sign turned where it is a lower one."""
    price = cut * (divergence + c.ln_inverse_upper(delta))
    if kind == "mixture upper":
        return c.mixture_upper(p_hat, price, n, c.mixture_slopes(n, delta))
    if kind == "mixture lower":
        return -c.mixture_lower(p_hat, price, n, c.mixture_slopes(n, delta))
    price += cut * c.ln_xi(n)
    if kind == "kl upper":
        return c.pac_bayes_kl_upper(p_hat, price, n)
    return -c.pac_bayes_kl_lower(p_hat, price, n)


class Panel:
    """Voters judged on groups of rows: every outcome, and what the data show of each (pair)."""

    def __init__(self, groups, prior):
        self.prior = np.asarray(prior)
        voters = len(prior)
        self.patterns = np.array(list(itertools.product([0, 1], repeat=voters)))
        tables = [compositions(rows, 2**voters) for rows, _ in groups]
        picks = np.array(list(itertools.product(*(range(len(t)) for t in tables))))
        self.tables, self.picks = tables, picks
        self.counts = [t[pick] for t, pick in zip(tables, picks.T, strict=True)]
        self.groups = groups

    def hats(self, events, voters_of):
        """Empirical frequency of each event on the rows that all of its voters judge."""
        columns, sizes = [], []
        for event, voters in zip(events.T, voters_of, strict=True):
            seen = [i for i, (_, judges) in enumerate(self.groups) if set(voters) <= set(judges)]
            sizes.append(sum(self.groups[i][0] for i in seen))
            columns.append(sum(self.counts[i] @ event for i in seen) / sizes[-1])
        return np.stack(columns, axis=1), min(sizes)

    def masses(self, chances):
        """P(outcome), the groups of rows being independent."""
        each = [
            multinomial_masses(t, chances)[:, pick]
            for t, pick in zip(self.tables, self.picks.T, strict=True)
        ]
        return np.prod(each, axis=0)

    def failure(self, kind, order, delta, chances, cut=1.0):
        """The largest P(some weights violate their claim); order 2 is for pairs of voters."""
        voters = len(self.prior)
        tuples = list(itertools.product(range(voters), repeat=order))
        events = np.stack([self.patterns[:, t].min(axis=1) for t in map(list, tuples)], axis=1)
        hats, n = self.hats(events, tuples)
        sign = -1 if kind.endswith("lower") else 1
        violated = np.zeros((len(chances), len(hats)), dtype=bool)
        for weights in simplex(8 if voters == 2 else 4, voters):
            product = np.array([math.prod(weights[list(t)]) for t in tuples])
            price = order * kl_of(weights, self.prior)
            p_hats = np.clip((hats @ product).round(14), 0, 1)
            bounds = [sided_bound(kind, float(p), price, n, delta, cut) for p in p_hats]
            risks = sign * (chances @ events @ product)
            violated |= risks[:, None] > np.array(bounds) + 1e-10
        return (self.masses(chances) * violated).sum(axis=1).max()


PANELS = {
    "two voters, 6 shared rows": Panel([(6, (0, 1))], [0.5, 0.5]),
    "two voters, 8 shared rows, uneven prior": Panel([(8, (0, 1))], [0.9, 0.1]),
    "two voters, 4 and 5 rows, 3 shared": Panel([(1, (0,)), (3, (0, 1)), (2, (1,))], [0.5, 0.5]),
    "two voters, 1 and 5 rows, 1 shared": Panel([(1, (0, 1)), (4, (1,))], [0.5, 0.5]),
    "three voters, 3 shared rows": Panel([(3, (0, 1, 2))], [1 / 3, 1 / 3, 1 / 3]),
}
KINDS = ["kl upper", "kl lower", "mixture upper", "mixture lower"]
by_kind = pytest.mark.parametrize("kind", KINDS)
by_order = pytest.mark.parametrize("order", [1, 2], ids=["single", "pairs"])


@functools.cache
def joint_chances(voters):
    """Joint distributions of the voters' errors: a grid, its edges, and random ones."""
    drawn = np.random.default_rng(5).dirichlet(np.full(2**voters, 0.3), size=150)
    return np.concatenate([simplex(8 if voters == 2 else 2, 2**voters), drawn])


@by_delta
@by_order
@by_kind
@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_no_weights_violate_their_claim_more_often_than_delta(panel, kind, order, delta):
    chances = joint_chances(len(panel.prior))
    assert panel.failure(kind, order, delta, chances) <= delta - MARGIN


@by_order
@by_kind
def test_weights_at_a_tenth_of_the_price_violate_it(kind, order):
    panel = PANELS["two voters, 8 shared rows, uneven prior"]
    assert panel.failure(kind, order, 0.05, joint_chances(2), cut=0.1) > 0.05
