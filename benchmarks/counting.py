"""Counting pairs of voters: against a loop over pairs, BLAS, and the machine's own limit.

Every ratio is of two times from one run, each the least of several that take turns.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from pacvote.counts import count
from pacvote.kernels import cpu

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

N_VOTERS, N_SAMPLES = 1_000, 200_000
N_PAIRS = N_VOTERS * (N_VOTERS + 1) // 2
SAMPLED_PAIRS = 40
THREADS: int = numba.config.NUMBA_NUM_THREADS
TILES = 200_000  # 4 x 4 voters, `cpu._DEPTH` words each


@numba.njit(nogil=True)
def _repeat_tile(bits: NDArray[np.uint64], counts: NDArray[np.uint64], times: int) -> None:
    for _ in range(times):
        cpu._tile(bits[0], bits[1], counts)


def in_cache(bits: NDArray[np.uint64]) -> None:
    """Count the same tile again and again, in every thread."""
    few = bits[:8, : cpu._DEPTH].reshape(2, -1, cpu._TILE, cpu._LINE)
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(THREADS):
            threads.submit(_repeat_tile, few, np.zeros((4, 4), np.uint64), TILES)


def loop(errors: NDArray[np.bool_]) -> None:
    """Count a few pairs as one would write it down."""
    for i in range(SAMPLED_PAIRS):
        (errors[:, i] & errors[:, -1 - i]).sum()


def quick_loop(columns: NDArray[np.bool_]) -> None:
    """Count a few pairs with contiguous columns and the fastest reduction that NumPy has."""
    for i in range(SAMPLED_PAIRS):
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


def rows() -> list[tuple[str, float, str]]:
    """Return what was measured, its ratio, and a remark."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, N_SAMPLES, np.int8)
    predictions = rng.integers(0, 4, (N_SAMPLES, N_VOTERS), np.int8)
    bits = cpu.pack_unequal(predictions, y)
    errors = predictions != y[:, None]
    columns, floats = np.ascontiguousarray(errors.T), errors.astype(np.float32)
    with threadpool_limits(THREADS):
        t = least(
            {
                "count": lambda: cpu.and_counts_symmetric(bits),
                "pack": lambda: cpu.pack_unequal(predictions, y),
                "end to end": lambda: count(predictions, y),
                "cache": lambda: in_cache(bits),
                "quick loop": lambda: quick_loop(columns),
            }
        )
        t |= least({"blas": lambda: floats.T @ floats, "loop": lambda: loop(errors)}, turns=1)
    limit = t["cache"] / (THREADS * TILES * 16 * cpu._DEPTH) * N_PAIRS * bits.shape[1]
    pairs = N_PAIRS / SAMPLED_PAIRS
    size = f"{N_VOTERS:,} voters x {N_SAMPLES:,} rows, {THREADS} threads"
    return [
        ("count / loop over pairs of columns", t["loop"] * pairs / t["count"], size),
        ("count / loop over contiguous columns", t["quick loop"] * pairs / t["count"], "its best"),
        ("count / float32 BLAS", t["blas"] / t["count"], "errors.T @ errors"),
        ("count / AND-popcount in L1", limit / t["count"], "share of the machine's rate"),
        ("packing : counting", t["pack"] / t["count"], "from int8 predictions"),
        ("end to end : counting", t["end to end"] / t["count"], "count(predictions, y)"),
    ]


if __name__ == "__main__":
    for what, ratio, remark in rows():
        print(f"{what:<40}{ratio:>10.3g}  {remark}")
