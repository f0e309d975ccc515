"""Each bound: its value, its slopes, its witnesses in ball arithmetic, and what it refuses."""

import itertools
import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from exact import ball, binomial_tail, kl_ball, mixture_ball, phi_ball
from pacvote import (
    BOUNDS,
    CBound,
    CCBennett,
    CCTandem,
    MajorityVoteClassifier,
    PairCounts,
    Tandem,
    count,
    evaluate,
)
from pacvote.bounds.base import ClaimBound
from pacvote.bounds.ccpbb import MU_PAPER, MU_SHARP, grids_sharp
from pacvote.bounds.evidence import Evidence, Moments, Quantity, Sizes, Vote, divergence
from pacvote.bounds.registry import Problem, ledger
from pacvote.concentration import chebyshev_cantelli, mixture_slopes
from pacvote.datasets import load_pendigits
from pacvote.minimize import minimize

CASES = "ade"
PAIRS = [key for key in BOUNDS if key not in {"binomial", "ndraw", "best_of"}]
EVERY = [
    BOUNDS[key](constants=constants) for key in PAIRS for constants in BOUNDS[key].known_constants
]
SOUND = [bound for bound in EVERY if bound.sound]
SETTLED = {"folds", "best_voter"}  # with weights of their own, so that nothing is minimised
SIDES = {"upper": 1, "lower": -1}


def name(bound):
    return f"{bound.key}-{bound.constants}"


every_bound = pytest.mark.parametrize("bound", EVERY, ids=name)
sought_bound = pytest.mark.parametrize(
    "bound", [bound for bound in EVERY if bound.key not in SETTLED], ids=name
)
sound_bound = pytest.mark.parametrize("bound", SOUND, ids=name)


# ---------------------------------------------------------------- evidence to test on


@dataclass(frozen=True)
class Rows:
    """Raw rows: who erred, and who was validated."""

    errors: np.ndarray
    validated: np.ndarray

    def counts(self):
        return count(self.errors.astype(int), np.zeros(len(self.errors), int), self.validated)

    def permuted(self, rows, voters):
        return Rows(self.errors[rows][:, voters], self.validated[rows][:, voters])


def rows_of(n_voters, n_samples, seed=0, share=0.6, risk=(0.05, 0.4)):
    rng = np.random.default_rng(seed)
    hard = rng.random((n_samples, 1))
    risks = rng.uniform(*risk, n_voters)
    errors = 0.5 * hard + 0.5 * rng.random((n_samples, n_voters)) < risks
    validated = rng.random((n_samples, n_voters)) < share
    validated[:2] = True
    return Rows(errors, validated)


def weights_of(n_voters, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n_voters))


def fractions_of(weights):
    exact = [Fraction(float(w)) for w in weights]
    return [w / sum(exact) for w in exact]


@pytest.fixture
def case(golden):
    """Counts and recorded values of a golden case."""

    def load(key):
        predictions, y = golden(key)
        recorded = json.loads((Path(__file__).parent / "golden" / f"{key}.json").read_text())
        return count(predictions, y, predictions != -1), recorded

    return load


# ---------------------------------------------------------------- golden values


@pytest.mark.parametrize("key", CASES)
def test_golden_values(case, key):
    counts, recorded = case(key)
    assert (counts.n_single, counts.n_pair) == (recorded["n_single"], recorded["n_pair"])
    assert len(recorded["points"]) == 4
    for point in recorded["points"]:
        bound = BOUNDS[point["bound"]](constants=point["constants"])
        found = evaluate(
            bound,
            counts,
            point["weights"],
            delta=Fraction(recorded["delta"]),
            parameters=point.get("parameters"),
        )
        excess = Fraction(found.value) / Fraction(point["value"]) - 1
        assert Fraction(-1, 10**15) <= excess <= Fraction(1, 10**9), (key, point["bound"])
        assert found.parameters == point.get("parameters", {})


# ---------------------------------------------------------------- laws


@every_bound
@pytest.mark.parametrize("n_voters", [1, 2, 7])
def test_more_errors_never_give_less(bound, n_voters):
    rows = rows_of(n_voters, 400, seed=n_voters)
    rho = weights_of(n_voters)
    before = evaluate(bound, rows.counts(), rho).value
    order = np.random.default_rng(1).permutation(400)
    for share in (0.05, 0.3, 1.0):
        errors = rows.errors.copy()
        errors[order[: int(400 * share)]] = True
        after = evaluate(bound, Rows(errors, rows.validated).counts(), rho).value
        assert after >= before * (1 - 1e-13)
        before = after
    assert before == 1.0


@every_bound
@pytest.mark.parametrize("n_voters", [1, 2, 7])
def test_order_of_rows_and_of_voters_does_not_matter(bound, n_voters):
    rows, rho = rows_of(n_voters, 300), weights_of(n_voters)
    rng = np.random.default_rng(3)
    shuffled, turned = rng.permutation(300), rng.permutation(n_voters)
    first = evaluate(bound, rows.counts(), rho)
    by_rows = evaluate(bound, rows.permuted(shuffled, np.arange(n_voters)).counts(), rho)
    by_voters = evaluate(bound, rows.permuted(shuffled, turned).counts(), rho[turned])
    assert (by_rows.value, by_rows.parameters) == (first.value, first.parameters)
    assert by_voters.value == pytest.approx(first.value, rel=1e-12)


@every_bound
def test_a_larger_delta_gives_less(bound):
    counts, rho = rows_of(7, 5000).counts(), weights_of(7)
    deltas = [1e-12, 1e-6, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 0.999]
    values = [evaluate(bound, counts, rho, delta=delta).value for delta in deltas]
    assert all(0 < value <= 1 for value in values)
    # the slopes and grids change with delta, and none of them is best at every delta
    slack = {"sharp": 0.01, "paper": 0.0, "published": 0.05}[bound.constants]
    for more, less in itertools.pairwise(values):
        assert less <= more * (1 + slack)
    assert values[-1] < 0.999 * values[0]


