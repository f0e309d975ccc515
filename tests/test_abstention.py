"""Certified abstention: every outcome enumerated, with and without the fixed sequence."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact import compositions, just_above, worst_failure
from pacvote import Votes, abstention, certify_abstention
from pacvote.concentration import binomial_lower, binomial_upper

SCALE = 2**30
WEIGHTS = [0.5, 0.3, 0.2]
# Which of three voters err: unanimous, then the lightest alone against the rest; at last a tie.
PATTERNS = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0], [1, 0, 0]], dtype=bool)
THRESHOLDS = [0.5, 0.9]
OUTCOMES = compositions(10, 5)
TARGET, DELTA = Fraction(1, 2), Fraction(1, 5)


def certificate(outcome, coverage_share):
    votes = Votes.from_errors(np.repeat(PATTERNS, outcome, axis=0))
    return certify_abstention(
        votes, TARGET, THRESHOLDS, weights=WEIGHTS, delta=DELTA, coverage_share=coverage_share
    )


def worlds(coverages):
    """Chances of the patterns: risks right above the target, coverages right below the claims."""
    risks = [0, SCALE // 4, SCALE // 2 + 1, SCALE * 5 // 8, SCALE]
    strict = SCALE - just_above(1 - np.unique(coverages))
    for answered, p, q in itertools.product(strict.tolist(), risks, risks):
        for more in {0, (SCALE - answered) // 2, SCALE - answered}:
            rest = (SCALE - answered - more) * SCALE
            yield [
                answered * (SCALE - p), answered * p, more * (SCALE - q), more * q, rest
            ]  # fmt: skip


def failure(coverage_share):
    """The largest probability of a certified threshold above the target, or a false coverage."""
    found = [certificate(outcome, coverage_share) for outcome in OUTCOMES]
    certified = np.array([[step.certified for step in one.steps] for one in found])
    coverage = np.array([[step.coverage for step in one.steps] for one in found])
    chances = np.array(list(worlds(coverage)))
    answered = np.stack([chances[:, :2].sum(axis=1), chances[:, :4].sum(axis=1)], axis=1)
    errors = np.stack([chances[:, 1], chances[:, 1] + chances[:, 3]], axis=1)
    false = errors * TARGET.denominator > answered * TARGET.numerator
    share = answered / SCALE**2
    violated = (certified & false[:, None, :]) | (coverage > share[:, None, :])
    return worst_failure(OUTCOMES, chances, violated.any(axis=2))


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 5), Fraction(4, 5)], ids=str)
def test_claims_fail_with_probability_at_most_delta(share):
    assert failure(share) <= DELTA


def any_that_passes(seen, target, delta):
    return [n > 0 and binomial_upper(n, k, delta) <= target for n, k in seen]


def test_a_threshold_chosen_by_the_data_fails_more_often(monkeypatch):
    monkeypatch.setattr(abstention, "_fixed_sequence", any_that_passes)
    assert failure(Fraction(1, 100)) > DELTA


def test_coverage_that_is_only_estimated_fails_more_often(monkeypatch):
    monkeypatch.setattr(abstention, "binomial_lower", lambda n, k, _: k / n)
    assert failure(Fraction(1, 100)) > DELTA


def test_by_hand():
    votes = Votes.from_errors(np.repeat(PATTERNS, [80, 1, 30, 3, 5], axis=0))
    found = certify_abstention(votes, 0.1, [0.5, 0.9, 0.0], weights=WEIGHTS)
    seen = [(step.threshold, step.n_answered, step.n_errors) for step in found.steps]
    assert seen == [(0.9, 81, 1), (0.5, 114, 4), (0.0, 119, 9)]
    assert [step.certified for step in found.steps] == [True, True, False]
    share = Fraction(1, 20) / 5 / 3
    assert found.chosen.coverage == binomial_lower(119, 114, share)
    claim, _, *assumptions = str(found).splitlines()
    assert "(margin of at least 0.5) it errs on at most 10.00 %" in claim
    assert assumptions == [f"- {one}" for one in found.assumptions]


def test_nothing_passes_after_the_first_failure():
    votes = Votes.from_errors(np.repeat(PATTERNS, [5, 0, 200, 0, 0], axis=0))
    found = certify_abstention(votes, 0.1, THRESHOLDS, weights=WEIGHTS)
    assert binomial_upper(205, 0, 0.01) < 0.1
    assert [step.certified for step in found.steps] == [False, False]
    assert found.chosen is None
    assert str(found).endswith("It must abstain from all.")
    assert not found.answer(np.zeros((3, 3), dtype=int))[1].any()


def test_answers_are_those_that_were_judged():
    rng = np.random.default_rng(0)
    truth = rng.choice(["a", "b", "c"], 400)
    said = np.where(rng.random((400, 5)) < 0.9, truth[:, None], "c")
    weights = rng.dirichlet(np.ones(5))
    votes = Votes.from_predictions(said, truth)
    found = certify_abstention(votes, 0.2, [0.9, 0.6, 0.3], weights=weights)
    labels, answered = found.answer(said)
    assert answered.sum() == found.chosen.n_answered
    assert (labels != truth)[answered].sum() == found.chosen.n_errors
    with pytest.raises(ValueError, match="`predictions` must have 5 voters, got 4"):
        found.answer(said[:, 1:])


COUNTS = st.lists(st.integers(0, 30), min_size=5, max_size=5).filter(any)


@given(counts=COUNTS, lenient=st.floats(0, 0.4))
def test_a_more_lenient_threshold_changes_none_before_it(counts, lenient):
    votes = Votes.from_errors(np.repeat(PATTERNS, counts, axis=0))
    few, more = (
        certify_abstention(votes, 0.2, thresholds, weights=WEIGHTS)
        for thresholds in (THRESHOLDS, [*THRESHOLDS, lenient])
    )
    assert [s.certified for s in few.steps] == [s.certified for s in more.steps[:2]]
    assert all(s.coverage >= t.coverage for s, t in zip(few.steps, more.steps, strict=False))


@given(counts=COUNTS, target=st.floats(0.05, 0.8))
def test_a_looser_target_certifies_no_less(counts, target):
    votes = Votes.from_errors(np.repeat(PATTERNS, counts, axis=0))
    strict, loose = (
        certify_abstention(votes, value, THRESHOLDS, weights=WEIGHTS)
        for value in (target, target + 0.1)
    )
    pairs = zip(strict.steps, loose.steps, strict=True)
    assert all(s.certified <= t.certified for s, t in pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 0}, "`target` must lie in"),
        ({"target": 1}, "`target` must lie in"),
        ({"thresholds": []}, "`thresholds` must list margins"),
        ({"thresholds": [0.5, 1.1]}, "`thresholds` must list margins"),
        ({"thresholds": [float("nan")]}, "`thresholds` must list margins"),
        ({"delta": 2}, "`delta` must lie in"),
        ({"coverage_share": 0}, "`coverage_share` must lie in"),
    ],
)
def test_misuse(options, message):
    given = {"target": 0.1, "thresholds": [0.5], **options}
    with pytest.raises(ValueError, match=message):
        certify_abstention(Votes.from_errors([[False]]), **given)
