"""Bounds on shared rows: against enumeration, raw rows, balls, and the checker."""

import json
from collections import Counter
from fractions import Fraction
from math import ceil, comb, floor

import numpy as np
import pytest
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from exact import ball, binomial_tail, compositions, multinomial_masses, simplex
from pacvote import (
    Certificate,
    MajorityVoteClassifier,
    Status,
    Votes,
    certify,
    certify_candidates,
    certify_holdout,
    count,
    evaluate,
    minimize,
    verify,
)
from pacvote.bounds import ndraw
from pacvote.bounds.evidence import Moments, Quantity, Sizes
from pacvote.bounds.registry import Problem
from pacvote.bounds.shared import Rows, vote_errors
from pacvote.certificate import ASSUMPTIONS, FIXED, vacuous
from pacvote.exact import UNIT, to_integers
from pacvote.exact_shared import ABOVE, ExactRows, fingerprint_rows
from test_certificate import SCHEMA, errors_of
from test_verify import FREE, mutations, put, text_of

KEYS = ("binomial", "ndraw")
every_key = pytest.mark.parametrize("key", KEYS)


def some_votes(n=400, m=7, seed=0, classes=3, risk=0.2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    wrong = rng.random((n, m)) < risk
    said = np.where(wrong, rng.integers(0, classes, (n, m)), y[:, None])
    return Votes.from_predictions(said, y)


def out_of_bag(n=60, m=3):
    rng = np.random.default_rng(0)
    return Votes.from_errors(rng.random((n, m)) < 0.1, rng.random((n, m)) < 0.8)


# ---------------------------------------------------------------- raw rows


def errors_by_hand(votes, integers):
    """Rows where some other label has at least the weight of the label: in plain Python."""
    wrong = 0
    for said, label in zip(votes.vote_codes.tolist(), votes.label_codes.tolist(), strict=True):
        mass = Counter()
        for code, weight in zip(said, integers, strict=True):
            mass[code] += int(weight)
        right = mass.pop(label, 0)
        wrong += right <= max(mass.values(), default=-1)
    return wrong


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_vote_is_judged_by_its_own_labels_and_ties_are_errors(seed, m, classes, ties):
    votes = some_votes(30, m, seed, classes, risk=0.6)
    weights = np.random.default_rng(seed).integers(0, 3 if ties else 2**38, m)
    weights[0] += 1
    found = vote_errors(votes, weights)
    assert found == errors_by_hand(votes, weights)
    mass = np.zeros((30, len(votes.classes)), dtype=np.int64)
    for voter in range(m):
        mass[np.arange(30), votes.vote_codes[:, voter]] += weights[voter]
    for order in (1, -1):  # the first class, or the last, wins a tie
        winner = np.argmax(mass[:, ::order], axis=1)
        winner = winner if order == 1 else len(votes.classes) - 1 - winner
        assert (winner != votes.label_codes).sum() <= found
    assert found <= int((2 * votes.errors @ weights >= weights.sum()).sum())


def test_errors_without_labels_are_judged_by_half_the_weight():
    votes = Votes.from_errors(np.array([[True, False], [False, False], [True, True]]))
    assert vote_errors(votes, np.array([1, 1])) == 2


def test_the_classifier_predicts_no_worse_than_its_certificate_counted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=400), [-0.5, 0.5])
    vote = MajorityVoteClassifier(
        n_estimators=20, validation=0.5, bound="binomial", random_state=0
    ).fit(X, y)
    (claim,) = vote.certificate_.claims
    counted = vote_errors(vote.votes_, vote.certificate_.weight_numerators)
    assert claim.p_hat == Fraction(ceil(Fraction(counted, 200) * 2**60), 2**60)
    assert vote.solution_.status is Status.FIXED
    assert verify(vote.certificate_, vote.votes_)
    with pytest.raises(ValueError, match=r"^`prune` [^\n]* 'ndraw'$"):
        vote.prune(n_voters=3)
    fitted = vote.refit_weights(bound="ndraw")
    assert verify(fitted.certificate_, fitted.votes_)


def chance_by_hand(z, draws, erring):
    terms = (comb(draws, j) * z**j * (1 - z) ** (draws - j) for j in range(erring, draws + 1))
    return sum(terms, start=Fraction(0))