@sought_bound
def test_weights_equal_to_the_prior_cost_no_divergence(bound):
    counts, rho = rows_of(7, 5000).counts(), weights_of(7)
    problem = Problem.of(bound, counts, 0.05, rho)
    at_prior = problem.outcome(problem.prior, {})
    assert divergence(problem.prior, problem.prior) == 0.0
    shares = ledger(at_prior.witnesses)
    for witness in at_prior.witnesses:
        logarithm = math.log(witness.grid / shares[witness.event])
        extra = witness.complexity - logarithm
        assert -1e-12 <= extra <= (10 if witness.inequality in {"kl_paper", "trinomial"} else 1e-9)
    assert evaluate(bound, counts, rho).value > evaluate(bound, counts, rho, prior=rho).value


@every_bound
def test_a_prior_with_zeros_is_fine_where_weights_are_zero(bound):
    counts = rows_of(7, 3000).counts()
    rho = np.array([0.5, 0, 0.25, 0, 0.25, 0, 0])
    prior = np.array([0.4, 0, 0.4, 0, 0.1, 0.1, 0])
    value = evaluate(bound, counts, rho, prior=prior).value
    kl = Fraction(0)
    kl = sum(w * math.log(w / p) for w, p in zip(rho, prior, strict=True) if w)
    assert divergence(rho, prior) == pytest.approx(kl, rel=1e-13)
    assert divergence(rho, prior) >= kl
    assert 0 < value < evaluate(bound, counts, rho, prior=[0.05, 0, 0.05, 0, 0.9, 0, 0]).value


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.floats(-300, 0))
def test_divergence_is_rounded_up(seed, n_voters, exponent):
    rng = np.random.default_rng(seed)
    weights, prior = rng.dirichlet(np.ones(n_voters), 2)
    weights[0] = weights[0] * 10.0**exponent
    weights, prior = weights / math.fsum(weights), prior / math.fsum(prior)
    with ctx.workprec(200):
        pairs = [(ball(w), ball(p)) for w, p in zip(weights, prior, strict=True) if w > 0]
        kl = sum((w * (w / p).log() for w, p in pairs), start=arb(0))
        assert ball(divergence(weights, prior)) >= kl
        assert ball(divergence(weights, prior)) <= kl + ball(1e-12 * (1 + float(kl)))


# ---------------------------------------------------------------- slopes


def outcome_at(bound, moments, sizes, parameters):
    return bound.at(moments, sizes, Fraction(1, 20), parameters)


@sought_bound
@pytest.mark.parametrize(
    ("seed", "risk"), [(0, (0.05, 0.2)), (1, (0.2, 0.4)), (2, (0.01, 0.03)), (3, (0.44, 0.49))]
)
def test_slopes_are_those_of_finite_differences(bound, seed, risk):
    evidence = Evidence(rows_of(7, 6000, seed, risk=risk).counts())
    rho, prior = weights_of(7, seed), np.full(7, 1 / 7)
    moments, _ = evidence.moments(bound.quantities, rho, prior)
    free = bound.at(moments, evidence.sizes, Fraction(1, 20), {})
    # grid parameters are held, as the minimiser holds them; a free mu is at its best or its kink
    held = free.parameters if bound.key == "ccpbb" else {}

    def value(change, quantity=None):
        values = dict(moments.values)
        kl = moments.divergence
        if quantity is None:
            kl += change
        else:
            values[quantity] += change
        moved = Moments(values, kl, moments.slack)
        return bound.at(moved, evidence.sizes, Fraction(1, 20), held).value

    def difference(step, quantity=None):
        return (value(step, quantity) - value(-step, quantity)) / (2 * step)

    assert free.value > 0.001
    for quantity in bound.quantities:
        slope = free.by_moment.get(quantity, 0.0)
        step = 1e-4 * min(moments.values[quantity], 1 - moments.values[quantity])
        assert difference(step, quantity) == pytest.approx(slope, rel=2e-4, abs=1e-6), quantity
    step = 1e-4 * moments.divergence
    assert difference(step) == pytest.approx(free.by_divergence, rel=2e-4, abs=1e-8)


@every_bound
def test_gradients_of_the_moments(bound):
    evidence = Evidence(rows_of(5, 200).counts())
    rho, way = weights_of(5), weights_of(5, 1) - weights_of(5, 2)
    _, slopes = evidence.moments(bound.quantities, rho, rho)
    up, _ = evidence.moments(bound.quantities, rho + 1e-4 * way, rho)
    down, _ = evidence.moments(bound.quantities, rho - 1e-4 * way, rho)
    for quantity in bound.quantities:
        change = (up.values[quantity] - down.values[quantity]) / 2e-4
        assert change == pytest.approx(float(slopes[quantity] @ way), rel=1e-7, abs=1e-10)


# ---------------------------------------------------------------- ledger and witnesses


@sound_bound
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 3), 0.05, 1e-12, 0.999])
def test_the_shares_of_distinct_events_sum_to_delta(bound, delta):
    found = evaluate(bound, rows_of(3, 500).counts(), weights_of(3), delta=delta)
    exact = delta if isinstance(delta, Fraction) else Fraction(str(delta))
    shares = {}
    for witness in found.witnesses:
        assert isinstance(witness.share, Fraction)
        assert shares.setdefault(witness.event, witness.share) == witness.share
        assert witness.share > 0
    assert sum(shares.values()) == exact
    assert ledger(found.witnesses) == shares


