"""The bags of ensembles that scikit-learn has fitted: recovered, checked, or refused."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import _safe_indexing, compute_sample_weight
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from pacvote.bags import Bags, Rows
from pacvote.fitting import Labels, Rowset, is_tree, takes_counts
from pacvote.guards import fitted_part

SAME = 0.999  # share of equal predictions of a voter and of its refit, short of 1 for BLAS
ASKED = 5000  # rows, at most, that a voter and its refit predict
OTHER_ROWS = "; or pass [fitted] and rows that it has not seen"


@final
@dataclass(frozen=True, slots=True)
class Member:
    """A voter as part of an ensemble that gave it its own labels, or some of the columns.

    Parameters
    ----------
    estimator : classifier
        What was fitted.
    classes : array or None
        What its labels 0, 1, ... stand for.
    features : integer array or None
        The columns that it was fitted on.
    """

    estimator: Any
    classes: Labels
    features: NDArray[np.integer[Any]] | None = None

    def columns(self, X: Any) -> Any:
        """Return its columns of rows."""
        if self.features is None:
            return X
        table: Any = X if issparse(X) else np.asarray(X)
        return table[:, self.features]

    def predict(self, X: Any) -> Labels:
        """Predict labels of the ensemble."""
        return np.asarray(self.classes[np.asarray(self.estimator.predict(self.columns(X)), int)])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """The voters of a fitted ensemble, their bags, and what they were cloned from."""

    voters: Sequence[Any]
    bags: Sequence[Rows] | Bags
    template: Any
    max_samples: int
    replaced: bool
    balanced: bool = False  # weights of the rows of a bag make its classes weigh the same


def recover_forest(forest: Any) -> Recovered:
    """Recover the bags of a random forest or of extra trees."""
    _refuse_changed(forest)
    if not forest.bootstrap or forest._n_samples_bootstrap is None:
        _refuse("bootstrap=False: every tree was fitted on every row, none is out of bag")
    if forest.class_weight not in (None, "balanced_subsample"):
        _refuse(
            f"class_weight={forest.class_weight!r}: bags or trees then depend on labels that "
            'validate them; use None or "balanced_subsample"'
        )
    if forest.n_outputs_ != 1:
        _refuse(f"{forest.n_outputs_} outputs; fit one forest for each")
    _refuse_weights(forest)
    voters = []
    for fitted in forest.estimators_:
        tree = copy.copy(fitted)
        tree.classes_ = forest.classes_
        voters.append(tree)
    size = forest._n_samples_bootstrap
    seeds = tuple(tree.random_state for tree in voters)
    bags = Bags("bootstrap", forest._n_samples, size, seeds)
    balanced = forest.class_weight is not None
    template = clone(voters[0]).set_params(
        random_state=None, class_weight="balanced" if balanced else None
    )
    return Recovered(voters, bags, template, size, replaced=True, balanced=balanced)


def recover_bagging(bagging: Any) -> Recovered:
    """Recover the bags of a bagging ensemble."""
    base = bagging.estimator_
    _refuse_changed(bagging)
    _refuse_weights(bagging)
    found = fitted_part(base)
    if found:
        _refuse(f"{found} inside of its estimator, which may have seen rows that validate it")
    if not takes_counts(base) and has_fit_parameter(base, "sample_weight"):
        _refuse(
            f"a {type(base).__name__}, to which it passed bags as weights of all rows: it may have "
            "seen the rows that validate it; use MajorityVoteClassifier, which fits on the bag, or "
            "put it into a Pipeline"
        )
    if not takes_counts(base) and get_config()["enable_metadata_routing"]:
        _refuse("metadata routing, which may have passed bags as weights of all rows")
    bags = bagging.estimators_samples_
    if len(bags) != len(bagging.estimators_):
        _refuse(f"warm_start: only the last {len(bags)} bags can be recovered; fit it anew")
    if not bagging.bootstrap and bagging._max_samples >= bagging._n_samples:
        _refuse("bootstrap=False and max_samples=1.0: no row is out of bag")
    voters = [
        Member(voter, bagging.classes_, np.asarray(features))
        for voter, features in zip(bagging.estimators_, bagging.estimators_features_, strict=True)
    ]
    template = clone(base)
    return Recovered(voters, bags, template, bagging._max_samples, replaced=bagging.bootstrap)


def _refuse_changed(fitted: Any) -> None:
    if len(fitted.estimators_) != fitted.n_estimators:
        msg = (
            f"`fitted` has n_estimators={fitted.n_estimators}, but {len(fitted.estimators_)} "
            "members: some were taken out, perhaps by these rows, or the setting was changed; "
            f"fit it anew{OTHER_ROWS}"
        )
        raise ValueError(msg)


def _refuse_weights(fitted: Any) -> None:
    # Before scikit-learn 1.9 it is not kept; then the weight in the root of each tree tells.
    if vars(fitted).get("_sample_weight") is not None:
        _refuse("`sample_weight`, which steered the bags; fit it without")


def _refuse(reason: str) -> NoReturn:
    msg = f"`fitted` was fitted with {reason}{OTHER_ROWS}"
    raise ValueError(msg)


def check_recovered(found: Recovered, rows: Rowset, n_jobs: int | None) -> None:
    """Refuse rows and bags that are not those of the fit, as far as that can be seen.

    Every tree keeps how many rows of each class it was grown on, and how many reached each leaf.
    Of other voters a tenth, and at least three, are fitted again and must predict the same.
    """
    n_voters = len(found.voters)
    check, indices = _check_tree, np.arange(n_voters)
    if not is_tree(_inner(found.voters[0])):
        n_checked = min(n_voters, max(3, n_voters // 10))
        check, indices = _check_refitted, np.linspace(0, n_voters - 1, n_checked).astype(int)
    Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(check)(found, rows, index) for index in indices.tolist()
    )


def _check_tree(found: Recovered, rows: Rowset, index: int) -> None:
    weights = _weights(found.bags[index], rows, balanced=found.balanced)
    _check_root(_inner(found.voters[index]).tree_, weights, rows, index)
    _check_leaves(found.voters[index], np.flatnonzero(weights), rows, index)


def _inner(voter: Any) -> Any:
    return voter.estimator if isinstance(voter, Member) else voter


def _weights(bag: Rows, rows: Rowset, *, balanced: bool) -> NDArray[np.float64]:
    """Return the weight with which each row has grown a tree."""
    drawn = np.bincount(bag, minlength=rows.n_samples).astype(np.float64)
    if balanced:
        drawn *= compute_sample_weight("balanced", rows.codes, indices=bag)
    return drawn


def _check_root(tree: Any, weights: NDArray[np.float64], rows: Rowset, index: int) -> None:
    if tree.n_node_samples[0] != np.count_nonzero(weights):
        msg = (
            f"`fitted`: tree {index} has seen {tree.n_node_samples[0]} rows, its bag has "
            f"{np.count_nonzero(weights)}; it was refitted or warm-started in a way from which "
            f"bags cannot be recovered, so fit it anew{OTHER_ROWS}"
        )
        raise ValueError(msg)
    total = weights.sum()
    by_class = np.bincount(rows.codes, weights=weights, minlength=len(rows.classes)) / total
    if not np.isclose(tree.weighted_n_node_samples[0], total):
        msg = (
            f"`fitted`: tree {index} weighs {tree.weighted_n_node_samples[0]:.6g}, its bag "
            f"{total:.6g}; it was fitted with `sample_weight`, so fit it without{OTHER_ROWS}"
        )
        raise ValueError(msg)
    if not np.allclose(tree.value[0, 0], by_class):
        _refuse_rows("y", f"the classes in the bag of tree {index} differ")


def _check_leaves(voter: Any, bag: Rows, rows: Rowset, index: int) -> None:
    tree = _inner(voter).tree_
    X = _safe_indexing(rows.X, bag)
    X = voter.columns(X) if isinstance(voter, Member) else X
    reached = np.bincount(tree.apply(X.astype(np.float32)), minlength=tree.node_count)
    leaves = tree.children_left < 0
    if (reached[leaves] != tree.n_node_samples[leaves]).any():
        _refuse_rows("X", f"rows of the bag of tree {index} reach other leaves")


def _check_refitted(found: Recovered, rows: Rowset, index: int) -> None:
    voter, bag = found.voters[index], found.bags[index]
    X = voter.columns(rows.X)
    again = clone(voter.estimator).fit(_safe_indexing(X, bag), rows.codes[bag])
    asked = X[:: -(-rows.n_samples // ASKED)]
    agreed = np.mean(again.predict(asked) == voter.estimator.predict(asked))
    if agreed < SAME:
        _refuse_rows(
            "X", f"voter {index}, fitted again, predicts {1 - agreed:.1%} of rows otherwise"
        )


def _refuse_rows(argument: str, reason: str) -> NoReturn:
    msg = (
        f"`{argument}` is not what `fitted` was fitted on: {reason}; pass the whole table of the "
        f"fit, its rows in the same order{OTHER_ROWS}"
    )
    raise ValueError(msg)
