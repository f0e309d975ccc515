"""The Chebyshev-Cantelli bound with the mu-tandem loss and PAC-Bayes-Bennett."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal, final

import numpy as np

from pacvote import concentration as on
from pacvote._rounding import ln_inverse_upper, round_up, to_12_bits
from pacvote.bounds.base import Bound, Limits, Outcome, Parameters, Witness
from pacvote.bounds.evidence import Floats, Moments, Quantity, Sizes

MU_SHARP = tuple(k / 256 for k in (-200, -100, -45, -18, -4, 8))
MU_PAPER = tuple(i / 400 - 0.5 for i in range(400))


@final
@dataclass(frozen=True, slots=True)
class CCBennett(Bound):
    r"""Chebyshev-Cantelli bound with PAC-Bayes-Bennett (Thm. second-mu-bound), made sound.

    .. math:: L(\mathrm{MV}_\rho) \le \frac{1}{(1/2-\mu)^2}\Big(\hat L_\mu +
        \frac{2\mathrm{KL} + \ln(1/\delta_2)}{\gamma n}
        + \frac{\varphi(\gamma K_\mu)}{\gamma K_\mu^2}\Big(\frac{\hat V_\mu}{1-\lambda n/(2(n-1))}
        + \frac{K_\mu^2 (2\mathrm{KL} + \ln(1/\delta_1))}{n\lambda(1-\lambda n/(2(n-1)))}\Big)\Big)

    The mu-tandem loss changes with mu, and its variance and mean are bounded at one lambda and
    one gamma each, so all three are taken from grids fixed beforehand and paid for. Sharp: a
    grid of 6 mu and every sixteenth point of the paper's lambda and gamma grids,
    ``delta_1 = delta / (2 k_lambda k_mu)`` and ``delta_2 = delta / (2 k_gamma k_mu)``.
    ``"paper"`` is the theorem as printed, ``delta_1 = delta_2 = delta / (2 k_lambda k_gamma)``
    and nothing for mu; ``"published"`` the variant that the printed tables were computed with.
    Neither is proven: ``sound`` is False and no certificate is issued from them.

    Guarantee
    ---------
    Sharp: with probability at least ``1 - delta`` over the validation rows, for all weights at
    once. Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained
    on; at least two common rows for each pair of voters.
    """

    constants: Literal["sharp", "paper", "published"] = "sharp"
    key: ClassVar[str] = "ccpbb"
    quantities: ClassVar[tuple[Quantity, ...]] = (
        Quantity.TANDEM,
        Quantity.ONE_ERRS,
        Quantity.SPREAD_BOTH_ONE,
        Quantity.SPREAD_BOTH_NONE,
        Quantity.SPREAD_ONE_NONE,
    )
    parameter_names: ClassVar[tuple[str, ...]] = ("mu", "lambda", "gamma")
    known_constants: ClassVar[tuple[str, ...]] = ("sharp", "paper", "published")

    @property
    def sound(self) -> bool:
        """Only the sharp form is proven (mu is chosen from the data)."""
        return self.constants == "sharp"

    @property
    def counts_coalitions(self) -> bool:
        """Never: beyond mu = 1/2 the loss has another range."""
        return False

    def grid(self, sizes: Sizes, delta: Fraction) -> Sequence[Parameters]:
        """Return the grid of mu."""
        del sizes, delta
        return [{"mu": mu} for mu in (MU_SHARP if self.sound else MU_PAPER)]

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the bound at these moments, at the best of the parameters left open."""
        if sizes.n_pair < 2:
            msg = (
                "`ccpbb` needs a variance: every pair of voters must share 2 validation rows, "
                f"but the smallest overlap is {sizes.n_pair}"
            )
            raise ValueError(msg)
        if "mu" in parameters:
            return self._at_mu(moments, sizes.n_pair, delta, parameters)
        choices = [{**parameters, **point} for point in self.grid(sizes, delta)]
        outcomes = (self._at_mu(moments, sizes.n_pair, delta, choice) for choice in choices)
        return min(outcomes, key=lambda outcome: outcome.value)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality on the mu-tandem loss (Thm. MVBen), in exact numbers."""
        mean = limits["mu_tandem", "upper"]
        return mean / (threshold - parameters["mu"]) ** 2 if mean > 0 else Fraction(1)

    def _at_mu(self, moments: Moments, n: int, delta: Fraction, parameters: Parameters) -> Outcome:
        loss = _MuLoss.at(moments, parameters["mu"], n)
        lambdas, gammas = self._grids(n, delta)
        lambdas = self._open("lambda", parameters, lambdas)
        gammas = self._open("gamma", parameters, gammas / loss.length)
        if self.sound:
            self._open("mu", parameters, np.array(MU_SHARP, dtype=np.float64))
        cheap = self._complexities(n, delta, moments.divergence, choosing=True)
        lam = float(lambdas[np.argmin(loss.variance(lambdas, cheap[0]))])
        limit = float(loss.variance(np.array([lam]), cheap[0])[0])
        gamma = float(gammas[np.argmin(loss.excess(gammas, limit, cheap[1]))])
        prices = self._complexities(n, delta, moments.divergence, choosing=False)
        return self._value(loss, lam, gamma, prices, delta)

    def _open(self, name: str, parameters: Parameters, grid: Floats) -> Floats:
        """Return the points of the grid that the caller leaves open."""
        given = parameters.get(name)
        if given is None:
            return grid
        if self.sound and given not in grid:
            points = ", ".join(f"{x:.6g}" for x in grid)
            msg = f"`{name}` = {given!r} is not on the grid paid for: {points}; leave it out"
            raise ValueError(msg)
        return np.array([given])

    def _grids(self, n: int, delta: Fraction) -> tuple[Floats, Floats]:
        return grids_sharp(n, delta) if self.sound else grids_paper(n, delta)

    def _points(self, n: int, delta: Fraction) -> tuple[int, int]:
        """Return how many grid points the variance event and the Bennett event each cover."""
        k_lambda, k_gamma = map(len, self._grids(n, delta))
        k_mu = len(MU_SHARP)
        return {
            "sharp": (k_lambda * k_mu, k_gamma * k_mu),
            "paper": (k_lambda * k_gamma, k_lambda * k_gamma),
            "published": (k_lambda, k_lambda * k_gamma),
        }[self.constants]

    def _complexities(
        self, n: int, delta: Fraction, divergence: float, *, choosing: bool
    ) -> tuple[float, float]:
        """Return 2 KL + ln(points / share) for the two events; published chooses with 1 point."""
        first, second = self._points(n, delta)
        if choosing and self.constants == "published":
            first = second = 1
        half = delta / 2
        return (
            round_up(2 * divergence + ln_inverse_upper(half / first)),
            round_up(2 * divergence + ln_inverse_upper(half / second)),
        )

    def _value(
        self, loss: _MuLoss, lam: float, gamma: float, prices: tuple[float, float], delta: Fraction
    ) -> Outcome:
        n, mu, length = loss.n, loss.mu, loss.length
        limit = on.variance_upper(loss.spread, prices[0], n, lam, length)
        free = limit < length**2 / 4 or self.constants == "paper"
        limit = limit if free else round_up(length**2 / 4)
        mean = on.bennett_upper(loss.mean, limit, prices[1], n, gamma, length)
        scale = (0.5 - mu) ** 2
        coefficient = on.phi(gamma * length) / (gamma * length**2)
        keep = 1 - lam * n / (2 * (n - 1))
        by_limit = coefficient * free / keep
        by_moment = {
            q: (by_mean + by_limit * by_spread) / scale
            for q, (by_mean, by_spread) in loss.slopes().items()
        }
        by_divergence = 2 / (gamma * n) + by_limit * 2 * length**2 / (n * lam)
        return Outcome(
            round_up(mean / scale) if mean > 0 else 1.0,  # no mean of a square: an event failed
            {"mu": mu, "lambda": lam, "gamma": gamma},
            self._witnesses(loss, prices, delta, (limit, lam), (mean, gamma)),
            by_moment,
            by_divergence / scale,
        )

    def _witnesses(
        self,
        loss: _MuLoss,
        prices: tuple[float, float],
        delta: Fraction,
        variance: tuple[float, float],
        mean: tuple[float, float],
    ) -> tuple[Witness, ...]:
        n, half, points, mu = loss.n, delta / 2, self._points(loss.n, delta), loss.mu
        return (
            Witness(
                "variance", "mu_variance", "upper", "variance", loss.spread, n, prices[0], half,
                variance[0], points[0], {"mu": mu, "lambda": variance[1]},
            ),
            Witness(
                "bennett", "mu_tandem", "upper", "bennett", loss.mean, n, prices[1], half,
                mean[0], points[1], {"mu": mu, "gamma": mean[1]},
            ),
        )  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class _MuLoss:
    """The mu-tandem loss at one mu: mean and unbiased variance, rounded up, averaged over pairs.

    The loss is (1-mu)^2, -mu(1-mu) or mu^2 as both, one or none of the pair errs, and a
    variance is the sum over pairs of values of p p' (difference)^2.
    """

    mu: float
    n: int
    mean: float
    spread: float

    @staticmethod
    def at(moments: Moments, mu: float, n: int) -> _MuLoss:
        """Return the loss at ``mu`` < 1/2."""
        if not mu < 0.5:
            msg = f"`mu` must be below 1/2, but is {mu!r}"
            raise ValueError(msg)
        one = moments.lower if mu > 0 else moments.upper
        both, alone = moments.upper(Quantity.TANDEM), one(Quantity.ONE_ERRS)
        size = mu * mu + (1 - 2 * mu) * both + abs(mu) * alone
        mean = round_up(mu * mu + (1 - 2 * mu) * both - mu * alone, size)
        spread = sum(by_spread * moments.values[q] for q, (_, by_spread) in _slopes(mu).items())
        return _MuLoss(mu, n, mean, round_up(spread * (1 + moments.slack)))

    @property
    def length(self) -> float:
        """Length of the loss's range (Lemma range)."""
        return max(1 - self.mu, 1 - 2 * self.mu)

    def slopes(self) -> dict[Quantity, tuple[float, float]]:
        """Return the slopes of mean and variance in each moment."""
        return _slopes(self.mu)

    def variance(self, lambdas: Floats, complexity: float) -> Floats:
        """Return the limit on the variance at each lambda, to choose one."""
        keep = 1 - lambdas * self.n / (2 * (self.n - 1))
        price = self.length**2 * complexity / (self.n * lambdas)
        return np.asarray((self.spread + price) / keep)

    def excess(self, gammas: Floats, limit: float, complexity: float) -> Floats:
        """Return Bennett's excess over the mean at each gamma, to choose one."""
        x = gammas * self.length
        rise = np.array([on.phi(u) for u in x]) / (x * self.length)
        return np.asarray(rise * limit + complexity / (gammas * self.n))


