"""Minimising, in units of one pass of the loop over pairs that counts the same votes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks._fit import exponent
from pacvote.counts import PairCounts, count
from pacvote.minimize import minimize

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
SIZES = (1000, 2000, 4000)
STEPS = 20
MANY = 2000
N_ROWS = 20_000


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def golden(case: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(GOLDEN / f"{case}.npz") as arrays:
        return arrays["predictions"], arrays["y"]


def naive(errors: np.ndarray, validated: np.ndarray) -> np.ndarray:
    """Tandem losses, one mean for each pair."""
    n_voters = errors.shape[1]
    tandem = np.empty((n_voters, n_voters))
    for i in range(n_voters):
        for j in range(n_voters):
            m = validated[:, i] & validated[:, j]
            tandem[i, j] = np.mean(errors[m, i] & errors[m, j])
    return tandem


def synthetic(n_voters: int, seed: int = 0) -> PairCounts:
    """Counts of voters that err independently given how hard a row is."""
    risks = np.random.default_rng(seed).uniform(0.1, 0.4, n_voters)
    both = 0.3 * np.sqrt(np.outer(risks, risks)) + 0.5 * np.outer(risks, risks)
    wrong = np.rint(N_ROWS * risks).astype(np.int64)
    pair_errors = np.minimum(
        np.rint(N_ROWS * both).astype(np.int64), np.minimum.outer(wrong, wrong)
    )
    np.fill_diagonal(pair_errors, wrong)
    left = np.repeat(wrong[:, None], n_voters, axis=1)
    rows = np.full((n_voters, n_voters), N_ROWS)
    return PairCounts(rows, pair_errors, left, tuple(map(str, range(n_voters))))


def against_counting(case: str) -> Iterator[tuple[str, float, str]]:
    predictions, y = golden(case)
    validated = predictions != -1
    errors = validated & (predictions != y[:, None])
    counts = count(predictions, y, validated)
    loop = seconds(lambda: naive(errors, validated), repeats=1)
    for key in ("tnd", "cctnd", "ccpbb"):
        took = seconds(lambda key=key: minimize(key, counts))
        solution = minimize(key, counts)
        remark = f"of one loop over pairs ({loop:.2f} s); {solution.status.name.lower()}"
        yield f"minimise {key}, case {case}", took / loop, f"{remark}, bound {solution.value:.4f}"


def per_step(key: str, counts: PairCounts) -> float:
    """Seconds for each step, of a few: larger problems need not need more."""
    start = time.perf_counter()
    solution = minimize(key, counts, max_iter=STEPS)
    return (time.perf_counter() - start) / solution.n_iter


def growth() -> Iterator[tuple[str, float, str]]:
    sizes = f"exponent per step, {SIZES[0]:,} to {SIZES[-1]:,}"
    tables = [synthetic(n_voters) for n_voters in SIZES]
    for key in ("tnd", "cctnd"):
        measured = [per_step(key, counts) for counts in tables]
        yield f"minimise {key}, growth with voters", exponent(SIZES, measured), sizes


def many() -> Iterator[tuple[str, float, str]]:
    counts = synthetic(MANY)
    for key in ("tnd", "cctnd"):
        start = time.perf_counter()
        solution = minimize(key, counts)
        took = time.perf_counter() - start
        remark = f"{took:.2f} s in {solution.n_iter} steps, {solution.status.name.lower()}"
        yield f"minimise {key}, {MANY:,} voters / 10 s", took / 10, remark


def rows() -> list[tuple[str, float, str]]:
    return [*against_counting("a"), *against_counting("e"), *growth(), *many()]
