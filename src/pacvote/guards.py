"""What would void a certificate and can be seen: refused with the reason and the way out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.stats import multivariate_hypergeom
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

# A hold-out this unlikely to have such even class counts by chance is taken to be stratified.
CHANCE = 1e-3

CANDIDATES = "`n_candidates`"


def refuse_fit_params(params: Mapping[str, Any], n_samples: int) -> None:
    """Refuse what `fit` of other estimators takes and a certificate cannot stand."""
    for name, value in params.items():
        if name == "groups":
            refuse_groups(value, n_samples)
        elif name == "sample_weight":
            refuse_sample_weight(value)
        else:
            msg = f"`{name}` is not an argument of fit; it takes X and y"
            raise TypeError(msg)


def refuse_groups(groups: Any, n_samples: int) -> None:
    """Refuse rows that come in groups."""
    if groups is None:
        return
    if _num_samples(groups) != n_samples:
        msg = f"`groups` must have one entry per row, {n_samples}, got {_num_samples(groups)}"
        raise ValueError(msg)
    n_groups = len(np.unique(np.asarray(groups)))
    if n_groups < n_samples:
        msg = (
            f"`groups` puts {n_samples} rows into {n_groups} groups; a certificate needs "
            "independent rows, so keep one row of each group, or make one row of it"
        )
        raise ValueError(msg)


def refuse_sample_weight(sample_weight: Any) -> None:
    """Refuse weights of rows."""
    if sample_weight is not None:
        msg = (
            "`sample_weight` would steer which rows train and which validate, and the claim is "
            "about unweighted rows; drop it, or put the weights into the estimator's own loss"
        )
        raise ValueError(msg)


def refuse_voter(name: str, voter: Any) -> None:
    """Refuse what cannot be fitted anew on a bag."""
    if isinstance(voter, type):
        msg = f"`estimator` {name!r} is the class {voter.__name__}; give an instance"
        raise TypeError(msg)
    if not is_classifier(voter):
        msg = f"`estimator` {name!r} must be a classifier, got {type(voter).__name__}"
        raise TypeError(msg)
    frozen = [
        key or name
        for key, value in {"": voter, **voter.get_params(deep=True)}.items()
        if isinstance(value, FrozenEstimator)
    ]
    if frozen:
        msg = (
            f"`estimator` {frozen[0]!r} is frozen: it may have been fitted on rows that validate "
            "it; pass it unfitted, or certify it on new rows with pacvote.reweight([fitted], X, y)"
        )
        raise ValueError(msg)


def refuse_search(search: Any) -> NoReturn:
    """Refuse the winner of a search that was scored on these rows."""
    n_candidates = count_candidates(search)
    msg = (
        f"`fitted` is a {type(search).__name__} that chose among {n_candidates} candidates, "
        "perhaps by these rows. If so, reweight it with n_candidates="
        f"{n_candidates} (delta is divided by it); if it has not seen them, pass [fitted]"
    )
    raise ValueError(msg)


def count_candidates(search: Any) -> int:
    """Return how many settings a search has scored."""
    return len(search.cv_results_["params"])


def check_candidates(n_candidates: Any, least: int = 1) -> int:
    """Return how many candidates delta has to pay for."""
    if isinstance(n_candidates, bool) or not isinstance(n_candidates, int | np.integer):
        msg = f"{CANDIDATES} must be an integer, got {type(n_candidates).__name__}"
        raise TypeError(msg)
    if n_candidates < least:
        msg = f"{CANDIDATES} must be at least {least}, all that were scored, got {n_candidates}"
        raise ValueError(msg)
    return int(n_candidates)


def refuse_training_rows(
    names: Sequence[str], voters: Sequence[Any], n_errors: Any, n: int
) -> None:
    """Refuse a hold-out that a voter knows by heart, and warn where that is only possible."""
    for name, voter, errors in zip(names, voters, n_errors, strict=True):
        if errors:
            continue
        size = training_size(voter)
        known = f"`X`, `y`: voter {name!r} makes no error on these {n} rows"
        if size == n:
            msg = (
                f"{known} and was fitted on as many; they look like its training rows. "
                "Pass rows that no voter has seen"
            )
            raise ValueError(msg)
        if size is None or size > n:
            msg = f"{known}; if it has seen them, the certificate is void"
            warnings.warn(msg, UserWarning, stacklevel=5)


def refuse_stratified(voters: Sequence[Any], y: NDArray[Any]) -> None:
    """Refuse a hold-out whose class counts follow the training rows too closely for chance."""
    labels, held_out = np.unique(y, return_counts=True)
    for voter in voters:
        counts = training_classes(voter)
        if counts is None or len(counts) != len(labels) or len(labels) < 2:
            continue
        total = counts + held_out
        even = total * (held_out.sum() / total.sum())
        if (np.abs(held_out - even) >= 1).any():
            continue
        # At most two counts of each class are that even, but for the last, which follows.
        chance = 2.0 ** (len(labels) - 1) * multivariate_hypergeom.pmf(
            held_out, total, held_out.sum()
        )
        if chance < CHANCE:
            msg = (
                f"`y` has the class counts of a stratified split (by chance: {chance:.1g}); "
                "then its errors are not binomial. Hold rows out without looking at labels: "
                "train_test_split without `stratify`"
            )
            raise ValueError(msg)


def unwrapped(voter: Any) -> Any:
    """Return the model inside of pipelines and frozen estimators."""
    while isinstance(voter, FrozenEstimator | Pipeline):
        voter = voter.estimator if isinstance(voter, FrozenEstimator) else voter.steps[-1][1]
    return voter


def training_size(voter: Any) -> int | None:
    """Return the number of rows that a voter was fitted on, where it keeps that number."""
    kept = vars(unwrapped(voter))
    for name in ("_n_samples", "n_samples_fit_"):
        if name in kept:
            return int(kept[name])
    if "shape_fit_" in kept:
        return int(kept["shape_fit_"][0])
    if "tree_" in kept:
        return int(kept["tree_"].n_node_samples[0])
    return None


def training_classes(voter: Any) -> NDArray[np.int64] | None:
    """Return the class counts that a voter was fitted on, where it keeps them."""
    kept = vars(unwrapped(voter))
    if "tree_" in kept and kept["tree_"].n_outputs == 1:
        tree = kept["tree_"]
        counts = tree.value[0, 0] * tree.weighted_n_node_samples[0]
    elif "class_count_" in kept:
        counts = kept["class_count_"]
    elif "_y" in kept and "n_samples_fit_" in kept:
        counts = np.bincount(np.ravel(kept["_y"]))
    else:
        return None
    return np.asarray(np.rint(counts), dtype=np.int64)
