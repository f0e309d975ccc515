"""The least of several bounds at shares of delta, and the bound chosen by the shape of evidence."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from pacvote import (
    BOUNDS,
    MajorityVoteClassifier,
    Status,
    Votes,
    certify,
    count,
    evaluate,
    minimize,
    verify,
)
from pacvote.bounds import BestOf, choose
from pacvote.certificate import FIXED, vacuous
from pacvote.exact import to_integers

PAIR = ("best_voter", "cctnd")
HALF = Fraction(1, 2)


def some_votes(n=600, m=7, seed=0, risks=(0.1, 0.3), share=1.0):
    rng = np.random.default_rng(seed)
    errors = rng.random((n, m)) < np.linspace(*risks, m)
    return Votes.from_errors(errors, None if share == 1 else rng.random((n, m)) < share)


def members_of(*keys, shares=None):
    return BestOf(members=tuple(BOUNDS[key]() for key in keys), shares=shares)


# ---------------------------------------------------------------- the least of several


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shares", [None, (Fraction(1, 10), Fraction(4, 5))])
def test_the_value_is_the_least_of_the_members_at_their_shares(seed, shares):
    counts, bound = count(some_votes(seed=seed, share=0.7)), members_of(*PAIR, shares=shares)
    rng = np.random.default_rng(seed)
    weights, prior = rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(7))
    parts = [
        evaluate(key, counts, weights, delta=Fraction(1, 20) * share, prior=prior).value
        for key, share in zip(PAIR, shares or (HALF, HALF), strict=True)
    ]
    assert evaluate(bound, counts, weights, prior=prior).value == min(parts)


def test_minimised_is_the_least_of_the_members_minima():
    counts = count(some_votes(share=0.7))
    found = minimize("best_of", counts)
    parts = [minimize(key, counts, delta=Fraction(1, 40)) for key in PAIR]
    best = min(parts, key=lambda solution: solution.value)
    assert found.value == best.value
    assert (found.weights == best.weights).all()
    assert found.value == evaluate("best_of", counts, found.weights).value


@pytest.mark.parametrize("keys", [PAIR, ("cctnd", "tnd", "ccskl", "two_moment"), ("folds",)])
def test_the_certificate_is_the_best_members_and_names_all(keys):
    counts = count(some_votes(share=0.7))
    certificate = certify(counts, bound=members_of(*keys), delta=0.1)
    assert certificate.bound in keys
    assert certificate.selection == Fraction(1, len(keys))
    assert certificate.selected_from == (keys if len(keys) > 1 else ())
    assert certificate.delta == Fraction(1, 10)
    spent = sum(certificate.ledger.values())
    assert spent == certificate.delta * certificate.selection
    assert verify(certificate, counts)
    weights = certificate.weights
    each = [
        certify(counts, bound=key, delta=Fraction(1, 10 * len(keys)), weights=weights)
        for key in keys
    ]
    assert certificate.exact_risk == min(one.exact_risk for one in each)


def test_a_choice_among_candidates_multiplies():
    counts = count(some_votes(share=0.7))
    certificate = certify(
        counts, bound="best_of", selection=Fraction(1, 3), selected_from=["x", "y"]
    )
    assert certificate.selection == Fraction(1, 6)
    assert certificate.selected_from == ("x", "y", *PAIR)
    assert verify(certificate, counts)


def test_a_share_more_than_was_declared_is_refused_by_the_checker():
    counts = count(some_votes(share=0.7))
    honest = certify(counts, bound="best_of").to_json()
    assert '"selection": "1/2"' in honest
    assert not verify(honest.replace('"selection": "1/2"', '"selection": "1/1"'), counts)


# ---------------------------------------------------------------- weights from the rows


def test_weights_that_another_member_found_are_not_taken_for_fixed():
    votes = some_votes(n=100, m=50, risks=(0.45, 0.45))
    bound = members_of("binomial", "best_voter")
    best = int(np.argmin(votes.errors.sum(axis=0)))
    lucky = np.eye(50)[best]
    fooled = certify(votes, bound="binomial", weights=lucky, delta=Fraction(1, 40)).exact_risk
    found = certify(votes, bound=bound, weights=lucky)
    assert found.bound == "best_voter"
    assert found.exact_risk > fooled
    assert evaluate(bound, votes, lucky).value > evaluate("binomial", votes, lucky).value
    assert FIXED not in found.assumptions


def test_at_the_priors_weights_the_vote_itself_is_counted():
    votes = some_votes(risks=(0.1, 0.1))
    certificate = certify(votes, bound=members_of("binomial", "best_voter"))
    assert certificate.bound == "binomial"
    assert certificate.weight_integers == to_integers(np.full(7, 1 / 7))
    assert FIXED in certificate.assumptions
    assert verify(certificate, votes)


def test_bounds_for_fixed_weights_alone_need_them():
    votes = some_votes()
    bound = members_of("binomial", "binomial")
    with pytest.raises(ValueError, match=r"`weights` must be the prior's for a `best_of`[^\n]*$"):
        certify(votes, bound=bound, weights=np.eye(7)[0])


def hits(key_or_bound, delta, repetitions, *, luckiest):
    """How often a certificate of coin-like voters is false; their risks are known."""
    rng, wrong, m, n = np.random.default_rng(0), 0, 9, 40
    risks = np.full(m, 0.3)
    for _ in range(repetitions):
        votes = Votes.from_errors(rng.random((n, m)) < risks)
        weights = None
        if luckiest:
            weights = np.eye(m)[np.argmin(votes.errors.sum(axis=0))]
        found = certify(votes, bound=key_or_bound, delta=delta, weights=weights)
        wrong += found.exact_risk < true_risk(found.weights, risks)
    return wrong


def true_risk(weights, risks):
    """P(the erring voters have half of the weight), by all 2^m patterns."""
    patterns = (np.arange(2 ** len(risks))[:, None] >> np.arange(len(risks))) & 1
    chance = np.where(patterns, risks, 1 - risks).prod(axis=1)
    return Fraction(float(chance[patterns @ weights >= 0.5].sum()) * (1 - 1e-12))


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("luckiest", [False, True])
def test_the_least_of_many_fails_with_delta_at_most(delta, luckiest):
    bound = members_of("binomial", "best_voter", "folds")
    wrong = hits(bound, delta, 150, luckiest=luckiest)
    assert wrong <= 150 * delta


def test_the_simulation_finds_a_certificate_that_fails():
    assert hits("binomial", 0.2, 150, luckiest=True) > 150 * 0.2  # its weights must be fixed


@pytest.mark.parametrize(("risk", "kept"), [(0.1, "folds"), (0.002, "best_voter")])
def test_the_vote_is_kept_unless_one_voter_claims_much_less(risk, kept):
    folds = np.arange(3000)[:, None] % 3 == np.arange(3)
    errors = np.random.default_rng(0).random((3000, 3)) < [risk, 0.1, 0.1]
    votes = Votes.from_errors(errors & folds, folds)
    certificate = certify(votes, bound="auto")
    held = np.count_nonzero(certificate.weights)
    assert held == (3 if kept == "folds" else 1)
    assert certificate.selected_from == ("folds", "best_voter")
    assert certificate.selection == HALF
    assert verify(certificate, votes)


# ---------------------------------------------------------------- what is no list of members


@pytest.mark.parametrize(
    ("members", "shares", "words"),
    [
        ((), None, "`members` of `best_of` must be a tuple of bound objects"),
        (("fo",), None, "`members` of `best_of` must be a tuple of bound objects"),
        (3, None, "`members` of `best_of` must be a tuple of bound objects"),
        ((BestOf(),), None, "`members` of `best_of` has another `best_of`"),
        ((BOUNDS["fo"](),) * 2, (HALF,), "`shares` of `best_of` must be 2 fractions"),
        (
            (BOUNDS["fo"](),) * 2,
            (HALF, Fraction(2, 3)),
            "`shares` of `best_of` must be 2 fractions",
        ),
        ((BOUNDS["fo"](),) * 2, (HALF, Fraction(0)), "`shares` of `best_of` must be 2 fractions"),
        ((BOUNDS["fo"](),) * 2, HALF, "`shares` of `best_of` must be 2 fractions"),
        ((BOUNDS["fo"](),) * 2, (0.5, 0.5), "`shares` of `best_of` must be 2 fractions"),
    ],
)
def test_bad_members_and_shares(members, shares, words):
    with pytest.raises(ValueError, match=rf"^{words}[^\n]*$"):
        BestOf(members=members, shares=shares)


@pytest.mark.parametrize("slack", [Fraction(1, 2), 1.7, 0])
def test_bad_slack(slack):
    with pytest.raises(ValueError, match=r"^`slack` of `best_of` must be a fraction[^\n]*$"):
        BestOf(slack=slack)


def test_weights_chosen_by_the_rows_get_no_bound_for_fixed_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    alone = members_of("binomial")
    vote = MajorityVoteClassifier(n_estimators=5, bound=alone, validation=0.5).fit(X, y)
    assert vote.certificate_.bound == "binomial"
    with pytest.raises(ValueError, match="must be the prior's"):
        vote.prune(n_voters=1)
    for found in (evaluate, lambda bound, votes, w: certify(votes, bound=bound, weights=w)):
        with pytest.raises(ValueError, match="must be the prior's"):
            found(alone, some_votes(), np.eye(7)[0])


def test_a_member_that_is_not_proven_gets_no_certificate():
    bound = BestOf(members=(BOUNDS["fo"](), BOUNDS["ccpbb"](constants="paper")))
    assert not bound.sound
    with pytest.raises(ValueError, match=r"^`bound` 'ccpbb' with constants='paper' is not proven"):
        certify(count(some_votes()), bound=bound)


@pytest.mark.parametrize("verb", [minimize, lambda bound, c: evaluate(bound, c, [1 / 7] * 7)])
def test_other_verbs_say_where_auto_belongs(verb):
    with pytest.raises(ValueError, match=r"^`bound` 'auto' is for `certify`[^\n]*choose[^\n]*$"):
        verb("auto", count(some_votes()))


def test_nothing_can_be_claimed_without_common_rows():
    errors, own = np.zeros((40, 2), bool), np.arange(40)[:, None] % 2 == [0, 1]
    counts = count(Votes.from_errors(errors, own))
    with pytest.raises(ValueError, match="share"):
        certify(counts, bound="best_of")
    certificate = vacuous(counts, bound="best_of")
    assert verify(certificate, counts)
    assert certificate.risk == 1


# ---------------------------------------------------------------- auto


def shapes():
    """Evidence of each shape, and the keys of the bound for it."""
    split = np.arange(400)[:, None] % 3 == np.arange(3)
    many = np.arange(400)[:, None] % 30 == np.arange(30)
    shared, bagged = some_votes(), some_votes(share=0.7)
    yield shared, ["binomial", "best_voter"]
    yield count(shared), ["best_voter", "cctnd"]
    yield bagged, ["best_voter", "cctnd"]
    yield count(bagged), ["best_voter", "cctnd"]
    yield Votes.from_errors(np.zeros((400, 3), bool), split), ["folds", "best_voter"]
    yield Votes.from_errors(np.zeros((400, 30), bool), many), ["best_voter", "fo"]


@pytest.mark.parametrize(("evidence", "keys"), list(shapes()))
def test_the_shape_decides_and_the_certificate_verifies(evidence, keys, capsys):
    choice = choose(evidence)
    assert [member.key for member, _ in choice.bound.alternatives()] == keys
    certificate = certify(evidence, bound="auto")
    said = capsys.readouterr().err
    assert said == f"{choice}\n"
    assert choice.reason in said
    assert certificate.bound in keys
    assert verify(certificate, evidence)


def test_what_voters_say_does_not_matter():
    for one, other in [
        (some_votes(seed=1), some_votes(seed=2, risks=(0.5, 0.9))),
        (some_votes(seed=1, share=0.7), some_votes(seed=1, share=0.7, risks=(0.5, 0.9))),
    ]:
        assert choose(one) == choose(other)


def test_given_weights_on_shared_rows_may_come_from_them():
    votes = some_votes()
    weights = np.eye(7)[0]
    certificate = certify(votes, bound="auto", weights=weights)
    assert certificate.bound == "ndraw"
    assert certificate.risk == pytest.approx(evaluate("ndraw", votes, weights).value, rel=1e-6)


@pytest.mark.parametrize("validation", ["bootstrap", "subsample", "folds", 0.4])
def test_the_classifier_takes_the_shape_of_its_validation(validation, capsys):
    X, y = load_digits(return_X_y=True)
    strong = validation == "folds"
    vote = MajorityVoteClassifier(
        RandomForestClassifier(10) if strong else None,
        n_estimators=3 if strong else 20,
        validation=validation,
        bound="auto",
        random_state=0,
        verbose=1,
    ).fit(X, y)
    evidence = vote.votes_ if validation == 0.4 else vote.counts_
    assert str(choose(evidence)) in capsys.readouterr().out
    assert verify(vote.certificate_, evidence)
    assert vote.solution_.status is not Status.VACUOUS
    by_hand = [
        minimize(key, evidence).value
        for key in BOUNDS
        if key not in {"best_of", *(("binomial", "ndraw") if validation != 0.4 else ())}
        and not (strong and BOUNDS[key]().needs_pairs())
    ]
    assert vote.certificate_.risk <= 2 * min(by_hand)
