"""Every certificate issued on the paper's data sets is accepted, and `auto` chooses well."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from pacvote import BOUNDS, MajorityVoteClassifier, verify
from pacvote.paper.datasets import DATASETS, MissingDataError, load

pytestmark = pytest.mark.slow

OF_ROWS = [key for key, bound in BOUNDS.items() if bound().needs_rows]
OF_SINGLES = [key for key, bound in BOUNDS.items() if not bound().needs_pairs()]
OF_PAIRS = [key for key in BOUNDS if key not in OF_ROWS]
MOST = 20_000  # rows of the larger data sets that are used: certificates do not care


def rows_of(name):
    data_dir = os.environ.get("PACVOTE_DATA")
    try:
        X, y = load(DATASETS[name], Path(data_dir) if data_dir else None)
    except MissingDataError as error:
        pytest.skip(f"PACVOTE_DATA has it not: {error}")
    order = np.random.default_rng(0).permutation(len(y))[:MOST]
    kept = order[: len(order) * 4 // 5]
    return X[kept], y[kept], X[order[len(kept) :]]


def voting(shape):
    if shape == "folds":
        forest = RandomForestClassifier(30)
        return MajorityVoteClassifier(forest, n_estimators=3, validation=shape, random_state=0)
    return MajorityVoteClassifier(validation=shape, random_state=0)


@pytest.mark.parametrize("shape", ["bootstrap", 0.5, "folds"])
@pytest.mark.parametrize("name", sorted(DATASETS))
def test_every_certificate_is_accepted_and_auto_is_near_the_best(name, shape):
    X, y, new = rows_of(name)
    keys = {"bootstrap": OF_PAIRS, "folds": OF_SINGLES, 0.5: list(BOUNDS)}[shape]
    keys = [key for key in keys if shape == 0.5 or key not in OF_ROWS]
    vote = voting(shape).fit(X, y)
    risks, slowest = {}, 0.0
    for key in [*keys, "auto"]:
        vote.refit_weights(bound=key)
        rows = vote.certificate_.bound in OF_ROWS
        start = time.process_time()
        verdict = verify(vote.certificate_, vote.votes_ if rows else vote.counts_)
        slowest = max(slowest, 0.0 if rows else time.process_time() - start)
        assert verdict, (key, verdict.reasons)
        risks[key] = vote.certificate_.risk
    auto = risks.pop("auto")
    best = min(risks, key=risks.__getitem__)
    print(
        f"{name} {shape}: auto {auto:.4f}, {auto / risks[best]:.2f} of {best} {risks[best]:.4f}; "
        f"verify took {slowest:.2f} s at most"
    )
    assert auto <= 2 * risks[best]
    if shape == "folds":
        for key in ("folds", "two_moment"):
            vote.set_params(bound=key).fit(X, y, unlabelled=new)
            assert verify(vote.certificate_, vote.counts_), key
