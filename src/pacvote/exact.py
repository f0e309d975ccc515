"""The numbers of a certificate: from integers, by exact and 60-digit arithmetic, on a grid.

The minimiser's floats only pick weights. Here each empirical mean is an exact fraction, each
complexity is rounded up to a multiple of 2^-60, and each limit is the *tightest* multiple of
2^-40 at which its inequality can be checked by forward evaluation. So the same evidence and
weights give the same certificate, and a looser number is not one that was issued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from pacvote._exactmath import DIGITS, decimal, dual_value, ln_tail, slope_table
from pacvote.bounds.base import Bound, Limits, Side, Witness
from pacvote.bounds.evidence import Quantity
from pacvote.counts import PairCounts
from pacvote.tilts import coarse

Integers = NDArray[np.int64]

FINE = 2**60  # empirical means and complexities are multiples of 1 / FINE
NO_TIE = 1 - Fraction(1, 3 * 2**60)  # of a share of delta: no binomial tail at a limit equals it
UNIT = 2**40  # weights and limits are multiples of 1 / UNIT


@final
@dataclass(frozen=True, slots=True)
class ExactClaim:
    """A claim in exact numbers: what `Witness` says in floats."""

    event: str
    quantity: str
    side: Side
    inequality: str
    p_hat: Fraction
    n_samples: int
    complexity: Fraction
    share: Fraction
    grid: int
    value: Fraction
    parameters: Mapping[str, Fraction]


def to_integers(values: NDArray[np.float64]) -> tuple[int, ...]:
    """Round a simplex point to integers that sum to 2^40; what is positive stays positive."""
    scaled = [Fraction(float(v)) * UNIT for v in values]
    whole = [max(floor(x), 1) if x > 0 else 0 for x in scaled]
    missing = UNIT - sum(whole)
    by_rest = sorted(range(len(whole)), key=lambda i: (whole[i] - scaled[i], i))
    if missing < 0:  # many tiny entries were raised to 1: the largest pays
        whole[max(range(len(whole)), key=whole.__getitem__)] += missing
    for i in by_rest[: max(0, missing)]:
        whole[i] += 1
    return tuple(whole)


@final
class ExactMoments:
    """Posterior means as fractions, and KL(rho || pi), at integer weights and prior."""

    def __init__(self, counts: PairCounts, weights: Sequence[int], prior: Sequence[int]) -> None:
        self.counts, self.weights, self.prior = counts, weights, prior
        self.total, self.prior_total = sum(weights), sum(prior)
        self._means: dict[Quantity, Fraction] = {}

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the quantity's posterior mean."""
        if quantity not in self._means:
            self._means[quantity] = self._mean(quantity)
        return self._means[quantity]

    def _mean(self, quantity: Quantity) -> Fraction:
        counts = self.counts
        held = [i for i, weight in enumerate(self.weights) if weight]
        if quantity is Quantity.GIBBS:
            rows, errors = counts.rows.tolist(), counts.errors.tolist()
            parts = (Fraction(self.weights[i] * errors[i], rows[i]) for i in held)
            return sum(parts, start=Fraction(0)) / self.total
        held_weights = np.array([self.weights[i] for i in held], dtype=object)
        by_size: dict[int, int] = {}
        for i, weight in zip(held, held_weights.tolist(), strict=True):
            rows_i, events = _pair_counts(counts, i, quantity)
            products = weight * held_weights * events[held]
            for n, product in zip(rows_i[held].tolist(), products.tolist(), strict=True):
                by_size[n] = by_size.get(n, 0) + product
        spread = quantity.name.startswith("SPREAD")
        sizes = {n: n * (n - 1) if spread else n for n in by_size}
        return sum((Fraction(by_size[n], sizes[n]) for n in by_size), start=Fraction(0)) / (
            self.total**2
        )

    def masses(self, quantity: Quantity) -> dict[int, Fraction]:
        """Return the weight of voters, or pairs, on each coarse number of rows."""
        counts, held = self.counts, [i for i, weight in enumerate(self.weights) if weight]
        single = quantity is Quantity.GIBBS
        rows = counts.rows[None] if single else counts.pair_rows[held]
        weights = np.array([self.weights[i] for i in held], dtype=object)
        sums: dict[int, int] = {}
        for row, weight in zip(rows, [1] if single else weights, strict=True):
            sizes, where = np.unique(coarse(row[held], int(rows.min())), return_inverse=True)
            for at, size in enumerate(sizes.tolist()):
                sums[size] = sums.get(size, 0) + weight * weights[where == at].sum()
        total = self.total if single else self.total**2
        return {size: Fraction(sums[size], total) for size in sorted(sums)}

    def divergence(self) -> Decimal:
        """Return KL(rho || pi) to some 50 digits."""
        with localcontext(prec=DIGITS):
            parts = (
                w * (Decimal(w * self.prior_total) / Decimal(p * self.total)).ln()
                for w, p in zip(self.weights, self.prior, strict=True)
                if w
            )
            return sum(parts, start=Decimal(0)) / self.total


