"""Does `ndraw` fail as seldom as it claims, at weights that the rows themselves chose?"""

import numpy as np
import pytest
from test_validity_pairs import allowed, exact_risk, worlds

from pacvote import Votes, certify_candidates, evaluate, minimize


def rows_of(world, rng, n):
    kind = rng.choice(len(world.kinds), n, p=world.kinds)
    return Votes.from_errors(rng.random((n, world.errs.shape[1])) < world.errs[kind])


def failures(world, delta, repetitions, n, seed):
    """How often the bound is too small at minimised, luckiest or equal weights."""
    rng, (patterns, probability) = np.random.default_rng(seed), world.patterns
    failed, total = 0, 0.0
    for _ in range(repetitions):
        votes = rows_of(world, rng, n)
        m = votes.n_voters
        found = minimize("ndraw", votes, delta=delta, max_iter=15)
        luckiest = np.eye(m)[int(np.argmin(votes.errors.sum(axis=0)))]
        uniform = np.full(m, 1 / m)
        limits = [(found.weights, found.value)]
        limits += [(w, evaluate("ndraw", votes, w, delta=delta).value) for w in (luckiest, uniform)]
        failed += any(limit < exact_risk(patterns, probability, w) for w, limit in limits)
        total += found.value
    return failed, total / repetitions


def run(repetitions, names, settings):
    print(f"\n{'world':<12} {'delta':>5} {'rows':>5} failed  mean bound")
    wrong = []
    for name in names:
        for seed, (delta, n) in enumerate(settings):
            failed, mean = failures(worlds()[name], delta, repetitions, n, seed)
            print(f"{name:<12} {delta:>5} {n:>5} {failed:>6}  {mean:.3f}")
            if failed > allowed(delta, repetitions):
                wrong.append((name, delta, n, failed))
    assert not wrong


def test_smoke():
    run(5, ["few good"], [(0.05, 60)])


@pytest.mark.slow
@pytest.mark.parametrize("world", worlds())
def test_ndraw_fails_as_seldom_as_it_claims(world):
    run(200, [world], [(0.2, 50), (0.05, 300)])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.2, 0.05])
def test_the_best_candidate_fails_as_seldom_as_it_claims(delta):
    """All voters are coins, so that the least of their errors is luck alone."""
    rng, failed = np.random.default_rng(0), 0
    candidates = dict(zip("abcdefgh", np.eye(8), strict=True))
    for _ in range(300):
        votes = Votes.from_errors(rng.random((60, 8)) < 0.4)
        failed += certify_candidates(votes, candidates, delta=delta).best.risk < 0.4
    print(f"\ncandidates, delta {delta}: {failed} of 300")
    assert failed <= allowed(delta, 300)
    assert failed > 0
