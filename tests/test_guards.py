"""What voids a certificate is refused, and no voter sees the rows that validate it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pacvote.adapters import reweight, votes_of
from pacvote.ensemble import MajorityVoteClassifier

X, y = make_classification(
    300, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
FOREST = RandomForestClassifier(8, random_state=0).fit(X, y)


def ours(estimator, **params):
    return MajorityVoteClassifier(
        estimator, **{"n_estimators": 4, "bound": "fo", "random_state": 0} | params
    )


# --- the canary: rows that validate a voter are altered, and the voter stays the same ---

SEEN_ONLY_IN_BAG = {
    "forest": RandomForestClassifier(4, random_state=0),
    "forest, weighted leaves": RandomForestClassifier(
        4, min_weight_fraction_leaf=0.05, max_samples=0.4, criterion="entropy", random_state=0
    ),
    "forest, balanced": RandomForestClassifier(
        4, class_weight="balanced_subsample", max_leaf_nodes=9, random_state=0
    ),
    "extra trees": ExtraTreesClassifier(4, bootstrap=True, random_state=0),
    "bagged trees": BaggingClassifier(n_estimators=4, max_features=0.6, random_state=0),
    "bagged neighbours": BaggingClassifier(
        KNeighborsClassifier(), n_estimators=4, max_samples=0.5, random_state=0
    ),
    "bagged discriminants": BaggingClassifier(
        LinearDiscriminantAnalysis(), n_estimators=4, max_features=0.6, random_state=0
    ),
    "bagged pipelines": BaggingClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), n_estimators=4, random_state=0
    ),
    "pasted trees": BaggingClassifier(
        n_estimators=4, bootstrap=False, max_samples=0.5, random_state=0
    ),
    "ours, forest": ours(None),
    "ours, weighted leaves": ours(
        DecisionTreeClassifier(min_weight_fraction_leaf=0.05, ccp_alpha=0.01, max_features=2)
    ),
    "ours, impurity": ours(DecisionTreeClassifier(min_impurity_decrease=0.01, max_leaf_nodes=8)),
    "ours, extra trees": ours(ExtraTreeClassifier(min_samples_leaf=2)),
    "ours, class weights": ours(DecisionTreeClassifier(class_weight="balanced")),
    "ours, forests": ours(RandomForestClassifier(3, class_weight="balanced")),
    "ours, boosted": ours(GradientBoostingClassifier(n_estimators=2, subsample=0.7)),
    "ours, naive Bayes": ours(GaussianNB(var_smoothing=0.1)),
    "ours, pipelines": ours(make_pipeline(StandardScaler(), SVC())),
    "ours, subsamples": ours(None, validation="subsample"),
    "ours, folds": ours(None, validation="folds"),
    "ours, folds of pipelines": ours(make_pipeline(StandardScaler(), SVC()), validation="folds"),
}
TAKE_MISSING_VALUES = ("forest", "bagged trees", "ours, forest", "ours, extra trees")
PROBES = np.random.default_rng(0).normal(scale=3, size=(2000, X.shape[1]))


def unseen(ensemble, voter):
    """Rows that validate a voter."""
    if isinstance(ensemble, MajorityVoteClassifier):
        return ensemble.votes_.validated[:, voter]
    return votes_of(ensemble, X, y).validated[:, voter]


def of(ensemble, voter):
    """All that can be told of a voter: its tree, or else what it says."""
    fitted = ensemble.estimators_[voter]
    if isinstance(fitted, DecisionTreeClassifier | ExtraTreeClassifier):
        tree = fitted.tree_
        return [tree.feature, tree.threshold, tree.n_node_samples, tree.value, tree.impurity]
    features = getattr(ensemble, "estimators_features_", None)
    return [fitted.predict(PROBES if features is None else PROBES[:, features[voter]])]


@pytest.mark.parametrize(
    ("kind", "holes"),
    [(kind, False) for kind in SEEN_ONLY_IN_BAG] + [(kind, True) for kind in TAKE_MISSING_VALUES],
)
def test_canary(kind, holes):
    ensemble = clone(SEEN_ONLY_IN_BAG[kind]).fit(X, y)
    random = np.random.default_rng(1)
    for voter in range(3):
        out = unseen(ensemble, voter)
        assert 0 < out.sum() < len(y)
        altered, labels = X.copy(), y.copy()
        altered[out] = np.nan if holes else 50 * random.normal(size=(out.sum(), X.shape[1]))
        labels[out] = random.permutation((labels[out] + 1) % 3)
        again = clone(SEEN_ONLY_IN_BAG[kind]).fit(altered, labels)
        for one, other in zip(of(ensemble, voter), of(again, voter), strict=True):
            assert np.array_equal(one, other)


VOID = {
    "bagged Bayes": BaggingClassifier(
        GaussianNB(var_smoothing=0.1), n_estimators=4, random_state=0
    ),
    "bagged boosting": BaggingClassifier(
        HistGradientBoostingClassifier(max_iter=1), n_estimators=2, random_state=0
    ),
    "bagged class weights": BaggingClassifier(
        DecisionTreeClassifier(class_weight="balanced"), n_estimators=4, random_state=0
    ),
    "forest, class weights": RandomForestClassifier(4, class_weight="balanced", random_state=0),
}


@pytest.mark.parametrize("kind", VOID)
def test_the_canary_dies_where_an_ensemble_is_refused(kind):
    ensemble = clone(VOID[kind]).fit(X, y)
    with pytest.raises(ValueError, match=r"seen the rows that validate it|depend on labels"):
        votes_of(ensemble, X, y)
    out = np.ones(len(y), bool)
    out[ensemble.estimators_samples_[0]] = False
    altered, labels = X.copy(), y.copy()
    altered[out] *= 50
    labels[out] = 0
    again = clone(VOID[kind]).fit(altered, labels)
    pairs = zip(of(ensemble, 0), of(again, 0), strict=True)
    assert not all(np.array_equal(one, other) for one, other in pairs)


# --- ensembles ---


class Derived(RandomForestClassifier):
    pass


REFUSED = {
    "no bags": (RandomForestClassifier(3, bootstrap=False), "bootstrap=False: every tree"),
    "extra trees": (ExtraTreesClassifier(3), "bootstrap=False"),
    "class weights": (RandomForestClassifier(3, class_weight={0: 2}), "class_weight={0: 2}"),
    "whole bags": (BaggingClassifier(n_estimators=3, bootstrap=False), "no row is out of bag"),
    "weights": (BaggingClassifier(LogisticRegression(), n_estimators=3), "LogisticRegression, to"),
    "derived": (Derived(3), "may draw them by labels"),
    "boosted": (GradientBoostingClassifier(n_estimators=3), "each corrects those before it"),
    "histograms": (HistGradientBoostingClassifier(max_iter=1), "pass \\[fitted\\]"),
    "adaptive": (AdaBoostClassifier(n_estimators=3), "each corrects those before it"),
    "single": (GaussianNB(), "no bags that are known here"),
    "ours": (MajorityVoteClassifier(n_estimators=9, bound="fo"), "refit_weights"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_ensembles_without_a_guarantee(kind):
    ensemble, message = REFUSED[kind]
    with pytest.raises((ValueError, TypeError), match=message):
        reweight(clone(ensemble).fit(X, y), X, y)


def test_boosters_of_other_packages():
    class Booster:
        __module__ = "lightgbm.sklearn"

    with pytest.raises(TypeError, match="each corrects those before it"):
        votes_of(Booster(), X, y)


def test_sample_weight_of_a_fit_is_seen():
    weighted = RandomForestClassifier(3).fit(X, y, sample_weight=1 + y)
    with pytest.raises(ValueError, match="`sample_weight`"):
        reweight(weighted, X, y)


def test_bags_that_cannot_be_recovered():
    bagging = BaggingClassifier(n_estimators=3, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start: only the last 2 bags"):
        reweight(bagging.set_params(n_estimators=5).fit(X, y), X, y)
    forest = RandomForestClassifier(3, warm_start=True).fit(X, y)
    forest.set_params(n_estimators=5, max_samples=0.5).fit(X, y)
    with pytest.raises(ValueError, match=r"tree 0 has seen .* rows, its bag has"):
        reweight(forest, X, y)


def test_metadata_routing_may_have_passed_weights():
    import sklearn

    bagging = BaggingClassifier(KNeighborsClassifier(), n_estimators=3).fit(X, y)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match="metadata routing"),
    ):
        reweight(bagging, X, y)


# --- rows ---


@pytest.mark.parametrize("ensemble", [FOREST, BaggingClassifier(n_estimators=3).fit(X, y)])
def test_rows_that_are_not_those_of_the_fit(ensemble):
    order = np.random.default_rng(0).permutation(len(y))
    with pytest.raises(ValueError, match="`y` is not what `fitted` was fitted on"):
        reweight(ensemble, X[order], y[order])
    with pytest.raises(ValueError, match="`X` is not what `fitted` was fitted on"):
        reweight(ensemble, X[order], y)
    with pytest.raises(ValueError, match="`X` has 200 rows, but `fitted` was fitted on 300"):
        reweight(ensemble, X[:200], y[:200])
    with pytest.raises(ValueError, match="has the classes"):
        reweight(ensemble, X, y + 1)
    with pytest.raises(ValueError, match="features"):
        reweight(ensemble, X[:, :4], y)


def test_rows_in_another_order_for_voters_that_keep_no_counts():
    order = np.random.default_rng(0).permutation(len(y))
    bagging = BaggingClassifier(KNeighborsClassifier(1), n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="voter 0, fitted again, predicts"):
        reweight(bagging, X[order], y[order])


def test_training_rows_as_hold_out():
    for voter in (
        DecisionTreeClassifier(),
        RandomForestClassifier(3, bootstrap=False),
        SVC(C=1e9, gamma=9),
        KNeighborsClassifier(1),
    ):
        with pytest.raises(ValueError, match="they look like its training rows"):
            votes_of([GaussianNB().fit(X, y), voter.fit(X, y)], X, y)
    with pytest.raises(ValueError, match="they look like its training rows"):
        votes_of(make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, y), X, y)
    with pytest.warns(UserWarning, match="if it has seen them"):
        votes_of([DecisionTreeClassifier().fit(X, y)], X[:100], y[:100])
    with pytest.warns(UserWarning, match="if it has seen them"):
        votes_of([GradientBoostingClassifier().fit(X, y)], X, y)


def test_stratified_hold_out():
    many = np.random.default_rng(0).integers(8, size=4000)
    features = many[:, None] + np.random.default_rng(1).normal(scale=2, size=(4000, 2))
    for stratify in (many, None):
        a, b, c, d = train_test_split(features, many, random_state=0, stratify=stratify)
        voters = [GaussianNB().fit(a, c), DecisionTreeClassifier(max_depth=3).fit(a, c)]
        if stratify is None:
            assert votes_of(voters, b, d).shared
            continue
        for voter in voters:
            with pytest.raises(ValueError, match="class counts of a stratified split"):
                votes_of([voter], b, d)


def test_stratified_validation_is_no_choice():
    with pytest.raises(TypeError, match="`validation` must not be a StratifiedKFold"):
        ours(None, validation=StratifiedKFold()).fit(X, y)


def test_groups_and_weights():
    groups = np.arange(len(y)) // 2
    for call in (
        lambda **given: ours(None).fit(X, y, **given),
        lambda **given: reweight(FOREST, X, y, bound="fo", **given),
        lambda **given: votes_of(FOREST, X, y, **given),
    ):
        with pytest.raises(ValueError, match="`groups` puts 300 rows into 150 groups"):
            call(groups=groups)
        with pytest.raises(ValueError, match="`groups` must have one entry per row"):
            call(groups=groups[:5])
        with pytest.raises(ValueError, match="`sample_weight` would steer"):
            call(sample_weight=np.ones(len(y)))
        call(groups=np.arange(len(y)), sample_weight=None)
    with pytest.raises(TypeError, match="`eval_set` is not an argument of fit"):
        ours(None).fit(X, y, eval_set=1)


# --- voters ---


def test_frozen_voters_may_have_seen_the_rows():
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    for voter in (frozen, make_pipeline(StandardScaler(), frozen)):
        with pytest.raises(ValueError, match="is frozen"):
            ours(voter).fit(X, y)


def test_voters_that_are_no_classifiers():
    with pytest.raises(TypeError, match="every voter must be a classifier"):
        votes_of([LinearRegression().fit(X, y)], X, y)
    with pytest.raises(TypeError, match="every voter must be a classifier"):
        votes_of([object()], X, y)
    with pytest.raises(ValueError, match="empty list"):
        votes_of([], X, y)


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), (2.5, TypeError), (True, TypeError)])
def test_n_candidates(given, error):
    with pytest.raises(error, match="`n_candidates` must be"):
        reweight(FOREST, X, y, n_candidates=given)


def test_labels_that_are_missing():
    holes = y.astype(object)
    holes[3] = None
    with pytest.raises(ValueError, match="row 3"):
        ours(None).fit(X, holes)
