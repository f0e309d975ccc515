"""Certificates per group: every outcome enumerated, laws, refusals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification

from exact import compositions, just_above, worst_failure
from pacvote import MajorityVoteClassifier, Votes, certify_groups
from pacvote._ballot import Ballot
from pacvote.concentration import binomial_upper

SCALE = 2**30
N = 9
OUTCOMES = compositions(N, 4)  # rows of a that are right and wrong, rows of b likewise


def certified(outcome, delta):
    """The limits of both groups, from the votes of one voter on the rows of an outcome."""
    right = np.repeat([1, 0, 1, 0], outcome).astype(bool)
    group = np.repeat(["a", "a", "b", "b"], outcome)
    votes = Votes.from_errors(~right[:, None])
    found = certify_groups(votes, ["a", "b"], groups=group, delta=delta)
    return [one.risk for one in found.groups]


def failure(delta):
    """The largest probability that either limit is below its group's risk."""
    limits = np.array([certified(outcome, delta) for outcome in OUTCOMES])
    risks = just_above(np.unique(limits))
    chances, truth = [], []
    for p, q, share in itertools.product(risks, risks, [1, 3]):
        pieces = [share * (SCALE - p), share * p, (4 - share) * (SCALE - q), (4 - share) * q]
        chances.append(pieces)
        truth.append([p / SCALE, q / SCALE])
    violated = (np.array(truth)[:, None, :] > limits[None]).any(axis=2)
    return worst_failure(OUTCOMES, np.array(chances), violated)


@pytest.mark.parametrize("delta", [Fraction(1, 5), Fraction(1, 20)], ids=str)
def test_no_group_fails_with_probability_above_delta(delta):
    assert failure(delta) <= delta


def test_all_of_delta_for_each_group_fails_more_often():
    delta = Fraction(1, 5)
    assert failure(2 * delta) > delta


def table(rng, n=200, voters=3):
    truth = rng.choice(["x", "y", "z"], n)
    said = np.where(rng.random((n, voters)) < 0.7, truth[:, None], "y")
    return said, truth


def test_classes_are_counted_as_the_vote_says_them():
    said, truth = table(np.random.default_rng(0))
    weights = np.array([0.2, 0.3, 0.5])
    found = certify_groups(Votes.from_predictions(said, truth), ["z", "y", "x"], weights=weights)
    for group in found.groups:
        rows = np.flatnonzero(truth == group.name)
        right = [weights[said[row] == group.name].sum() for row in rows]
        errors = sum(mass <= 0.5 for mass in right)  # half of the weight is a tie: an error
        assert (group.n_rows, group.n_errors) == (len(rows), errors)
        assert group.risk == binomial_upper(len(rows), errors, Fraction(1, 60))
    assert found.worst.risk == max(group.risk for group in found.groups)
    assert str(found).startswith("With 95 % confidence, for all 3 groups at once")


def test_a_plurality_is_no_error_and_a_tie_is_one():
    said = [["a", "b", "a", "c"], ["a", "b", "b", "a"]]
    (group,) = certify_groups(Votes.from_predictions(said, ["a", "a"]), ["a"]).groups
    assert group.n_errors == 1


def test_a_group_without_rows_is_told_so():
    votes = Votes.from_errors(np.zeros((9, 1), dtype=bool))
    found = certify_groups(votes, [1, 2], groups=np.ones(9, dtype=int))
    assert [group.risk for group in found.groups] == [binomial_upper(9, 0, Fraction(1, 40)), 1.0]
    assert "2: no labelled row, so nothing is claimed (100 %)" in str(found)


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_and_order_of_names_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    said, truth = table(rng, 40)
    group, order = rng.integers(0, 3, 40), rng.permutation(40)
    one = certify_groups(Votes.from_predictions(said, truth), [0, 1, 2], groups=group)
    votes = Votes.from_predictions(said[order], truth[order])
    other = certify_groups(votes, [2, 0, 1], groups=group[order])
    assert {g.name: g for g in one.groups} == {g.name: g for g in other.groups}


@given(errors=st.lists(st.booleans(), min_size=1, max_size=40), where=st.integers(0, 39))
def test_one_error_more_or_less_delta_raises_limits(errors, where):
    def limits(rows, delta=0.05):
        return certify_groups(Votes.from_errors(np.array(rows)[:, None]), [False], delta=delta)

    more = list(errors)
    more[where % len(errors)] = True
    least = limits(errors).worst.risk
    assert limits(more).worst.risk >= least
    assert limits(errors, 0.01).worst.risk >= least


VOTES = Votes.from_errors([[False], [True]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"], "groups": ["a", "b"]}, "`names` lacks 'b', which occurs"),
        ({"names": [1.0], "groups": [1.0, np.nan]}, "`names` lacks nan"),
        ({"names": ["a", "a"], "groups": ["a", "a"]}, "`names` must list each name once"),
        ({"names": "ab", "groups": ["a", "b"]}, "`names` must list each name once"),
        ({"names": []}, "`names` must list each name once"),
        ({"names": ["a"], "groups": ["a"]}, "`groups` must have shape"),
        ({"names": [False], "delta": 0}, "`delta` must lie in"),
        ({"names": [False], "weights": [0.5, 0.5]}, "`weights` must be 1 numbers"),
    ],
)
def test_misuse(options, message):
    with pytest.raises(ValueError, match=message):
        certify_groups(VOTES, **options)


def test_out_of_bag_votes_are_refused():
    votes = Votes.from_errors([[False], [True]], validated=[[True], [False]])
    with pytest.raises(ValueError, match="`votes` must be of rows that every voter was asked"):
        certify_groups(votes, [False])


def test_the_ballot_is_that_of_the_classifier():
    X, y = make_classification(400, 8, flip_y=0.2, n_classes=3, n_informative=4, random_state=0)
    vote = MajorityVoteClassifier(n_estimators=7, random_state=0).fit(X[:200], y[:200])
    votes = Votes.from_predictions(vote.votes(X[200:]), y[200:])
    ballot = Ballot.of(votes, vote.weights_)
    shares = np.sort(vote.predict_proba(X[200:]), axis=1)
    assert ballot.weights == vote.certificate_.weight_integers
    assert np.array_equal(ballot.margins, shares[:, -1] - shares[:, -2])
    clear = ballot.margins > 0
    wrong = vote.predict(X[200:]) != y[200:]
    assert np.array_equal(ballot.erred, wrong | ~clear)
    found = certify_groups(votes, [0, 1, 2], weights=vote.weights_)
    assert sum(group.n_errors for group in found.groups) == ballot.erred.sum()
