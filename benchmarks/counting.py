"""Counting pairs of voters: against a loop over pairs, BLAS, and the machine's own limit.

Every ratio is of two times from one run, each the least of several that take turns.
"""

from __future__ import annotations

import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._fit import exponent
from pacvote.counts import count
from pacvote.kernels import cpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Row = tuple[str, float, str]

N_VOTERS, N_SAMPLES = 1_000, 1_000_000
SLOW_SAMPLES, SLOW_PAIRS = 100_000, 40  # what the slow rivals are given
THREADS: int = numba.config.NUMBA_NUM_THREADS
N_PAIRS = N_VOTERS * (N_VOTERS + 1) // 2
TILES = N_PAIRS * N_SAMPLES // 64 // (16 * cpu._DEPTH * THREADS)  # as much work as counting


@numba.njit(nogil=True)
def _repeat_tile(tiles: NDArray[np.uint64], counts: NDArray[np.uint64], times: int) -> None:
    for _ in range(times):
        cpu._tile(tiles[0], tiles[1], counts)


def in_cache(bits: NDArray[np.uint64]) -> None:
    """Count the same tile again and again, in every thread, as often as counting has tiles."""
    tiles = bits[:8, : cpu._DEPTH].reshape(2, -1, cpu._TILE, cpu._LINE)
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(THREADS):
            threads.submit(_repeat_tile, tiles, np.zeros((4, 4), np.uint64), TILES)


def loop(errors: NDArray[np.bool_]) -> None:
    """Count a few pairs as one would write it down."""
    for i in range(SLOW_PAIRS):
        (errors[:, i] & errors[:, -1 - i]).sum()


def quick_loop(columns: NDArray[np.bool_]) -> None:
    """Count a few pairs with contiguous columns and the fastest reduction that NumPy has."""
    for i in range(SLOW_PAIRS):
        np.count_nonzero(columns[i] & columns[-1 - i])


def least(tasks: dict[str, Callable[[], object]], turns: int = 7) -> dict[str, float]:
    """Return the least time of each task; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(turns + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return {name: min(measured[1:]) for name, measured in times.items()}


def against_rivals(predictions: NDArray[np.int8], y: NDArray[np.int8]) -> list[Row]:
    """Compare with other ways to count, and with a tile that never leaves the L1 cache."""
    bits = cpu.pack_unequal(predictions, y)
    errors = predictions[:SLOW_SAMPLES] != y[:SLOW_SAMPLES, None]
    columns, floats = np.ascontiguousarray(errors.T), errors.astype(np.float32)
    with threadpool_limits(THREADS):
        t = least(
            {
                "count": lambda: cpu.and_counts_symmetric(bits),
                "cache": lambda: in_cache(bits),
                "pack": lambda: cpu.pack_unequal(predictions, y),
                "end to end": lambda: count(predictions, y),
                "quick loop": lambda: quick_loop(columns),
            }
        )
        t |= least({"blas": lambda: floats.T @ floats, "loop": lambda: loop(errors)}, turns=2)
    more = N_SAMPLES / SLOW_SAMPLES / t["count"]
    pairs = more * N_PAIRS / SLOW_PAIRS
    size = f"{N_VOTERS:,} voters x {N_SAMPLES:,} rows, {THREADS} threads: {t['count']:.3f} s"
    return [
        ("loop over pairs of columns / counting", t["loop"] * pairs, size),
        ("loop over contiguous columns / counting", t["quick loop"] * pairs, "its best"),
        ("float32 BLAS / counting", t["blas"] * more, "errors.T @ errors"),
        ("counting, share of the rate in L1", t["cache"] / t["count"], "of AND, popcount and sum"),
        ("packing / counting", t["pack"] / t["count"], "from int8 predictions"),
        ("end to end / counting", t["end to end"] / t["count"], "count(predictions, y)"),
    ]


def memory(predictions: NDArray[np.int8], y: NDArray[np.int8]) -> Row:
    """Compare the most that was allocated at a time with the packed bits."""
    tracemalloc.start()
    count(predictions, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    packed = predictions.size / 8
    remark = f"{packed / 1e6:.0f} MB; the predictions themselves not counted"
    return "peak memory / packed bits", peak / packed, remark


def growth(predictions: NDArray[np.int8], y: NDArray[np.int8]) -> list[Row]:
    """Fit how the time of counting grows with rows and with voters."""
    bits = cpu.pack_unequal(predictions, y)
    n_words = [bits.shape[1] >> k for k in (3, 2, 1, 0)]
    n_voters = [N_VOTERS >> k for k in (3, 2, 1, 0)]
    of_rows = {f"{n}": bits[:, :n] for n in n_words}
    of_voters = {f"first {n}": bits[:n] for n in n_voters}
    tables = of_rows | of_voters
    t = least(
        {k: lambda table=table: cpu.and_counts_symmetric(table) for k, table in tables.items()}
    )
    by_rows = exponent(n_words, [t[k] for k in of_rows])
    by_voters = exponent(n_voters, [t[k] for k in of_voters])
    rows = f"exponent, {64 * n_words[0]:,} to {N_SAMPLES:,} rows"
    return [
        ("counting, growth with rows", by_rows, rows),
        ("counting, growth with voters", by_voters, f"exponent, {n_voters[0]} to {N_VOTERS:,}"),
    ]


def rows() -> list[Row]:
    """Return what was measured, its ratio, and a remark."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N_SAMPLES, np.int8)
    predictions = rng.integers(0, 4, (N_SAMPLES, N_VOTERS), np.int8)
    measured = against_rivals(predictions, y)
    return [*measured, memory(predictions, y), *growth(predictions, y)]
