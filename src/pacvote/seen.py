"""Whether a fitted voter has seen the rows that are to validate it, by what it keeps of its own.

Every test bounds the chance of its finding for rows that were drawn independently of the training
rows, from any distribution: an honest hold-out is practically never refused. What a voter keeps
no trace of cannot be seen; the certificate then assumes it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from scipy.stats import binom, multinomial, poisson
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from pacvote.guards import row_keys

# At most the chance of refusing an honest hold-out, for each part of a voter.
CHANCE = 1e-5
CHANCE_OF_STRATA = 1e-4

LOOKED_AT = 20  # parts of one ensemble
INNER = ("best_estimator_", "base_estimator_", "estimator_")
KEPT_ROWS = ("_fit_X", "X_train_", "support_vectors_")
# Of two equal training rows a machine may keep one alone, so that fewer values occur in it twice.
SPLIT_SUPPORT = 0.9
SMALL_LEAF = 50.0


def refuse_training_rows(
    names: Sequence[str], voters: Sequence[Any], X: Any, y: NDArray[Any], n_errors: Any
) -> None:
    """Refuse a hold-out that a voter was trained on, and warn where that is only possible."""
    for name, voter, errors in zip(names, voters, n_errors, strict=True):
        found = trace(voter, X, y)
        if found:
            msg = (
                f"`X`: voter {name!r} was trained on these rows, or on some of them: {found}; "
                "pass rows that no voter has seen"
            )
            raise ValueError(msg)
        if not errors:
            msg = (
                f"`X`, `y`: voter {name!r} makes no error on these {len(y)} rows; "
                "if it has seen them, the certificate is void"
            )
            warnings.warn(msg, UserWarning, stacklevel=5)


def trace(voter: Any, X: Any, y: NDArray[Any]) -> str:
    """Return what shows that a voter has seen some of these rows, or nothing."""
    for part, rows in _parts(voter, X):
        if "estimators_samples_" in dir(part):
            if _chance_of_bags(part, rows, y) < CHANCE:
                return f"its {len(part.estimators_)} members know the rows of their bags by heart"
        elif any(chance_of_counts(*pair) < CHANCE for pair in _leaves(part, rows)):
            return "they fill its leaves as evenly as its training rows"
        for name in KEPT_ROWS:
            kept = vars(part).get(name)
            if kept is not None and _chance_of_copies(kept, rows, name) < CHANCE:
                return f"its {name} holds copies of them"
    return ""


def _parts(voter: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the models inside of a voter, each with the rows as they reach it."""
    kept = getattr(voter, "__dict__", {})
    if isinstance(voter, Pipeline):
        rows = voter[:-1].transform(X) if len(voter.steps) > 1 else X
        yield from _parts(voter.steps[-1][1], rows)
        return
    if kept:
        yield voter, X
    if isinstance(voter, FrozenEstimator):
        yield from _parts(voter.estimator, X)
    for part in kept.get("calibrated_classifiers_", ()):
        yield from _parts(part.estimator, X)
    for name in INNER:
        # Of an ensemble `estimator_` is what its members were cloned from.
        if name in kept and "estimators_" not in kept:
            yield from _parts(kept[name], X)
    if "estimators_" in kept:
        for member, rows, _ in _members(voter, X):
            yield from _parts(member, rows)


def _plain(X: Any) -> Any:
    """Return rows without names of columns, as ensembles pass them to their members."""
    return X if issparse(X) else np.asarray(X)


def _members(voter: Any, X: Any) -> Iterator[tuple[Any, Any, int]]:
    """Yield the first members of an ensemble with their columns of the rows, and their places."""
    members = voter.estimators_
    members = members.ravel().tolist() if isinstance(members, np.ndarray) else list(members)
    columns = vars(voter).get("estimators_features_")
    for index, member in enumerate(members[:LOOKED_AT]):
        rows = X
        if columns is not None:
            rows = _plain(X)[:, columns[index]]
        yield member, rows, index


# --- leaves: how many training rows reached each is kept ---