def _pair_counts(
    counts: PairCounts, i: int, quantity: Quantity
) -> tuple[Integers, NDArray[np.object_]]:
    """Return, for voter i and each other, their common rows and how often the event happened."""
    if quantity is Quantity.DISAGREEMENT and counts.disagreements is not None:
        differ = counts.disagreements[i]
        return np.full_like(differ, counts.n_unlabelled), differ.astype(object)
    rows = counts.pair_rows[i]
    both = counts.pair_errors[i].astype(object)
    one = (counts.left_errors[i] + counts.left_errors[:, i] - 2 * counts.pair_errors[i]).astype(
        object
    )
    none = rows.astype(object) - both - one
    events = {
        Quantity.TANDEM: both,
        Quantity.ONE_ERRS: one,
        Quantity.NONE_ERRS: none,
        Quantity.SPREAD_BOTH_ONE: both * one,
        Quantity.SPREAD_BOTH_NONE: both * none,
        Quantity.SPREAD_ONE_NONE: one * none,
    }
    return rows, events[quantity]


def exact_claims(witnesses: Iterable[Witness], moments: Means) -> tuple[ExactClaim, ...]:
    """Recompute each witness of a bound in exact numbers; a variance comes before its mean.

    The claims are in the order of their names: that of the witnesses may hang on a rounding.
    """
    claims: list[ExactClaim] = []
    for witness in witnesses:
        solve = _SOLVERS[witness.inequality]
        claims.append(solve(witness, moments, claims))
    return tuple(sorted(claims, key=lambda claim: (claim.event, claim.quantity, claim.side)))


def exact_parameters(
    bound: Bound, limits: Limits, found: Mapping[str, float], threshold: Fraction
) -> dict[str, Fraction]:
    """Return the bound's parameters as fractions, at their best where no event covers them."""
    given = {name: Fraction(value) for name, value in found.items()}
    choices = bound.choices(limits, given, threshold)
    best = min(choices, key=lambda choice: bound.formula(limits, choice, threshold))
    return {name: best[name] for name in given}


def _claim(
    witness: Witness,
    p_hat: Fraction,
    complexity: Fraction,
    limit: Callable[[Fraction, Fraction], Fraction],
) -> ExactClaim:
    p_hat = _round(p_hat, FINE, witness.side)
    parameters = {name: Fraction(value) for name, value in witness.parameters.items()}
    return ExactClaim(
        witness.event,
        witness.quantity,
        witness.side,
        witness.inequality,
        p_hat,
        witness.n_samples,
        complexity,
        witness.share,
        witness.grid,
        limit(p_hat, complexity),
        parameters,
    )


class Means(Protocol):
    """Posterior means of evidence at some weights."""

    def mean(self, quantity: Quantity) -> Fraction:
        """Return the quantity's posterior mean."""

    def divergence(self) -> Decimal:
        """Return KL(rho || pi)."""


def _complexity(witness: Witness, moments: Means) -> Fraction:
    """Return KL for each draw + ln(grid / share) + ln(2 sqrt(n)) for the paper's kl."""
    draws = {"gibbs": 1, "vote": 0, "drawn": int(witness.parameters.get("draws", 0))}
    order = draws.get(witness.quantity, 2)
    with localcontext(prec=DIGITS):
        nats = order * moments.divergence() + decimal(witness.grid / witness.share).ln()
        if witness.inequality == "kl_paper":
            nats += Decimal(4 * witness.n_samples).ln() / 2
        if witness.inequality == "trinomial":
            nats += (witness.n_samples + 2 * Decimal(witness.n_samples).sqrt()).ln()
        return Fraction(ceil(nats * FINE), FINE)


