"""Fit each voter on its bag, and note in bits what it says of the rows that validate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils import _safe_indexing, column_or_1d, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_consistent_length, validate_data

from pacvote._inputs import is_missing, refuse_type
from pacvote.bags import Bags, Rows
from pacvote.votes import Votes

Codes = NDArray[np.integer[Any]]
Labels = NDArray[Any]
Bits = NDArray[np.uint64]

PROGRESS: ContextVar[Callable[[int], object]] = ContextVar("PROGRESS", default=lambda _: None)
"""Called with 1 after each voter that is fitted: for who watches a `fit` that takes long."""

MANY_LABELS = 20  # as many as a classification may have, however few its rows


def is_tree(estimator: object) -> bool:
    """Return whether an estimator is a single decision tree of scikit-learn, no subclass."""
    return type(estimator) in (DecisionTreeClassifier, ExtraTreeClassifier)


def takes_counts(estimator: Any) -> bool:
    """Return whether a bag may be passed as counts, its other rows with weight zero.

    Only trees of scikit-learn never look at a row of weight zero, and only without class
    weights, which are computed from the whole table. The canary tests hold them to it.
    """
    return (
        is_tree(estimator)
        and estimator.class_weight is None
        and isinstance(estimator.criterion, str)
        and isinstance(estimator.splitter, str)
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rowset:
    """Labelled rows, the labels as positions in ``classes``."""

    X: Any
    codes: Codes
    classes: Labels

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.codes)


def read_training(owner: Any, X: Any, y: Any, voters: Sequence[Any]) -> Rowset:
    """Check a table and its labels once for all voters."""
    y = None if y is None else read_labels(y)
    if all(map(takes_counts, voters)):
        X, y = _read_numbers(owner, X, y, voters)
    elif is_frame(X):
        X, y = validate_data(owner, X, y, skip_check_array=True)
        check_consistent_length(X, y)
        if _num_samples(X) < 2:
            msg = "`X` has 1 sample; give at least 2, one to train on and one to validate with"
            raise ValueError(msg)
    else:
        X, y = validate_data(owner, X, y, ensure_min_samples=2, **_untouched(voters))
    _refuse_as_many(y)
    classes, codes = np.unique(y, return_inverse=True)
    return Rowset(X, codes, classes)


def read_rows(owner: Any, X: Any, voters: Sequence[Any]) -> Any:
    """Check rows to predict against those that the voters were fitted on."""
    if all(map(is_tree, voters)):
        finite = "allow-nan" if all_tagged(voters, "allow_nan") else True
        checks = {"dtype": np.float32, "accept_sparse": "csr", "ensure_all_finite": finite}
        return validate_data(owner, X, reset=False, **checks)
    if is_frame(X):
        validate_data(owner, X, reset=False, skip_check_array=True)
        return X
    return validate_data(owner, X, reset=False, **_untouched(voters))


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame (pandas, polars or another that narwhals knows)."""
    return isinstance(nw.from_native(X, pass_through=True, eager_only=True), nw.DataFrame)


def _read_numbers(owner: Any, X: Any, y: Any, trees: Sequence[Any]) -> tuple[Any, Any]:
    finite = "allow-nan" if all_tagged(trees, "allow_nan") else True
    checks = {"dtype": np.float32, "accept_sparse": "csc", "ensure_all_finite": finite}
    try:
        X, y = validate_data(owner, X, y, ensure_min_samples=2, **checks)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        kind = "trees"
        raise _text_error(kind, error) from error
    if issparse(X):
        X.sort_indices()  # type: ignore[attr-defined]
    return X, y


def _text_error(kind: str, error: ValueError) -> ValueError:
    msg = (
        f"`X` has text where {kind} need numbers ({error}); pass `estimator` a Pipeline that "
        "encodes those columns, so that the encoder is fitted inside each bag"
    )
    return ValueError(msg)


def _untouched(voters: Sequence[Any]) -> dict[str, Any]:
    """Return checks that leave values to the voters, some of which take what others refuse."""
    sparse = ["csr", "csc"] if all_tagged(voters, "sparse") else False
    return {"dtype": None, "accept_sparse": sparse, "ensure_all_finite": False}


