"""Plans against a search in exact fractions over every number of rows."""

from bisect import bisect_right
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exact import binomial_masses
from pacvote import plan
from pacvote.concentration import binomial_upper

SIZES = 160


@cache
def tails(n, p):
    """P(Bin(n, p) <= k) for all k, exactly."""
    return list(accumulate(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)))


def allowed(n, risk, delta):
    """How many errors certify the risk; -1: not even none."""
    return sum(tail <= delta for tail in tails(n, risk)) - 1


def power(n, error, risk, delta):
    """The probability of that, exactly."""
    most = allowed(n, risk, delta)
    return tails(n, error)[most] if most >= 0 else Fraction(0)


CASES = [
    (error, risk, delta, power)
    for error, risk in [(0, 20), (2, 20), (5, 30), (10, 35), (20, 50), (50, 80)]
    for delta in (Fraction(1, 5), Fraction(1, 20))
    for power in (0.5, 0.8)
]


@pytest.mark.parametrize(("error", "risk", "delta", "wanted"), CASES)
def test_fewest_rows_from_which_on_all_suffice(error, risk, delta, wanted):
    error, risk = Fraction(error, 100), Fraction(risk, 100)
    powers = [power(n, error, risk, delta) for n in range(1, SIZES)]
    short = [n for n, reached in enumerate(powers, start=1) if reached < wanted]
    found = plan(float(error), risk=risk, delta=delta, power=wanted)
    assert found.n_rows == short[-1] + 1 < SIZES / 2
    assert found.n_errors == allowed(found.n_rows, risk, delta)
    assert found.risk == binomial_upper(found.n_rows, found.n_errors, delta) <= risk
    assert found.attained == pytest.approx(float(powers[found.n_rows - 1]))


def test_the_first_size_that_suffices_may_be_luck():
    error, risk, delta = Fraction(2, 100), Fraction(20, 100), Fraction(1, 20)
    found = plan(float(error), risk=risk, delta=delta, power=0.75)
    first = next(n for n in range(1, SIZES) if power(n, error, risk, delta) >= 0.75)
    assert first < found.n_rows
    assert any(power(n, error, risk, delta) < 0.75 for n in range(first, found.n_rows))


@settings(max_examples=40)
@given(
    error=st.floats(0, 0.4),
    gap=st.floats(0.02, 0.4),
    delta=st.floats(0.001, 0.3),
    wanted=st.floats(0.3, 0.95),
)
def test_a_plan_keeps_its_word(error, gap, delta, wanted):
    found = plan(error, risk=error + gap, delta=delta, power=wanted)
    assert found.risk <= error + gap
    assert found.attained >= wanted
    for n in (found.n_rows, found.n_rows + 1, found.n_rows + 7, 2 * found.n_rows):
        limit = partial(binomial_upper, n, delta=delta)
        most = bisect_right(range(n), error + gap, key=limit)
        assert binomial_masses(n, [error])[0, :most].sum() >= wanted - 1e-9


@given(n=st.integers(1, 400), error=st.floats(0, 1), wanted=st.floats(0.05, 0.95))
def test_what_rows_would_buy(n, error, wanted):
    found = plan(error, n_rows=n, power=wanted)
    masses = np.append(0, binomial_masses(n, [error])[0].cumsum())
    assert masses[found.n_errors] <= wanted + 1e-9
    assert masses[found.n_errors + 1] >= wanted - 1e-9
    assert found.risk == binomial_upper(n, found.n_errors, Fraction(1, 20))


@given(error=st.floats(0.0, 0.2), gap=st.floats(0.01, 0.2))
def test_both_ways_agree(error, gap):
    assume(error + gap < 1)
    found = plan(error, risk=error + gap)
    assert plan(error, n_rows=found.n_rows).risk <= error + gap


def test_large_plans():
    found = plan(0.0095, risk=0.01)
    assert 0.8 <= found.attained < 0.82
    assert binomial_upper(found.n_rows, found.n_errors, 0.05) <= 0.01
    assert binomial_upper(found.n_rows, found.n_errors + 1, 0.05) > 0.01
    assert "243," in str(found)


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [
        (0.1, {}, "`risk` or `n_rows` must be given"),
        (0.1, {"risk": 0.2, "n_rows": 5}, "`risk` or `n_rows` must be given"),
        (0.1, {"risk": 0.1}, "`risk` must be above `expected_error` 0.1"),
        (0.1, {"risk": 1.5}, "`risk` must lie in"),
        (0.1, {"risk": 0.1001}, "`risk` 0.1001 is too near to `expected_error`: that may take"),
        (-0.1, {"risk": 0.1}, "`expected_error` must lie in"),
        (float("nan"), {"risk": 0.1}, "`expected_error` must lie in"),
        (0.1, {"risk": 0.2, "power": 1}, "`power` must lie in"),
        (0.1, {"risk": 0.2, "delta": 0}, "`delta` must lie in"),
        (0.1, {"n_rows": 0}, "`n_rows` must be an integer"),
        (0.1, {"n_rows": 2.5}, "`n_rows` must be an integer"),
    ],
)
def test_misuse(error, options, message):
    with pytest.raises(ValueError, match=message):
        plan(error, **options)