@sound_bound
def test_a_mixture_pays_for_each_side_and_kl_for_both(bound):
    found = evaluate(bound, rows_of(3, 500).counts(), weights_of(3))
    for witness in found.witnesses:
        if witness.inequality == "mixture":
            assert witness.side in witness.event
        if witness.inequality.startswith("kl"):
            assert witness.side not in witness.event


def exact_means(counts, weights):
    """Each quantity as a rational, from integers alone."""
    rho = fractions_of(weights)
    rows, both, left = counts.pair_rows, counts.pair_errors, counts.left_errors
    means = dict.fromkeys(Quantity, Fraction(0))
    for i, w in enumerate(rho):
        means[Quantity.GIBBS] += w * Fraction(int(both[i, i]), int(rows[i, i]))
        for j, v in enumerate(rho):
            n, p11 = int(rows[i, j]), int(both[i, j])
            p10 = int(left[i, j]) + int(left[j, i]) - 2 * p11
            p00 = n - p11 - p10
            unbiased = w * v / (n * max(n - 1, 1))
            means[Quantity.TANDEM] += w * v * Fraction(p11, n)
            means[Quantity.ONE_ERRS] += w * v * Fraction(p10, n)
            means[Quantity.NONE_ERRS] += w * v * Fraction(p00, n)
            means[Quantity.SPREAD_BOTH_ONE] += unbiased * p11 * p10
            means[Quantity.SPREAD_BOTH_NONE] += unbiased * p11 * p00
            means[Quantity.SPREAD_ONE_NONE] += unbiased * p10 * p00
    return means


def mu_loss(means, mu):
    """Mean and variance of the mu-tandem loss, as rationals."""
    m = Fraction(mu)
    mean = m * m + (1 - 2 * m) * means[Quantity.TANDEM] - m * means[Quantity.ONE_ERRS]
    spread = (
        (1 - m) ** 2 * means[Quantity.SPREAD_BOTH_ONE]
        + (1 - 2 * m) ** 2 * means[Quantity.SPREAD_BOTH_NONE]
        + m**2 * means[Quantity.SPREAD_ONE_NONE]
    )
    return mean, spread


def kl_exact(weights, prior):
    pairs = zip(fractions_of(weights), fractions_of(prior), strict=True)
    return sum((ball(w) * (ball(w) / ball(p)).log() for w, p in pairs if w), start=arb(0))


def check_complexity(witness, counts, kl):
    order = 1 if witness.quantity == "gibbs" else 2
    n = counts.n_single if witness.quantity == "gibbs" else counts.n_pair
    assert witness.n_samples == n
    price = order * kl + (witness.grid / ball(witness.share)).log()
    if witness.inequality == "binomials":
        assert witness.complexity == 0  # each voter's share is its prior's
        return
    if witness.inequality == "kl_paper":
        price += (2 * ball(n).sqrt()).log()
    if witness.inequality == "trinomial":
        price += (n + 2 * ball(n).sqrt()).log()
    assert ball(witness.complexity) >= price
    assert ball(witness.complexity) <= price + ball(1e-11)


def check_inequality(witness, counts, rho, prior, means):
    p_hat, value, n = witness.p_hat, witness.value, witness.n_samples
    complexity, parameters = ball(witness.complexity), witness.parameters
    assert SIDES[witness.side] * (value - p_hat) >= 0
    if value == {"upper": 1.0, "lower": 0.0}[witness.side]:
        return
    if witness.inequality == "mixture":
        slopes = mixture_slopes(n, witness.share)
        assert mixture_ball(value, p_hat, n, slopes, witness.side) >= complexity
    elif witness.inequality == "kl_paper":
        assert kl_ball(p_hat, value) >= complexity / n
    elif witness.inequality == "tilts":
        limit = dual_ball(witness, counts, rho)
        assert SIDES[witness.side] * (ball(value) - limit) >= 0
    elif witness.inequality == "binomials":
        limits = [parameters[f"limit_{i}"] for i in range(len(rho))]
        assert ball(value) >= sum(ball(w) * ball(x) for w, x in zip(rho, limits, strict=True))
        for limit, k, m, p in zip(limits, counts.errors, counts.rows, prior, strict=True):
            share = ball(witness.share) * ball(p)
            assert limit == 1 or binomial_tail(int(m), int(k), ball(limit)) <= share
    elif witness.inequality == "trinomial":
        assert ball(value) >= trinomial_dual(means, n, complexity, **parameters)
    else:
        check_bennett_pair(witness, complexity, parameters)


def trinomial_dual(means, n, complexity, mu, eta):
    """eta - e^(-complexity / n) prod (eta - v)^p: above all means that the entropy allows."""
    m, p = (
        Fraction(mu),
        [means[Quantity.TANDEM], means[Quantity.ONE_ERRS], means[Quantity.NONE_ERRS]],
    )
    gaps = [Fraction(eta) - v for v in ((1 - m) ** 2, m * m - m, m * m)]
    assert min(gaps) > 0
    logs = sum(ball(q) * ball(gap).log() for q, gap in zip(p, gaps, strict=True))
    return ball(eta) - (logs - complexity / n).exp()


