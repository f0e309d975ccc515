"""Minimising: never worse than the record, the prior or another optimiser, and honest of it."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from pacvote import (
    BOUNDS,
    Bound,
    CBound,
    CCBennett,
    PairCounts,
    Status,
    Votes,
    count,
    evaluate,
    minimize,
)
from pacvote.bounds.shared import SharedBound

RECORD = Path(__file__).parent / "golden"
EVERY = [
    BOUNDS[key](constants=constants)
    for key in BOUNDS
    if not issubclass(BOUNDS[key], SharedBound) and key != "best_of"  # has tests of its own
    for constants in BOUNDS[key].known_constants
]
QUICK = [bound for bound in EVERY if bound.key != "ccpbb" or bound.sound]


def name(bound):
    return f"{bound.key}-{bound.constants}"


@pytest.fixture
def counts_of(golden):
    def load(case):
        predictions, y = golden(case)
        return count(predictions, y, predictions != -1)

    return load


def recorded(case, key):
    record = json.loads((RECORD / f"{case}.json").read_text())
    return record["public_implementation_minimum"][key]


def random_counts(n_voters, n_samples, seed, *, share=0.6, risk=(0.05, 0.45), common=0.5):
    rng = np.random.default_rng(seed)
    hard, own = rng.random((n_samples, 1)), rng.random((n_samples, n_voters))
    errors = common * hard + (1 - common) * own < rng.uniform(*risk, n_voters)
    validated = rng.random((n_samples, n_voters)) < share
    validated[:3] = True
    return count(errors.astype(int), np.zeros(n_samples, int), validated)


def shared(errors):
    """Counts of voters on shared rows, from who erred."""
    errors = np.asarray(errors, dtype=int)
    return count(errors, np.zeros(len(errors), int))


@pytest.fixture
def at_a_half(monkeypatch):
    """Value weights as they are sought: with the threshold 1/2."""
    monkeypatch.setattr(Bound, "counts_coalitions", property(lambda _: False))


def check(solution, bound, counts, prior=None, delta=0.05):
    """What holds of every solution."""
    rho = solution.weights
    start = np.full(counts.n_voters, 1 / counts.n_voters) if prior is None else prior
    assert rho.shape == (counts.n_voters,)
    assert np.all(rho >= 0)
    assert math.fsum(rho) == pytest.approx(1, abs=1e-12)
    assert np.all(rho[start == 0] == 0)
    found = evaluate(bound, counts, rho, prior=prior, delta=delta, parameters=solution.parameters)
    assert found.value == solution.value
    assert found.parameters == solution.parameters
    at_start = evaluate(bound, counts, start, prior=prior, delta=delta).value
    assert solution.value <= at_start
    assert solution.gap >= 0
    assert solution.n_iter >= 0


# ---------------------------------------------------------------- the record


@pytest.mark.parametrize("case", "ade")
@pytest.mark.parametrize("key", ["fo", "tnd", "cctnd"])
def test_no_worse_than_the_public_implementation(counts_of, case, key):
    bound, counts = BOUNDS[key](constants="paper"), counts_of(case)
    solution = minimize(bound, counts)
    check(solution, bound, counts)
    assert solution.value <= recorded(case, key) * (1 + 1e-12)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("key", "constants", "limits"),
    [
        ("ccpbb", "paper", (0.662, 0.892, 0.322)),
        ("tnd", "sharp", (0.4198, 0.8545, 0.2660)),
        ("cctnd", "sharp", (0.4230, 0.7590, 0.2668)),
        ("ccpbb", "sharp", (0.592, 0.854, 0.301)),
    ],
)
def test_no_worse_than_what_is_known_to_be_reached(counts_of, key, constants, limits, monkeypatch):
    def minimum(bound, counts):
        solution = minimize(bound, counts)
        check(solution, bound, counts)
        return solution

    for case, limit in zip("ade", limits, strict=True):
        bound, counts = BOUNDS[key](constants=constants), counts_of(case)
        valued = minimum(bound, counts).value
        with monkeypatch.context() as held:
            held.setattr(Bound, "counts_coalitions", property(lambda _: False))
            solution = minimum(bound, counts)
        assert valued <= solution.value <= limit
        assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("case", "keys"), [("a", ["fo", "tnd"]), ("d", ["fo", "tnd", "cctnd"]), ("e", ["fo", "tnd"])]
)
def test_the_papers_method_ends_where_it_did(counts_of, case, keys):
    for key in keys:
        bound, counts = BOUNDS[key](constants="paper"), counts_of(case)
        solution = minimize(bound, counts, method="paper")
        assert solution.value == pytest.approx(recorded(case, key), rel=2e-6)
        found = evaluate(bound, counts, solution.weights, parameters=solution.parameters)
        assert found.value == solution.value
        assert math.isnan(solution.gap)
        assert minimize(bound, counts).value <= solution.value


# ---------------------------------------------------------------- laws


def zoo(rng, kind, n_voters, size):
    """Evidence of a kind that minimisers dislike."""
    hard, own = rng.random((size, 1)), rng.random((size, n_voters))
    errors = (0.6 * hard + 0.4 * own) < rng.uniform(0.05, 0.6, n_voters)
    if kind == "anti-correlated":
        errors = np.where(np.arange(n_voters) % 2, hard < 0.4, hard > 0.6)
    if kind == "one perfect":
        errors = np.where(np.arange(n_voters) == n_voters - 1, 0, errors | (own < 0.5))
    if kind == "all but one wrong":
        errors = np.broadcast_to(np.arange(n_voters) > 0, errors.shape)
    if kind == "identical":
        errors = np.broadcast_to(errors[:, :1], errors.shape)
    if kind == "all wrong":
        errors = np.ones_like(errors)
    if kind == "never wrong":
        errors = np.zeros_like(errors)
    mask = rng.random((size, n_voters)) < 0.5 if kind == "masked" else np.ones((size, n_voters))
    mask = mask.astype(bool)
    mask[:2] = True
    return count(errors.astype(int), np.zeros(size, int), mask)


KINDS = [
    *("plain", "masked", "anti-correlated", "one perfect", "all but one wrong", "identical"),
    *("all wrong", "never wrong", "not semi-definite"),
]


def not_semi_definite(n_voters, size):
    """Voters that never err together on few common rows, and often alone on the others."""
    rows = np.full((n_voters, n_voters), size) + size * np.eye(n_voters, dtype=np.int64)
    errors = np.full((n_voters, n_voters), size // 4) - size // 4 * np.eye(n_voters, dtype=int)
    errors[np.diag_indices(n_voters)] = size // 4
    left = np.full((n_voters, n_voters), size // 4)
    names = tuple(map(str, range(n_voters)))
    return PairCounts(rows, errors.astype(np.int64), left.astype(np.int64), names)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(QUICK),
    st.sampled_from(KINDS),
    st.sampled_from([2, 3, 12]),
    st.sampled_from([4, 40, 900]),
    st.booleans(),
)
def test_never_worse_than_the_prior(seed, bound, kind, n_voters, size, with_prior):
    rng = np.random.default_rng(seed)
    if kind == "not semi-definite":
        counts = not_semi_definite(n_voters, size)
        tandem = counts.pair_errors / counts.pair_rows
        assert np.linalg.eigvalsh(tandem)[0] < 0
    else:
        counts = zoo(rng, kind, n_voters, size)
    prior = None
    if with_prior:
        prior = rng.dirichlet(np.ones(n_voters))
        prior[rng.integers(n_voters)] = 0
        prior = prior / math.fsum(prior)
    check(minimize(bound, counts, prior=prior), bound, counts, prior)


@pytest.mark.parametrize("bound", EVERY, ids=name)
@pytest.mark.parametrize("n_voters", [1, 2, 7])
def test_any_number_of_voters(bound, n_voters):
    counts = random_counts(n_voters, 1500, n_voters)
    solution = minimize(bound, counts)
    check(solution, bound, counts)
    if n_voters == 1:
        assert solution.weights.tolist() == [1.0]
        assert solution.status in {Status.PRIOR, Status.VACUOUS, Status.SETTLED}


@pytest.mark.parametrize("bound", QUICK, ids=name)
def test_a_hundred_voters(bound):
    counts = random_counts(100, 1500, 100)
    check(minimize(bound, counts), bound, counts)


@pytest.mark.parametrize("key", ["fo", "cctnd"])
def test_two_thousand_voters_converge(key):
    rng = np.random.default_rng(0)
    risks = rng.uniform(0.1, 0.4, 2000)
    size = 20_000
    pair_errors = np.rint(size * 0.7 * np.sqrt(np.outer(risks, risks)) * 0.3).astype(np.int64)
    pair_errors += np.rint(size * np.outer(risks, risks)).astype(np.int64) // 2
    wrong = np.rint(size * risks).astype(np.int64)
    pair_errors = np.minimum(pair_errors, np.minimum.outer(wrong, wrong))
    np.fill_diagonal(pair_errors, wrong)
    left = np.repeat(wrong[:, None], 2000, axis=1)
    names = tuple(map(str, range(2000)))
    counts = PairCounts(np.full((2000, 2000), size), pair_errors, left, names)
    solution = minimize(key, counts)
    check(solution, BOUNDS[key](), counts)
    assert solution.status is Status.CONVERGED
    assert solution.gap <= 1e-9 * solution.value


@pytest.mark.parametrize("bound", QUICK, ids=name)
def test_the_same_input_gives_the_same_bytes(bound):
    counts = random_counts(9, 800, 4, risk=(0.02, 0.2))
    one, other = minimize(bound, counts), minimize(bound, counts)
    assert one.weights.tobytes() == other.weights.tobytes()
    assert (one.value, one.parameters, one.n_iter) == (other.value, other.parameters, other.n_iter)


@pytest.mark.parametrize("bound", QUICK, ids=name)
def test_the_order_of_voters_does_not_matter(bound):
    counts = random_counts(9, 3000, 4, risk=(0.02, 0.2))
    turn = np.random.default_rng(1).permutation(9)
    grid = np.ix_(turn, turn)
    turned = PairCounts(
        np.ascontiguousarray(counts.pair_rows[grid]),
        np.ascontiguousarray(counts.pair_errors[grid]),
        np.ascontiguousarray(counts.left_errors[grid]),
        counts.voters,
    )
    one, other = minimize(bound, counts), minimize(bound, turned)
    assert other.value == pytest.approx(one.value, rel=1e-8)
    assert one.value < 1


def test_a_fraction_and_its_decimal_give_the_same():
    counts = random_counts(5, 500, 0)
    one, other = (minimize("tnd", counts, delta=d) for d in (0.05, Fraction(1, 20)))
    assert one.weights.tobytes() == other.weights.tobytes()


# ---------------------------------------------------------------- against another optimiser


def best_of_slsqp(bound, counts, prior, n_starts, seed):
    """The least value that SLSQP finds on the simplex from random starts and the corners."""
    rng, m = np.random.default_rng(seed), counts.n_voters
    corners = 0.98 * np.eye(m) + 0.02 / m

    def value(rho):
        clipped = np.clip(rho, 1e-12, None)
        return evaluate(bound, counts, clipped / math.fsum(clipped), prior=prior).value

    whole = {"type": "eq", "fun": lambda rho: rho.sum() - 1}
    best = math.inf
    for start in (prior, *corners, *rng.dirichlet(np.ones(m), n_starts)):
        found = scipy_minimize(
            value,
            start,
            method="SLSQP",
            bounds=[(0, 1)] * m,
            constraints=[whole],
            options={"ftol": 1e-12, "maxiter": 200},
        )
        best = min(best, value(found.x), value(start))
    return best


@pytest.mark.parametrize("bound", [b for b in QUICK if b.key != "folds"], ids=name)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.usefixtures("at_a_half")
def test_no_other_optimiser_finds_less(bound, seed):
    """On even numbers of rows, where what is minimised is what is valued."""
    size, common = [60, 600, 6000][seed], [0.1, 0.5, 0.9][seed]
    counts = random_counts(4, size, seed, share=1.0, common=common)
    solution = minimize(bound, counts)
    other = best_of_slsqp(bound, counts, np.full(4, 0.25), 3, seed)
    assert solution.value <= other * (1 + 1e-6)


@pytest.mark.parametrize("key", ["fo", "tnd"])
@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.usefixtures("at_a_half")
def test_the_gap_bounds_what_is_left_where_the_step_is_convex(key, max_iter):
    counts = random_counts(12, 2000, 3, share=1.0, risk=(0.05, 0.3))
    assert np.linalg.eigvalsh(counts.pair_errors / counts.pair_rows)[0] > 0
    ended, least = minimize(key, counts, max_iter=max_iter), minimize(key, counts)
    assert least.status is Status.CONVERGED
    assert ended.value - least.value <= ended.gap * (1 + 1e-6) + 1e-9
    assert ended.value >= least.value * (1 - 1e-9)


@pytest.mark.parametrize("bound", [CBound(constants="paper"), BOUNDS["cctnd"]()], ids=name)
def test_a_flat_bound_at_the_prior_is_no_end(bound):
    """Gibbs risk above 1/2 at the prior: flat or vacuous there, far below 1 at the best voters."""
    rng = np.random.default_rng(0)
    risks = np.where(np.arange(30) < 3, 0.1, 0.7)
    counts = shared(rng.random((3000, 30)) < risks)
    assert evaluate(bound, counts, np.full(30, 1 / 30)).value == 1.0
    assert minimize(bound, counts).value < 0.5


def test_one_perfect_voter_among_wrong_ones_is_found():
    counts = shared(np.broadcast_to(np.arange(100) > 0, (20, 100)))
    assert evaluate("fo", counts, np.full(100, 0.01)).value == 1.0
    solution = minimize("fo", counts)
    assert solution.value < 0.75
    assert solution.weights[0] > 0.99


# ---------------------------------------------------------------- status


def test_every_status_can_happen():
    seen = {
        minimize("tnd", random_counts(7, 3000, 0)).status: "plenty of rows",
        minimize("fo", shared(np.ones((50, 3)))).status: "all voters always wrong",
        minimize("fo", random_counts(1, 3000, 0)).status: "one voter, nothing to choose",
        minimize("tnd", random_counts(7, 3000, 0), max_iter=1).status: "one iteration",
        minimize(
            BOUNDS["tnd"](constants="paper"), random_counts(7, 3000, 0), method="paper"
        ).status: "the paper's method, which has no certificate of convergence",
        minimize("best_voter", random_counts(7, 3000, 0)).status: "weights of its own",
        minimize("binomial", Votes.from_errors(np.eye(4, dtype=bool))).status: "given weights",
    }
    assert set(seen) == set(Status)


def test_status_says_what_happened():
    vacuous = minimize("fo", shared(np.ones((50, 3))))
    assert (vacuous.status, vacuous.value) == (Status.VACUOUS, 1.0)
    assert vacuous.weights.tolist() == [1 / 3] * 3
    alike = shared(np.broadcast_to(np.arange(2000)[:, None] % 10 == 0, (2000, 4)))
    prior = minimize("tnd", alike, prior=[0.1, 0.2, 0.3, 0.4])
    assert prior.status is Status.PRIOR
    assert prior.weights.tolist() == [0.1, 0.2, 0.3, 0.4]
    counts = random_counts(7, 3000, 0)
    stopped = minimize("tnd", counts, max_iter=1)
    assert stopped.status is Status.STOPPED
    assert stopped.gap > 1e-9 * stopped.value
    converged = minimize("tnd", counts)
    assert converged.gap <= 1e-9 * converged.value


def test_the_published_variant_is_minimised_as_it_was(counts_of):
    bound, counts = CCBennett(constants="published"), counts_of("d")
    solution = minimize(bound, counts, method="paper")
    found = evaluate(bound, counts, solution.weights, parameters=solution.parameters)
    assert found.value == solution.value
    assert set(solution.parameters) == {"mu", "lambda", "gamma"}
    assert solution.value < 1
