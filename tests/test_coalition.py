"""The smallest losing coalition: by enumeration, in the bounds, and in the checker."""

import importlib
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacvote import BOUNDS, Votes, certify, count, evaluate, verify
from pacvote.bounds.coalition import LARGEST, smallest_losing
from pacvote.exact import UNIT, to_integers

proofs = importlib.import_module("pacvote.verify.proofs")
KEYS = ("fo", "tnd", "cctnd", "c_bound")


def by_enumeration(weights):
    """The least sum of a subset that holds at least half."""
    sums = {0}
    for weight in weights:
        sums |= {one + weight for one in sums}
    return min(one for one in sums if 2 * one >= sum(weights))


def counts_of(n_voters, n_rows=600, seed=0, risk=0.1):
    errors = np.random.default_rng(seed).random((n_rows, n_voters)) < risk
    return count(Votes.from_errors(errors))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=16).filter(any))
@settings(max_examples=300, deadline=None)
def test_it_is_that_of_enumeration(weights):
    assert smallest_losing(weights) == by_enumeration(weights)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda w: sum(w) > 1e-3))
@settings(max_examples=100, deadline=None)
def test_the_checker_finds_the_same(weights):
    integers = to_integers(np.array(weights) / np.sum(weights))
    assert proofs.coalition(list(integers)) == Fraction(smallest_losing(integers), UNIT)


@pytest.mark.parametrize(("n", "c"), [(1, 1), (2, 1 / 2), (3, 2 / 3), (5, 3 / 5), (7, 4 / 7),
                                      (11, 6 / 11), (25, 13 / 25)])  # fmt: skip
def test_uniform_weights(n, c):
    assert smallest_losing([1] * n) / n == c
    assert smallest_losing([1] * n + [0] * 100) / n == c


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12).filter(any), st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_slack_covers_sums_that_are_wrong_by_it(weights, slack):
    true = [w + (slack // len(weights)) * (-1) ** i for i, w in enumerate(weights)]
    if min(true) >= 0 and sum(true) == sum(weights):
        assert smallest_losing(weights, slack) <= by_enumeration(true)
    assert smallest_losing(weights, slack) <= smallest_losing(weights)


@given(
    st.lists(st.integers(1, 9), min_size=LARGEST + 1, max_size=LARGEST + 20), st.integers(1, 400)
)
@settings(max_examples=100, deadline=None)
def test_beyond_the_largest_it_is_never_too_large(weights, heavy):
    weights = [heavy, *weights]
    assert -(-sum(weights) // 2) <= smallest_losing(weights) <= by_enumeration(weights)


def test_one_heavy_voter_among_many():
    assert smallest_losing([99, *[1] * 98]) == 99
    assert smallest_losing([1] * 1000) == 500


@pytest.mark.parametrize("n_voters", [1, 2, 3, 5])
def test_whoever_errs_where_the_vote_errs_holds_it(n_voters):
    """Every pattern of errors, every tie lost: the premise of all bounds that use it."""
    rng = np.random.default_rng(n_voters)
    for weights in (np.full(n_voters, 1 / n_voters), *rng.dirichlet(np.ones(n_voters), 20)):
        integers = to_integers(weights)
        c = smallest_losing(integers)
        held = [
            sum(w for w, errs in zip(integers, pattern, strict=True) if errs)
            for pattern in itertools.product([0, 1], repeat=n_voters)
        ]
        assert min(h for h in held if 2 * h >= UNIT) == c


# ---------------------------------------------------------------- in the bounds


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("n", [3, 5, 7])
def test_sharp_bounds_use_it_and_paper_bounds_do_not(key, n, monkeypatch):
    counts, rho = counts_of(n), np.full(n, 1 / n)
    found, paper = evaluate(key, counts, rho), evaluate(BOUNDS[key]("paper"), counts, rho)
    monkeypatch.setattr(BOUNDS[key], "counts_coalitions", property(lambda _: False))
    half = evaluate(key, counts, rho)
    assert evaluate(BOUNDS[key]("paper"), counts, rho) == paper
    power = {"fo": 1, "tnd": 2}.get(key)
    gain = (2 * ((n + 1) // 2) / n) ** power if power else 1.01
    assert half.value >= found.value * gain * (1 - 1e-9)
    assert half.witnesses == found.witnesses


@pytest.mark.parametrize("key", KEYS)
def test_a_tie_is_lost_however_it_is_rounded(key):
    """Coalitions that rounding to 2^-40 may bring to a half count as losing already."""
    counts = counts_of(4)
    for shift in (0.0, 1e-16, 1e-13, 1e-12):
        rho = np.array([0.25 - shift, 0.25 - shift, 0.25 + shift, 0.25 + shift])
        risk = certify(counts, bound=key, weights=rho).exact_risk
        assert evaluate(key, counts, rho).value >= risk - Fraction(1, 2**38)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from(KEYS))
@settings(max_examples=40, deadline=None)
def test_evaluate_certify_and_verify_agree(seed, n, key):
    counts = counts_of(n, seed=seed)
    rho = np.random.default_rng(seed).dirichlet(np.ones(n))
    certificate = certify(counts, bound=key, weights=rho)
    found = evaluate(key, counts, certificate.weights)
    assert found.value == pytest.approx(certificate.risk, rel=1e-9)
    assert verify(certificate, counts).reasons == ()