@pytest.mark.parametrize(("draws", "erring"), [(1, 1), (2, 2), (4, 2), (16, 7), (64, 27)])
def test_the_mean_chance_is_that_of_the_rows_in_fractions(draws, erring):
    votes = some_votes(60, 5, risk=0.5)
    integers = to_integers(np.array([0.4, 0.3, 0.2, 0.1, 0.0]))
    rows = Rows(votes)
    z = [Fraction(int(row @ np.array(integers)), UNIT) for row in votes.errors.astype(object)]
    mean = sum(chance_by_hand(x, draws, erring) for x in z) / 60
    parameters = {"draws": draws, "erring": erring}
    found = ExactRows(rows, integers, (1,) * 5, parameters).mean(Quantity.DRAWN)
    assert abs(found - ABOVE - mean) < Fraction(1, 10**45)
    rho = np.array(integers) / UNIT
    moments, _ = rows.moments((Quantity.DRAWN,), rho, rho, parameters)
    assert moments.lower(Quantity.DRAWN) <= mean <= moments.upper(Quantity.DRAWN)
    assert moments.upper(Quantity.DRAWN) <= mean * (1 + 1e-9)


@pytest.mark.parametrize("c", [Fraction(1, 2), Fraction(2, 3), Fraction(1), Fraction(5, 9)])
def test_the_chance_at_the_threshold_is_exact(c):
    for draws, erring in ((1, 1), (2, 2), (8, 4), (128, 56)):
        exact = floor(chance_by_hand(c, draws, erring) * 2**80)
        assert ndraw.exact_chance(c, draws, erring) == Fraction(exact, 2**80)


def test_the_chance_is_right_for_the_largest_draws():
    for z in (0.01, 0.3, 0.48, 0.49, 0.5, 0.7):
        mass = round(z * UNIT)
        votes = Votes.from_errors(np.array([[True, False], [False, True]]))
        rows = ExactRows(Rows(votes), (mass, UNIT - mass), (1, 1), {"draws": 4096, "erring": 1976})
        with ctx.workprec(400):
            tail = 1 - binomial_tail(4096, 1975, ball(Fraction(mass, UNIT)))
            other = 1 - binomial_tail(4096, 1975, ball(Fraction(UNIT - mass, UNIT)))
            mean = (tail + other) / 2
            assert abs(ball(rows.mean(Quantity.DRAWN) - ABOVE) - mean) < 1e-40


# ---------------------------------------------------------------- enumeration


@pytest.mark.parametrize("n", [1, 2, 7, 30])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 5), Fraction(1, 2)])
def test_the_exact_bound_fails_with_delta_at_most_and_hardly_less(n, delta):
    limits = []
    for k in range(n + 1):
        errors = np.arange(n)[:, None] < k
        certificate = certify(Votes.from_errors(errors), bound="binomial", delta=delta)
        assert verify(certificate, Votes.from_errors(errors))
        limits.append(certificate.exact_risk)
    assert limits == sorted(limits)
    for p in {*(limit + Fraction(1, 2**50) for limit in limits[:-1]), Fraction(1, 3)}:
        chances = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        failed = sum(c for c, limit in zip(chances, limits, strict=True) if limit < p)
        assert failed <= delta
    p = limits[0] + Fraction(1, 2**50)
    assert p > 1 or (1 - p) ** n > delta * (1 - Fraction(1, 10**6))


WEIGHTS = [np.array(w) for w in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.7, 0.3), (0.3, 0.7))]
PATTERNS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


def failing(outcomes, worlds, limit_of, delta):
    """The largest chance, over all worlds, that some weights have a limit below their risk."""
    n = outcomes[0].sum()
    chances = multinomial_masses(outcomes, worlds)
    failed = np.zeros(chances.shape, dtype=bool)
    for weights in WEIGHTS:
        z = PATTERNS @ weights
        limits = np.array([limit_of(outcome / n, z, weights, delta) for outcome in outcomes])
        risks = worlds @ (z >= 0.5)
        failed |= limits[None, :] < risks[:, None] - 1e-12
    return float((chances * failed).sum(axis=1).max())


def limit_of(point, n):
    """The value of `ndraw` with one point in its grid, for two voters."""
    bound, parameters = ndraw.NDraw(), dict(zip(("draws", "erring"), point, strict=True))

    def limit(shares, z, weights, delta):
        value = float(shares @ ndraw.chance(z, *point))
        held = weights[weights > 0]
        kl = float(held @ np.log(2 * held))
        c = min(x for x in z if x >= 0.5)
        moments = Moments({Quantity.DRAWN: value}, kl, 1e-9, c)
        return bound.at(moments, Sizes(2, n, n), delta, parameters).value

    return limit


