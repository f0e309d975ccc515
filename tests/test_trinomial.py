"""Germain's second C-bound: its moment, its dual, and how often it fails, enumerated."""

from fractions import Fraction
from math import factorial, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from exact import compositions, multinomial_masses, simplex, xi_exact
from pacvote import BOUNDS, PairCounts, Votes, certify, count, evaluate, minimize, verify
from pacvote.bounds import germain
from pacvote.bounds.evidence import Moments, Quantity, Sizes

C2 = BOUNDS["c2"]()


def kl(q, p):
    """kl(q || p) over the last axis."""
    ratio = np.divide(q, p, out=np.ones(np.broadcast_shapes(q.shape, p.shape)), where=q > 0)
    return (q * np.log(ratio)).sum(axis=-1)


def moment(n):
    """E exp(n kl(p_hat || p)) over three outcomes, whatever p is: as a fraction."""
    total = 0
    for a, b, c in compositions(n, 3).tolist():
        ways = factorial(n) // (factorial(a) * factorial(b) * factorial(c))
        total += ways * a**a * b**b * c**c
    return Fraction(total, n**n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12, 25, 60])
def test_the_moment_is_that_of_two_outcomes_and_n_more(n):
    assert moment(n) == xi_exact(n) + n
    assert float(moment(n)) <= n + 2 * sqrt(n)


def test_its_root_falls_with_the_number_of_rows():
    logs = [log(xi_exact(n) + n) / n for n in range(1, 200)]
    assert logs == sorted(logs, reverse=True)
    # from there on, since xi grows by less than 1 a row: x ln x >= 2 n for x = xi(n) + n
    assert all(x * log(x) >= 2 * n for n in (5, 200, 10**4) for x in [float(n + 1)])


def moments(p_hat, divergence=0.0):
    return Moments({Quantity.TANDEM: p_hat[0], Quantity.ONE_ERRS: p_hat[1]}, divergence, 0.0)


def value(p_hat, n, delta=0.05, **parameters):
    return C2.at(moments(p_hat), Sizes(2, n, n), Fraction(delta), parameters)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5000), st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(sum))
def test_it_is_the_largest_c_bound_that_the_relative_entropy_allows(n, parts):
    p_hat = np.array(parts) / sum(parts)
    found = value(p_hat, n)
    budget = found.witnesses[0].complexity / n
    grid = np.vstack([simplex(60, 3), p_hat + (simplex(24, 3) - p_hat) * 0.05])
    allowed = grid[kl(p_hat, np.maximum(grid, 1e-300)) <= budget]
    gibbs = allowed[:, 0] + allowed[:, 1] / 2
    allowed, gibbs = (x[allowed[:, 0] >= gibbs**2] for x in (allowed, gibbs))  # means of squares
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (allowed[:, 0] - gibbs**2) / (0.25 + allowed[:, 0] - gibbs)
    largest = np.where(gibbs < 0.5, ratio, 1.0).max(initial=0.0)
    assert found.value >= min(1.0, largest) - 1e-9


@pytest.mark.parametrize(
    "p_hat", [(0.05, 0.2, 0.75), (0.0, 0.1, 0.9), (0.01, 0.0, 0.99), (0, 0, 1)]
)
@pytest.mark.parametrize("n", [50, 4000])
def test_mu_and_eta_are_the_best(p_hat, n):
    found, p_hat = value(p_hat, n), np.array(p_hat, dtype=float)
    budget = found.witnesses[0].complexity / n

    def least(mu):
        values = np.array([(1 - mu) ** 2, mu * mu - mu, mu * mu])

        def dual(log_gap):
            gaps = values.max() + np.exp(log_gap) - values
            return values.max() + np.exp(log_gap) - np.exp(p_hat @ np.log(gaps) - budget)

        return minimize_scalar(dual, bounds=(-18, 12), method="bounded").fun / (0.5 - mu) ** 2

    by_hand = min(least(mu) for mu in 0.5 - np.geomspace(0.002, 60, 300))
    assert found.value <= by_hand * (1 + 1e-6)
    assert found.value >= by_hand * 0.98
    assert value(p_hat, n, mu=0.1).value >= found.value * (1 - 1e-9)