def _leaves(part: Any, X: Any) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield, for each tree of a model, rows that reach each leaf and training rows that did."""
    kept = vars(part)
    if "tree_" in kept:
        tree = kept["tree_"]
        rows = _plain(X).astype(np.float32)
        leaves = tree.children_left < 0
        reached = np.bincount(tree.apply(rows), minlength=tree.node_count)
        yield reached[leaves], tree.n_node_samples[leaves]
    elif "_predictors" in kept and kept.get("is_categorical_") is None:
        numbers = np.asarray(X).astype(np.float64)
        for trees in kept["_predictors"][:LOOKED_AT]:
            leaves = trees[0].nodes["is_leaf"].astype(bool)
            reached = np.bincount(_reached(trees[0].nodes, numbers), minlength=len(leaves))
            yield reached[leaves], trees[0].nodes["count"][leaves]


def _reached(nodes: NDArray[Any], X: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the leaf of a boosted histogram tree that each row reaches."""
    at = np.zeros(len(X), dtype=np.intp)
    while not nodes["is_leaf"][at].all():
        node = nodes[at]
        value = X[np.arange(len(X)), node["feature_idx"]]
        left = np.where(np.isnan(value), node["missing_go_to_left"], value <= node["num_threshold"])
        at = np.where(node["is_leaf"], at, np.where(left, node["left"], node["right"]))
    return at


SCALES, TILTS = (g.ravel() for g in np.meshgrid(np.logspace(-1.5, 1.5, 7), [0, 0.15, 0.4, 0.8]))


def chance_of_counts(reached: NDArray[Any], kept: NDArray[Any]) -> float:
    """Bound the chance that new rows fill leaves as evenly as the rows that made the leaves.

    No probabilities of the leaves make equal counts likelier than the counts' own shares do. Else
    Chernoff's bound for d = sum_l (H_l - e_l)^2 / (e_l + 1/2), where H_l of m rows reach leaf l,
    and e_l are the training rows in it, scaled to m. For all s > 0 and t, whatever the leaves'
    probabilities, and so however the leaves have adapted to the training rows::

        P(D <= d) <= e^(s d) prod_l sup_r E exp(-s (H-e)^2 / (e + 1/2) + t (H-e)) / P(N = m)

    with H ~ Poisson(r), and N ~ Poisson(m), which makes the counts of the leaves independent.
    """
    n_rows = int(reached.sum())
    if np.array_equal(reached, kept):  # as for all training rows, in any order: exactly
        return float(multinomial.pmf(kept, n_rows, kept / n_rows))
    even = kept * (n_rows / kept.sum())
    distance = ((reached - even) ** 2 / (even + 0.5)).sum()
    means, repeats = np.unique(even, return_counts=True)
    log_total = 0.5 * math.log(2 * math.pi * n_rows) + 1 / (12 * n_rows)
    logs = SCALES * distance + repeats @ _log_suprema(means) + log_total
    return math.exp(min(0.0, float(logs.min())))