def dual_ball(witness, counts, rho):
    """What the multipliers prove: nu budget + E max(L - nu U), each size by itself, in balls."""
    sign, parameters = SIDES[witness.side], dict(witness.parameters)
    nu = parameters.pop("nu")
    tau = [ball(parameters[f"tau_{j}"]) for j in range(len(parameters))]
    slopes = mixture_slopes(witness.n_samples, witness.share)
    tilts = [ball(slope) * witness.n_samples for slope in slopes]
    masses = [min(Fraction(1), Fraction(3, 2) / Fraction(slope)) for slope in slopes]
    total = ball(witness.complexity)
    for t, tilt, mass in zip(tau, tilts, masses, strict=True):
        if t > 0:
            total += t * (t * ball(sum(masses)) / ball(mass)).log()
        total += sign * t * tilt * ball(witness.p_hat)
    value = sign * ball(nu) * total
    rows = counts.rows[None] if witness.quantity == "gibbs" else counts.pair_rows
    outer = [1.0] if witness.quantity == "gibbs" else rho
    by_size = {}
    for w, line in zip(outer, rows, strict=True):
        for v, n in zip(rho, line, strict=True):
            by_size[int(n)] = by_size.get(int(n), 0) + ball(w) * ball(v)

    def terms(n):
        size = max(witness.n_samples, int(n) >> (s := max(0, int(n).bit_length() - 8)) << s)
        return [(size * t, 1 - (-sign * k / size).exp()) for t, k in zip(tau, tilts, strict=True)]

    for n, mass in by_size.items():
        rates = terms(n)
        low, high = 0.0, 1.0
        for _ in range(60):
            at = (low + high) / 2
            rise = nu * sum(float(r) * float(x) / (1 - float(x) * at) for r, x in rates)
            low, high = (at, high) if (sign * rise < 1) == (sign > 0) else (low, at)
        loss = ball(low)
        slope = 1 - sign * ball(nu) * sum(r * x / (1 - x * loss) for r, x in rates)
        gain = sum(-r * (1 - x * loss).log() for r, x in rates)
        rest = max(sign * slope * (1 - loss), -sign * slope * loss, key=lambda x: float(x.mid()))
        value += mass * (loss - sign * ball(nu) * gain + sign * rest)
    return value


def check_bennett_pair(witness, complexity, parameters):
    n, mu = witness.n_samples, Fraction(parameters["mu"])
    length = ball(max(1 - mu, 1 - 2 * mu))
    if witness.inequality == "variance":
        lam = ball(parameters["lambda"])
        keep = 1 - lam * n / (2 * (n - 1))
        limit = ball(witness.p_hat) / keep + length**2 * complexity / (n * lam * keep)
        assert ball(witness.value) >= min(limit, length**2 / 4, key=lambda x: float(x.mid()))
    else:
        assert witness.inequality == "bennett"


@sound_bound
@pytest.mark.parametrize("n_voters", [1, 2, 7])
@pytest.mark.parametrize("sizes", [40, 3000])
@pytest.mark.parametrize("risk", [(0.0, 0.05), (0.1, 0.3), (0.4, 0.48)])
def test_witnesses_hold_in_balls(bound, n_voters, sizes, risk):
    counts = rows_of(n_voters, sizes, seed=n_voters, risk=risk).counts()
    rho, prior = weights_of(n_voters, 1), weights_of(n_voters, 2)
    found = evaluate(bound, counts, rho, prior=prior)
    means = exact_means(counts, rho)
    with ctx.workprec(400):
        kl = kl_exact(rho, prior)
        for witness in found.witnesses:
            check_complexity(witness, counts, kl)
            check_inequality(witness, counts, rho, prior, means)
            check_p_hat(witness, means)
        check_value(bound, found, rho)


def check_p_hat(witness, means):
    if witness.quantity.startswith("mu_"):
        mean, spread = mu_loss(means, witness.parameters["mu"])
        exact = mean if witness.quantity == "mu_tandem" else spread
    else:
        exact = means[Quantity(witness.quantity)]
    excess = SIDES[witness.side] * (Fraction(witness.p_hat) - exact)
    size = (1 - Fraction(witness.parameters.get("mu", 0))) ** 2 + 1
    assert 0 <= excess <= size / 10**12


def losing_exact(bound, weights):
    """The smallest losing coalition of all, one by one; 1/2 in what is not sharpened."""
    if bound.constants != "sharp" or bound.key in {"ccpbb", "c1", "c2"}:
        return Fraction(1, 2)
    exact = fractions_of(weights)
    held = (sum(c) for k in range(len(exact) + 1) for c in itertools.combinations(exact, k))
    return min(sum_ for sum_ in held if sum_ >= Fraction(1, 2))


def check_value(bound, found, weights):
    """The value follows from the witnesses: rounded up, and by no more than rounding."""
    limits = {(w.quantity, w.side): w for w in found.witnesses}
    c = losing_exact(bound, weights)

    def gibbs():
        return Fraction(limits["gibbs", "upper"].value)

    def one(side):
        return Fraction(limits["one_errs", side].value)

    if found.value == 1 and bound.key in {"dis", "c1"}:  # the ratio may make no sense
        return
    exact = {
        "fo": lambda: Fraction(limits["gibbs", "upper"].value) / c,
        "folds": lambda: gibbs() / c,
        "best_voter": lambda: gibbs() / c,
        "tnd": lambda: Fraction(limits["tandem", "upper"].value) / c**2,
        "cctnd": lambda: cantelli_exact(limits, found.parameters["mu"], c),
        "c_bound": lambda: c_bound_exact(limits, bound.constants, c),
        "ccpbb": lambda: bennett_exact(limits, found.parameters),
        "c2": lambda: (
            Fraction(limits["mu_tandem", "upper"].value)
            / (Fraction(1, 2) - Fraction(found.parameters["mu"])) ** 2
        ),
        "ccskl": lambda: split_exact(limits, found.parameters["mu"], c),
        "two_moment": lambda: gibbs() + one("upper") / (2 * c),
        "dis": lambda: (gibbs() - one("lower") / 2) / c**2,
        "c1": lambda: 1 - (1 - 2 * gibbs()) ** 2 / (1 - 2 * one("lower")),
    }[bound.key]()
    exact = exact if isinstance(exact, arb) else ball(exact)
    assert found.value == 1 or ball(found.value) >= exact
    assert exact >= ball(found.value) * ball(1 - 1e-9)


