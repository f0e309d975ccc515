"""Fitting a certified vote against fitting scikit-learn's forest; reweighting a fitted one."""

import time
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from pacvote.adapters import reweight
from pacvote.ensemble import MajorityVoteClassifier

SHAPES = ((20_000, 50), (60_000, 200))
N_TREES = 100
JOBS = 2


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows() -> list[tuple[str, float, str]]:
    _warm_up()
    return [row for shape in SHAPES for row in _ratios(*shape)]


def _warm_up() -> None:
    X, y = make_classification(300, random_state=0)
    MajorityVoteClassifier(n_estimators=20, max_samples=0.5, n_jobs=JOBS).fit(X, y)


def _ratios(n_samples: int, n_features: int) -> list[tuple[str, float, str]]:
    X, y = make_classification(n_samples, n_features, n_informative=10, random_state=0)
    X = X.astype(np.float32)
    forest = RandomForestClassifier(N_TREES, oob_score=True, n_jobs=JOBS, random_state=0)
    vote = MajorityVoteClassifier(n_estimators=N_TREES, n_jobs=JOBS, random_state=0)
    # In turns, and the best of two: another load on the machine then slows both.
    times = [(seconds(lambda: forest.fit(X, y)), seconds(lambda: vote.fit(X, y))) for _ in "ab"]
    theirs, ours = map(min, zip(*times, strict=True))
    again = min(seconds(lambda: reweight(forest, X, y, n_jobs=JOBS)) for _ in "ab")
    size = f"{n_samples:,} x {n_features}, {N_TREES} trees"
    return [
        (f"fit and certify / forest's fit, {size}", ours / theirs, f"at most 1.10; {ours:.1f} s"),
        (f"reweight / forest's fit, {size}", again / theirs, f"at most 0.15; {again:.2f} s"),
    ]
