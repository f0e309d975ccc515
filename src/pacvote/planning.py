"""How many labelled rows a certificate takes, and what a number of rows would buy."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from pacvote._rounding import check_unit, root
from pacvote._text import quoted
from pacvote.bounds.folds import least_limit
from pacvote.bounds.registry import exact_delta
from pacvote.certificate import Certificate, percent_up, with_confidence
from pacvote.concentration import binomial_upper, kl
from pacvote.counts import PairCounts

LARGEST, MOST = 10**7, 10**9  # rows to find, and to be given
ERRORS = 10**5  # among them, each of which is looked at
BESIDE = (
    "For comparison, claims of their own at the same confidence; choose one beforehand, since the "
    "least of them is no claim"
)
# Sizes are decided with this margin of delta, above any rounding, so that a plan is never short.
SURE = 1 - 1e-5


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to label, and what they buy if the vote errs as often as expected.

    Up to ``n_errors`` errors in ``n_rows`` rows certify ``risk`` at confidence 1 - delta; that
    happens with probability ``attained``, at least the ``power`` that was asked for.
    """

    n_rows: int
    n_errors: int
    risk: float
    expected_error: float
    delta: Fraction
    power: float
    attained: float

    def __str__(self) -> str:
        return (
            f"{with_confidence(self.delta)}, {self.n_rows:,} labelled rows with at most "
            f"{self.n_errors:,} errors certify a risk of {percent_up(Fraction(self.risk))}. If the "
            f"vote errs on {100 * self.expected_error:.6g} % of data, the chance of no more errors "
            f"is {floor(self.attained * 1000) / 10:.1f} %. Rows must be independent draws; the "
            "certificate holds whatever the error turns out to be."
        )


def plan(
    expected_error: float,
    *,
    risk: float | Fraction | None = None,
    n_rows: int | None = None,
    delta: float | Fraction = 0.05,
    power: float = 0.8,
) -> Plan:
    """Plan a hold-out: the rows that a target takes, or what a number of rows would buy.

    Parameters
    ----------
    expected_error : float
        How often you expect the vote to err.
    risk : float or Fraction, default=None
        The risk to certify, above `expected_error`; then `n_rows` is found.
    n_rows : int, default=None
        The rows there are; then `risk` is found.
    delta : float or Fraction, default=0.05
        Probability with which the certificate may be wrong. For G groups or candidates delta/G.
    power : float, default=0.8
        Probability with which the rows shall suffice, if the vote errs as often as expected. At
        0.5 half of all such hold-outs fall short of the plan.

    Returns
    -------
    Plan
        With `risk`: the fewest rows from which on *every* larger number has that power too.
        (Power goes up and down with the number of rows: fewer rows may have it by luck.)

    Guarantee
    ---------
    None is needed for the certificate: it holds with probability ``1 - delta`` whatever the error
    turns out to be. If the vote errs on at most `expected_error`, and the rows are independent
    draws, the planned certificate is reached with probability at least `power`.
    """
    exact = exact_delta(delta)
    check_unit("expected_error", expected_error)
    if not 0 < power < 1:
        msg = f"`power` must lie in (0, 1), but is {power!r}; 0.8 plans for four in five"
        raise ValueError(msg)
    if (risk is None) == (n_rows is None):
        msg = f"`risk` or `n_rows` must be given, one of them, got {risk!r} and {n_rows!r}"
        raise ValueError(msg)
    if risk is not None:
        size, n_errors = _fewest(expected_error, _target(risk, expected_error), exact, power)
    else:
        size = _size(n_rows)
        n_errors = _quantile(size, expected_error, power)
    attained = float(_cdf(size, n_errors, expected_error))
    limit = binomial_upper(size, n_errors, exact)
    return Plan(size, n_errors, limit, expected_error, exact, power, attained)