def _solve_mean(witness: Witness, moments: Means, _: Sequence[ExactClaim]) -> ExactClaim:
    """Return the tightest limit on the grid that the inequality still proves."""
    proves = _PROVES[witness.inequality]

    def limit(p_hat: Fraction, complexity: Fraction) -> Fraction:
        def proved(value: int) -> bool:
            with localcontext(prec=DIGITS):
                return proves(witness, p_hat, complexity, Fraction(value, UNIT))

        upper = witness.side == "upper"
        inner, last = (ceil(p_hat * UNIT), UNIT) if upper else (floor(p_hat * UNIT), 0)
        sign = 1 if upper else -1
        guess = sign * (round(witness.value * UNIT) - inner)
        steps = _first(lambda k: proved(inner + sign * k), guess, sign * (last - inner))
        return Fraction(inner + sign * steps, UNIT)

    p_hat = moments.mean(Quantity(witness.quantity))
    return _claim(witness, p_hat, _complexity(witness, moments), limit)


def _first(holds: Callable[[int], bool], guess: int, last: int) -> int:
    """Return the first of 0..last at which a monotone predicate holds; the last needs no proof."""
    low, high = -1, last  # it holds at high, and not at low
    probe, step = min(max(guess, 0), last), 1
    while low < probe < high:
        if holds(probe):
            high, probe = probe, probe - step
        else:
            low, probe = probe, probe + step
        step *= 2
    while high - low > 1:
        probe = (low + high) // 2
        low, high = (low, probe) if holds(probe) else (probe, high)
    return high


def _mixture_proves(
    witness: Witness, p_hat: Fraction, complexity: Fraction, limit: Fraction
) -> bool:
    """Whether ln sum_j w_j exp(n phi_j(limit, p_hat)) >= complexity."""
    n, q, p = witness.n_samples, decimal(p_hat), decimal(limit)
    sign = -1 if witness.side == "upper" else 1
    exponents = []
    for slope, mass, power in slope_table(n, witness.share, sign):
        inside = 1 + (power - 1) * p
        exponents.append((mass, n * (sign * slope * q - inside.ln())))
    top = max(exponent for _, exponent in exponents)
    total = sum(mass * (exponent - top).exp() for mass, exponent in exponents)
    return Decimal(total).ln() + top >= decimal(complexity)


def _kl_proves(witness: Witness, p_hat: Fraction, complexity: Fraction, limit: Fraction) -> bool:
    """Whether n kl(p_hat || limit) >= complexity."""
    if limit in {0, 1}:
        return p_hat != limit
    parts = ((p_hat, limit), (1 - p_hat, 1 - limit))
    nats = sum(decimal(q) * decimal(q / p).ln() for q, p in parts if q)
    return witness.n_samples * nats >= decimal(complexity)


def _binomial_proves(
    witness: Witness, p_hat: Fraction, complexity: Fraction, limit: Fraction
) -> bool:
    """Whether -ln P(Bin(n, limit) <= k) >= complexity, k the greatest with k / n <= p_hat."""
    n = witness.n_samples
    return -ln_tail(n, floor(p_hat * n), limit) >= decimal(complexity)


_PROVES = {"mixture": _mixture_proves, "kl_paper": _kl_proves, "binomial": _binomial_proves}


def _solve_variance(witness: Witness, moments: Means, _: Sequence[ExactClaim]) -> ExactClaim:
    n = witness.n_samples
    mu, lam = Fraction(witness.parameters["mu"]), Fraction(witness.parameters["lambda"])
    length = max(1 - mu, 1 - 2 * mu)
    p_hat = (
        (1 - mu) ** 2 * moments.mean(Quantity.SPREAD_BOTH_ONE)
        + (1 - 2 * mu) ** 2 * moments.mean(Quantity.SPREAD_BOTH_NONE)
        + mu**2 * moments.mean(Quantity.SPREAD_ONE_NONE)
    )

    def limit(spread: Fraction, complexity: Fraction) -> Fraction:
        keep = 1 - lam * n / (2 * (n - 1))
        value = spread / keep + length**2 * complexity / (n * lam * keep)
        return _round(min(value, length**2 / 4), UNIT, "upper")

    return _claim(witness, p_hat, _complexity(witness, moments), limit)


def _solve_bennett(witness: Witness, moments: Means, before: Sequence[ExactClaim]) -> ExactClaim:
    n = witness.n_samples
    mu, gamma = Fraction(witness.parameters["mu"]), Fraction(witness.parameters["gamma"])
    length = max(1 - mu, 1 - 2 * mu)
    (variance,) = (claim.value for claim in before if claim.inequality == "variance")
    both, one = moments.mean(Quantity.TANDEM), moments.mean(Quantity.ONE_ERRS)

    def limit(mean: Fraction, complexity: Fraction) -> Fraction:
        with localcontext(prec=DIGITS):
            x = decimal(gamma * length)
            rise = Fraction(x.exp() - x - 1) / (gamma * length**2)
            value = mean + rise * variance + complexity / (gamma * n)
            return _round(value, UNIT, "upper")

    p_hat = mu**2 + (1 - 2 * mu) * both - mu * one
    return _claim(witness, p_hat, _complexity(witness, moments), limit)


