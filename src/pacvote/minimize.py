"""Weights that minimise a bound.

The reported bound itself is minimised, over logits, so nothing is lost to a relaxation. Each
bound is a concave function of its moments and of KL(rho || pi), so at any weights its tangent
is a majorant ``<a, rho> + rho^T A rho + b KL(rho || pi)``, convex where A is positive
semi-definite; the entropic gap of that step is what is reported. Out-of-bag matrices often are
not semi-definite, hence several starts, and a result that is never worse than the prior's.

Weights are sought with the threshold 1/2, then valued with the weight of their smallest losing
coalition: sought with that, the least bound is most often that of a single voter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize as scipy_minimize
from scipy.special import logsumexp

from pacvote._text import card
from pacvote.alternation import alternate
from pacvote.bounds.base import Bound, Outcome, Parameters
from pacvote.bounds.best_of import BestOf
from pacvote.bounds.evidence import Floats
from pacvote.bounds.registry import Problem, evaluate, exact_delta, resolve, simplex
from pacvote.bounds.shared import SharedBound
from pacvote.counts import PairCounts
from pacvote.votes import Votes

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

GAP = 1e-9


class Status(Enum):
    """How a minimisation ended; the value is the message."""

    CONVERGED = "the entropic gap of the last convex step is below 1e-9 of the bound"
    STALLED = "no step improves the bound in floating point; the gap says what may be left"
    STOPPED = "the limit of iterations was reached; the gap says what may be left"
    SETTLED = "the bound has weights of its own, or the prior's: none were sought"
    PRIOR = "no weights were found that beat the prior's; these are the prior's"
    FIXED = "the bound is for weights fixed beforehand; these are the prior's"
    VACUOUS = "no weights give a bound below 1 on this evidence; these are the prior's"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Weights, the bound at them, and how good they are.

    ``value`` is what `evaluate` returns at ``weights`` and ``parameters``. ``gap`` bounds how
    far the last convex step was from its own minimum, in units of the bound; it bounds the
    distance to the least bound only where that step is convex.
    """

    weights: Floats
    value: float
    parameters: Parameters
    status: Status
    n_iter: int
    gap: float

    def _repr_html_(self) -> str:
        effective = 1 / (self.weights @ self.weights)
        facts = {
            **{name: f"{value:.6g}" for name, value in self.parameters.items()},
            "Voters": f"{len(self.weights):,}, {effective:.1f} effective",
            "Status": f"{self.status.name}: {self.status.value}",
            "Iterations, gap": f"{self.n_iter:,}, {self.gap:.2g}",
        }
        return card(f"Bound at these weights: {self.value:.6g}; no certificate yet", facts)


def minimize(
    bound: str | Bound,
    evidence: Votes | PairCounts,
    *,
    delta: float | Fraction = 0.05,
    prior: ArrayLike | None = None,
    method: Literal["direct", "paper"] = "direct",
    max_iter: int = 2000,
) -> Solution:
    """Find weights that minimise a bound.

    Parameters
    ----------
    bound : str or Bound
        A key of ``BOUNDS`` or a bound object, such as ``CCTandem(constants="paper")``.
    evidence : Votes or PairCounts
        The validation rows, counted or to be counted.
    delta : float or Fraction, default=0.05
        Probability with which the bound may fail.
    prior : array-like of shape (n_voters,), default=None
        Weights fixed before the validation rows were seen; uniform by default.
    method : {"direct", "paper"}, default="direct"
        ``"paper"`` alternates over relaxed objectives as the paper does, for reproduction;
        it takes a bound with the paper's constants.
    max_iter : int, default=2000
        Limit of the iterations of each descent.

    Returns
    -------
    Solution
        Never worse than the prior's weights; these themselves for a bound that holds for weights
        fixed beforehand only. Sharp bounds are minimised at the threshold 1/2, and valued at that
        of the weights found.
    """
    chosen = resolve(bound)
    if method == "direct" and chosen.alternatives()[0][0] is not chosen:
        return _least(chosen, evidence, exact_delta(delta), prior, max_iter)
    if method == "direct":
        problem = Problem.of(chosen, evidence, delta, prior)
        weights = chosen.settled(problem.evidence, problem.prior, problem.delta)
        return _direct(problem, max_iter) if weights is None else _settled(problem, weights)
    if str(method) != "paper":
        msg = f'`method` must be "direct" or "paper", but is {method!r}'
        raise ValueError(msg)
    if chosen.constants == "sharp":
        given = f'BOUNDS[{chosen.key!r}](constants="paper")'
        msg = f'`method="paper"` needs a bound with the paper\'s constants, such as {given}'
        raise ValueError(msg)
    return _paper(Problem.of(chosen, evidence, delta, prior), max_iter)


