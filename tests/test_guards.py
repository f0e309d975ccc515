"""What voids a certificate is refused, and no voter sees the rows that validate it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from pacvote.adapters import reweight, votes_of
from pacvote.ensemble import MajorityVoteClassifier
from pacvote.guards import warn_of_copies
from pacvote.seen import chance_of_counts

X, y = make_classification(
    300, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
FOREST = RandomForestClassifier(8, random_state=0).fit(X, y)


SCALER = StandardScaler().fit(X)


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


def test_each_tree_is_compared_with_its_bag():
    order = np.arange(len(y))
    for label in range(3):
        rows = np.flatnonzero(y == label)
        order[rows] = np.random.default_rng(0).permutation(rows)
    forest = RandomForestClassifier(2, warm_start=True, random_state=0).fit(X, y)
    forest.set_params(n_estimators=9).fit(X[order], y[order])
    forest.set_params(n_estimators=11).fit(X, y)
    with pytest.raises(ValueError, match="rows of the bag of tree 2 reach other leaves"):
        reweight(forest, X, y)
    one, other = (
        BaggingClassifier(KNeighborsClassifier(1), n_estimators=6, random_state=seed).fit(X, y)
        for seed in (0, 1)
    )
    one.estimators_[3:] = other.estimators_[3:]
    with pytest.raises(ValueError, match="voter 5, fitted again, predicts"):
        reweight(one, X, y)


@pytest.mark.parametrize("kind", [RandomForestClassifier, BaggingClassifier])
def test_members_that_were_taken_out(kind):
    ensemble = kind(n_estimators=9, random_state=0).fit(X, y)
    ensemble.estimators_ = ensemble.estimators_[:4]
    with pytest.raises(ValueError, match="has n_estimators=9, but 4 members"):
        reweight(ensemble, X, y)


def test_a_forest_that_had_no_bags():
    forest = RandomForestClassifier(3, bootstrap=False).fit(X, y).set_params(bootstrap=True)
    with pytest.raises(ValueError, match="every tree was fitted on every row"):
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


NOISE = np.random.default_rng(0)
PURE, COINS = NOISE.normal(size=(1000, 5)), NOISE.integers(0, 2, 1000)
TREE = DecisionTreeClassifier(max_depth=8, random_state=0)
OVERFITTED = {
    "tree": DecisionTreeClassifier(),
    "depth": TREE,
    "leaves": DecisionTreeClassifier(min_samples_leaf=3),
    "neighbours": KNeighborsClassifier(3),
    "machine": SVC(gamma=1),
    "forest": RandomForestClassifier(20, min_samples_leaf=3, random_state=0),
    "shallow forest": RandomForestClassifier(20, max_depth=8, random_state=0),
    "extra trees": ExtraTreesClassifier(9),
    "bagged trees": BaggingClassifier(n_estimators=20, max_samples=0.5, random_state=0),
    "bagged neighbours": BaggingClassifier(KNeighborsClassifier(3), n_estimators=5),
    "boosted": GradientBoostingClassifier(n_estimators=20, max_depth=5),
    "boosted, shallow": GradientBoostingClassifier(n_estimators=20),
    "histograms": HistGradientBoostingClassifier(max_iter=20),
    "pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
    "search": GridSearchCV(TREE, {"max_depth": [8, 12]}),
    "voting": VotingClassifier([("nb", GaussianNB()), ("tree", TREE)]),
    "calibrated": CalibratedClassifierCV(KNeighborsClassifier(3), cv=2),
}


def seen(voter, X, y):
    with pytest.raises(ValueError, match="voter '0' was trained on these rows, or on some of them"):
        votes_of([voter], X, y)


@pytest.mark.parametrize("kind", OVERFITTED)
def test_training_rows_as_hold_out(kind):
    voter = clone(OVERFITTED[kind]).fit(PURE, COINS)
    seen(voter, PURE, COINS)
    seen(FrozenEstimator(voter), PURE, COINS)
    new = NOISE.normal(size=(100, 5)), NOISE.integers(0, 2, 100)
    if kind not in ("depth", "voting", "search", "histograms") and "boosted" not in kind:
        seen(voter, np.concatenate([PURE, new[0]]), np.concatenate([COINS, new[1]]))
    assert votes_of([voter], *new).shared


def test_some_training_rows_or_others_in_their_place():
    for kind in ("tree", "neighbours", "forest", "bagged trees", "machine"):
        voter = clone(OVERFITTED[kind]).fit(PURE, COINS)
        seen(voter, PURE[:700], COINS[:700])
        if kind in ("tree", "neighbours", "machine", "forest"):
            seen(voter, PURE[::-1], COINS[::-1])
    grown = RandomForestClassifier(20, random_state=0).fit(PURE, COINS).estimators_
    with pytest.raises(ValueError, match="was trained on these rows, or on some of them"):
        votes_of(grown, PURE, COINS)


def test_what_keeps_no_trace_is_assumed_and_warned_of_where_it_makes_no_error():
    certificate = reweight([LinearDiscriminantAnalysis().fit(X, y)], X, y, bound="fo").certificate_
    assert "No voter was influenced by the rows it is validated on" in str(certificate)
    simple = np.arange(40.0)[:, None]
    with pytest.warns(UserWarning, match="if it has seen them"):
        votes_of([GaussianNB().fit(simple, simple[:, 0] > 19)], simple, simple[:, 0] > 19)


def honest(seed):
    """A table, discrete or not, of which a part is held out without a look at labels."""
    random = np.random.default_rng(seed)
    n_rows = int(random.integers(40, 400))
    rows = random.normal(size=(n_rows, random.integers(1, 6)))
    if seed % 3 == 0:
        rows = np.round(rows)
    labels = (rows[:, 0] + random.normal(size=n_rows) * (seed % 2) > 0).astype(int)
    return train_test_split(rows, labels, test_size=[0.5, 0.3, 0.1][seed % 3], random_state=seed)


@pytest.mark.filterwarnings("ignore:.*makes no error:UserWarning")
@pytest.mark.parametrize("kind", ["tree", "neighbours", "machine", "forest", "boosted"])
def test_honest_hold_outs_are_taken(kind):
    for seed in range(20):
        rows, new, labels, new_labels = honest(seed)
        voter = clone(OVERFITTED[kind]).fit(rows, labels)
        assert votes_of([voter], new, new_labels).shared


@pytest.mark.parametrize("n_cells", [2, 5, 50])
@pytest.mark.parametrize("share", [0.3, 1, 2])
def test_the_chance_of_counts_is_a_bound(n_cells, share):
    """Of cells that are filled as they have adapted: far below the nominal chance, always."""
    random = np.random.default_rng(n_cells)
    kept = 1 + random.integers(0, 4, n_cells)
    size = max(1, round(share * kept.sum()))
    for rates in (kept / kept.sum(), np.full(n_cells, 1 / n_cells)):
        chances = [chance_of_counts(random.multinomial(size, rates), kept) for _ in range(2000)]
        for level in (0.5, 0.1, 0.01):
            assert np.mean(np.array(chances) <= level) <= level
    if share == 1 and n_cells > 2:
        assert chance_of_counts(kept, kept) < [0.05, 1e-5][n_cells == 50]


@pytest.mark.parametrize(
    "voter",
    [
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
        RandomForestClassifier(100, bootstrap=True, random_state=0),
        ExtraTreesClassifier(2, random_state=0),
        BaggingClassifier(GaussianNB(), n_estimators=100, random_state=0),
        GradientBoostingClassifier(n_estimators=2),
        HistGradientBoostingClassifier(max_iter=1),
        AdaBoostClassifier(n_estimators=2),
        DummyClassifier(),
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3]}, cv=2),
    ],
)
def test_stratified_hold_outs_of_all_that_keep_class_counts(voter):
    rows, labels = NOISE.normal(size=(3000, 2)), NOISE.integers(0, 10, 3000)
    for stratify in (None, labels):
        a, b, c, d = train_test_split(rows, labels, random_state=1, stratify=stratify)
        voter = clone(voter).fit(a, c)
        if stratify is None:
            assert votes_of([voter], b, d).shared
            continue
        with pytest.raises(ValueError, match="class counts of a stratified split"):
            votes_of([voter], b, d)


# --- copies ---


def test_copies_of_rows_are_warned_of():
    for times in (2, 5):
        rows, labels = np.tile(PURE[:200], (times, 1)), np.tile(COINS[:200], times)
        message = f"`X` has only 200 different rows among its {200 * times}"
        for table in (rows, csr_array(rows), pd.DataFrame(rows).add_prefix("x").astype(str)):
            with pytest.warns(UserWarning, match=message):
                warn_of_copies(table)
        with pytest.warns(UserWarning, match=message):
            ours(None).fit(rows, labels)
        forest = RandomForestClassifier(5, random_state=0).fit(rows, labels)
        with pytest.warns(UserWarning, match=message):
            reweight(forest, rows, labels, bound="fo")
    some = np.concatenate([PURE, PURE[:100]])
    with pytest.warns(UserWarning, match="only 1000 different rows among its 1100"):
        warn_of_copies(some)
    with pytest.warns(UserWarning, match="only 100 different rows"):
        warn_of_copies(np.tile(NOISE.integers(0, 9, (100, 30)), (3, 1)))


def test_rows_of_categories_repeat_by_nature():
    classes = NOISE.integers(0, 4, 1000)
    few = np.stack([classes, NOISE.integers(0, 3, 1000), NOISE.integers(0, 2, 1000)], axis=1)
    letters = NOISE.integers(0, 4, size=(1000, 60))
    letters[:60] = letters[60:120]  # as some in Splice
    holes = np.where(NOISE.random((1000, 1)) < 0.4, np.nan, PURE)
    for table in (
        few,
        np.eye(4)[classes],
        letters,
        PURE,
        PURE[:, :1],
        holes,
        PURE[:5].repeat(2, 0),
    ):
        warn_of_copies(table)


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
    scaler = StandardScaler().fit(X)

    def scaled(X):
        return scaler.transform(X)

    for kind, voter in {
        "a frozen GaussianNB": frozen,
        "a frozen StandardScaler": make_pipeline(FrozenEstimator(scaler), GaussianNB()),
        "a fitted StandardScaler": make_pipeline(
            FunctionTransformer(scaler.transform), KNeighborsClassifier()
        ),
        "a fitted Standard": make_pipeline(FunctionTransformer(scaled), KNeighborsClassifier()),
        "a fitted Standar": make_pipeline(
            FunctionTransformer(partial(StandardScaler.transform, scaler)), GaussianNB()
        ),
        "a fitted Stand": make_pipeline(
            FunctionTransformer(lambda X: -SCALER.transform(X)), GaussianNB()
        ),
    }.items():
        with pytest.raises(ValueError, match=f"`estimator` '0' holds {kind}"):
            ours(voter).fit(X, y)
        bagging = BaggingClassifier(voter, n_estimators=3).fit(X, y)
        with pytest.raises(ValueError, match=f"{kind}.* inside of its estimator"):
            reweight(bagging, X, y)
    fitted = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    assert ours(fitted).fit(X, y).certificate_.risk <= 1  # cloned, and so fitted anew
    assert ours(make_pipeline(FunctionTransformer(np.tanh), GaussianNB())).fit(X, y)


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
