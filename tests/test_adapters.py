"""Fitted ensembles give the votes that a computation by hand gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pacvote import count
from pacvote.adapters import reweight, votes_of
from pacvote.ensemble import MajorityVoteClassifier

X, y = make_classification(
    500, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=0
)
WORDS = np.array(["ant", "bee", "cat"])[y]
TRAIN, TEST = slice(0, 300), slice(300, None)
PIPE = make_pipeline(StandardScaler(), LogisticRegression())

ENSEMBLES = {
    "forest": RandomForestClassifier(15, max_samples=0.5, random_state=0),
    "forest, balanced": RandomForestClassifier(
        15, class_weight="balanced_subsample", max_samples=0.5, ccp_alpha=0.01, random_state=0
    ),
    "extra trees": ExtraTreesClassifier(15, bootstrap=True, max_samples=200, random_state=0),
    "bagged trees": BaggingClassifier(n_estimators=9, max_samples=0.5, random_state=0),
    "bagged columns": BaggingClassifier(
        DecisionTreeClassifier(max_depth=3),
        n_estimators=9,
        max_samples=0.5,
        max_features=0.5,
        bootstrap_features=True,
        random_state=0,
    ),
    "bagged neighbours": BaggingClassifier(
        KNeighborsClassifier(3), n_estimators=9, max_samples=0.5, max_features=3, random_state=0
    ),
    "pasted pipelines": BaggingClassifier(
        PIPE, n_estimators=9, max_samples=0.5, bootstrap=False, random_state=0
    ),
}


def by_hand(ensemble, X, y):
    """Counts from `estimators_samples_`, one voter and one row at a time."""
    features = getattr(ensemble, "estimators_features_", [np.arange(X.shape[1])] * len(ensemble))
    predictions = np.empty((len(y), len(ensemble)), dtype=object)
    validated = np.ones(predictions.shape, bool)
    for voter, (bag, columns) in enumerate(
        zip(ensemble.estimators_samples_, features, strict=True)
    ):
        said = ensemble.estimators_[voter].predict(X[:, columns]).astype(int)
        predictions[:, voter] = ensemble.classes_[said]
        validated[bag, voter] = False
    return count(predictions, y, validated), predictions


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_counts_are_those_by_hand(kind):
    ensemble = clone(ENSEMBLES[kind]).fit(X, WORDS)
    vote = reweight(ensemble, X, WORDS, delta=0.1)
    counts, predictions = by_hand(ensemble, X, WORDS)
    assert vote.counts_ == counts
    assert count(votes_of(ensemble, X, WORDS)) == counts
    assert np.array_equal(vote.votes(X), predictions)
    assert np.array_equal(vote.classes_, ensemble.classes_)
    assert 0 < vote.certificate_.risk < 1
    assert vote.score(X, WORDS) > 0.6


def test_a_forest_and_our_own_fit_agree():
    forest = RandomForestClassifier(40, random_state=0).fit(X, WORDS)
    own = MajorityVoteClassifier(n_estimators=40, random_state=0).fit(X, WORDS)
    vote = reweight(forest, X, WORDS)
    assert vote.counts_ == own.counts_
    assert vote.certificate_.exact_risk == own.certificate_.exact_risk
    assert np.array_equal(vote.predict(X), own.predict(X))
    assert forest.estimators_[0].classes_.dtype == float  # the forest itself is left as it was
    assert forest.predict(X).dtype == WORDS.dtype


def test_a_forest_grown_in_steps_on_the_same_rows_is_taken():
    forest = RandomForestClassifier(10, warm_start=True, random_state=0).fit(X, y)
    forest.set_params(n_estimators=20).fit(X, y)
    assert reweight(forest, X, y).counts_ == by_hand(forest, X, y)[0]


def test_a_reweighted_vote_is_refitted_pruned_and_cloned():
    forest = clone(ENSEMBLES["forest"]).fit(X, y)
    vote = reweight(forest, X, y).refit_weights(bound="tnd", delta=0.2)
    assert vote.certificate_.bound == "tnd"
    assert np.count_nonzero(vote.prune(n_voters=3).weights_) == 3
    again = clone(vote).set_params(random_state=0).fit(X, y)
    assert again.counts_.n_voters == 15
    assert again.max_samples == 250


def test_frames_and_missing_values():
    frame = pd.DataFrame(X, columns=list("abcdef")).mask(X > 2)
    forest = clone(ENSEMBLES["forest"]).fit(frame, WORDS)
    vote = reweight(forest, frame, pd.Series(WORDS))
    assert vote.counts_ == reweight(forest, frame, WORDS).counts_
    assert list(vote.feature_names_in_) == list("abcdef")
    bagging = clone(ENSEMBLES["bagged columns"]).fit(frame.fillna(0), WORDS)
    vote = reweight(bagging, frame.fillna(0), WORDS)
    assert vote.counts_ == by_hand(bagging, frame.fillna(0).to_numpy(), WORDS)[0]


def test_the_winner_of_a_search_pays_for_the_others():
    search = GridSearchCV(clone(ENSEMBLES["forest"]), {"max_depth": [2, 5, None]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="n_candidates=3"):
        reweight(search, X, y)
    with pytest.raises(ValueError, match="n_candidates=3"):
        votes_of(search, X, y)
    with pytest.raises(ValueError, match="`n_candidates` must be at least 3"):
        reweight(search, X, y, n_candidates=2)
    vote = reweight(search, X, y, n_candidates=3)
    alone = reweight(search.best_estimator_, X, y)
    assert vote.certificate_.selection == Fraction(1, 3)
    assert vote.certificate_.risk > alone.certificate_.risk
    assert vote.refit_weights(bound="tnd").certificate_.selection == Fraction(1, 3)
    assert vote.refit_weights(delta=0.3).certificate_.ledger["tandem upper"] * 10 == 1


def test_the_winner_of_a_search_without_rows_out_of_bag_is_refused():
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    grid = {"randomforestclassifier__max_depth": [2, 5]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X[TRAIN], y[TRAIN])
    for n_candidates in (2, 9):
        with pytest.raises(ValueError, match=r"winner, a Pipeline, has seen all rows.*\[fitted\]"):
            reweight(search, X[TRAIN], y[TRAIN], n_candidates=n_candidates)
    assert reweight([search], X[TEST], y[TEST]).votes_.shared
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1, 2]}, cv=2, refit=False).fit(X, y)
    with pytest.raises(ValueError, match="GridSearchCV with refit=False"):
        reweight(search, X, y, n_candidates=2)


def test_the_winner_of_a_search_over_our_votes_pays_too():
    vote = MajorityVoteClassifier(n_estimators=9, random_state=0)
    search = GridSearchCV(vote, {"max_samples": [0.4, 0.6]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="n_candidates=2"):
        reweight(search, X, y)
    paid = reweight(search, X, y, n_candidates=2, bound="fo", delta=0.1)
    assert paid.certificate_.selection == Fraction(1, 2)
    assert "one of 2 candidates fixed beforehand, at delta/2" in str(paid.certificate_)
    assert paid.certificate_.ledger == {"gibbs upper": Fraction(1, 20)}
    assert search.best_estimator_.certificate_.selection == 1
    assert paid.counts_ == search.best_estimator_.counts_


# --- hold-outs ---


def fitted(*estimators, labels=WORDS):
    return [estimator.fit(X[TRAIN], labels[TRAIN]) for estimator in estimators]


def check_holdout(ensemble, voters, labels=WORDS, **params):
    vote = reweight(ensemble, X[TEST], labels[TEST], **params)
    said = np.stack([voter.predict(X[TEST]) for voter in voters], axis=1)
    assert vote.counts_ == count(said, labels[TEST]).__class__(
        *(getattr(count(said, labels[TEST]), name) for name in ARRAYS), vote.counts_.voters
    )
    assert vote.votes_.shared
    assert np.array_equal(vote.votes(X[TEST]), said)
    return vote


ARRAYS = ("pair_rows", "pair_errors", "left_errors")


def test_a_list_of_classifiers():
    voters = fitted(GaussianNB(), KNeighborsClassifier(), clone(PIPE))
    vote = check_holdout(voters, voters)
    assert vote.counts_.voters == ("0", "1", "2")
    named = check_holdout(list(zip("abc", voters, strict=True)), voters)
    assert named.counts_.voters == ("a", "b", "c")
    assert named.score(X[TEST], WORDS[TEST]) > 0.6
    check_holdout(tuple(voters), voters)


def test_a_voting_classifier():
    parts = [("nb", GaussianNB()), ("gone", "drop"), ("pipe", clone(PIPE))]
    voting = VotingClassifier(parts).fit(X[TRAIN], WORDS[TRAIN])
    vote = check_holdout(voting, fitted(GaussianNB(), clone(PIPE)))
    assert vote.counts_.voters == ("nb", "pipe")


def test_a_frozen_forest_and_a_pipeline_are_one_voter_each():
    (forest,) = fitted(RandomForestClassifier(5, random_state=0))
    assert check_holdout(FrozenEstimator(forest), [forest]).counts_.n_voters == 1
    (pipe,) = fitted(clone(PIPE))
    assert check_holdout(pipe, [pipe]).counts_.n_voters == 1
    assert check_holdout([forest, pipe], [forest, pipe], bound="fo").counts_.n_voters == 2


def test_a_voter_that_knows_fewer_or_more_classes():
    voters = fitted(GaussianNB(), KNeighborsClassifier())
    rows = np.flatnonzero(WORDS[TEST] != "cat") + 300
    vote = reweight(voters, X[rows], WORDS[rows])
    assert vote.classes_.tolist() == ["ant", "bee", "cat"]
    assert np.array_equal(vote.votes(X)[:, 0], voters[0].predict(X))


def test_a_model_that_is_not_of_scikit_learn():
    class Sign:
        def predict(self, X):
            return np.where(X[:, 0] > 0, 1, 0)

    assert check_holdout([("sign", Sign()), *fitted(GaussianNB(), labels=y)][:1], [Sign()], y)


def test_labels_of_another_kind_are_refused():
    voters = fitted(GaussianNB(), labels=y)
    with pytest.raises(TypeError, match="`y` is <U3, but voter '0' predicts int64"):
        reweight(voters, X[TEST], WORDS[TEST])
