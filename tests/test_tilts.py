"""Equal tilts and exact limits: enumerated on small cases, and against balls and brute force."""

import itertools
import math
from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from exact import ball
from pacvote import BOUNDS, PairCounts, certify, count, evaluate, minimize, verify
from pacvote._exactmath import DIGITS, decimal, ln_factorial, ln_tail
from pacvote._rounding import ln_inverse_upper
from pacvote.concentration import (
    binomial_upper,
    mixture_lower,
    mixture_slopes,
    mixture_upper,
    mixture_weights,
)
from pacvote.tilts import coarse, tilted

SHARES = [Fraction(1, 20), Fraction(1, 5)]
SIDES = {"upper": 1, "lower": -1}
sides = pytest.mark.parametrize("side", SIDES)


def gain(side, size, tilt, loss):
    """n g_n, or its mirror below, as floats of numpy."""
    sign = SIDES[side]
    return -size * np.log1p(np.expm1(-sign * tilt / size) * loss)


# ---------------------------------------------------------------- the inequality of one voter


@sides
@pytest.mark.parametrize("n", [1, 2, 7, 30])
@pytest.mark.parametrize("less", [0, 1, 3])
@pytest.mark.parametrize("tilt", [0.01, 0.7, 5.0, 60.0])
def test_the_mean_of_a_tilted_loss_is_at_most_one(side, n, less, tilt):
    """E exp(n' g_n'(L) -+ K L^) over n rows, every number of errors: 1 for n' = n, less below."""
    sign, assumed = SIDES[side], max(1, n - less)
    with ctx.workprec(800):
        k = ball(tilt)
        for loss in (Fraction(i, 8) for i in range(9)):
            inside = 1 - (1 - (-sign * k / assumed).exp()) * ball(loss)
            mean = arb(0)
            for errors in range(n + 1):
                chance = math.comb(n, errors) * loss**errors * (1 - loss) ** (n - errors)
                mean += ball(chance) * (-sign * k * errors / n).exp()
            total = mean / inside**assumed
            assert total <= 1 + ball(Fraction(1, 2**150))
            if assumed == n:
                assert abs(total - 1) <= ball(Fraction(1, 2**150))


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_sizes_are_rounded_down_to_8_bits(size, other):
    least = min(size, other)
    rounded = int(coarse(np.array([size]), least)[0])
    assert least <= rounded <= size
    assert size - rounded <= size / 128
    assert (
        rounded == least
        or (rounded >> max(0, rounded.bit_length() - 8)) << max(0, rounded.bit_length() - 8)
        == rounded
    )


# ---------------------------------------------------------------- the limit


@sides
@pytest.mark.parametrize("n", [1, 20, 1000, 10**5, 10**7])
@pytest.mark.parametrize("p_hat", [0.0, 1e-4, 0.03, 0.49, 0.9, 1.0])
@pytest.mark.parametrize("complexity", [3.0, 40.0])
def test_with_equal_sizes_it_is_the_mixture(side, n, p_hat, complexity):
    slopes = mixture_slopes(n, 0.05)
    solve = mixture_upper if side == "upper" else mixture_lower
    limit = solve(p_hat, complexity, n, slopes)
    found = tilted(side, p_hat, complexity, np.array([float(n)]), np.ones(1), slopes).value
    beyond = SIDES[side] * (found - limit)
    assert -1e-12 <= beyond <= 1e-3 * abs(limit - p_hat) + 1e-11


