"""From files to votes and counts, a part of the rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pacvote.counts import PairCounts, count
from pacvote.tables.arrays import read_npz
from pacvote.tables.checkpoint import Checkpoint, Done
from pacvote.tables.columns import NPZ, files_of, refuse_empty, suffix_of
from pacvote.tables.parts import Null, Part, open_table, rows_of
from pacvote.votes import Votes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    PathLike = str | os.PathLike[str]


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
    if suffix_of(path) == NPZ:
        return read_npz(path, label, null, ignore)
    if Path(path).is_dir():
        msg = f"`path` {str(path)!r} is a folder; read its files one by one, or use count_table"
        raise ValueError(msg)
    (part,) = open_table(path, label, null, ignore)
    return next(part.votes(None), None) or refuse_empty(path)


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
    path : path-like
        As in `read_votes`, or a folder of such files, all of one kind and with the same columns.
        Names in it that begin with a dot or an underscore are left out.
    label, null, ignore
        As in `read_votes`.
    chunk_rows : int, optional
        At most so many rows at a time. An ``.npz`` file is always read as a whole.

    Yields
    ------
    Votes
        Of the same voters in each part: their counts add up.
    """
    if suffix_of(path) == NPZ:
        yield read_npz(path, label, null, ignore)
        return
    n_samples = 0
    for part in open_table(path, label, null, ignore):
        for votes in part.votes(chunk_rows or part.layout.chunk_rows):
            yield votes
            n_samples += votes.n_samples
    if not n_samples:
        refuse_empty(path)


def count_table(
    path: PathLike,
    label: str | None = None,
    *,
    null: Null | None = None,
    ignore: Sequence[str] = (),
    chunk_rows: int | None = None,
    progress: Callable[[int], None] | None = None,
    checkpoint: PathLike | None = None,
) -> PairCounts:
    """Count a table of votes part by part.

    Parameters
    ----------
    path, label, null, ignore, chunk_rows
        As in `iter_votes`.
    progress : callable, optional
        Called after each part with the number of its rows.
    checkpoint : path-like, optional
        File to keep what is counted so far in. If it exists, counting goes on from there, and
        gives the same counts. It is left where it is: remove it once the counts are saved.

    Returns
    -------
    PairCounts
        The same for any `chunk_rows`.

    Raises
    ------
    ValueError
        For what `read_votes` refuses, for a `checkpoint` of another table or of other options,
        and for files that change while they are read.
    """
    if suffix_of(path) == NPZ:
        if checkpoint is not None:
            msg = "`checkpoint` is for tables that are read in parts, .npz is not; leave it out"
            raise ValueError(msg)
        return count(read_npz(path, label, null, ignore))
    parts = open_table(path, label, null, ignore)
    kept = None if checkpoint is None else Checkpoint(Path(checkpoint), parts)
    done = kept.load() if kept is not None else Done.nothing(parts)
    advance = progress or (lambda _: None)
    advance(done.n_samples)
    for step in _count_on(parts, done, chunk_rows):
        advance(step.n_samples - done.n_samples)
        done = step
        if kept is not None:
            kept.offer(done)
    if kept is not None:
        kept.save(done)
    return done.counts if done.n_samples else refuse_empty(path)


def _count_on(parts: Sequence[Part], done: Done, chunk_rows: int | None) -> Iterator[Done]:
    """Count from where `done` has come to, and say after each chunk where that is."""
    for number in range(done.n_files, len(parts)):
        row = done.row if number == done.n_files else 0
        part = replace(parts[number], start=row)
        for votes in part.votes(chunk_rows or part.layout.chunk_rows):
            row += votes.n_samples
            done = Done(done.counts + count(votes), number, row, done.n_samples + votes.n_samples)
            yield done


def n_rows(path: PathLike) -> int | None:
    """Return the number of rows, blank lines of CSV files among them; None for ``.npz``."""
    return None if suffix_of(path) == NPZ else sum(map(rows_of, files_of(path)))