@pytest.mark.parametrize("point", [(1, 1), (2, 2), (16, 7), (256, 115)])
@pytest.mark.parametrize("delta", [Fraction(1, 5), Fraction(1, 20)])
def test_no_weights_have_a_limit_below_their_risk_too_often(monkeypatch, point, delta):
    """All outcomes of 14 rows and two voters, and the luckiest weights in each."""
    monkeypatch.setattr(ndraw, "GRID", (point,))
    outcomes, worlds = compositions(14, 4), simplex(8, 4)
    assert failing(outcomes, worlds, limit_of(point, 14), delta) <= delta


def test_the_enumeration_finds_a_limit_that_fails():
    outcomes, worlds = compositions(14, 4), simplex(8, 4)

    def plug_in(shares, z, weights, delta):
        return float(shares @ (z >= 0.5))

    assert failing(outcomes, worlds, plug_in, Fraction(1, 5)) > 0.2


def test_some_candidate_fails_with_delta_at_most():
    """Two votes, declared beforehand, of voters whose errors are independent."""
    n, delta = 12, Fraction(1, 5)
    limits = [
        certify(
            Votes.from_errors(np.arange(n)[:, None] < k),
            bound="binomial", delta=delta, selection=Fraction(1, 2),
        ).exact_risk
        for k in range(n + 1)
    ]  # fmt: skip
    for p in {limit + Fraction(1, 2**50) for limit in limits[:-1]}:
        chances = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        one = sum(c for c, limit in zip(chances, limits, strict=True) if limit < p)
        assert 1 - (1 - one) ** 2 <= delta


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("point", [(1, 1), (8, 4), (64, 27), (512, 235)])
def test_gradient(point):
    votes = some_votes(200, 4, risk=0.4)
    problem = Problem.of(ndraw.NDraw(), votes, 0.05, None)
    rho, parameters = np.array([0.4, 0.3, 0.2, 0.1]), {"draws": point[0], "erring": point[1]}

    def at(weights):
        evidence, bound = problem.evidence, problem.bound
        moments, slopes = evidence.moments(bound.quantities, weights, problem.prior, parameters)
        outcome = bound.at(moments, evidence.sizes, problem.delta, parameters)
        log = np.log(weights / problem.prior)
        slope = outcome.by_moment[Quantity.DRAWN] * slopes[Quantity.DRAWN]
        return outcome.value, slope + outcome.by_divergence * log

    for i, j in ((0, 1), (1, 2), (2, 3)):
        way = 1e-6 * (np.eye(4)[i] - np.eye(4)[j])
        change = (at(rho + way)[0] - at(rho - way)[0]) / 2e-6
        slope = at(rho)[1]
        assert change == pytest.approx(slope[i] - slope[j], rel=1e-4, abs=1e-6)


def test_minimised_is_never_worse_than_the_prior_and_leaves_bad_voters():
    votes = some_votes(2000, 8, risk=np.where(np.arange(8) < 4, 0.1, 0.9)[None])
    found = minimize("ndraw", votes)
    uniform = np.full(8, 1 / 8)
    assert found.value < evaluate("ndraw", votes, uniform).value
    assert found.value == evaluate("ndraw", votes, found.weights).value
    assert found.weights[4:].sum() < 0.1
    learnt = np.where(np.arange(8) < 4, 0.2499, 0.0001)
    assert minimize("ndraw", votes, prior=learnt).value < found.value


def test_the_bound_is_that_of_any_order_of_rows_and_voters():
    votes, rng = some_votes(300, 5), np.random.default_rng(1)
    said, y = votes.classes[votes.vote_codes], votes.labels
    rows, voters, weights = rng.permutation(300), rng.permutation(5), rng.dirichlet(np.ones(5))
    other = Votes.from_predictions(said[rows][:, voters], y[rows])
    for key in KEYS:
        one = certify(votes, bound=key, weights=weights)
        two = certify(other, bound=key, weights=weights[voters])
        assert abs(one.exact_risk - two.exact_risk) < 1e-6
        least = evaluate(key, votes, one.weights).value
        assert least - 1e-8 <= one.exact_risk <= least + 1e-9


def test_for_weights_fixed_beforehand_the_priors_are_certified():
    votes, prior = some_votes(), np.array([4, 3, 2, 1, 0, 0, 0]) / 10
    found = minimize("binomial", votes, prior=prior)
    assert found.status is Status.FIXED
    assert found.weights.tolist() == prior.tolist()
    certificate = certify(votes, bound="binomial", prior=prior)
    assert certificate.weight_integers == to_integers(prior)
    assert certificate.assumptions == (*ASSUMPTIONS, FIXED)
    assert FIXED in verify(certificate, votes).unchecked
    assert certify(votes, bound="ndraw").assumptions == ASSUMPTIONS


