"""Counting on a Dask cluster: what comes back is one small `PairCounts`, and no row.

Counts are integers and add up, so that neither the order of the workers nor a worker that is lost,
whose parts are then counted again elsewhere, changes a bit of the result.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
from dask.delayed import Delayed, delayed
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed, get_client

from pacvote.counts import PairCounts, count
from pacvote.tables.columns import NPZ, choose, plain_types, refuse_empty, refuse_names, suffix_of
from pacvote.tables.parts import Layout, Null, Part, open_table
from pacvote.votes import Votes

if TYPE_CHECKING:
    import polars as pl

    PathLike = str | os.PathLike[str]

__all__ = ["connected", "count_on_dask"]

_TASK = 1 << 26  # votes that one task counts
_FAN = 8  # counts that one task adds


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to a cluster.

    Parameters
    ----------
    address : str
        Of its scheduler, such as ``tcp://host:8786``; or ``local``: as many worker processes as
        this machine has cores, with one thread each, until the end.

    Yields
    ------
    distributed.Client
        The one that `count_on_dask` then uses.
    """
    if address != "local":
        with Client(address) as client:
            yield client
        return
    one_thread = {"NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    with (
        LocalCluster(
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            env=one_thread,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def count_on_dask(
    data: Any,
    label: str | None = None,
    *,
    null: Null | None = None,
    ignore: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> PairCounts:
    """Count on the workers of the cluster that is connected.

    Parameters
    ----------
    data : path-like, Dask DataFrame, or sequence of Delayed
        A file or a folder that all workers can read, as in `pacvote.tables.count_table`; or a
        table with a column for each voter; or parts that are `Votes`, `PairCounts` or data frames
        of the same voters each.
    label, null, ignore
        As in `pacvote.tables.read_votes`; not for parts that are `Votes` or `PairCounts`.
    progress : callable, optional
        Called with the number of rows whenever some are counted.

    Returns
    -------
    PairCounts
        The same as `pacvote.count` gives for all rows in one place.
    """
    tasks = _tasks(data, label, null, ignore)
    if not tasks:
        msg = "`data` has no parts; give at least one"
        raise ValueError(msg)
    n_rows = {task.key: n for task, n in tasks}
    client = _client()
    total = client.compute(_tree([task for task, _ in tasks]))
    # Not kept in a list: the cluster may forget counts as soon as they are added.
    for future in as_completed(client.compute([task for task, _ in tasks])):
        if future.status != "finished":
            break
        if progress is not None:
            progress(n_rows[future.key])
    return _result(total)


def _client() -> Client:
    try:
        return get_client()
    except ValueError as error:
        msg = "no cluster is connected; count inside of `with connected(address):`"
        raise ValueError(msg) from error


def _result(total: Future[PairCounts]) -> PairCounts:
    try:
        counts: PairCounts = total.result()
    except KilledWorker as error:
        last = error.last_worker.address
        msg = f"{last} died of the same part as workers before it: see its log, or its memory"
        raise ChildProcessError(msg) from error
    if not counts.pair_rows.any():
        refuse_empty("data")
    return counts


def _tasks(
    data: Any, label: str | None, null: Null | None, ignore: Sequence[str]
) -> list[tuple[Delayed, int]]:
    """Return what workers are to count, and how many rows each of it is where that is known."""
    if isinstance(data, str | os.PathLike):
        return [
            (delayed(part.count, traverse=False)(), part.n_rows)
            for part in _parts(data, label, null, ignore)
        ]
    parts = data if isinstance(data, Sequence) else data.to_delayed()
    for part in parts:
        if not isinstance(part, Delayed):
            msg = f"`data` must hold Delayed parts, got {type(part).__name__}; see dask.delayed"
            raise TypeError(msg)
    return [(delayed(_count)(part, label, null, list(ignore)), 0) for part in parts]


def _parts(
    path: PathLike, label: str | None, null: Null | None, ignore: Sequence[str]
) -> list[Part]:
    if suffix_of(path) == NPZ:
        msg = f"`path` {str(path)!r} is read as a whole; count it without a cluster"
        raise ValueError(msg)
    # Workers have working directories of their own.
    files = open_table(Path(path).absolute(), label, null, ignore)
    n_voters = len(files[0].layout.voters)
    # Counts of few rows would be larger than the rows.
    n_rows = max(_TASK // n_voters, 64 * n_voters)
    return [part for file in files for part in file.cut(n_rows)]


def _count(part: Any, label: str | None, null: Null | None, ignore: list[str]) -> PairCounts:
    if isinstance(part, PairCounts):
        return part
    if isinstance(part, Votes):
        return count(part)
    frame = _frame(part)
    refuse_names(frame.columns)
    layout = Layout(*choose(frame.columns, label, ignore), null)
    rows = plain_types(frame.lazy().select(layout.columns), layout.label).collect()
    if not len(rows):
        return PairCounts.zero(len(layout.voters), layout.voters)
    return count(layout.compare(rows))


def _frame(part: Any) -> pl.DataFrame:
    try:
        frame: pl.DataFrame = nw.from_native(part, eager_only=True).to_polars()
    except (nw.exceptions.NarwhalsError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        msg = f"`data` has a part that is neither votes nor counts nor a table of them: {reason}"
        raise ValueError(msg) from error
    return frame


def _tree(tasks: list[Delayed]) -> Delayed:
    """Add up a few at a time, so that no worker has to hold them all."""
    while len(tasks) > 1:
        tasks = [delayed(_add)(tasks[i : i + _FAN]) for i in range(0, len(tasks), _FAN)]
    return tasks[0]


def _add(counts: list[PairCounts]) -> PairCounts:
    return sum(counts[1:], counts[0])
