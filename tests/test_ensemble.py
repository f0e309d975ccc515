"""MajorityVoteClassifier behaves like any classifier, and its votes are counted as by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from pacvote import count, evaluate
from pacvote.adapters import reweight
from pacvote.ensemble import MajorityVoteClassifier
from pacvote.voters import paper_ensemble

X, y = make_classification(
    400, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=0
)
WORDS = np.array(["ant", "bee", "cat"])[y]
NEW = make_classification(100, 6, n_informative=4, random_state=1)[0]
PAIR = [("nb", GaussianNB()), ("nn", KNeighborsClassifier()), ("lr", LogisticRegression())]


def small(estimator=None, **params):
    return MajorityVoteClassifier(
        estimator, **{"n_estimators": 9, "random_state": 0, "max_samples": 0.5} | params
    )


@pytest.mark.filterwarnings("ignore:the certificate is vacuous:UserWarning")
@parametrize_with_checks(
    [
        MajorityVoteClassifier(),
        MajorityVoteClassifier(paper_ensemble()),
    ]
)
def test_is_an_estimator_as_scikit_learn_checks_it(estimator, check):
    check(estimator)


# --- the vote ---


def test_the_default_is_scikit_learns_forest():
    vote = MajorityVoteClassifier(n_estimators=12, random_state=3).fit(X, y)
    forest = RandomForestClassifier(12, random_state=3).fit(X, y)
    for ours, theirs in zip(vote.estimators_, forest.estimators_, strict=True):
        assert np.array_equal(ours.tree_.threshold, theirs.tree_.threshold)
        assert np.array_equal(ours.tree_.feature, theirs.tree_.feature)
    validated = np.ones((len(y), 12), bool)
    for voter, bag in enumerate(forest.estimators_samples_):
        validated[bag, voter] = False
    predictions = np.stack([tree.predict(X).astype(int) for tree in forest.estimators_], axis=1)
    assert vote.counts_ == count(predictions, y, validated)


@pytest.mark.parametrize("estimator", [None, PAIR], ids=["trees", "others"])
@pytest.mark.parametrize("validation", ["bootstrap", "subsample", "folds", 0.3])
def test_counts_are_those_of_the_rows_outside_of_the_bag(estimator, validation):
    size = None if validation == "folds" else 0.5
    vote = small(estimator, validation=validation, max_samples=size).fit(X, WORDS)
    errors = vote.votes(X) != WORDS[:, None]
    if validation == 0.3:
        assert vote.votes_.shared
        assert vote.votes_.n_samples == 120
        assert np.array_equal(vote.counts_.errors, vote.votes_.errors.sum(axis=0))
        assert set(vote.votes_.labels) == set(WORDS)
    else:
        validated = vote.votes_.validated
        assert np.array_equal(vote.votes_.errors, errors & validated)
        assert validated.any(axis=0).all()
        assert not validated.all()
    assert vote.counts_ == count(vote.votes_)


def test_folds_cover_every_row_once():
    vote = small(PAIR, validation="folds", max_samples=None).fit(X, y)
    assert np.array_equal(vote.votes_.validated.sum(axis=1), np.ones(len(y)))
    assert set(vote.counts_.rows) <= {133, 134}
    assert vote.certificate_.bound == "folds"
    with pytest.raises(ValueError, match=r"`bound` 'tnd' .* needs rows that two voters share"):
        clone(vote).set_params(bound="tnd").fit(X, y)


def test_bags_do_not_depend_on_labels():
    for validation in ("bootstrap", "subsample", 0.3):
        one = small(validation=validation).fit(X, y)
        other = small(validation=validation).fit(X, np.arange(len(y)) % 2)
        assert np.array_equal(one.votes_.validated, other.votes_.validated)
    held = small(validation=0.3, random_state=1).fit(X, y).votes_.labels
    assert np.bincount(held).tolist() != [40, 40, 40]


def test_predict_is_the_hard_vote_of_the_integer_weights():
    vote = small(PAIR).fit(X, WORDS)
    said, weights = vote.votes(NEW), vote.certificate_.weight_numerators
    mass = np.stack([(said == label) @ weights for label in vote.classes_], axis=1)
    assert np.array_equal(vote.predict(NEW), vote.classes_[mass.argmax(axis=1)])
    assert np.array_equal(vote.predict_proba(NEW), mass / 2**40)
    assert np.array_equal(vote.weights_, weights / 2**40)
    assert vote.score(X, WORDS) > 0.6


def test_a_tie_goes_to_the_first_class():
    vote = small(PAIR[:2], bound="fo").fit(X, WORDS)
    vote._take(vote._certified([0.5, 0.5]))
    said = vote.votes(X)
    tied = said[:, 0] != said[:, 1]
    assert tied.any()
    assert np.array_equal(vote.predict(X)[tied], np.sort(said[tied], axis=1)[:, 0])


def test_a_bag_that_lacks_a_class_is_kept():
    rare = np.where(np.arange(len(y)) < 3, "rare", "common")
    for estimator in (None, LogisticRegression(), GaussianNB()):
        vote = small(estimator, max_samples=0.1, n_estimators=8).fit(X, rare)
        assert len(vote.estimators_) == vote.counts_.n_voters == 8
        assert "common" in vote.predict(X)
    assert any(len(voter.classes_) == 1 for voter in vote.estimators_)


def test_the_certificate_is_that_of_the_bound():
    vote = small(n_estimators=20, delta=0.1).fit(X, y)
    value = evaluate("cctnd", vote.counts_, vote.weights_, delta=0.1).value
    assert vote.certificate_.risk == pytest.approx(value, abs=1e-6)
    assert (
        vote.solution_.value <= evaluate("cctnd", vote.counts_, np.ones(20) / 20, delta=0.1).value
    )
    assert vote.certificate_.confidence == 0.9


def test_empty_overlaps_warn_and_claim_nothing():
    few = MajorityVoteClassifier(random_state=0)
    with pytest.warns(UserWarning, match="vacuous .* share"):
        few.fit(X[:20], y[:20])
    assert few.certificate_.risk == 1
    assert np.allclose(few.weights_, 0.01)
    assert few.predict(X).shape == y.shape


def test_missing_values_reach_trees():
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    vote = small().fit(holes, y)
    assert vote.score(holes, y) > 0.7
    with pytest.raises(ValueError, match="NaN"):
        small(LogisticRegression()).fit(holes, y)


# --- weights anew, and fewer voters ---


def test_refit_weights_equals_a_fit_with_that_bound():
    vote = small().fit(X, y).refit_weights(bound="tnd", delta=0.2)
    other = small(bound="tnd", delta=0.2).fit(X, y)
    assert np.array_equal(vote.weights_, other.weights_)
    assert vote.certificate_.exact_risk == other.certificate_.exact_risk
    assert vote.refit_weights().certificate_.bound == "tnd"


def test_pruned_voters_keep_their_place_and_the_prior_its_mass():
    vote = small(n_estimators=20).fit(X, y)
    before = vote.certificate_
    assert vote.prune(n_voters=5) is vote
    assert np.count_nonzero(vote.weights_) == 5
    assert len(vote.estimators_) == vote.certificate_.weights.size == 20
    assert vote.certificate_.prior_integers == before.prior_integers
    assert vote.certificate_.n_pair == before.n_pair
    value = evaluate("cctnd", vote.counts_, vote.weights_).value
    assert vote.certificate_.risk == pytest.approx(value, abs=1e-6)
    said = vote.votes(NEW)[:, vote.weights_ > 0]
    assert (vote.predict(NEW)[:, None] == said).any(axis=1).all()


def test_prune_by_tolerance_stays_within_it():
    vote = small(n_estimators=30).fit(X, y)
    before = vote.certificate_.exact_risk
    vote.prune(tol=0.05)
    assert np.count_nonzero(vote.weights_) < 30
    assert vote.certificate_.exact_risk <= before + 1 / 20


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "`tol` or `n_voters`"),
        ({"tol": 0.1, "n_voters": 2}, "`tol` or `n_voters`"),
        ({"n_voters": 0}, "`n_voters` must be an integer from 1 to"),
        ({"n_voters": 2.5}, "`n_voters` must be an integer from 1 to"),
        ({"n_voters": True}, "`n_voters` must be an integer from 1 to"),
        ({"tol": -1.0}, "`tol` must be a number above 0"),
        ({"tol": np.nan}, "`tol` must be a number above 0"),
        ({"tol": np.inf}, "`tol` must be a number above 0"),
        ({"tol": "1"}, "`tol` must be a number above 0"),
    ],
)
def test_prune_refuses(how, message):
    with pytest.raises(ValueError, match=message):
        small().fit(X, y).prune(**how)


# --- as others use a classifier ---


def test_grid_search_clone_and_cross_validation():
    grid = {"max_samples": [0.3, 0.6], "estimator__max_depth": [2, 4]}
    search = GridSearchCV(small(DecisionTreeClassifier()), grid, cv=2).fit(X, WORDS)
    assert search.best_estimator_.certificate_.risk < 1
    assert cross_val_score(clone(search.best_estimator_), X, WORDS, cv=2).min() > 0.5
    listed = GridSearchCV(small(PAIR), {"nn__n_neighbors": [1, 5]}, cv=2).fit(X, WORDS)
    assert listed.best_params_["nn__n_neighbors"] in (1, 5)
    assert clone(small(PAIR)).set_params(nb=GaussianNB(var_smoothing=0.1)).estimator[0][0] == "nb"


def test_in_a_pipeline_with_set_output_and_repr():
    pipe = make_pipeline(StandardScaler(), small()).set_output(transform="pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert pipe.fit(frame, WORDS).score(frame, WORDS) > 0.7
    assert list(pipe[-1].feature_names_in_) == [f"{name}" for name in frame.columns]
    assert "MajorityVoteClassifier" in pipe._repr_html_()
    assert "GaussianNB" in small(PAIR)._repr_html_()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("estimator", [None, PAIR], ids=["trees", "others"])
def test_frames(kind, estimator):
    frame = kind(dict(zip("abcdef", X.T, strict=True)))
    vote = small(estimator).fit(frame, list(WORDS))
    assert list(vote.feature_names_in_) == list("abcdef")
    assert np.array_equal(vote.predict(frame), small(estimator).fit(X, WORDS).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        vote.predict(frame[list("fedcba")])


LABELS = {
    "nullable integers": (pd.Series(y, dtype="Int64"), np.int64),
    "nullable booleans": (pd.Series(y > 0, dtype="boolean"), np.bool_),
    "integers as objects": (y.astype(object), np.int64),
    "categories": (pd.Series(WORDS, dtype="category"), object),
    "polars": (pl.Series(y > 0), np.bool_),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_kind(kind):
    labels, dtype = LABELS[kind]
    vote = small().fit(X, labels)
    assert vote.classes_.dtype == dtype
    assert np.mean(vote.predict(X) == np.asarray(labels)) > 0.8
    again = reweight(vote.estimators_[:3], NEW, vote.predict(NEW), bound="fo")
    assert again.classes_.dtype == dtype


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (X[:, 0], ValueError, "`y` has .*, as a continuous target has"),
        (y + 0.5, ValueError, r"`y` has \d\.5, as a continuous target has"),
        (np.where(y == 0, np.inf, y), ValueError, "`y` has inf, as"),
        (np.array([0, "a", 2.0], object)[y], TypeError, "several types, float, int, str"),
        (np.array([None, "a", "b"], object)[y], ValueError, "`y` has no label in row"),
        (pd.Series(y, dtype="Int64").mask(y == 0), ValueError, "`y` has no label in row"),
        (pd.Series(WORDS, dtype="string").mask(y == 0), ValueError, "`y` has no label in row"),
    ],
)
def test_labels_that_are_refused(labels, error, message):
    voter = GaussianNB().fit(X, y)
    for call in (lambda: small().fit(X, labels), lambda: reweight([voter], X, labels)):
        with pytest.raises(error, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_target_with_nearly_as_many_values_as_rows_is_no_class():
    many = np.arange(400) // 2
    assert small(n_estimators=2).fit(X, many).certificate_.risk == 1
    with pytest.raises(ValueError, match="`y` has 201 different values on 400 rows"):
        small().fit(X, np.where(np.arange(400) == 0, 500, many))
    with pytest.raises(ValueError, match="`y` has 200 different values on 200 rows"):
        small().fit(X[:200], np.arange(200).astype(str))
    voter = KNeighborsClassifier(1).fit(X[:200], many[:200])  # a hold-out may have as many
    assert reweight([voter], X[200:230], np.arange(30), bound="fo").certificate_.risk <= 1


def test_encoders_are_fitted_inside_the_bag():
    frame = pd.DataFrame({"kind": pd.Series(WORDS, dtype="category"), "x": X[:, 0]})
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough"
    )
    vote = small(make_pipeline(encoder, DecisionTreeClassifier())).fit(frame, WORDS)
    assert vote.score(frame, WORDS) == 1
    with pytest.raises(ValueError, match=r"`X` has text where trees need numbers.*Pipeline"):
        small().fit(frame, WORDS)
    with pytest.raises(ValueError, match=r"`X` has text where voters such as KNeigh.*Pipeline"):
        small(KNeighborsClassifier()).fit(frame, WORDS)


@pytest.mark.parametrize("estimator", [None, PAIR], ids=["trees", "others"])
def test_pickle_and_skops(estimator):
    vote = small(estimator).fit(X, WORDS)
    dumped = skops.io.dumps(vote)
    trusted = skops.io.get_untrusted_types(data=dumped)
    for again in (pickle.loads(pickle.dumps(vote)), skops.io.loads(dumped, trusted=trusted)):  # noqa: S301
        assert np.array_equal(again.predict(NEW), vote.predict(NEW))
        assert again.counts_ == vote.counts_
        assert again.certificate_.to_json() == vote.certificate_.to_json()
        assert again.refit_weights(bound="tnd").certificate_.risk <= 1


def test_the_number_of_jobs_changes_nothing():
    for estimator in (None, PAIR):
        one = small(estimator).fit(X, y)
        two = small(estimator, n_jobs=2).fit(X, y)
        assert one.counts_ == two.counts_
        assert np.array_equal(one.weights_, two.weights_)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "`n_estimators` must be an integer of at least 1"),
        ({"validation": "loo"}, ValueError, "`validation` must be"),
        ({"validation": 1.5}, ValueError, "`validation` must be"),
        ({"max_samples": 0}, ValueError, "`max_samples` must be"),
        ({"max_samples": 401}, ValueError, "`max_samples` must be"),
        ({"validation": "subsample", "max_samples": 400}, ValueError, "`max_samples` must be"),
        ({"validation": "folds", "max_samples": 0.5}, ValueError, "`max_samples`=0.5 has no"),
        ({"validation": "folds", "max_samples": None, "n_estimators": 500}, ValueError, "folds"),
        ({"bound": "tnt"}, ValueError, "did you mean"),
        ({"bound": None}, TypeError, "`bound` must be a key, such as 'cctnd', or .* got None"),
        ({"delta": 1.5}, ValueError, "`delta`"),
        ({"prior": [1.0]}, ValueError, "`prior` must be 9 numbers"),
        ({"estimator": []}, ValueError, "`estimator` as a list"),
        ({"estimator": StandardScaler()}, TypeError, "must be a classifier"),
        ({"estimator": GaussianNB}, TypeError, "give an instance"),
        ({"estimator": "tree"}, TypeError, "must be a classifier of .* kind, got 'tree'"),
        ({"estimator": {"a": GaussianNB()}}, TypeError, "must be a classifier of .*, got dict"),
        ({"estimator": [("a", None)]}, TypeError, "`estimator` 'a' must be .*, got None"),
        ({"estimator": [*PAIR, ("a", "drop")]}, TypeError, "`estimator` 'a' must .* 'drop'"),
    ],
)
def test_settings_that_are_refused(params, error, message):
    with pytest.raises(error, match=message):
        small(**params).fit(X, y)


def test_other_trees_are_those_of_extra_trees():
    vote = small(ExtraTreeClassifier(max_features="sqrt"), max_samples=None).fit(X, y)
    other = ExtraTreesClassifier(9, bootstrap=True, random_state=0).fit(X, y)
    for ours, theirs in zip(vote.estimators_, other.estimators_, strict=True):
        assert np.array_equal(ours.tree_.threshold, theirs.tree_.threshold)
