"""Certified costs: every outcome enumerated, laws, refusals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact import compositions, just_above, worst_failure
from pacvote import Votes, certify_cost
from pacvote.concentration import binomial_upper

SCALE = 2**30
COSTS = np.array([[0, 1], [5, 0]])  # a healthy patient treated, an ill one sent home
OUTCOMES = compositions(14, 3)  # rows that cost 0, 1 and 5


def certificate(outcome, **options):
    truth, said = np.repeat([[0, 0], [0, 1], [1, 0]], outcome, axis=0).T
    return certify_cost(Votes.from_predictions(said[:, None], truth), COSTS, [0, 1], **options)


def exact(outcome, delta, shares):
    return certificate(outcome, delta=delta, shares=shares).exact_cost


def normal(outcome, delta, shares):
    """The mean and 0.84 standard errors: what a text book gives at 80 %."""
    paid = np.repeat([0, 1, 5], outcome)
    return paid.mean() + 0.84 * paid.std() / np.sqrt(len(paid))


def failure(limit, delta, shares=None):
    """The largest probability that the limit is below the expected cost."""
    limits = np.array([float(limit(outcome, delta, shares)) for outcome in OUTCOMES])
    exceeded = just_above([binomial_upper(14, k, delta / 2) for k in range(15)])
    some = np.unique(np.concatenate([exceeded, just_above(np.unique(limits) / 5)]))
    chances = np.array([(SCALE - p, p - q, q) for p, q in itertools.product(some, some) if q <= p])
    violated = (chances @ [0, 1, 5] / SCALE)[:, None] > limits
    return worst_failure(OUTCOMES, chances, violated)


@pytest.mark.parametrize("delta", [Fraction(1, 5), Fraction(1, 20)], ids=str)
@pytest.mark.parametrize("shares", [None, [Fraction(1, 10), Fraction(9, 10)]], ids=str)
def test_the_limit_fails_with_probability_at_most_delta(delta, shares):
    assert failure(exact, delta, shares) <= delta


def test_mean_and_standard_error_fail_more_often():
    assert failure(normal, Fraction(1, 5)) > Fraction(1, 5)


def test_by_hand():
    found = certificate([90, 7, 3])
    one, five = found.exceedances
    assert (one.level, one.n_rows, five.level, five.n_rows) == (1, 10, 5, 3)
    limits = [binomial_upper(100, k, Fraction(1, 40)) for k in (10, 3)]
    assert found.exact_cost == Fraction(limits[0]) + 4 * Fraction(limits[1])
    assert found.mean_cost == 0.22
    assert Fraction(found.cost) >= found.exact_cost
    shown = float(str(found).split("costs at most ")[1].split()[0])
    assert found.cost <= shown <= found.cost * (1 + 1e-5)


def test_a_tie_costs_what_the_worst_would():
    votes = Votes.from_predictions([["a", "b"], ["b", "b"]], ["a", "b"])
    found = certify_cost(votes, [[-1, 3], [2, -2]], ["a", "b"])
    assert found.mean_cost == 0.5
    assert found.lowest == -2


def test_error_as_cost_is_the_binomial_limit():
    errors = np.random.default_rng(0).random((300, 3)) < 0.1
    found = certify_cost(Votes.from_errors(errors), [[0, 1], [1, 0]], [False, True])
    wrong = int((errors.sum(axis=1) >= 2).sum())
    assert found.exact_cost == Fraction(binomial_upper(300, wrong, Fraction(1, 20)))


def test_costs_that_are_all_the_same_are_certain():
    assert certify_cost(Votes.from_errors([[True]]), [[2, 2], [2, 2]], [False, True]).cost > 2


OUTCOME = st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any)


@given(outcome=OUTCOME, scale=st.integers(1, 9), shift=st.integers(-9, 9))
def test_costs_in_another_unit_and_from_another_zero(outcome, scale, shift):
    truth, said = np.repeat([[0, 0], [0, 1], [1, 0]], outcome, axis=0).T
    votes = Votes.from_predictions(said[:, None], truth)
    other = certify_cost(votes, scale * COSTS + shift, [0, 1])
    assert other.exact_cost == scale * certificate(outcome).exact_cost + shift


@given(outcome=OUTCOME)
def test_between_what_was_seen_and_the_largest_cost(outcome):
    found = certificate(outcome)
    assert found.mean_cost <= found.exact_cost <= 5
    assert certificate(outcome, delta=0.01).exact_cost >= found.exact_cost
    free, cheap, dear = outcome
    assert certificate([free, cheap, dear + 1]).mean_cost >= found.mean_cost


def test_order_of_classes_goes_with_the_matrix():
    rng = np.random.default_rng(0)
    said, truth = rng.choice(["x", "y", "z"], (2, 60))
    costs, order = rng.integers(0, 5, (3, 3)), [2, 0, 1]
    votes = Votes.from_predictions(said[:, None], truth)
    found = certify_cost(votes, costs, ["x", "y", "z"])
    turned = certify_cost(votes, costs[np.ix_(order, order)], ["z", "x", "y"])
    assert found.exact_cost == turned.exact_cost
    index = {"x": 0, "y": 1, "z": 2}
    paid = [int(costs[index[t], index[s]]) for t, s in zip(truth, said, strict=True)]
    assert found.mean_cost == np.mean(paid)


@pytest.mark.parametrize(
    ("costs", "classes", "options", "message"),
    [
        ([[0, 1]], [0, 1], {}, "`costs` must be numbers with a row and a column"),
        ([["0", "1"], ["1", "0"]], [0, 1], {}, "`costs` must be numbers"),
        ([[0, np.inf], [1, 0]], [0, 1], {}, "`costs` must be finite"),
        ([[0, 1], [1, 0]], [0, 2], {}, "`classes` lacks 1"),
        ([[0, 1], [1, 0]], [0, 0], {}, "`classes` must list each name once"),
        (COSTS, [0, 1], {"shares": [0.5]}, "`shares` must be 2 parts of delta"),
        (COSTS, [0, 1], {"shares": [0.6, 0.6]}, "together at most 1; got 2 that sum to 1.2"),
        (COSTS, [0, 1], {"delta": 1}, "`delta` must lie in"),
    ],
)
def test_misuse(costs, classes, options, message):
    votes = Votes.from_predictions([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match=message):
        certify_cost(votes, costs, classes, **options)
