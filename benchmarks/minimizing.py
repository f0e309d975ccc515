"""Minimising, in units of one pass of the loop over pairs that counts the same votes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pacvote.counts import PairCounts, count
from pacvote.minimize import minimize

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
SIZES = (500, 1000, 2000)
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


def per_step(key: str, counts: PairCounts) -> tuple[float, int]:
    """Seconds for each step, and how many there were: larger problems need not need more."""
    n_iter = minimize(key, counts).n_iter
    return seconds(lambda: minimize(key, counts), repeats=2) / n_iter, n_iter


def growth() -> Iterator[tuple[str, float, str]]:
    for key in ("tnd", "cctnd"):
        measured = [per_step(key, synthetic(n_voters)) for n_voters in SIZES]
        exponent = float(np.polyfit(np.log(SIZES), np.log([t for t, _ in measured]), 1)[0])
        totals = zip(SIZES, measured, strict=True)
        spent = ", ".join(f"{n}: {t * k:.2f} s in {k} steps" for n, (t, k) in totals)
        yield f"minimise {key}, growth with voters", exponent, f"exponent per step; {spent}"


def rows() -> list[tuple[str, float, str]]:
    return [*against_counting("a"), *against_counting("e"), *growth()]