# ---------------------------------------------------------------- certificates


deltas = st.one_of(
    st.sampled_from([Fraction(1, 2), Fraction(1, 3), 0.05, 0.2]),
    st.floats(5e-324, 1, exclude_max=True).filter(lambda x: 1 - Fraction(repr(x)) > 2**-59),
)


@given(
    st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 5), st.sampled_from(KEYS), deltas,
    st.sampled_from([0.0, 0.05, 0.5, 1.0]), st.booleans(),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_what_is_issued_is_accepted(seed, n, m, key, delta, risk, sparse):
    votes, rng = some_votes(n, m, seed, 4, risk), np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(m, 0.05 if sparse else 1.0))
    certificate = certify(votes, bound=key, weights=weights, delta=delta)
    assert verify(certificate, votes).reasons == ()
    assert verify(certificate.to_json(), votes)


@pytest.mark.parametrize("m", [1, 255, 256, 300])
def test_many_voters_and_minimised_weights(m):
    votes = some_votes(40, m)
    for key in KEYS:
        assert verify(certify(votes, bound=key), votes).reasons == ()


@every_key
def test_certificates_follow_the_schema_and_load(key, tmp_path):
    certificate = certify(some_votes(), bound=key)
    assert list(errors_of(json.loads(certificate.to_json()), SCHEMA)) == []
    certificate.save(tmp_path / "c.json")
    assert Certificate.load(tmp_path / "c.json").to_json() == certificate.to_json()
    assert f"(bound '{key}')" in str(certificate)
    with pytest.raises(TypeError, match=r"^`bound` [^\n]*use `certify`$"):
        vacuous(count(some_votes()), bound=key)


@every_key
def test_every_mutation_is_refused_or_changes_nothing(key):
    votes = some_votes(500, 4)
    weights = [0.4, 0.3, 0.2, 0.1]
    raw = text_of(certify(votes, bound=key, weights=weights, delta=0.2))
    assert verify(json.dumps(raw), votes)
    tally = Counter()
    for path, other in mutations(raw):
        changed = put(raw, path, other)
        if json.dumps(changed) == json.dumps(raw):
            continue
        refused = not verify(json.dumps(changed), votes)
        tally["refused" if refused else "accepted"] += 1
        nothing = key == "binomial" and path == ("prior_integers",)  # depends on that prior
        nothing = nothing and isinstance(other, list) and sum(other) == UNIT
        assert refused or path[0] in FREE or nothing, (path, other)
    print(f"{key}: {tally['refused']} of {tally.total()} refused")
    assert tally["refused"] > 300


def test_another_point_or_another_grid_is_refused(monkeypatch):
    votes = some_votes()
    for grid in (((2000, 960),), (*ndraw.GRID, (3, 2)), ndraw.GRID[:-1]):
        monkeypatch.setattr(ndraw, "GRID", grid)
        verdict = verify(certify(votes, bound="ndraw", weights=[1 / 7] * 7), votes)
        assert "grid" in verdict.reasons[0]


@every_key
def test_other_votes_are_refused(key):
    votes = some_votes(90, 3)
    certificate = certify(votes, bound=key, weights=[0.5, 0.25, 0.25])
    said, y = votes.classes[votes.vote_codes], votes.labels
    for row in range(0, 90, 7):
        other = said.copy()
        right = other[row, 0] == y[row]
        other[row, 0] = (y[row] + 1) % 3 if right else y[row]
        assert verify(certificate, Votes.from_predictions(other, y)).reasons == (
            "the evidence has another SHA-256",
        )
    assert not verify(certificate, Votes.from_predictions(said[1:], y[1:]))
    assert not verify(certificate, Votes.from_predictions(said[:, ::-1], y))
    assert "votes themselves" in verify(certificate, count(votes)).reasons[0]
    assert "votes themselves" in verify(certificate, "counts.npz").reasons[0]
    assert not verify(certify(votes), Loose())


class Loose:
    """Evidence that nobody has checked."""

    vote_codes = label_codes = voters = error_bits = "ab"


def test_the_fingerprint_is_that_of_what_was_said_whatever_it_is_called():
    votes = some_votes(90, 3)
    said, y = votes.classes[votes.vote_codes], votes.labels
    names, order = np.array(["z", "y", "x"]), np.random.default_rng(0).permutation(90)
    for other in ((names[said], names[y]), (said[order], y[order]), (-said, -y)):
        assert fingerprint_rows(Votes.from_predictions(*other)) == fingerprint_rows(votes)
    named = Votes.from_predictions(said, y, voters=["a", "b", "c"])
    assert fingerprint_rows(named) != fingerprint_rows(votes)


