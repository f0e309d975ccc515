"""The paper's own minimisation, for reproduction: alternate relaxed parameters and weights.

At fixed parameters each relaxed bound is ``rho^T A rho + a^T rho + b KL(rho || pi) + constant``;
its parameters have closed forms, its weights are sought by iRProp+, and the two alternate until
the relaxed bound improves by less than 1e-9 (Algorithms 1 and 2 of the paper's appendix).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from pacvote import concentration as on
from pacvote._rounding import ln_inverse_upper
from pacvote.bounds.base import Parameters
from pacvote.bounds.ccpbb import MU_PAPER, grids_paper
from pacvote.bounds.evidence import Floats, Quantity, divergence
from pacvote.bounds.registry import Problem

Bools = NDArray[np.bool_]

IMPROVEMENT = 1e-9
PATIENCE = 10


@final
@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """A relaxed bound at its best parameters for some weights, as a function of new weights."""

    value: float
    matrix: Floats | None
    linear: Floats | None
    by_divergence: float
    parameters: Parameters

    def at(self, weights: Floats, logits: Floats) -> tuple[float, Floats]:
        """Return the part that depends on the weights, and its gradient in the logits."""
        value = self.by_divergence * float(weights @ logits)
        slope = self.by_divergence * logits
        if self.matrix is not None:
            product = self.matrix @ weights
            value, slope = value + float(weights @ product), slope + 2 * product
        if self.linear is not None:
            value, slope = value + float(self.linear @ weights), slope + self.linear
        return value, weights * (slope - weights @ slope)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Alternated:
    """Where the alternation ended."""

    weights: Floats
    parameters: Parameters
    value: float
    n_iter: int


def alternate(problem: Problem, max_iter: int) -> Alternated:
    """Minimise as the paper does; the problem's bound has the paper's constants."""
    relaxations = {"fo": _first_order, "tnd": _tandem, "cctnd": _cctnd}
    key = problem.bound.key
    if key == "ccpbb":
        return _search_mu(problem, max_iter)
    if key in relaxations:
        return _alternate(problem, relaxations[key], max_iter)
    known = ", ".join([*relaxations, "ccpbb"])
    msg = f'`bound` {key!r} has no method="paper", only {known} have; use method="direct"'
    raise ValueError(msg)


def _alternate(
    problem: Problem, relax: Callable[[Problem, Floats], Relaxed], max_iter: int
) -> Alternated:
    support = problem.prior > 0
    logits = np.where(support, 0.0, -np.inf)
    weights = problem.prior
    value, n_iter = np.inf, 0
    best = Alternated(weights, {}, np.inf, 0)
    while n_iter < max_iter:
        relaxed = relax(problem, weights)
        if not relaxed.value < value - IMPROVEMENT:
            break
        value = relaxed.value
        best = Alternated(weights, relaxed.parameters, value, n_iter)
        logits = _irprop(relaxed, logits, problem.prior, support)
        weights = _weights(logits, problem.prior)
        n_iter += 1
    return best


def _weights(logits: Floats, prior: Floats) -> Floats:
    return np.asarray(prior * np.exp(logits - logsumexp(logits, b=prior)))


def _irprop(relaxed: Relaxed, logits: Floats, prior: Floats, support: Bools) -> Floats:
    """iRProp+ (Igel and Huesken 2003) on the logits, until 10 steps bring nothing."""

    def evaluate(free: Floats) -> tuple[float, Floats]:
        shifted = free - logsumexp(free, b=held)
        return relaxed_here.at(held * np.exp(shifted), shifted)

    relaxed_here = _restrict(relaxed, support)
    held = prior[support]
    free = logits[support]
    value, slope = evaluate(free)
    best, best_value, idle = free, value, 0
    steps, move = np.full(len(free), 0.1), np.zeros(len(free))
    before = np.zeros(len(free))
    while idle < PATIENCE:
        turned = slope * before
        steps = np.clip(
            np.where(turned > 0, 1.2, np.where(turned < 0, 0.5, 1.0)) * steps, 1e-9, 2.0
        )
        back = (turned < 0) & (value > best_value)
        move = np.where(back, -move, np.where(turned < 0, 0.0, -np.sign(slope) * steps))
        before = np.where(turned < 0, 0.0, slope)
        free = free + move
        value, slope = evaluate(free)
        idle = 0 if value < best_value - IMPROVEMENT / 100 else idle + 1
        if value < best_value:
            best, best_value = free, value
    moved = np.full(len(logits), -np.inf)
    moved[support] = best - logsumexp(best, b=held)
    return moved


def _restrict(relaxed: Relaxed, support: Bools) -> Relaxed:
    if np.all(support):
        return relaxed
    matrix, linear = relaxed.matrix, relaxed.linear
    return Relaxed(
        relaxed.value,
        None if matrix is None else matrix[np.ix_(support, support)],
        None if linear is None else linear[support],
        relaxed.by_divergence,
        relaxed.parameters,
    )


def _price(problem: Problem, weights: Floats, quantity: Quantity, share: float) -> float:
    """Return KL (twice for pairs) + ln(2 sqrt(n) / share)."""
    sizes = problem.evidence.sizes
    order, n = (1, sizes.n_single) if quantity is Quantity.GIBBS else (2, sizes.n_pair)
    logarithm = on.ln_xi_paper(n) + ln_inverse_upper(problem.delta) - float(np.log(share))
    return order * divergence(weights, problem.prior) + logarithm


def _mean(problem: Problem, weights: Floats, quantity: Quantity) -> float:
    losses = problem.evidence.losses(quantity)
    return float(weights @ losses if losses.ndim == 1 else weights @ losses @ weights)


def _first_order(problem: Problem, weights: Floats) -> Relaxed:
    n = problem.evidence.sizes.n_single
    gibbs = _mean(problem, weights, Quantity.GIBBS)
    price = _price(problem, weights, Quantity.GIBBS, 1.0)
    lam = on.lambda_best(gibbs, price, n)
    keep = 1 - lam / 2
    value = 2 * (gibbs / keep + price / (lam * keep * n))
    linear = 2 * problem.evidence.losses(Quantity.GIBBS) / keep
    return Relaxed(value, None, linear, 2 / (lam * keep * n), {})


def _tandem(problem: Problem, weights: Floats) -> Relaxed:
    n = problem.evidence.sizes.n_pair
    tandem = _mean(problem, weights, Quantity.TANDEM)
    price = _price(problem, weights, Quantity.TANDEM, 1.0)
    lam = on.lambda_best(tandem, price, n)
    keep = 1 - lam / 2
    value = 4 * (tandem / keep + price / (lam * keep * n))
    matrix = 4 * problem.evidence.losses(Quantity.TANDEM) / keep
    return Relaxed(value, matrix, None, 8 / (lam * keep * n), {})


def _cctnd(problem: Problem, weights: Floats) -> Relaxed:
    """Algorithm 1: lambda and gamma at the old mu, then mu, kept below 1/2 and in its region."""
    m, n = problem.evidence.sizes.n_pair, problem.evidence.sizes.n_single
    tandem = _mean(problem, weights, Quantity.TANDEM)
    gibbs = _mean(problem, weights, Quantity.GIBBS)
    pair_price = _price(problem, weights, Quantity.TANDEM, 0.5)
    price = _price(problem, weights, Quantity.GIBBS, 0.5)
    lam = on.lambda_best(tandem, pair_price, m)
    keep = 1 - lam / 2
    upper = tandem / keep + pair_price / (lam * keep * m)
    choices = [_gibbs_side(gibbs, price, n, upper, sign) for sign in (1, -1)]
    mu, scale, first, by_price = min(
        choices, key=lambda c: (upper - 2 * c[0] * c[2] + c[0] ** 2) / (0.5 - c[0]) ** 2
    )
    outer = 1 / (0.5 - mu) ** 2
    value = outer * (upper - 2 * mu * first + mu * mu)
    matrix = outer / keep * problem.evidence.losses(Quantity.TANDEM)
    linear = -2 * mu * outer * scale * problem.evidence.losses(Quantity.GIBBS)
    by_divergence = outer * (2 / (lam * keep * m) + 2 * abs(mu) * by_price)
    return Relaxed(value, matrix, linear, by_divergence, {"mu": mu})


def _gibbs_side(
    gibbs: float, price: float, n: int, tandem_upper: float, sign: int
) -> tuple[float, float, float, float]:
    """Return mu, the factor on the Gibbs loss, the limit on it, and that limit's price per nat."""
    if sign > 0:
        gamma = on.lambda_lower_best(gibbs, price, n)
        scale, by_price = 1 - gamma / 2, 1 / (gamma * n)
        limit = scale * gibbs - by_price * price
    else:
        gamma = on.lambda_best(gibbs, price, n)
        scale, by_price = 1 / (1 - gamma / 2), 1 / (gamma * (1 - gamma / 2) * n)
        limit = scale * gibbs + by_price * price
    if limit >= 0.5:
        return 0.0, scale, limit, by_price
    mu = on.chebyshev_cantelli_mu(tandem_upper, limit)
    return (max(0.0, mu) if sign > 0 else min(0.0, mu)), scale, limit, by_price