def cantelli_exact(limits, mu, c):
    m = Fraction(mu)
    g = limits["gibbs", "lower" if m >= 0 else "upper"].value
    t = Fraction(limits["tandem", "upper"].value)
    return (t - 2 * m * Fraction(g) + m * m) / (c - m) ** 2


def split_exact(limits, mu, c):
    """E (Z - mu)^2 by who of two drawn voters errs, at the worst case that the limits allow."""
    m, both = Fraction(mu), Fraction(limits["tandem", "upper"].value)
    if m >= 0:
        one = Fraction(limits["one_errs", "lower"].value)
        none = 1 - both - one
    else:
        none = Fraction(limits["none_errs", "lower"].value)
        one = 1 - both - none
    return ((1 - m) ** 2 * both - m * (1 - m) * one + m**2 * none) / (c - m) ** 2


def c_bound_exact(limits, constants, c):
    t = Fraction(limits["tandem", "upper"].value)
    low, high = (Fraction(limits["gibbs", side].value) for side in ("lower", "upper"))
    if high >= c:
        return t / c**2 if constants == "sharp" else Fraction(1)
    if constants == "sharp":
        g = min(max(t / c, low), high)
        return (t - g * g) / (c**2 + t - 2 * c * g)
    below = Fraction(limits["tandem", "lower"].value)
    rest = Fraction(1, 4) + below - high
    return (t - low * low) / rest if rest > 0 else Fraction(1)


def bennett_exact(limits, parameters):
    mean, spread = limits["mu_tandem", "upper"], limits["mu_variance", "upper"]
    mu, gamma = Fraction(parameters["mu"]), ball(parameters["gamma"])
    length, n = ball(max(1 - mu, 1 - 2 * mu)), mean.n_samples
    rise = phi_ball(gamma * length) / (gamma * length**2)
    price = ball(mean.complexity) / (gamma * n)
    total = ball(mean.p_hat) + price + rise * ball(spread.value)
    assert ball(mean.value) >= total
    return total / ball((Fraction(1, 2) - mu) ** 2)


# ---------------------------------------------------------------- mu


@pytest.mark.parametrize("constants", ["sharp", "paper"])
@pytest.mark.parametrize("risk", [(0.02, 0.1), (0.1, 0.3), (0.3, 0.45), (0.45, 0.7), (0.8, 1.0)])
@pytest.mark.parametrize("size", [20, 500, 20_000])
def test_no_mu_of_a_fine_grid_beats_the_one_chosen(constants, risk, size):
    bound = CCTandem(constants=constants)
    problem = Problem.of(bound, rows_of(7, size, risk=risk).counts(), 0.05, None)
    rho = weights_of(7)
    best = problem.outcome(rho, {})
    assert best.parameters["mu"] < 0.5
    grid = np.concatenate([np.linspace(-3, 0.499, 500), -np.geomspace(1e-6, 1e6, 60)])
    moments, _ = problem.moments(rho, {})
    moments = replace(moments, vote=Vote(problem.evidence, rho, problem.prior))
    moments = replace(moments, threshold=float(losing_exact(bound, rho)))
    sizes, delta = problem.evidence.sizes, problem.delta
    limits = [claim.resolve(moments) for claim in bound.claims(sizes, delta)]  # free of mu
    least = min(
        bound.put_together(limits, {"mu": float(mu)}, moments.threshold).value for mu in grid
    )
    assert min(1.0, best.value) <= least * (1 + 1e-12)


@every_bound
@pytest.mark.parametrize("mu", [0.5, 0.7, 1.0, math.inf, math.nan])
def test_mu_of_a_half_or_more_is_refused(bound, mu):
    if "mu" not in bound.parameter_names:
        return
    counts = rows_of(3, 200).counts()
    with pytest.raises(ValueError, match=r"`mu`[^\n]*(below|grid)[^\n]*$"):
        evaluate(bound, counts, [0.5, 0.25, 0.25], parameters={"mu": mu})


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 30]), st.integers(3, 3000))
def test_the_sharp_c_bound_is_the_cantelli_bound_at_its_best_mu(seed, n_voters, size):
    rng = np.random.default_rng(seed)
    top = rng.uniform(0.05, 0.95)
    counts = rows_of(n_voters, size, seed, risk=(0.01, top)).counts()
    rho = weights_of(n_voters, seed)
    found = evaluate("c_bound", counts, rho).value
    assert found == pytest.approx(evaluate("cctnd", counts, rho).value, rel=1e-10)


# ---------------------------------------------------------------- ccpbb


def test_sound_says_what_is_proven():
    assert {name(bound) for bound in EVERY if not bound.sound} == {
        "ccpbb-paper",
        "ccpbb-published",
    }


@pytest.mark.parametrize("risk", [(0.01, 0.05), (0.1, 0.3), (0.3, 0.48)])
@pytest.mark.parametrize("constants", ["sharp", "paper", "published"])
def test_ccpbb_at_its_own_parameters_is_the_same(constants, risk):
    counts, rho = rows_of(7, 4000, risk=risk).counts(), weights_of(7)
    found = evaluate(CCBennett(constants=constants), counts, rho)
    again = evaluate(CCBennett(constants=constants), counts, rho, parameters=found.parameters)
    assert (again.value, again.parameters) == (found.value, found.parameters)
    assert again.witnesses == found.witnesses
    assert set(found.parameters) == {"mu", "lambda", "gamma"}