WEIGHTS = [np.array(w) for w in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.7, 0.3))]
PATTERNS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


def failing(n, delta, loosened=0.0):
    """The largest chance, over worlds of two voters, that some weights have too small a limit."""
    outcomes, worlds = compositions(n, 4), simplex(6, 4)
    failed = np.zeros((len(worlds), len(outcomes)), dtype=bool)
    for weights in WEIGHTS:
        z = PATTERNS @ weights
        shares = outcomes / n
        both, one = shares @ z**2, 2 * shares @ (z * (1 - z))
        held = weights[weights > 0]
        divergence = -loosened if loosened else float(held @ np.log(2 * held))
        limits = np.array(
            [
                C2.at(moments((t, o), divergence), Sizes(2, n, n), delta, {}).value
                for t, o in zip(both, one, strict=True)
            ]
        )
        failed |= limits < (worlds @ (z >= 0.5))[:, None] - 1e-12
    return float((multinomial_masses(outcomes, worlds) * failed).sum(axis=1).max())


@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 5)])
def test_some_weights_fail_with_delta_at_most(delta):
    assert failing(10, delta) <= delta


def test_the_enumeration_finds_a_limit_that_fails():
    assert failing(10, Fraction(1, 5), loosened=2.19) > 0.2  # next to no price


# ---------------------------------------------------------------- certificates


def some_counts(n=500, m=5, seed=0, risk=0.2):
    rng = np.random.default_rng(seed)
    return count(Votes.from_errors(rng.random((n, m)) < risk, rng.random((n, m)) < 0.7))


@pytest.mark.parametrize("risk", [0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [40, 2000])
def test_what_is_issued_is_accepted(risk, n):
    counts = some_counts(n, risk=risk)
    certificate = certify(counts, bound="c2")
    verdict = verify(certificate, counts)
    assert verdict, verdict.reasons
    assert certificate.risk == pytest.approx(
        evaluate("c2", counts, certificate.weights).value, rel=1e-6
    )


def test_a_worse_mu_or_eta_is_refused_as_a_looser_claim(monkeypatch):
    counts = some_counts(4000, risk=0.05)
    best = germain._best_multipliers
    assert verify(certify(counts, bound="c2"), counts)
    for worse in (lambda mu, eta: (mu - 0.5, eta * 4), lambda mu, eta: (mu, eta * 4)):
        monkeypatch.setattr(germain, "_best_multipliers", lambda *given, w=worse: w(*best(*given)))
        assert not verify(certify(counts, bound="c2"), counts)


def test_minimised_is_never_worse_than_the_prior():
    counts = some_counts(3000, risk=np.array([0.05, 0.05, 0.1, 0.3, 0.45]))
    found = minimize("c2", counts)
    assert found.value < evaluate("c2", counts, np.full(5, 0.2)).value
    assert found.weights[0] > found.weights[4]


def test_pairs_are_taken_at_the_least_number_of_rows():
    rows = np.array([[300, 100], [100, 300]])
    both = np.array([[30, 5], [5, 30]])
    counts = PairCounts(rows, both, np.array([[30, 10], [10, 30]]), ("a", "b"))
    certificate = certify(counts, bound="c2", weights=[0.5, 0.5])
    assert certificate.claims[0].n_samples == 100
    assert verify(certificate, counts)


@pytest.mark.parametrize("weight", [1e-3, 1e-6, 1e-11])
def test_a_voter_of_hardly_any_weight_that_errs(weight):
    errors = np.zeros((60, 2), bool)
    errors[:20, 1] = True
    counts = count(Votes.from_errors(errors))
    certificate = certify(counts, bound="c2", weights=[1 - weight, weight])
    verdict = verify(certificate, counts)
    assert verdict, verdict.reasons
