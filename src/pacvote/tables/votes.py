"""From files to votes and counts, a part of the rows at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final

import numpy as np
import polars as pl

from pacvote.counts import PairCounts, count
from pacvote.tables.columns import CSV, choose, reading, refuse_empty, scan, settle, suffix_of
from pacvote.votes import Votes

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    PathLike = str | os.PathLike[str]

Null = Literal["out-of-bag", "error"]
NULLS: tuple[Null, ...] = ("out-of-bag", "error")

_CHUNK = 1 << 24  # votes that are read at a time


def read_votes(
    path: PathLike,
    label: str | None = None,
    *,
    null: Null | None = None,
    ignore: Sequence[str] = (),
) -> Votes:
    """Read a table of votes from a file.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.tsv``, ``.parquet``, ``.arrow``, ``.feather`` or ``.ipc``, or ``.npz`` with
        arrays ``predictions``, ``y`` and, where voters have different rows, ``validated``.
    label : str, optional
        The column of labels; all but those in `ignore` hold the votes of a voter each.
        Integers, strings, booleans or categories. Not for ``.npz``.
    null : {"out-of-bag", "error"}, optional
        What an empty cell of a voter means: "out-of-bag", the voter was not validated on this
        row, which was decided without a look at the row; or "error", it counts as an error,
        which is always sound. By default it is refused.
    ignore : sequence of str, default=()
        Columns that are neither.

    Returns
    -------
    Votes

    Raises
    ------
    ValueError
        For a file that is not such a table, in one line that names column and row.
    """
    if suffix_of(path) == ".npz":
        return _read_npz(path, label, null, ignore)
    return next(_open(path, label, null, ignore).votes(None))


def iter_votes(
    path: PathLike,
    label: str | None = None,
    *,
    null: Null | None = None,
    ignore: Sequence[str] = (),
    chunk_rows: int | None = None,
) -> Iterator[Votes]:
    """Read a table of votes in parts, in memory that does not grow with the file.

    Parameters
    ----------
    path, label, null, ignore
        As in `read_votes`.
    chunk_rows : int, optional
        At most so many rows at a time. An ``.npz`` file is always read as a whole.

    Yields
    ------
    Votes
        Of the same voters in each part: their counts add up.
    """
    if suffix_of(path) == ".npz":
        yield _read_npz(path, label, null, ignore)
        return
    table = _open(path, label, null, ignore)
    yield from table.votes(chunk_rows or max(_CHUNK // len(table.voters), 1))


def count_table(
    path: PathLike,
    label: str | None = None,
    *,
    null: Null | None = None,
    ignore: Sequence[str] = (),
    chunk_rows: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> PairCounts:
    """Count a table of votes part by part.

    Parameters
    ----------
    path, label, null, ignore, chunk_rows
        As in `iter_votes`.
    progress : callable, optional
        Called after each part with the number of its rows.

    Returns
    -------
    PairCounts
        The same for any `chunk_rows`.
    """
    total: PairCounts | None = None
    for votes in iter_votes(path, label, null=null, ignore=ignore, chunk_rows=chunk_rows):
        part = count(votes)
        total = part if total is None else total + part
        if progress is not None:
            progress(votes.n_samples)
    return refuse_empty(path) if total is None else total


def n_rows(path: PathLike) -> int | None:
    """Return the number of rows, blank lines of a CSV file among them; None for ``.npz``."""
    suffix = suffix_of(path)
    if suffix == ".npz":
        return None
    frame = scan(path)
    with reading(path):
        if suffix in CSV:  # without the cells: a hundred times as fast
            frame = pl.scan_csv(Path(path), separator=CSV[suffix], infer_schema=False, glob=False)
        return int(frame.select(pl.len()).collect().item())


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """A file whose columns are settled: the label, then the voters; no row of it is kept."""

    path: Path
    frame: pl.LazyFrame
    label: str
    voters: tuple[str, ...]
    null: Null | None

    def votes(self, chunk_rows: int | None) -> Iterator[Votes]:
        """Yield the rows in parts, in their order; None: all at once."""
        seen = 0
        for part in self._parts(chunk_rows):
            if len(part):
                yield self._compare(part, seen)
                seen += len(part)
        if not seen:
            refuse_empty(self.path)

    def _parts(self, chunk_rows: int | None) -> Iterator[pl.DataFrame]:
        with reading(self.path):
            if chunk_rows is None:
                yield self.frame.collect()
            elif suffix_of(self.path) in CSV:
                for batch in self.frame.collect_batches(chunk_size=chunk_rows, maintain_order=True):
                    yield from batch.iter_slices(chunk_rows)
            else:  # batches would run ahead of the counting, and fill the memory
                total = self.frame.select(pl.len()).collect().item()
                for start in range(0, total, chunk_rows):
                    yield self.frame.slice(start, chunk_rows).collect()

    def _compare(self, part: pl.DataFrame, seen: int) -> Votes:
        for column in part:
            self._refuse_unreadable(column, seen)
        some_null = any(column.null_count() for column in part)
        nulls = part.select(pl.col(self.voters).is_null()).to_numpy() if some_null else None
        classes = _distinct(part) if part.schema[self.label] == pl.String else None
        if classes is not None:
            part = part.select(pl.all().cast(pl.Enum(classes)).to_physical())
        part = part.fill_null(0)  # which is not looked at
        votes = Votes.from_predictions(
            part.select(self.voters), part[self.label], None if nulls is None else ~nulls
        )
        if nulls is not None and self.null == "error":
            return Votes.from_errors(votes.errors | nulls, voters=self.voters)
        return _with_names(votes, classes)

    def _refuse_unreadable(self, column: pl.Series, seen: int) -> None:
        """Refuse nulls that mean nothing, and numbers that are not whole."""
        name = column.name
        if column.null_count() and (name == self.label or self.null is None):
            self._refuse_null(name, seen + _first(column.is_null()))
        if column.dtype.is_float() and (broken := column != column.round(0)).any():
            row = _first(broken)
            msg = (
                f"column {name!r} has {column[row - 1]} in row {seen + row}, not a whole number; "
                "give predicted labels, not scores"
            )
            raise ValueError(msg)

    def _refuse_null(self, name: str, row: int) -> NoReturn:
        if name == self.label:
            msg = f"label column {name!r} is empty in row {row}; drop rows without a label"
        else:
            msg = (
                f"column {name!r} is empty in row {row}; `null` must say what that means: "
                "out-of-bag (not validated there, decided at random) or error"
            )
        raise ValueError(msg)


def _first(where: pl.Series) -> int:
    """Return the first row, counted from 1, where a boolean series is true."""
    return int(where.arg_true()[0]) + 1


def _distinct(part: pl.DataFrame) -> pl.Series:
    """Return all strings of a part in the order of their code points."""
    return pl.concat([column.rename("").unique() for column in part]).unique().drop_nulls().sort()


def _with_names(votes: Votes, classes: pl.Series | None) -> Votes:
    """Put back the strings for which integers stood."""
    if classes is None or votes.classes is None:
        return votes
    # As objects: a string of NumPy loses trailing zero bytes.
    return replace(votes, classes=np.array(classes.to_list(), dtype=object)[votes.classes])


def _open(path: PathLike, label: str | None, null: Null | None, ignore: Sequence[str]) -> _Table:
    _check_null(null)
    frame = scan(path)
    with reading(path):
        names = frame.collect_schema().names()
    label, voters = choose(names, label, ignore)
    return _Table(Path(path), settle(path, frame, label, voters), label, voters, null)


def _check_null(null: object) -> None:
    if null is not None and null not in NULLS:
        msg = f"`null` must be out-of-bag or error, but is {null!r}"
        raise ValueError(msg)


def _read_npz(path: PathLike, label: str | None, null: Null | None, ignore: Sequence[str]) -> Votes:
    for argument, value in (("label", label), ("null", null), ("ignore", ignore)):
        if value:
            msg = (
                f"`{argument}` {value!r} is for tables with named columns; an .npz file holds "
                "`predictions`, `y` and, where voters have different rows, `validated`"
            )
            raise ValueError(msg)
    with _arrays(path) as arrays:
        for name in ("predictions", "y"):
            if name not in arrays:
                msg = f"it has no array {name!r}, only {', '.join(arrays) or 'none at all'}"
                raise ValueError(msg)
        return Votes.from_predictions(
            arrays["predictions"],
            arrays["y"],
            arrays.get("validated"),
        )


@contextmanager
def _arrays(path: PathLike) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open a file of arrays; whatever its content then leads to becomes one line about it."""
    with Path(path).open("rb"):  # a missing file is an OSError
        pass
    try:
        with zipfile.ZipFile(path):  # else NumPy would take the file for a pickle
            pass
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "allow_pickle" in reason:
            reason = "it holds Python objects; save labels as integers or fixed-width strings"
        msg = f"`path` {str(path)!r} is not a table of votes: {reason}"
        raise ValueError(msg) from error