def all_tagged(voters: Sequence[Any], tag: str) -> bool:
    """Return whether all voters that are of scikit-learn's kind carry a tag."""
    known = [voter for voter in voters if isinstance(voter, BaseEstimator)]
    return all(getattr(get_tags(voter).input_tags, tag) for voter in known)


def read_labels(y: Any) -> Labels:
    """Return labels as an array of one kind, or refuse them."""
    native = nw.from_native(y, pass_through=True, allow_series=True)
    labels: Labels = column_or_1d(
        native.to_numpy() if isinstance(native, nw.Series) else y, warn=True
    )
    if labels.dtype.kind in "Of":
        _refuse_missing_labels(labels)
    if labels.dtype.kind == "O":
        labels = _of_one_kind(labels)
    if labels.dtype.kind == "f":
        _refuse_fractions(labels)
    if labels.dtype.kind in "SV":
        refuse_type(str(labels.dtype), "y")
    return labels


def _refuse_missing_labels(y: Labels) -> None:
    gaps = [row for row, label in enumerate(y.tolist()) if is_missing(label)]
    if gaps:
        msg = f"`y` has no label in row {gaps[0]} ({len(gaps)} in all); drop such rows"
        raise ValueError(msg)


def _of_one_kind(y: Labels) -> Labels:
    """Return integers and booleans that came as objects as what they are."""
    kinds = {type(label) for label in y.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return y
    if len(kinds) > 1:
        names = sorted(kind.__name__ for kind in kinds)
        msg = f"`y` has labels of several types, {', '.join(names)}; use one, such as y.astype(str)"
        raise TypeError(msg)
    return np.array(y.tolist())


def _refuse_fractions(y: Labels) -> None:
    broken = y[(y != np.trunc(y)) | np.isinf(y)]
    if len(broken):
        msg = (
            f"`y` has {broken[0]}, as a continuous target has; give class labels, such as "
            "ranges of it that are fixed beforehand"
        )
        raise ValueError(msg)


def _refuse_as_many(y: Labels) -> None:
    """Refuse a target with nearly as many values as rows."""
    n_labels = len(np.unique(y))
    if n_labels > max(MANY_LABELS, len(y) / 2):
        msg = (
            f"`y` has {n_labels} different values on {len(y)} rows, as a continuous target has; "
            "give class labels, such as ranges of it that are fixed beforehand"
        )
        raise ValueError(msg)


def fit_voters(
    voters: Sequence[Any],
    rows: Rowset,
    bags: Bags,
    *,
    n_jobs: int | None,
    verbose: int,
) -> tuple[list[Any], list[NDArray[Any]]]:
    """Fit each voter on its bag; return the voters, and what `heard` gives for each."""
    if all(map(takes_counts, voters)):
        by_row = Rowset(_by_row(rows.X), rows.codes, rows.classes)
        # Trees keep track of missing values only where they check the input themselves.
        checked = not issparse(rows.X) and _may_have_nan(rows.X)
        y = rows.codes.astype(np.float64)
        run = Parallel(n_jobs=n_jobs, verbose=verbose, prefer="threads", return_as="generator")
        done = run(
            delayed(_grow)(tree, rows.X, y, by_row, bags, voter, check_input=checked)
            for voter, tree in enumerate(voters)
        )
    else:
        run = Parallel(n_jobs=n_jobs, verbose=verbose, return_as="generator")
        done = run(
            delayed(_fit)(estimator, rows, bags, voter) for voter, estimator in enumerate(voters)
        )
    fitted, votes = [], []
    for voter, said_by in done:
        fitted.append(voter)
        votes.append(said_by)
        PROGRESS.get()(1)
    return fitted, votes


def _may_have_nan(X: NDArray[np.float32]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(np.sum(X)))


def _grow(
    tree: Any,
    X: Any,
    y: NDArray[np.float64],
    by_row: Rowset,
    bags: Bags,
    voter: int,
    *,
    check_input: bool,
) -> tuple[Any, NDArray[Any]]:
    bag = bags[voter]
    drawn = np.bincount(bag, minlength=len(y))
    tree.fit(X, y, sample_weight=drawn, check_input=check_input)
    tree.classes_ = by_row.classes
    return tree, heard(tree, by_row, bag, bags.held_out)


def _fit(estimator: Any, rows: Rowset, bags: Bags, voter: int) -> tuple[Any, NDArray[Any]]:
    bag = bags[voter]
    X, y = _safe_indexing(rows.X, bag), rows.classes[rows.codes[bag]]
    if (y == y[0]).all():
        # Many classifiers refuse a single class; whoever is to learn one can only say it.
        estimator = DummyClassifier(strategy="most_frequent")
    try:
        fitted = estimator.fit(X, y)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        kind = f"voters such as {type(estimator).__name__}"
        raise _text_error(kind, error) from error
    return fitted, heard(fitted, rows, bag, bags.held_out)


def _by_row(X: Any) -> Any:
    return X.tocsr() if issparse(X) else X  # type: ignore[attr-defined]


def heard(voter: Any, rows: Rowset, bag: Rows, held_out: Rows | None = None) -> NDArray[Any]:
    """Return what a voter says of the rows that validate it.

    On held-out rows its votes, as positions in the classes; else two rows of bits, where it was
    validated and where it erred.
    """
    if held_out is not None:
        return said(voter, _safe_indexing(rows.X, held_out), rows.classes)
    validated = np.ones(rows.n_samples, dtype=np.bool_)
    validated[bag] = False
    out = np.flatnonzero(validated)
    errs = np.zeros(rows.n_samples, dtype=np.bool_)
    if len(out):
        votes = said(voter, _safe_indexing(rows.X, out), rows.classes)
        errs[out] = votes != rows.codes[out]
    return _packed(np.stack([validated, errs]))


def hear_all(
    voters: Sequence[Any], rows: Rowset, bags: Sequence[Rows] | Bags, n_jobs: int | None
) -> list[NDArray[Any]]:
    """Return what `heard` gives for each voter that is fitted already."""
    by_row = Rowset(_by_row(rows.X), rows.codes, rows.classes)
    done: list[NDArray[Any]] = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_hear)(estimator, by_row, bags, voter) for voter, estimator in enumerate(voters)
    )
    return done