def _solve_trinomial(witness: Witness, moments: Means, _: Sequence[ExactClaim]) -> ExactClaim:
    """Return the dual's value at the witness's mu and eta."""
    mu, eta = Fraction(witness.parameters["mu"]), Fraction(witness.parameters["eta"])
    both, one = moments.mean(Quantity.TANDEM), moments.mean(Quantity.ONE_ERRS)
    outcomes = ((1 - mu) ** 2, both), (-mu * (1 - mu), one), (mu**2, 1 - both - one)

    def limit(_: Fraction, complexity: Fraction) -> Fraction:
        with localcontext(prec=DIGITS):
            logs = (decimal(p) * decimal(eta - v).ln() for v, p in outcomes if p)
            nats = sum(logs, start=-decimal(complexity) / witness.n_samples)
            return _round(eta - Fraction(nats.exp()), UNIT, "upper")

    p_hat = mu**2 + (1 - 2 * mu) * both - mu * one
    return _claim(witness, p_hat, _complexity(witness, moments), limit)


def _solve_tilts(witness: Witness, moments: ExactMoments, _: Sequence[ExactClaim]) -> ExactClaim:
    """Return the dual's value at the witness's multipliers."""
    parameters, n = witness.parameters, witness.n_samples
    sign = 1 if witness.side == "upper" else -1
    names = [name for name in parameters if name != "nu"]

    def limit(p_hat: Fraction, complexity: Fraction) -> Fraction:
        if not names:
            return Fraction(1 if sign > 0 else 0)
        with localcontext(prec=DIGITS):
            nu, tau = Decimal(parameters["nu"]), [Decimal(parameters[name]) for name in names]
            table = slope_table(n, witness.share, sign)
            tilts = [n * slope for slope, _, _ in table]
            budget = decimal(complexity)
            for share, (slope, mass, _) in zip(tau, table, strict=True):
                price = share * (share / mass).ln() if share else 0
                budget += price + sign * share * n * slope * decimal(p_hat)
            masses = moments.masses(Quantity(witness.quantity))
            value = Fraction(dual_value(sign, budget, masses, (nu, tau, tilts)))
        return min(Fraction(1), max(Fraction(0), _round(value, UNIT, witness.side)))

    p_hat = moments.mean(Quantity(witness.quantity))
    return _claim(witness, p_hat, _complexity(witness, moments), limit)


def _solve_binomials(
    witness: Witness, moments: ExactMoments, _: Sequence[ExactClaim]
) -> ExactClaim:
    """Return the mean of each voter's own limit, at its prior's share of the event's."""
    counts, total = moments.counts, Fraction(0)
    limits: dict[str, Fraction] = {}
    for i, weight in enumerate(moments.weights):
        if weight:
            n, k = int(counts.rows[i]), int(counts.errors[i])
            share = witness.share * NO_TIE * Fraction(moments.prior[i], moments.prior_total)
            limits[f"limit_{i}"] = limit = _binomial(n, k, share, witness.parameters[f"limit_{i}"])
            total += weight * limit / moments.total
    p_hat, value = moments.mean(Quantity.GIBBS), _round(total, UNIT, "upper")
    claim = _claim(witness, p_hat, Fraction(0), lambda *_: value)
    return replace(claim, parameters=limits)


def _binomial(n: int, k: int, share: Fraction, guess: float) -> Fraction:
    """Return the least multiple of 2^-40 at which k errors or fewer are as rare as the share."""
    if k == n:
        return Fraction(1)
    inner = k * UNIT // n + 1
    with localcontext(prec=DIGITS):
        most = decimal(share).ln()
    steps = _first(
        lambda x: ln_tail(n, k, Fraction(inner + x, UNIT)) <= most,
        round(guess * UNIT) - inner,
        UNIT - inner,
    )
    return Fraction(inner + steps, UNIT)


_SOLVERS: dict[str, Callable[..., ExactClaim]] = {
    "tilts": _solve_tilts,
    "binomials": _solve_binomials,
    "mixture": _solve_mean,
    "kl_paper": _solve_mean,
    "binomial": _solve_mean,
    "trinomial": _solve_trinomial,
    "variance": _solve_variance,
    "bennett": _solve_bennett,
}


def _round(value: Fraction, unit: int, side: Side) -> Fraction:
    return Fraction((ceil if side == "upper" else floor)(value * unit), unit)