def problems():
    sizes = st.lists(st.integers(5, 5000), min_size=1, max_size=5, unique=True)
    return st.tuples(sizes, st.floats(0, 1), st.floats(0.5, 60), st.integers(0, 2**32))


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from(["upper", "lower"]))
def test_no_losses_that_the_constraint_allows_have_a_mean_beyond_the_limit(problem, side):
    """Weak duality, against losses drawn at random and moved to the edge of the constraint."""
    sizes, p_hat, complexity, seed = problem
    rng, sign = np.random.default_rng(seed), SIDES[side]
    sizes = np.sort(np.array(sizes, float))
    masses = rng.dirichlet(np.ones(len(sizes)))
    slopes = mixture_slopes(int(sizes[0]), 0.05)
    tilts, prior = slopes * sizes[0], mixture_weights(slopes)
    found = tilted(side, p_hat, complexity, sizes, masses, slopes)

    def excess(losses):
        gains = gain(side, sizes[:, None], tilts, losses[:, None])
        exponents = masses @ gains - sign * tilts * p_hat
        return np.logaddexp.reduce(exponents + np.log(prior))

    best = p_hat
    end = 1.0 if side == "upper" else 0.0
    for way in rng.dirichlet(np.ones(len(sizes)), 20):
        toward = p_hat + (end - p_hat) * np.clip(way / way.max(), 0, 1)
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            allowed = excess(p_hat + middle * (toward - p_hat)) <= complexity
            low, high = (middle, high) if allowed else (low, middle)
        mean = float(masses @ (p_hat + low * (toward - p_hat)))
        best = max(best, mean, key=lambda x: sign * x)
    assert sign * (found.value - best) >= -1e-12
    if len(sizes) == 1:
        assert abs(found.value - best) <= 1e-3 * abs(best - p_hat) + 1e-9


@sides
@pytest.mark.parametrize("p_hat", [0.02, 0.3])
def test_slopes_are_those_of_finite_differences(side, p_hat):
    sizes, masses = np.array([400.0, 700.0, 2000.0]), np.array([0.2, 0.5, 0.3])
    slopes = mixture_slopes(400, 0.05)
    at = tilted(side, p_hat, 8.0, sizes, masses, slopes)
    for name, step in (("by_moment", (1e-4, 0.0)), ("by_complexity", (0.0, 1e-2))):
        up = tilted(side, p_hat + step[0], 8.0 + step[1], sizes, masses, slopes).value
        down = tilted(side, p_hat - step[0], 8.0 - step[1], sizes, masses, slopes).value
        assert (up - down) / (2 * sum(step)) == pytest.approx(getattr(at, name), rel=2e-2)


# ---------------------------------------------------------------- how often a claim fails

SIZES = (3, 8)
WEIGHTS = [(0.0, 1.0), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (1.0, 0.0)]


def counts_of(errors, sizes=SIZES):
    """Two voters who share no row but one, so that their numbers of rows differ."""
    rows = np.diag(sizes).astype(np.int64)
    wrong = np.diag(errors).astype(np.int64)
    return PairCounts(rows, wrong, wrong.copy(), tuple("ab"[: len(sizes)]))


def claimed(bound, side, errors, weights, delta):
    found = evaluate(bound, counts_of(errors), weights, delta=delta)
    return {w.side: w.value for w in found.witnesses if w.quantity == "gibbs"}[side]


@pytest.mark.parametrize("delta", SHARES)
@pytest.mark.parametrize("key", ["fo", "folds"])
def test_a_limit_on_the_gibbs_risk_fails_at_some_weights_with_probability_delta_at_most(key, delta):
    """Every outcome of 3 and 8 rows, at every pair of risks of a grid."""
    limits = {
        errors: [claimed(key, "upper", errors, w, delta) for w in WEIGHTS]
        for errors in itertools.product(range(SIZES[0] + 1), range(SIZES[1] + 1))
    }
    assert min(map(min, limits.values())) < 1
    grid = [Fraction(i, 12) for i in range(13)]
    for risks in itertools.product(grid, grid):
        failed = Fraction(0)
        for errors, values in limits.items():
            means = [sum(Fraction(w) * r for w, r in zip(ws, risks, strict=True)) for ws in WEIGHTS]
            if any(value < mean for value, mean in zip(values, means, strict=True)):
                failed += math.prod(
                    math.comb(n, k) * r**k * (1 - r) ** (n - k)
                    for n, k, r in zip(SIZES, errors, risks, strict=True)
                )
        assert failed <= delta