def _least(
    bound: Bound,
    evidence: Votes | PairCounts,
    delta: Fraction,
    prior: ArrayLike | None,
    max_iter: int,
) -> Solution:
    """Return the weights of the first member whose own least is the least, or nearly so."""
    found = [
        minimize(member, evidence, delta=share * delta, prior=prior, max_iter=max_iter)
        for member, share in bound.alternatives()
    ]
    slack = bound.slack if isinstance(bound, BestOf) else 1
    least = min(solution.value for solution in found)
    best = next(solution for solution in found if solution.value <= slack * least)
    value = evaluate(bound, evidence, best.weights, delta=delta, prior=prior).value
    return replace(best, value=value, parameters={})


def _settled(problem: Problem, weights: Floats) -> Solution:
    fixed = problem.bound.for_fixed_weights
    outcome = problem.outcome(weights, {})
    if outcome.value >= 1 and not fixed:
        return Solution(problem.prior, 1.0, {}, Status.VACUOUS, 0, 0.0)
    status, value = Status.FIXED if fixed else Status.SETTLED, min(1.0, outcome.value)
    return Solution(weights, value, dict(outcome.parameters), status, 0, 0.0)


def _paper(problem: Problem, max_iter: int) -> Solution:
    ended = alternate(problem, max_iter)
    at_prior = problem.outcome(problem.prior, ended.parameters)
    sought = simplex("weights", ended.weights, len(ended.weights))
    found = problem.outcome(sought, ended.parameters)
    better = found.value < at_prior.value
    outcome, weights = (found, sought) if better else (at_prior, problem.prior)
    if outcome.value >= 1:
        status = Status.VACUOUS
    elif not better:
        status = Status.PRIOR
    else:
        status = Status.STOPPED if ended.n_iter >= max_iter else Status.STALLED
    value = min(1.0, outcome.value)
    return Solution(weights, value, dict(outcome.parameters), status, ended.n_iter, math.nan)