@pytest.mark.parametrize("named", ["mu", "lambda", "gamma"])
def test_sharp_ccpbb_refuses_what_is_off_its_grid(named):
    counts, rho = rows_of(7, 4000).counts(), weights_of(7)
    found = evaluate("ccpbb", counts, rho)
    off = {named: found.parameters[named] + 1e-9}
    words = rf"^`{named}` = [-.\d]+ is not on the grid paid for: [^\n]+; leave it out$"
    with pytest.raises(ValueError, match=words) as caught:
        evaluate("ccpbb", counts, rho, parameters=off)
    assert f"{found.parameters[named]:.6g}" in str(caught.value)
    assert evaluate(CCBennett(constants="paper"), counts, rho, parameters=off).value < 1


def test_every_grid_point_of_ccpbb_is_paid_for_and_none_beats_the_chosen_by_much():
    counts, rho = rows_of(5, 3000, risk=(0.1, 0.3)).counts(), weights_of(5)
    found = evaluate("ccpbb", counts, rho)
    lambdas, gammas = grids_sharp(counts.n_pair, Fraction(1, 20))
    by_event = {witness.event: witness for witness in found.witnesses}
    assert by_event["variance"].grid == len(lambdas) * len(MU_SHARP)
    assert by_event["bennett"].grid == len(gammas) * len(MU_SHARP)
    values = [
        evaluate(
            "ccpbb",
            counts,
            rho,
            parameters={"mu": mu, "lambda": lam, "gamma": gamma / max(1 - mu, 1 - 2 * mu)},
        ).value
        for mu in MU_SHARP
        for lam in lambdas
        for gamma in gammas
    ]
    assert found.value <= min(values) * (1 + 1e-12)


@pytest.mark.parametrize("mu", [*MU_SHARP, -0.5, 0.2, 0.4975])
def test_mu_tandem_loss_and_variance_are_those_of_the_raw_rows(mu):
    rows, rho = rows_of(4, 60, seed=5), weights_of(4, 5)
    mean, spread = Fraction(0), Fraction(0)
    exact, m = fractions_of(rho), Fraction(mu)
    for i in range(4):
        for j in range(4):
            common = rows.validated[:, i] & rows.validated[:, j]
            pairs = zip(rows.errors[common, i], rows.errors[common, j], strict=True)
            losses = [(int(a) - m) * (int(b) - m) for a, b in pairs]
            average = sum(losses) / len(losses)
            mean += exact[i] * exact[j] * average
            squares = sum((loss - average) ** 2 for loss in losses)
            spread += exact[i] * exact[j] * squares / (len(losses) - 1)
    bound = CCBennett(constants="paper")
    found = evaluate(bound, rows.counts(), rho, parameters={"mu": mu})
    by_event = {witness.event: witness for witness in found.witnesses}
    assert 0 <= Fraction(by_event["bennett"].p_hat) - mean <= Fraction(1, 10**12)
    assert 0 <= Fraction(by_event["variance"].p_hat) - spread <= Fraction(1, 10**12)


def test_the_papers_mu_grid():
    assert len(MU_PAPER) == 400
    assert MU_PAPER[0] == -0.5
    assert np.allclose(np.diff(MU_PAPER), 1 / 400, rtol=1e-12)


# ---------------------------------------------------------------- voters that err together


@pytest.mark.parametrize("digits", [[0], [1, 3, 5, 7, 9]], ids=["a zero", "an odd digit"])
def test_shallow_trees_of_equal_weights_have_no_lower_bound_than_two_moment(digits):
    X, y = load_pendigits(return_X_y=True)
    trees = MajorityVoteClassifier(
        DecisionTreeClassifier(max_depth=2), n_estimators=20, bound="fo", random_state=0
    )
    counts, rho = trees.fit(X, np.isin(y, digits)).counts_, np.full(20, 1 / 20)
    gibbs = rho @ (counts.errors / counts.rows)
    assert rho @ (counts.pair_errors / counts.pair_rows) @ rho > 0.6 * gibbs
    values = {key: evaluate(key, counts, rho).value for key in PAIRS}
    least = values.pop("two_moment")
    assert values.keys() >= {"fo", "tnd", "cctnd", "ccpbb", "ccskl", "c_bound", "dis", "c1"}
    assert {key: value for key, value in values.items() if value <= least} == {}


# ---------------------------------------------------------------- extremes


