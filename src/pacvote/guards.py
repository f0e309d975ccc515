"""What would void a certificate and can be seen: refused with the reason and the way out."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import _num_samples

# A table is taken for one of copies if this share of its different rows occurs again ...
REPEATED = 0.05
FEW_ROWS = 10  # ... of at least so many different ones ...
MANY_TIMES = 10  # ... and, where no column tells them apart, each occurs, if not so often.

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
    if not callable(getattr(voter, "__sklearn_tags__", None)) or not is_classifier(voter):
        given = repr(voter) if isinstance(voter, str | None) else type(voter).__name__
        msg = f"`estimator` {name!r} must be a classifier of scikit-learn's kind, got {given}"
        raise TypeError(msg)
    found = fitted_part(voter)
    if found:
        msg = (
            f"`estimator` {name!r} holds {found}, which may have been fitted on rows that "
            "validate it; pass it unfitted, or certify it on new rows with "
            "pacvote.reweight([fitted], X, y)"
        )
        raise ValueError(msg)


def fitted_part(estimator: Any) -> str:
    """Return what in an estimator stays fitted when it is cloned, or nothing."""
    todo, known = [clone(estimator)], set()
    while todo:
        item = todo.pop()
        if id(item) in known:
            continue
        known.add(id(item))
        if isinstance(item, FrozenEstimator):
            return f"a frozen {type(item.estimator).__name__}"
        if isinstance(item, BaseEstimator) and any(_is_learnt(key) for key in vars(item)):
            return f"a fitted {type(item).__name__}"
        todo += _held(item)
    return ""


def _is_learnt(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _held(item: Any) -> list[Any]:
    """Return what a parameter holds: of functions all that they refer to."""
    if isinstance(item, BaseEstimator):
        return list(item.get_params(deep=False).values())
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, list | tuple | set):
        return list(item)
    if isinstance(item, functools.partial):
        return [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, MethodType):
        return [item.__self__]
    if isinstance(item, FunctionType):
        cells = [cell.cell_contents for cell in item.__closure__ or () if cell != CellType()]
        known = item.__globals__
        named = [known[name] for name in item.__code__.co_names if name in known]
        return [*(item.__defaults__ or ()), *cells, *named]
    return []


def refuse_search(search: Any) -> NoReturn:
    """Refuse the winner of a search that was scored on these rows."""
    n_candidates = count_candidates(search)
    msg = (
        f"`fitted` is a {type(search).__name__} that chose among {n_candidates} candidates, "
        "perhaps by these rows. If so, and if they are out-of-bag ensembles, reweight it with "
        f"n_candidates={n_candidates} (delta is divided by it); if it has not seen these rows, "
        "pass [fitted]"
    )
    raise ValueError(msg)


def refuse_unlike_bags(search: Any, winner: Any) -> NoReturn:
    """Refuse the winner of a search that has no rows of its own to validate it."""
    msg = (
        f"`fitted` is a {type(search).__name__} whose winner, a {type(winner).__name__}, has seen "
        "all rows of the search, so that `n_candidates` cannot pay for it; pass [fitted], and "
        "rows that it has not seen. Out of bag: a search over a RandomForestClassifier, "
        "BaggingClassifier or MajorityVoteClassifier"
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


def warn_of_copies(X: Any) -> None:
    """Warn of a table whose rows were copied: a copy validates what its original has trained.

    Rows of a few categories are equal by nature, and are let pass: only in a table of copies is
    no row alone, or does one column (a measurement, an identifier) tell the different rows apart
    and still repeat with all the others.
    """
    keys = row_keys(X)
    _, first, times = np.unique(keys, return_index=True, return_counts=True)
    repeated, different = np.count_nonzero(times > 1), len(first)
    if repeated < REPEATED * different or different < FEW_ROWS:
        return
    few_kinds = times.min() == 1 or different < len(keys) / MANY_TIMES
    if few_kinds and not _is_told_apart(X, first):
        return
    msg = (
        f"`X` has only {different} different rows among its {len(keys)}: where a copy validates "
        "what its original has trained, the certificate is void; keep one row of each, unless "
        "they are independent draws that happen to be equal"
    )
    warnings.warn(msg, UserWarning, stacklevel=4)


def _is_told_apart(X: Any, first: NDArray[np.intp]) -> bool:
    """Return whether one column has different values on most of the different rows."""
    if issparse(X):
        return False
    return any(2 * len(np.unique(column[first])) >= len(first) for column in _columns(X))


def refuse_known_rows(X: Any, unlabelled: Any) -> None:
    """Refuse unlabelled rows that are those of the fit.

    New rows equal one of `X` about as often as another row of `X` does; by chance the two shares
    differ by more than is allowed here once in 10,000 times or less.
    """
    n = len(row_keys(X))
    keys = row_keys(X, unlabelled)
    known, new = keys[:n], keys[n:]
    _, where, times = np.unique(known, return_inverse=True, return_counts=True)
    seen, twins = np.isin(new, known).mean(), (times[where] > 1).mean()
    if seen > twins + 0.1 + 2.5 / np.sqrt(len(new)) + 2.5 / np.sqrt(n):
        msg = (
            f"`unlabelled` has {seen:.0%} of its rows in `X`, where they had a part in the fit; "
            "give rows that are new to all voters"
        )
        raise ValueError(msg)


def row_keys(*tables: Any) -> NDArray[np.uint64]:
    """Return a number for each row of all tables, equal where rows are, as float32 or as text."""
    random = np.random.default_rng(0)
    if any(map(issparse, tables)):
        parts: Any = [X if issparse(X) else csr_array(np.asarray(X)) for X in tables]
        table: Any = vstack(parts, "csr")
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        factors = random.integers(2**64, size=table.shape[1], dtype=np.uint64)
        keys = np.zeros(table.shape[0], dtype=np.uint64)
        np.add.at(keys, rows, _codes(table.data) * factors[table.indices])
        return keys
    return np.asarray(
        sum(column * random.integers(2**64, dtype=np.uint64) for column in _columns(*tables))
    )


def _columns(*tables: Any) -> Iterator[NDArray[np.uint64]]:
    """Yield the columns of tables, joined, as integers that are equal where their values are."""
    for parts in zip(*map(_arrays, tables), strict=True):
        yield _codes(np.concatenate(parts))


def _arrays(X: Any) -> Iterator[NDArray[Any]]:
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if isinstance(frame, nw.DataFrame):
        yield from (column.to_numpy() for column in frame.iter_columns())
    else:
        table = np.asarray(X)
        yield from table.reshape(len(table), -1).T


def _codes(values: NDArray[Any]) -> NDArray[np.uint64]:
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            # Zero is added to give both zeros the same bits.
            return (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)
    return np.unique(values.astype(str), return_inverse=True)[1].astype(np.uint64)
