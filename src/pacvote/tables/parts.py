"""The rows of a table of votes, some at a time: what a stream or a worker counts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, final

import numpy as np
import polars as pl

from pacvote.counts import PairCounts, count
from pacvote.tables.columns import (
    CSV,
    choose,
    files_of,
    plain_cells,
    plain_types,
    reading,
    refuse_others,
    scan,
    settle,
    suffix_of,
)
from pacvote.votes import Votes

if TYPE_CHECKING:
    from collections.abc import Sequence

    PathLike = str | os.PathLike[str]

Null = Literal["out-of-bag", "error"]
NULLS: tuple[Null, ...] = ("out-of-bag", "error")

_CHUNK = 1 << 24  # votes that are read at a time
_TAIL = 1 << 16  # bytes at the end of a file, where Parquet and Arrow say what is in it


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table mean, settled before its first row is compared."""

    label: str
    voters: tuple[str, ...]
    null: Null | None

    def __post_init__(self) -> None:
        if self.null is not None and self.null not in NULLS:
            msg = f"`null` must be out-of-bag or error, but is {self.null!r}"
            raise ValueError(msg)

    @property
    def columns(self) -> list[str]:
        """The label, then the voters."""
        return [self.label, *self.voters]

    @property
    def chunk_rows(self) -> int:
        """How many rows to read at a time."""
        return max(_CHUNK // len(self.voters), 1)

    def compare(self, rows: pl.DataFrame, seen: int = 0, place: str = "") -> Votes:
        """Compare rows whose columns are plain; `seen` rows came before them."""
        for column in rows:
            self._refuse_unreadable(column, seen, place)
        some_null = any(column.null_count() for column in rows)
        nulls = rows.select(pl.col(self.voters).is_null()).to_numpy() if some_null else None
        classes = _distinct(rows) if rows.schema[self.label] == pl.String else None
        if classes is not None:
            rows = rows.select(pl.all().cast(pl.Enum(classes)).to_physical())
        rows = rows.fill_null(0)  # which is not looked at
        votes = Votes.from_predictions(
            rows.select(self.voters), rows[self.label], None if nulls is None else ~nulls
        )
        if nulls is not None and self.null == "error":
            return Votes.from_errors(votes.errors | nulls, voters=self.voters)
        return _with_names(votes, classes)

    def _refuse_unreadable(self, column: pl.Series, seen: int, place: str) -> None:
        """Refuse nulls that mean nothing, and numbers that are not whole."""
        name = column.name
        if column.null_count() and (name == self.label or self.null is None):
            self._refuse_null(name, f"row {seen + _first(column.is_null())}{place}")
        if column.dtype.is_float() and (broken := column != column.round(0)).any():
            row = _first(broken)
            msg = (
                f"column {name!r} has {column[row - 1]} in row {seen + row}{place}, not a whole "
                "number; give predicted labels, not scores"
            )
            raise ValueError(msg)

    def _refuse_null(self, name: str, where: str) -> NoReturn:
        if name == self.label:
            msg = f"label column {name!r} is empty in {where}; drop rows without a label"
        else:
            msg = (
                f"column {name!r} is empty in {where}; `null` must say what that means: "
                "out-of-bag (not validated there, decided at random) or error"
            )
        raise ValueError(msg)


def _first(where: pl.Series) -> int:
    """Return the first row, counted from 1, where a boolean series is true."""
    return int(where.arg_true()[0]) + 1


def _distinct(rows: pl.DataFrame) -> pl.Series:
    """Return all strings of some rows in the order of their code points."""
    return pl.concat([column.rename("").unique() for column in rows]).unique().drop_nulls().sort()


def _with_names(votes: Votes, classes: pl.Series | None) -> Votes:
    """Put back the strings for which integers stood."""
    if classes is None or votes.classes is None:
        return votes
    # As objects: a string of NumPy loses trailing zero bytes.
    return replace(votes, classes=np.array(classes.to_list(), dtype=object)[votes.classes])


@final
@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells a file from another, or from itself before it was written anew."""

    size: int
    mtime_ns: int
    tail: str

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file."""
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            file.seek(max(facts.st_size - _TAIL, 0))
            return cls(facts.st_size, facts.st_mtime_ns, hashlib.sha256(file.read()).hexdigest())


@final
@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file, from `start` to before `stop`; none of them is kept.

    It holds no open file: sent to another process, it reads the same rows there.
    """

    path: Path
    stamp: Stamp
    layout: Layout
    numbers: bool | None
    place: str = ""
    start: int = 0
    stop: int | None = None

    def votes(self, chunk_rows: int | None) -> Iterator[Votes]:
        """Yield the rows in chunks, in their order; None: all at once."""
        self._refuse_change()
        seen = self.start
        for rows in self._chunks(chunk_rows):
            if len(rows):
                yield self.layout.compare(rows, seen, self.place)
                seen += len(rows)
        self._refuse_change()

    def count(self) -> PairCounts:
        """Count the rows."""
        voters = self.layout.voters
        chunks = self.votes(self.layout.chunk_rows)
        return sum(map(count, chunks), PairCounts.zero(len(voters), voters))

    @property
    def n_rows(self) -> int:
        """Number of rows, blank lines of a CSV file among them."""
        return (rows_of(self.path) if self.stop is None else self.stop) - self.start

    def cut(self, n_rows: int) -> list[Part]:
        """Return parts of at most so many rows; a CSV file, read from its top, stays whole."""
        if suffix_of(self.path) in CSV:
            return [self]
        stop = rows_of(self.path)
        return [
            replace(self, start=start, stop=min(start + n_rows, stop))
            for start in range(0, stop, n_rows)
        ]

    def _refuse_change(self) -> None:
        if Stamp.of(self.path) != self.stamp:
            msg = (
                f"`path` {str(self.path)!r} is not the file that it was when the count began; "
                "count anew, and let nobody write to it meanwhile"
            )
            raise ValueError(msg)

    def _frame(self) -> pl.LazyFrame:
        frame = scan(self.path).select(self.layout.columns)
        if self.numbers is None:
            return plain_types(frame, self.layout.label)
        return plain_cells(frame, numbers=self.numbers)

    def _chunks(self, chunk_rows: int | None) -> Iterator[pl.DataFrame]:
        with reading(self.path):
            frame = self._frame()
            if chunk_rows is None:
                yield frame.collect()
            elif self.numbers is not None:
                passed = 0
                for batch in frame.collect_batches(chunk_size=chunk_rows, maintain_order=True):
                    yield from batch.slice(max(self.start - passed, 0)).iter_slices(chunk_rows)
                    passed += len(batch)
            else:  # batches would run ahead of the counting, and fill the memory
                stop = rows_of(self.path) if self.stop is None else self.stop
                for start in range(self.start, stop, chunk_rows):
                    yield frame.slice(start, min(chunk_rows, stop - start)).collect()


def rows_of(path: Path) -> int:
    """Return the number of rows of a file, blank lines of a CSV file among them."""
    frame, suffix = scan(path), suffix_of(path)
    with reading(path):
        if suffix in CSV:  # without the cells: a hundred times as fast
            frame = pl.scan_csv(path, separator=CSV[suffix], infer_schema=False, glob=False)
        return int(frame.select(pl.len()).collect().item())


def open_table(
    path: PathLike, label: str | None, null: Null | None, ignore: Sequence[str]
) -> list[Part]:
    """Return a part for each file of a table, columns settled for all of them."""
    files = files_of(path)
    stamps = [Stamp.of(file) for file in files]
    frames = {file: scan(file) for file in files}
    names = {file: frame.collect_schema().names() for file, frame in frames.items()}
    layout = Layout(*choose(names[files[0]], label, ignore), null)
    for file in files:
        refuse_others(file, names[file], names[files[0]])
    numbers = settle(frames, layout.label, layout.voters)
    folder = Path(path).is_dir()
    return [
        Part(file, stamp, layout, numbers, f" of {file.name!r}" if folder else "")
        for file, stamp in zip(files, stamps, strict=True)
    ]