# ---------------------------------------------------------------- more rows than the least


def uneven(n_voters=12, n_samples=3000, seed=0):
    """Votes of which each voter has its own share of the rows."""
    rng = np.random.default_rng(seed)
    hard = rng.random((n_samples, 1))
    errors = 0.5 * hard + 0.5 * rng.random((n_samples, n_voters)) < rng.uniform(0.1, 0.3, n_voters)
    validated = rng.random((n_samples, n_voters)) < rng.uniform(0.2, 0.9, n_voters)
    return count(errors.astype(int), np.zeros(n_samples, int), validated)


@pytest.mark.parametrize("key", ["fo", "tnd", "cctnd", "ccskl", "two_moment", "dis", "c1"])
def test_it_is_below_what_the_least_number_of_rows_proves(key):
    counts = uneven()
    weights = np.full(12, 1 / 12)
    found = evaluate(key, counts, weights)
    for witness in found.witnesses:
        assert witness.inequality == "tilts"
        solve = mixture_upper if witness.side == "upper" else mixture_lower
        slopes = mixture_slopes(witness.n_samples, witness.share)
        least = solve(witness.p_hat, witness.complexity, witness.n_samples, slopes)
        assert SIDES[witness.side] * (least - witness.value) > 0


@pytest.mark.parametrize("key", ["tnd", "ccskl", "two_moment"])
def test_the_verifier_agrees_and_refuses_other_multipliers(key):
    counts = uneven()
    certificate = certify(counts, bound=key)
    assert verify(certificate, counts)
    text = certificate.to_json()
    for name in ("nu", "tau_0"):
        at = text.index(f'"{name}": "') + len(name) + 5
        number = text[at : text.index('"', at)]
        over, under = map(int, number.split("/"))
        # a hair of nu moves what it proves by less than the grid of limits
        for changed in (Fraction(over * 257, under * 256), Fraction(over, under + 1), Fraction(2)):
            other = f"{changed.numerator}/{changed.denominator}"
            assert not verify(text.replace(number, other, 1), counts), (name, other)


def test_a_loose_multiplier_is_refused_although_it_proves_its_limit(monkeypatch):
    """Weak duality holds at any nu, but what it proves then is not what was issued."""
    from pacvote import tilts

    honest = tilts._Dual.multiplier
    monkeypatch.setattr(tilts._Dual, "multiplier", lambda *given: 1.5 * honest(*given))
    counts = uneven()
    forged = certify(counts, bound="tnd", weights=np.full(12, 1 / 12))
    monkeypatch.undo()
    issued = certify(counts, bound="tnd", weights=np.full(12, 1 / 12))
    assert forged.risk > issued.risk
    assert not verify(forged, counts)
    assert verify(issued, counts)


# ---------------------------------------------------------------- exact limits of single voters


@pytest.mark.parametrize("n", [1, 2, 13, 40])
@pytest.mark.parametrize("share", [*SHARES, Fraction(1, 10**9)])
def test_tails_are_those_of_the_binomial(n, share):
    with localcontext(prec=DIGITS):
        most = decimal(share).ln()
    for k in range(n):
        for p in (Fraction(k, n) + Fraction(n - k, n) * Fraction(i, 16) for i in range(1, 16)):
            terms = (math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
            assert (ln_tail(n, k, p) <= most) == (sum(terms) <= share)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000, 10**7, 2**40])
def test_factorials(n):
    with ctx.workprec(400):
        exact = ball(n + 1).lgamma()
        assert abs(ball(Fraction(ln_factorial(n))) - exact) <= exact * ball(Fraction(1, 10**24)) + (
            ball(Fraction(1, 10**24))
        )