@every_bound
@pytest.mark.parametrize("wrong", ["none", "all", "one", "opposite"])
@pytest.mark.parametrize("size", [2, 3, 50, 10**6])
@pytest.mark.parametrize("delta", [1e-300, 0.05, 0.999])
def test_extreme_evidence_gives_a_value_between_the_truth_and_one(bound, wrong, size, delta):
    errors = {
        "none": np.zeros((2, 2)),
        "all": np.ones((2, 2)) * size,
        "one": np.diag([size, 0]),
        "opposite": np.diag([size // 2, size - size // 2]),
    }[wrong].astype(np.int64)
    left = np.repeat(errors.diagonal()[:, None], 2, axis=1)
    counts = PairCounts(np.full((2, 2), size), errors, left, ("a", "b"))
    for rho in ([0.5, 0.5], [1.0, 0.0], [0.25, 0.75]):
        # one of the paper's 400 mu is enough here, and much faster
        held = {} if bound.sound else {"mu": 0.0}
        found = evaluate(bound, counts, rho, delta=delta, parameters=held)
        assert 0 < found.value <= 1
        assert all(math.isfinite(x) for x in found.parameters.values())
        # empirically, the vote is wrong where voters of weight 1/2 are
        heavy = max(errors[k, k] for k in range(2) if rho[k] >= 0.5)
        assert found.value >= heavy / size


def contradiction(n_voters, size, risk):
    """Voters that never err where two are validated, and often elsewhere."""
    wrong = int(risk * 2 * size)
    rows = np.full((n_voters, n_voters), size) + size * np.eye(n_voters, dtype=np.int64)
    errors = wrong * np.eye(n_voters, dtype=np.int64)
    return PairCounts(rows, errors, errors.copy(), tuple(map(str, range(n_voters))))


@every_bound
@pytest.mark.parametrize("risk", [0.1, 0.3, 0.45])
def test_limits_that_contradict_each_other_give_no_small_value(bound, risk):
    """A tandem risk below the squared Gibbs risk: an event failed, so nothing may be claimed."""
    counts, rho = contradiction(50, 10**9, risk), np.full(50, 0.02)
    tandem = float(rho @ (counts.pair_errors / counts.pair_rows) @ rho)
    gibbs = float(rho @ (counts.errors / counts.rows))
    assert tandem == pytest.approx(risk / 50)
    assert tandem < gibbs**2 / 4
    # these look at pairs alone, where nothing contradicts: a mu a little below 0 is fair
    fair = 0.98 if bound.key in {"ccpbb", "ccskl", "c2"} else 1.0
    assert evaluate(bound, counts, rho).value >= min(4 * tandem * fair, 2 * gibbs)
    if "mu" in bound.parameter_names and name(bound) != "ccpbb-sharp":
        for mu in (-5.0, -0.1, 0.0, 0.1, risk, 0.49, 0.4999999):
            assert evaluate(bound, counts, rho, parameters={"mu": mu}).value >= 4 * tandem * fair


# ---------------------------------------------------------------- weak voters


def out_of_bag_stumps(seed, n_voters=50):
    X, y = make_classification(
        n_samples=1200,
        n_features=20,
        n_informative=12,
        n_classes=12,
        n_clusters_per_class=1,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    predictions = np.empty((600, n_voters), dtype=np.int64)
    validated = np.empty((600, n_voters), dtype=bool)
    tests = np.empty((600, n_voters), dtype=np.int64)
    for k in range(n_voters):
        bag = rng.integers(0, 600, 600)
        tree = DecisionTreeClassifier(max_depth=1, max_features=4, random_state=k)
        tree.fit(X[bag], y[bag])
        predictions[:, k], tests[:, k] = tree.predict(X[:600]), tree.predict(X[600:])
        validated[:, k] = ~np.isin(np.arange(600), bag)
    return count(predictions, y[:600], validated), tests, y[600:]


def vote_error(predictions, y, weights):
    shares = np.zeros((len(y), 12))
    for k, weight in enumerate(weights):
        shares[np.arange(len(y)), predictions[:, k]] += weight
    return float(np.mean(shares.argmax(axis=1) != y))


@pytest.mark.parametrize("seed", [0, 1])
def test_weak_voters_get_no_false_certificate(seed):
    counts, tests, y = out_of_bag_stumps(seed)
    uniform = np.full(50, 0.02)
    assert np.all(counts.errors / counts.rows > 0.6)
    for bound in EVERY:
        solution = minimize(bound, counts)
        for rho in (uniform, solution.weights, np.eye(50)[int(np.argmin(counts.errors))]):
            found = evaluate(bound, counts, rho)
            # an exact limit is as near the risk as the error on these rows is
            noise = 3 * math.sqrt(0.25 / len(y)) if bound.key in SETTLED else 0.0
            assert found.value >= vote_error(tests, y, rho) - noise
            alone = bound.counts_coalitions and max(rho) > 0.5
            assert found.value == 1.0 or alone
            mu = found.parameters.get("mu", 0.0)
            assert -math.inf < mu < max(0.5, *rho)
        assert solution.value == 1.0 or max(solution.weights) > 0.5


@pytest.mark.parametrize("constants", ["sharp", "paper"])
@pytest.mark.parametrize("gibbs", [0.499, 0.49999999, 0.5, 0.5000001, 0.51, 0.8, 1.0])
def test_mu_stays_below_a_half_where_the_gibbs_risk_passes_it(constants, gibbs):
    n = 10**12
    wrong = int(gibbs * n)
    errors = np.array([[wrong, max(0, 2 * wrong - n)], [max(0, 2 * wrong - n), wrong]])
    counts = PairCounts(np.full((2, 2), n), errors, np.full((2, 2), wrong), ("a", "b"))
    found = evaluate(CCTandem(constants=constants), counts, [0.5, 0.5])
    assert -math.inf < found.parameters["mu"] < 0.5
    # one of two voters with half the weight each errs: the vote may err there
    assert found.value >= min(1.0, 2 * wrong / n) * (1 - 1e-9)


# ---------------------------------------------------------------- refusals


def refused(words, *args, error=ValueError, **named):
    with pytest.raises(error) as caught:
        evaluate(*args, **named)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


GOOD = [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([0.5, 0.6, -0.1], ["`weights`", "at least 0", "entry 2", "-0.1"]),
        ([0.5, math.nan, 0.5], ["`weights`", "entry 1", "nan"]),
        ([0.5, 0.5, 0.5], ["`weights`", "sum to 1", "1.5"]),
        ([0.0, 0.0, 0.0], ["`weights`", "sum to 1", "0.0"]),
        ([0.5, 0.5, math.inf], ["`weights`"]),
        ([0.5, 0.5], ["`weights`", "3 numbers", "(2,)"]),
        ([GOOD], ["`weights`", "3 numbers", "(1, 3)"]),
        (1.0, ["`weights`", "3 numbers", "()"]),
        (["a", "b", "c"], ["`weights`", "3 numbers"]),
        ([True, False, False], ["`weights`", "bool"]),
        ([1 + 0j, 0, 0], ["`weights`", "complex"]),
    ],
)
def test_bad_weights_and_priors(weights, words):
    counts = rows_of(3, 100).counts()
    refused(words, "tnd", counts, weights)
    as_prior = [word.replace("`weights`", "`prior`") for word in words]
    refused(as_prior, "tnd", counts, GOOD, prior=weights)


def test_weight_where_the_prior_has_none_is_refused_by_name():
    counts = rows_of(3, 100).counts()
    refused(["`prior`", "zero", "'1'", "weight"], "tnd", counts, GOOD, prior=[0.5, 0, 0.5])


@pytest.mark.parametrize("delta", [0, 1, 0.0, 1.0, -0.1, 2, math.nan, math.inf, Fraction(1)])
def test_bad_delta(delta):
    refused(["`delta`", "(0, 1)"], "tnd", rows_of(3, 100).counts(), GOOD, delta=delta)


@pytest.mark.parametrize("delta", [True, "0.05", None, [0.05], 0.05j])
def test_delta_that_is_no_number(delta):
    words = ["`delta`", "number in (0, 1)", type(delta).__name__]
    refused(words, "tnd", rows_of(3, 100).counts(), GOOD, delta=delta, error=TypeError)


def test_delta_is_the_decimal_that_it_spells():
    counts = rows_of(3, 100).counts()
    found = evaluate("tnd", counts, GOOD, delta=0.1)
    assert found == evaluate("tnd", counts, GOOD, delta=Fraction(1, 10))
    assert found.witnesses[0].share == Fraction(1, 10)
    assert found == evaluate("tnd", counts, GOOD, delta=np.float64(0.1))


@pytest.mark.parametrize(
    ("key", "near"), [("tdn", "tnd"), ("CCTND", "cctnd"), ("c-bound", "c_bound"), ("first", "fo")]
)
def test_an_unknown_bound_suggests_the_nearest(key, near):
    refused([f"{key!r}", f"did you mean {near!r}"], key, rows_of(3, 100).counts(), GOOD)


@pytest.mark.parametrize("key", [None, 3, Tandem, ["tnd"]])
def test_what_is_no_bound_is_refused(key):
    with pytest.raises((TypeError, ValueError), match=r"`bound`[^\n]*$"):
        evaluate(key, rows_of(3, 100).counts(), GOOD)


@pytest.mark.parametrize("constants", ["Sharp", "published", "", None])
@pytest.mark.parametrize("key", ["fo", "tnd", "cctnd", "c_bound"])
def test_unknown_constants_are_refused(key, constants):
    with pytest.raises(ValueError, match=r"`constants`[^\n]*sharp[^\n]*$"):
        BOUNDS[key](constants=constants)


def test_unknown_constants_of_ccpbb_are_refused():
    with pytest.raises(ValueError, match=r"`constants`[^\n]*published[^\n]*$"):
        CCBennett(constants="printed")


@every_bound
def test_unknown_parameters_are_refused(bound):
    known = ", ".join(bound.parameter_names) or "none"
    words = [f"`{bound.key}`", "'nu'", f"it knows: {known}"]
    refused(words, bound, rows_of(3, 100).counts(), GOOD, parameters={"nu": 0.1})


def lonely(pair_rows):
    """Voters a, b, c; b and c have ``pair_rows`` common rows."""
    rows = np.full((3, 3), 10)
    rows[1, 2] = rows[2, 1] = pair_rows
    np.fill_diagonal(rows, 40)
    nothing = np.zeros((3, 3), dtype=np.int64)
    return PairCounts(rows, nothing, nothing, ("a", "b", "c"))


@every_bound
def test_a_voter_never_validated_is_named(bound):
    rows = np.full((2, 2), 10)
    rows[1] = rows[:, 1] = 0
    nothing = np.zeros((2, 2), dtype=np.int64)
    counts = PairCounts(rows, nothing, nothing, ("seen", "unseen"))
    refused(["`evidence`", "'unseen'", "no validation row"], bound, counts, [0.5, 0.5])


@every_bound
def test_a_pair_without_common_rows_is_named(bound):
    if not bound.needs_pairs():
        assert 0 < evaluate(bound, lonely(0), GOOD).value < 1
    else:
        refused(["'b' and 'c'", "share", "'fo'"], bound, lonely(0), GOOD)


@every_bound
def test_one_common_row_is_too_few_for_a_variance_only(bound):
    if bound.key == "ccpbb":
        refused(["`ccpbb`", "2 validation rows", "is 1"], bound, lonely(1), GOOD)
    else:
        assert 0 < evaluate(bound, lonely(1), GOOD).value <= 1


def test_a_method_that_is_not_known_is_refused():
    counts = rows_of(3, 100).counts()
    with pytest.raises(ValueError, match=r'^`method` must be "direct" or "paper", but is .slow.$'):
        minimize("tnd", counts, method="slow")
    with pytest.raises(ValueError, match=r'^`method="paper"` needs .* BOUNDS\[.tnd.\][^\n]*$'):
        minimize("tnd", counts, method="paper")
    with pytest.raises(ValueError, match=r'^`bound` .c_bound. has no method="paper"[^\n]*$'):
        minimize(CBound(constants="paper"), counts, method="paper")


def test_sizes_and_shares_are_all_that_claims_depend_on():
    sizes = Sizes(3, 100, 40)
    for bound in SOUND:
        if isinstance(bound, ClaimBound):
            assert bound.claims(sizes, Fraction(1, 20)) == bound.claims(sizes, Fraction(1, 20))
            shares = {claim.event: claim.share for claim in bound.claims(sizes, Fraction(1, 20))}
            assert sum(shares.values()) == Fraction(1, 20)


def test_the_chosen_value_is_the_cantelli_bound_at_its_mu():
    found = evaluate("cctnd", rows_of(3, 2000).counts(), GOOD)
    limits = {(w.quantity, w.side): w.value for w in found.witnesses}
    mu = found.parameters["mu"]
    side = "lower" if mu >= 0 else "upper"
    value = chebyshev_cantelli(limits["tandem", "upper"], limits["gibbs", side], mu)
    assert found.value == value