def beside(certificate: Certificate, counts: PairCounts) -> tuple[str, str]:
    """Return what one voter alone, and a hold-out, would have claimed at the same confidence.

    Parameters
    ----------
    certificate : Certificate
        What was claimed; its confidence is taken.
    counts : PairCounts
        The evidence.

    Returns
    -------
    (str, str)
        Two sentences; each is a claim of its own, and the least of all of them is none.
    """
    delta = certificate.delta
    voter, limit = least_limit(counts, None, delta)
    errors, n_rows = int(counts.errors[voter]), int(counts.rows[voter])
    bought = plan(errors / n_rows, n_rows=n_rows, delta=delta)
    return (
        f"The best single voter, {quoted(counts.voters[voter])}, errs on at most "
        f"{percent_up(Fraction(limit))}: {errors:,} errors in {n_rows:,} rows, as the best of "
        f"{counts.n_voters:,}.",
        f"{n_rows:,} rows held out from training would certify {percent_up(Fraction(bought.risk))} "
        f"or less, with a chance of {100 * bought.power:.0f} %, for a vote that errs as often as "
        "that voter was seen to.",
    )


def _size(n_rows: int | None) -> int:
    if not isinstance(n_rows, int | np.integer) or not 1 <= n_rows <= MOST:
        msg = f"`n_rows` must be an integer from 1 to {MOST:,}, but is {n_rows!r}"
        raise ValueError(msg)
    return int(n_rows)


def _target(risk: float | Fraction, expected_error: float) -> float:
    target = float(exact_delta(risk, "risk"))
    if target <= expected_error:
        msg = (
            f"`risk` must be above `expected_error` {expected_error!r}, but is {risk!r}; no number "
            "of rows certifies less than the vote's own error"
        )
        raise ValueError(msg)
    return target


def _cdf(n: ArrayLike, k: ArrayLike, p: float) -> NDArray[np.float64]:
    """Return P(Bin(n, p) <= k); 1 for k = n."""
    rest = np.asarray(n) - np.asarray(k)
    return np.where(rest > 0, betainc(np.maximum(rest, 1), np.asarray(k) + 1, 1 - p), 1.0)


def _quantile(n: int, p: float, power: float) -> int:
    """Return the fewest errors that are not exceeded with probability `power`."""
    return bisect_left(range(n), power, key=lambda k: float(_cdf(n, k, p)))


def _fewest(error: float, risk: float, delta: Fraction, power: float) -> tuple[int, int]:
    """Return the least n from which on the power is reached, and the errors that n allows.

    Errors k are allowed from some size on. Until k + 1 are, power falls with every row, so that
    the last size of each such run decides; past `end` Chernoff's inequality does.
    """
    level = float(delta) * SURE
    end = _enough(error, risk, level, 1 - power)
    most = bisect_left(range(end), 1, key=lambda k: int(not _allowed(end, k, risk, level))) - 1
    allowed = np.arange(most + 1)
    first = _first_sizes(allowed, risk, level, end)
    last = np.append(first[1:] - 1, end)
    short = np.flatnonzero(_cdf(last, allowed, error) < power)
    k = int(short[-1]) + 1 if len(short) else 0
    return int(first[k]), k


def _allowed(n: ArrayLike, k: ArrayLike, risk: float, level: float) -> NDArray[np.bool_]:
    """Return whether k errors in n rows certify the risk."""
    return (np.asarray(k) < np.asarray(n) * risk) & (_cdf(n, k, risk) <= level)


def _first_sizes(k: NDArray[np.int64], risk: float, level: float, end: int) -> NDArray[np.int64]:
    """Return the least sizes that allow k errors, by bisection; `end` allows them all."""
    low, high = k, np.full_like(k, end)  # k rows never allow k errors
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = _allowed(middle, k, risk, level)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _enough(error: float, risk: float, level: float, shortfall: float) -> int:
    """Return a size from which on the power is reached, by Chernoff's inequality on both sides.

    For any cut c between them, floor(cn) errors are allowed once n kl(c, risk) >= ln(1/level), and
    exceeded with probability at most exp(-n kl(c, error)). The best c makes both bind.
    """
    error = max(error, 1e-9 * risk)
    prices = log(1 / level), log(1 / shortfall)
    cut = root(lambda c: prices[0] * kl(c, error) - prices[1] * kl(c, risk), error, risk)
    rows = max(prices[0] / kl(cut, risk), prices[1] / kl(cut, error))
    if rows > LARGEST or rows * risk > ERRORS:
        msg = f"`risk` {risk!r} is too near to `expected_error`: that may take {rows:.2g} rows"
        raise ValueError(msg)
    return ceil(rows * (1 + 1e-9)) + 1