def _search_mu(problem: Problem, max_iter: int) -> Alternated:
    """Algorithm 2: binary search over the grid of mu, each with its own alternation."""
    seen: dict[int, Alternated] = {}

    def ended(index: int) -> Alternated:
        if index not in seen:
            seen[index] = _alternate(problem, partial(_bennett, MU_PAPER[index]), max_iter)
        return seen[index]

    low, high = 0, len(MU_PAPER) - 1
    while low < high:
        middle = (low + high) // 2
        if ended(middle).value <= ended(middle + 1).value:
            high = middle
        else:
            low = middle + 1
    best = ended(low)
    n_iter = sum(run.n_iter for run in seen.values())
    return Alternated(best.weights, best.parameters, best.value, n_iter)


def _bennett(mu: float, problem: Problem, weights: Floats) -> Relaxed:
    """Thm. second-mu-bound with k = 1, at the grid's nearest lambda and gamma."""
    n, delta = problem.evidence.sizes.n_pair, problem.delta
    length = max(1 - mu, 1 - 2 * mu)
    mean, spread = _mu_matrices(problem, mu)
    price = 2 * divergence(weights, problem.prior) + ln_inverse_upper(delta / 2)
    lambdas, gammas = grids_paper(n, delta)
    average, variance = float(weights @ mean @ weights), float(weights @ spread @ weights)
    lam = _nearest(lambdas, on.variance_lambda(variance, price, n, length))
    keep = 1 - lam * n / (2 * (n - 1))
    limit = variance / keep + length**2 * price / (n * lam * keep)
    gamma = _nearest(gammas / length, on.bennett_gamma(limit, price, n, length))
    rise = on.phi(gamma * length) / (gamma * length**2)
    outer = 1 / (0.5 - mu) ** 2
    value = outer * (average + price / (gamma * n) + rise * limit)
    by_divergence = 2 * outer * (1 / (gamma * n) + rise * length**2 / (n * lam * keep))
    chosen = {"mu": mu, "lambda": lam, "gamma": gamma}
    return Relaxed(value, outer * (mean + rise / keep * spread), None, by_divergence, chosen)


def _nearest(grid: Floats, value: float) -> float:
    return float(grid[np.argmin(np.abs(grid - value))])


def _mu_matrices(problem: Problem, mu: float) -> tuple[Floats, Floats]:
    """Return the empirical mu-tandem losses and their unbiased variances for all pairs."""
    losses = problem.evidence.losses
    mean = mu * mu + (1 - 2 * mu) * losses(Quantity.TANDEM) - mu * losses(Quantity.ONE_ERRS)
    spread = (
        (1 - mu) ** 2 * losses(Quantity.SPREAD_BOTH_ONE)
        + (1 - 2 * mu) ** 2 * losses(Quantity.SPREAD_BOTH_NONE)
        + mu**2 * losses(Quantity.SPREAD_ONE_NONE)
    )
    return mean, spread