def _slopes(mu: float) -> dict[Quantity, tuple[float, float]]:
    return {
        Quantity.TANDEM: (1 - 2 * mu, 0.0),
        Quantity.ONE_ERRS: (-mu, 0.0),
        Quantity.SPREAD_BOTH_ONE: (0.0, (1 - mu) ** 2),
        Quantity.SPREAD_BOTH_NONE: (0.0, (1 - 2 * mu) ** 2),
        Quantity.SPREAD_ONE_NONE: (0.0, mu**2),
    }


@lru_cache(maxsize=64)
def grids_paper(n: int, delta: Fraction) -> tuple[Floats, Floats]:
    """Return the paper's lambda grid and, for a loss of length 1, its gamma grid."""
    return on.variance_lambda_grid(n, delta / 2), on.gamma_grid(n, delta / 2, delta / 2)


@lru_cache(maxsize=64)
def grids_sharp(n: int, delta: Fraction) -> tuple[Floats, Floats]:
    """Return every sixteenth point of the paper's grids, the same on every machine.

    The optima are flat: at 300 to 10,000 common rows fewer points gain more in the logarithms
    than they lose between them.
    """
    lambdas, gammas = grids_paper(n, delta)
    first = min(8, len(lambdas) - 1), min(8, len(gammas) - 1)
    return to_12_bits(lambdas[first[0] :: 16]), to_12_bits(gammas[first[1] :: 16])