def _direct(problem: Problem, max_iter: int) -> Solution:
    landscape = _Landscape.of(problem)
    start = landscape.best_choice(landscape.point(np.zeros(landscape.support.sum()), 0))
    if isinstance(problem.bound, SharedBound):
        best, n_iter = landscape.sweep(start, max_iter)
        return landscape.solution(best, start, n_iter, max_iter)
    best, n_iter = landscape.best_from([start.logits, start.target()], start, max_iter)
    if best.value >= 1:  # both may have begun on a plateau
        best, more = landscape.best_from([landscape.tilted(start)], best, max_iter)
        n_iter += more
    return landscape.solution(best, start, n_iter, max_iter)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Weights on the prior's support, ``prior * exp(logits)``, and the bound's tangent there."""

    logits: Floats
    weights: Floats
    outcome: Outcome
    loss_slope: Floats
    choice: int

    @property
    def value(self) -> float:
        return self.outcome.value

    def target(self) -> Floats:
        """Return the logits that minimise the tangent."""
        by_divergence = self.outcome.by_divergence
        return -self.loss_slope / by_divergence if by_divergence > 0 else self.logits

    def slope(self) -> Floats:
        """Return the gradient with respect to the logits."""
        full = self.loss_slope + self.outcome.by_divergence * self.logits
        return self.weights * (full - self.weights @ full)

    def gap(self, prior: Floats) -> float:
        """Return how far the tangent at these weights is above its own minimum."""
        by_divergence = self.outcome.by_divergence
        if by_divergence <= 0:
            return 0.0
        least = -by_divergence * logsumexp(self.target(), b=prior)
        here = self.weights @ (self.loss_slope + by_divergence * self.logits)
        return max(0.0, float(here - least))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Landscape:
    """The bound over logits, for each choice of the parameters that it has on a grid."""

    problem: Problem
    grid: Sequence[Parameters]
    support: NDArray[np.bool_]
    prior: Floats

    @staticmethod
    def of(problem: Problem) -> _Landscape:
        support = problem.prior > 0
        grid = problem.bound.grid(problem.evidence.sizes, problem.delta)
        return _Landscape(problem, grid, support, problem.prior[support])

    def full(self, weights: Floats) -> Floats:
        """Return weights of all voters."""
        everywhere = np.zeros(len(self.support))
        everywhere[self.support] = weights
        return everywhere

    def point(self, logits: Floats, choice: int) -> _Point:
        """Return weights and tangent at ``logits``; adding a constant to them changes nothing."""
        logits = logits - logsumexp(logits, b=self.prior)
        weights = self.prior * np.exp(logits)
        problem = self.problem
        moments, slopes = problem.moments(self.full(weights), self.grid[choice])
        outcome = problem.bound.at(
            moments, problem.evidence.sizes, problem.delta, self.grid[choice]
        )
        zero = np.zeros(len(self.support))
        loss_slope = sum((by * slopes[q] for q, by in outcome.by_moment.items()), start=zero)
        return _Point(logits, weights, outcome, loss_slope[self.support], choice)

    def best_choice(self, point: _Point) -> _Point:
        """Return the same weights with the best parameters of the grid."""
        if len(self.grid) == 1:
            return point
        problem = self.problem
        each = problem.over(self.grid, self.full(point.weights))
        values = [
            problem.bound.at(moments, problem.evidence.sizes, problem.delta, choice).value
            for moments, choice in zip(each, self.grid, strict=True)
        ]
        return self.point(point.logits, int(np.argmin(values)))

    def best_from(
        self, starts: Sequence[Floats], best: _Point, max_iter: int
    ) -> tuple[_Point, int]:
        """Search from each of the logits; return ``best`` itself unless one ends below it."""
        n_iter, choice = 0, best.choice
        for logits in starts:
            point, steps = self.search(self.point(logits, choice), max_iter)
            n_iter += steps
            best = point if point.value < best.value else best
        return best, n_iter

    def tilted(self, start: _Point) -> Floats:
        """Return the best logits that fall evenly with the voters' risks: off any plateau."""
        counts = self.problem.evidence.counts
        risks = (counts.errors / counts.rows)[self.support]
        tilts = [-risks * 4.0**power for power in range(1, 8)]
        points = [self.point(logits, start.choice) for logits in tilts]
        return min(points, key=lambda point: point.value).logits

    def search(self, point: _Point, max_iter: int) -> tuple[_Point, int]:
        """Descend, choosing parameters anew until neither they nor their neighbours help."""
        point, n_iter = self.descend(self.best_choice(point), max_iter)
        improved = len(self.grid) > 1
        while improved:
            improved = False
            best = self.best_choice(point).choice
            for choice in {best, point.choice - 1, point.choice + 1} - {point.choice}:
                if 0 <= choice < len(self.grid):
                    other, steps = self.descend(self.point(point.logits, choice), max_iter)
                    n_iter += steps
                    if other.value < point.value * (1 - GAP):
                        point, improved = other, True
        return point, n_iter

    def sweep(self, start: _Point, max_iter: int) -> tuple[_Point, int]:
        """Go through a short grid, a few steps for each choice from where the last one ended."""
        point, best, n_iter = start, start, 0
        for choice in range(len(self.grid)):
            point, steps = self.quasi_newton(self.point(point.logits, choice), min(10, max_iter))
            n_iter += steps
            best = point if point.value < best.value else best
        found, steps = self.quasi_newton(best, min(100, max_iter))
        return found, n_iter + steps

    def descend(self, point: _Point, max_iter: int) -> tuple[_Point, int]:
        """Minimise with the choice of parameters held: mirror steps, then L-BFGS on logits.

        Mirror steps settle a bound that is all but linear at once, where the weights collapse
        and logits diverge; L-BFGS settles the curved rest.
        """
        point, first = self.mirror(point, min(20, max_iter))
        point, second = self.quasi_newton(point, max_iter)
        point, third = self.mirror(point, min(20, max_iter))
        return point, first + second + third

    def settled(self, point: _Point) -> bool:
        """Return whether the tangent promises no more than rounding."""
        return point.gap(self.prior) <= GAP * point.value

    def quasi_newton(self, point: _Point, max_iter: int) -> tuple[_Point, int]:
        """Minimise over logits until the gap is closed."""
        best = point

        def objective(logits: Vector) -> tuple[float, Floats]:
            nonlocal best
            here = self.point(logits, point.choice)
            best = here if here.value < best.value else best
            return here.value, here.slope()

        def stop(xk: Vector) -> None:
            del xk
            if self.settled(best):
                raise StopIteration

        if self.settled(point):
            return point, 0
        found = scipy_minimize(
            objective,
            point.logits,
            jac=True,
            method="L-BFGS-B",
            callback=stop,
            options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-12},
        )
        return best, int(found.nit)

    def mirror(self, point: _Point, max_iter: int) -> tuple[_Point, int]:
        """Step towards the minimum of the tangent, each step halved until it descends."""
        step, n_iter = 1.0, 0
        while n_iter < max_iter and step > 1e-4 and not self.settled(point):
            moved = self.point(point.logits + step * (point.target() - point.logits), point.choice)
            n_iter += 1
            if moved.value < point.value:
                point, step = moved, min(1.0, 2 * step)
            else:
                step /= 2
        return point, n_iter

    def solution(self, best: _Point, start: _Point, n_iter: int, max_iter: int) -> Solution:
        """Return the better of what was found and the prior's weights."""
        problem, gap, status = self.problem, best.gap(self.prior), Status.PRIOR
        weights, outcome = problem.prior, problem.outcome(problem.prior, self.grid[start.choice])
        if best is not start:
            sought = simplex("weights", self.full(best.weights), len(self.support))
            found = problem.outcome(sought, self.grid[best.choice])
            if found.value < min(1.0, outcome.value):
                weights, outcome, status = sought, found, Status.STALLED
                if gap <= GAP * best.value:
                    status = Status.CONVERGED
                elif n_iter >= max_iter:
                    status = Status.STOPPED
        if outcome.value >= 1:
            status = Status.VACUOUS
        return Solution(
            weights, min(1.0, outcome.value), dict(outcome.parameters), status, n_iter, gap
        )