# ---------------------------------------------------------------- candidates


def test_candidates_share_delta_and_all_certificates_hold():
    votes = some_votes(600, 4)
    choices = {"uniform": [0.25] * 4, "first": [1, 0, 0, 0], "tuned": [0.4, 0.3, 0.2, 0.1]}
    found = certify_candidates(votes, choices)
    assert found.best.exact_risk == min(c.exact_risk for c in found.certificates.values())
    assert found.best is found.certificates[found.name]
    for name, certificate in found.certificates.items():
        assert certificate.selection == Fraction(1, 3)
        assert certificate.selected_from == tuple(choices)
        assert sum(certificate.ledger.values()) == Fraction(1, 60)
        alone = certify(votes, bound="binomial", weights=choices[name], delta=Fraction(1, 60))
        assert certificate.exact_risk == alone.exact_risk
        assert verify(certificate, votes)
    shares = {"uniform": Fraction(1, 2), "first": 0.25, "tuned": 0.25}
    skewed = certify_candidates(votes, choices, prior=shares)
    assert skewed.certificates["uniform"].exact_risk < found.certificates["uniform"].exact_risk
    (single,) = certify_candidates(votes, {"a": [1, 0, 0, 0]}, prior={"a": 1}).certificates.values()
    assert (single.selection, single.selected_from) == (1, ())


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ({"a": 0.5}, "for each candidate"),
        ({"a": 0.5, "b": 0.6}, "sum to 1"),
        ({"a": 0, "b": 1}, "0"),
    ],
)
def test_shares_that_are_no_prior_are_refused(prior, words):
    with pytest.raises(ValueError, match=rf"^`prior`[^\n]*{words}[^\n]*$"):
        certify_candidates(some_votes(9, 2), {"a": [1, 0], "b": [0, 1]}, prior=prior)
    with pytest.raises(ValueError, match="`candidates` is empty"):
        certify_candidates(some_votes(9, 2), {})


def test_weights_tuned_out_of_bag_are_compared_on_one_hold_out():
    rng = np.random.default_rng(0)
    training = count(Votes.from_errors(rng.random((500, 4)) < 0.2, rng.random((500, 4)) < 0.5))
    holdout = some_votes(500, 4)
    found = certify_holdout(training, holdout)
    assert set(found.certificates) == {"uniform", "fo", "tnd", "cctnd"}
    for key in ("fo", "tnd", "cctnd"):
        weights = to_integers(minimize(key, training).weights)
        assert found.certificates[key].weight_integers == weights
    assert all(verify(certificate, holdout) for certificate in found.certificates.values())
    assert set(certify_holdout(training, holdout, tuned=["tnd"]).certificates) == {"uniform", "tnd"}
    with pytest.raises(ValueError, match=r"^`holdout` must have the voters[^\n]*$"):
        certify_holdout(training, some_votes(500, 5))


# ---------------------------------------------------------------- refusals


@every_key
def test_counts_and_rows_that_are_not_shared_are_refused(key):
    calls = (
        lambda evidence: evaluate(key, evidence, [1 / 3] * 3),
        lambda evidence: minimize(key, evidence),
        lambda evidence: certify(evidence, bound=key),
    )
    for call in calls:
        with pytest.raises(TypeError, match=r"^`evidence` is PairCounts[^\n]*give Votes[^\n]*$"):
            call(count(out_of_bag()))
        with pytest.raises(ValueError, match=r"^`evidence` has voters with different[^\n]*$"):
            call(out_of_bag())


def test_points_off_the_grid_are_refused():
    votes, weights = some_votes(), [1 / 7] * 7
    given = evaluate("ndraw", votes, weights, parameters={"draws": 64})
    assert given.parameters == {"draws": 64, "erring": 27}
    for parameters in ({"draws": 3}, {"draws": 64, "erring": 28}):
        with pytest.raises(ValueError, match=r"^`parameters` [^\n]* not on the grid[^\n]*$"):
            evaluate("ndraw", votes, weights, parameters=parameters)


@every_key
@pytest.mark.parametrize("validation", ["bootstrap", "subsample", "folds"])
def test_the_classifier_needs_a_hold_out(key, validation):
    vote = MajorityVoteClassifier(n_estimators=3, validation=validation, bound=key)
    with pytest.raises(ValueError, match=r"^`bound` [^\n]*use validation=0.5[^\n]*$"):
        vote.fit(np.zeros((20, 2)), np.arange(20) % 2)