def _log_suprema(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln sup_r E exp(...) for each mean (rows) and each pair of s and t (columns)."""
    even = means[:, None]
    scales = SCALES / (even + 0.5)
    # Counts of a large leaf are nearly normal, and the best rate has a closed form.
    logs = -0.5 * np.log1p(2 * scales * even) + TILTS**2 / (4 * scales) + 1 / (1 + even)
    small = means <= SMALL_LEAF
    probabilities = _probabilities()
    away = np.arange(probabilities.shape[1]) - even[small]
    exponents = TILTS * away[..., None] - scales[small][:, None] * away[..., None] ** 2
    logs[small] = np.log((probabilities @ np.exp(exponents)).max(axis=1)) + 1e-3
    return logs


@lru_cache(maxsize=1)
def _probabilities() -> NDArray[np.float64]:
    """Return Poisson probabilities of counts (columns) at closely spaced rates (rows)."""
    rates = np.linspace(0, math.sqrt(2 * SMALL_LEAF), 300) ** 2
    return np.asarray(poisson.pmf(np.arange(3 * int(SMALL_LEAF)), rates[:, None]))


# --- bags: their places in the table are known, and so is where members should err less ---


def _chance_of_bags(ensemble: Any, X: Any, y: NDArray[Any]) -> float:
    """Bound the chance that members err so rarely on the rows at the places of their bags.

    On rows they have not seen, places in the table mean nothing.
    """
    errors_inside = errors = rows_inside = n_rows = 0
    bags = ensemble.estimators_samples_
    for member, rows, index in _members(ensemble, X):
        inside = np.zeros(max(len(y), int(np.max(bags[index])) + 1), dtype=np.bool_)
        inside[bags[index]] = True
        codes = np.asarray(member.predict(_plain(rows)), dtype=np.intp)
        wrong = np.asarray(ensemble.classes_)[codes] != y
        errors, errors_inside = errors + wrong.sum(), errors_inside + wrong[inside[: len(y)]].sum()
        n_rows, rows_inside = n_rows + len(y), rows_inside + inside[: len(y)].sum()
    return float(binom.cdf(errors_inside, errors, rows_inside / n_rows))


# --- rows that are kept ---


def _chance_of_copies(kept: Any, X: Any, name: str) -> float:
    """Bound the chance that so many of the values that occur twice are once in both tables.

    In independent tables, any two of all rows are as likely to be the equal ones.
    """
    if len(np.shape(kept)) != 2 or np.shape(kept)[1] != np.shape(X)[1]:
        return 1.0
    old, new = row_keys(kept), row_keys(X)
    values, places, times = np.unique(
        np.concatenate([old, new]), return_inverse=True, return_counts=True
    )
    here = np.bincount(places[len(old) :], minlength=len(values))[times == 2]
    n, m = len(old), len(new)
    split = 2 * n * m / ((n + m) * (n + m - 1))
    if name == "support_vectors_":
        split = max(split, SPLIT_SUPPORT)
    return float(binom.sf((here == 1).sum() - 1, len(here), split))


# --- strata: the class counts of the training rows are kept ---


def refuse_stratified(voters: Sequence[Any], y: NDArray[Any]) -> None:
    """Refuse a hold-out whose class counts follow the training rows too closely for chance."""
    labels, held_out = np.unique(y, return_counts=True)
    for voter in voters:
        shares = training_shares(voter)
        if shares is None or len(shares) != len(labels) or len(labels) < 2:
            continue
        chance = _chance_of_strata(held_out, shares * len(y))
        if chance < CHANCE_OF_STRATA:
            msg = (
                f"`y` has the class counts of a stratified split (by chance: {chance:.1g}); "
                "then its errors are not binomial. Hold rows out without looking at labels: "
                "train_test_split without `stratify`"
            )
            raise ValueError(msg)


def _chance_of_strata(held_out: NDArray[np.int64], even: NDArray[np.float64]) -> float:
    """Bound the chance of counts that are as close to even, the last of which follows."""
    n_values = np.floor(2 * np.abs(held_out - even).max()) + 1
    likeliest = multinomial.logpmf(held_out, held_out.sum(), held_out / held_out.sum())
    return math.exp(min(0.0, float((len(even) - 1) * math.log(n_values) + likeliest)))


def training_shares(voter: Any) -> NDArray[np.float64] | None:
    """Return the shares of the classes that a voter was fitted on, where it keeps them."""
    if isinstance(voter, FrozenEstimator):
        return training_shares(voter.estimator)
    if isinstance(voter, Pipeline):
        return training_shares(voter.steps[-1][1])
    kept = getattr(voter, "__dict__", {})
    counts = _own_counts(kept)
    if counts is None:
        inner = [kept[name] for name in ("init_", *INNER) if name in kept]
        members = inner if "init_" in kept else kept.get("estimators_", inner)
        # Adaptive boosting weighs the rows of all members but the first.
        members = members[:1] if "estimator_weights_" in kept else members
        known = [shares for shares in map(training_shares, members) if shares is not None]
        # Each bag of rows has nearly the shares of all rows, and their mean nearly exactly.
        counts = np.mean(known, axis=0) if known and len({*map(len, known)}) == 1 else None
    return None if counts is None else np.asarray(counts / np.sum(counts), dtype=np.float64)


def _own_counts(kept: dict[str, Any]) -> NDArray[Any] | None:
    """Return class counts or shares that a model keeps itself."""
    tree = kept.get("tree_")
    if tree is not None and tree.n_outputs == 1 and tree.max_n_classes > 1:
        return np.asarray(tree.value[0, 0])
    if "_y" in kept and "n_samples_fit_" in kept:
        return np.bincount(np.ravel(kept["_y"]))
    if "_baseline_prediction" in kept:
        logits = np.ravel(kept["_baseline_prediction"])
        return np.asarray(softmax(np.r_[0.0, logits] if len(logits) == 1 else logits))
    for name in ("class_count_", "class_prior_", "priors_"):
        if name in kept and np.ndim(kept[name]) == 1:
            return np.asarray(kept[name])
    return None
