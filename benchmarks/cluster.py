"""Counting Parquet files on a Dask cluster of one worker process and of two.

Each worker has one thread, both clusters count the same files in turns, and every worker has
counted one before the clock starts.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from distributed import Client, LocalCluster

from benchmarks.counting import least
from pacvote.cluster import count_on_dask
from pacvote.tables import count_table

N_FILES, N_ROWS, N_VOTERS = 16, 100_000, 200
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}


def write(folder: Path) -> None:
    """Write files of votes, a column for each voter."""
    for number in range(N_FILES):
        rng = np.random.default_rng(number)
        said = rng.integers(0, 4, (N_VOTERS, N_ROWS), np.int8)
        columns = {f"v{k}": column for k, column in enumerate(said)}
        table = pl.DataFrame({"y": rng.integers(0, 4, N_ROWS, np.int8), **columns})
        table.write_parquet(folder / f"{number:02}.parquet")


def connect(stack: ExitStack, n_workers: int, first: Path) -> Client:
    """Start worker processes, and let each count one file."""
    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", env=ONE_THREAD
    )
    client = stack.enter_context(Client(stack.enter_context(cluster)))
    client.wait_for_workers(n_workers)
    client.run(count_table, first, "y")
    return client


def count_on(client: Client, folder: Path) -> None:
    """Count all files on one of the clusters."""
    with client.as_current():
        count_on_dask(folder, "y")


def rows() -> list[tuple[str, float, str]]:
    """Return what was measured, its ratio, and a remark."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        write(folder)
        one, two = (connect(stack, n, folder / "00.parquet") for n in (1, 2))
        t = least({"one": lambda: count_on(one, folder), "two": lambda: count_on(two, folder)}, 2)
    size = f"{N_FILES} files of {N_ROWS:,} rows x {N_VOTERS} voters: {t['one']:.2f} s with one"
    return [("one Dask worker / two, time", t["one"] / t["two"], f"at least 1.6; {size}")]