def _hear(estimator: Any, rows: Rowset, bags: Sequence[Rows] | Bags, voter: int) -> NDArray[Any]:
    return heard(estimator, rows, bags[voter])


def _packed(masks: NDArray[np.bool_]) -> Bits:
    octets = np.zeros((len(masks), -(-masks.shape[1] // 64) * 8), dtype=np.uint8)
    bits = np.packbits(masks, axis=1, bitorder="little")
    octets[:, : bits.shape[1]] = bits
    return octets.view("<u8").astype(np.uint64, copy=False)


def gather(
    said_by: Sequence[NDArray[Any]], rows: Rowset, names: Sequence[str], held_out: Rows | None
) -> Votes:
    """Put what all voters said together."""
    if held_out is None:
        validated, errors = np.stack(said_by, axis=1)
        return Votes(errors, validated, rows.n_samples, tuple(names))
    codes = rows.codes[held_out].astype(said_by[0].dtype)
    votes = np.stack(said_by, axis=1)
    errors = _packed((votes != codes[:, None]).T)
    return Votes(errors, None, len(held_out), tuple(names), votes, codes, rows.classes)


def said(voter: Any, X: Any, classes: Labels) -> NDArray[np.unsignedinteger[Any]]:
    """Return a voter's predictions as positions in ``classes``; X is checked already."""
    smallest = np.min_scalar_type(len(classes) - 1)
    if not is_tree(voter) or getattr(X, "dtype", None) != np.float32:
        return positions(voter.predict(X), classes).astype(smallest)
    by_leaf = np.argmax(voter.tree_.value[:, 0, :], axis=1)
    codes = positions(voter.classes_, classes).astype(smallest)[by_leaf]
    return np.asarray(codes[voter.tree_.apply(X)])


def positions(labels: Labels, classes: Labels) -> Codes:
    """Return where each label stands in the sorted ``classes``."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if (labels.dtype.kind in "OUST") != (classes.dtype.kind in "OUST"):
        msg = f"`estimator` predicts {labels.dtype} labels where `y` has {classes.dtype}; use one"
        raise TypeError(msg)
    found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    unknown = np.flatnonzero(classes[found] != labels)
    if len(unknown):
        msg = f"`estimator` predicts {labels[unknown[0]]!r}, which is not among {classes.tolist()}"
        raise ValueError(msg)
    return found