@pytest.mark.parametrize("key", ["folds", "best_voter"])
def test_each_voter_has_its_exact_limit_at_its_priors_share(key):
    counts = uneven(3)
    prior = [0.5, 0.25, 0.25]
    found = minimize(key, counts, prior=prior)
    limits = [
        binomial_upper(int(n), int(k), Fraction(1, 20) * Fraction(share))
        for n, k, share in zip(counts.rows, counts.errors, prior, strict=True)
    ]
    if key == "best_voter":
        assert found.value == pytest.approx(min(limits), rel=1e-12)
        assert found.weights.tolist() == np.eye(3)[int(np.argmin(limits))].tolist()
    else:
        assert found.weights.tolist() == prior
        mean = float(np.dot(prior, limits))
        assert found.value == pytest.approx(mean / 0.5, rel=1e-12)
    even = minimize("folds", counts)
    mean = np.mean(
        [
            binomial_upper(int(n), int(k), Fraction(1, 60))
            for n, k in zip(counts.rows, counts.errors, strict=True)
        ]
    )
    assert even.value == pytest.approx(1.5 * mean, rel=1e-6)


def test_what_a_share_costs_is_the_prior_of_the_voter():
    counts = uneven(2)
    many = evaluate("folds", counts, [1.0, 0.0], prior=[0.999, 0.001]).value
    few = evaluate("folds", counts, [1.0, 0.0], prior=[0.001, 0.999]).value
    n, k = int(counts.rows[0]), int(counts.errors[0])
    assert many == pytest.approx(binomial_upper(n, k, Fraction(999, 20000)), rel=1e-12)
    assert few == pytest.approx(binomial_upper(n, k, Fraction(1, 20000)), rel=1e-9)
    assert ln_inverse_upper(Fraction(1, 20)) > 0


@pytest.mark.parametrize("key", [key for key in BOUNDS if key not in {"binomial", "ndraw"}])
def test_uneven_evidence_is_certified_and_verified(key):
    counts = uneven(4, 800, seed=3)
    certificate = certify(counts, bound=key)
    verdict = verify(certificate, counts)
    assert verdict, verdict.reasons
    key = certificate.bound if key == "best_of" else key
    delta = certificate.delta * certificate.selection
    value = evaluate(key, counts, certificate.weights, delta=delta).value
    assert certificate.risk == pytest.approx(value, rel=1e-6)


def test_millions_of_rows_and_all_weight_on_the_most():
    rows = np.array([[2**21, 2**21], [2**21, 2**23]])
    both = np.array([[2**21, 2**21], [2**21, 3 * 2**21]])
    counts = PairCounts(rows, both, both.copy(), ("a", "b"))
    for weights in ([0.0, 1.0], [0.001, 0.999], [0.5, 0.5]):
        for key in ("fo", "cctnd"):
            verdict = verify(certify(counts, bound=key, weights=weights), counts)
            assert verdict, (key, weights, verdict.reasons)


@pytest.mark.parametrize("times", [2**10, 2**25, 2**30])
def test_any_number_of_rows(times):
    rows = np.array([[32, 8, 8], [8, 32, 16], [8, 16, 24]]) * times
    both = np.array([[32, 8, 0], [8, 32, 8], [0, 8, 16]]) * times
    left = np.array([[32, 8, 8], [8, 32, 16], [0, 8, 16]]) * times
    counts = PairCounts(rows, both, left, ("a", "b", "c"))
    for weights in ([0.0, 0.0, 1.0], [0.3, 0.3, 0.4]):
        for key in ("fo", "tnd"):
            verdict = verify(certify(counts, bound=key, weights=weights), counts)
            assert verdict, (key, weights, verdict.reasons)


@pytest.mark.parametrize("rest", [10**6, 10**12, 2**59])
def test_delta_next_to_one(rest):
    rng = np.random.default_rng(0)
    counts = count(rng.integers(0, 2, (20, 3)), np.zeros(20, int), rng.random((20, 3)) < 0.9)
    for key in ("fo", "tnd", "folds"):
        certificate = certify(counts, bound=key, delta=Fraction(rest, rest + 1), weights=[0, 0, 1])
        assert verify(certificate, counts)
