"""Certificates of fitted ensembles fail in at most a share delta of draws.

Every draw is a new training table from a distribution that is known, so that the error of the
vote on 250,000 fresh rows is its risk to within 1e-3 (one standard deviation at the worst).
"""

from __future__ import annotations

import numpy as np
import pytest

from pacvote.ensemble import MajorityVoteClassifier
from pacvote.voters import paper_ensemble

DELTA = 0.05
DRAWS = 200
N_SAMPLES = 1000
N_TEST = 250_000
WITHIN = 1e-3
CENTRES = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 1.0], [0.0, 4.0, -1.0]])


def draw(random, n_samples):
    """Three Gaussian classes, one rarer, one label in 33 replaced at random."""
    y = random.choice(3, size=n_samples, p=[0.45, 0.35, 0.2])
    X = CENTRES[y] + random.normal(size=(n_samples, 3))
    noisy = random.random(n_samples) < 0.03
    return X, np.where(noisy, random.integers(3, size=n_samples), y)


def risk(vote, X, y):
    return np.mean(vote.predict(X) != y)


ENSEMBLES = {
    "forest": lambda seed: MajorityVoteClassifier(
        n_estimators=30, max_samples=0.5, delta=DELTA, random_state=seed
    ),
    "heterogeneous": lambda seed: MajorityVoteClassifier(
        paper_ensemble(), max_samples=0.5, delta=DELTA, random_state=seed
    ),
    "folds": lambda seed: MajorityVoteClassifier(
        n_estimators=3, validation="folds", delta=DELTA, random_state=seed
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENSEMBLES)
def test_certificates_hold(kind, record_property):
    # Nearest neighbours are slow to ask; a smaller table is allowed a larger error.
    n_test = N_TEST if kind != "heterogeneous" else N_TEST // 10
    within = WITHIN * np.sqrt(N_TEST / n_test)
    violated, claims, slack = 0, [], []
    for seed in range(DRAWS):
        random = np.random.default_rng(seed)
        vote = ENSEMBLES[kind](seed).fit(*draw(random, N_SAMPLES))
        gap = vote.certificate_.risk - risk(vote, *draw(random, n_test))
        violated += gap < within
        claims.append(vote.certificate_.risk)
        slack.append(gap)
    record_property("violated", violated)
    record_property("least slack", float(min(slack)))
    record_property("mean claim", float(np.mean(claims)))
    assert np.mean(claims) < 0.4  # a vacuous certificate would hold always
    assert violated <= DELTA * DRAWS
