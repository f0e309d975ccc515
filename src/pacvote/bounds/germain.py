"""The C-bounds of Germain et al.: by Gibbs risk and disagreement, and by both errors at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import frexp
from typing import ClassVar, final

import numpy as np

from pacvote._rounding import ln_inverse_upper, round_up
from pacvote.bounds.base import (
    Bound,
    Claim,
    ClaimBound,
    Constants,
    Limits,
    Outcome,
    Parameters,
    Resolved,
    Witness,
    combine,
)
from pacvote.bounds.dis import gibbs_and_disagreement
from pacvote.bounds.evidence import Floats, Moments, Quantity, Sizes

QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)
LEAST_REST = 1e-9  # below it the ratio has lost its digits


@final
@dataclass(frozen=True, slots=True)
class GermainOne(ClaimBound):
    r"""C-bound in Gibbs risk and disagreement (PAC-Bound 1 of Germain et al. 2015).

    .. math:: L(\mathrm{MV}_\rho) \le 1 - \frac{(1 - 2g)^2}{1 - 2d}, \quad g < 1/2,

    which rises with g and falls with d. It holds for any number of classes, with d the
    probability that exactly one of two drawn voters errs.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "c1"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS, Quantity.ONE_ERRS)

    @property
    def counts_coalitions(self) -> bool:
        """The ratio is not monotone in g past 1/2."""
        return False

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Half of delta for the Gibbs risk from above, half for the disagreement from below."""
        return gibbs_and_disagreement(sizes, delta)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Chebyshev-Cantelli inequality at its best mu."""
        del threshold
        gibbs, one = claims
        g, d = gibbs.value, one.value
        over, rest = g - g**2 - d / 2, 0.25 - d / 2
        if g >= 0.5 or over <= 0 or rest <= LEAST_REST:
            return combine(1.0, parameters, [], *claims)
        value = round_up(over / rest, (g + d + 1) / rest + 4 * over / rest**2)
        by_one = (over - rest) / (2 * rest**2)
        return combine(value, parameters, [(gibbs, (1 - 2 * g) / rest), (one, by_one)])

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality at its best mu, in exact numbers."""
        del parameters, threshold
        g, half_d = limits["gibbs", "upper"], limits["one_errs", "lower"] / 2
        over, rest = g - g**2 - half_d, QUARTER - half_d
        return over / rest if g < HALF and over > 0 and rest > 0 else Fraction(1)


LEAST_MU, MOST_MU, MU_UNIT = -64.0, 0.499, 2.0**16


@final
@dataclass(frozen=True, slots=True)
class GermainTwo(Bound):
    r"""C-bound by one inequality for both errors of a pair (PAC-Bound 2 of Germain et al. 2015).

    With p = (both err, one errs, none errs), all p are taken that the relative entropy allows:

    .. math:: \mathrm{kl}(\hat p \,\|\, p) \le \varepsilon
        = \frac{2\,\mathrm{KL}(\rho\|\pi) + \ln((n + 2\sqrt n)/\delta)}{n}, \qquad
        L(\mathrm{MV}_\rho) \le \min_{\mu < 1/2} \max_p \frac{E_p[l_\mu]}{(1/2 - \mu)^2},

    n the least number of rows that two voters share. The largest mean is found by its dual,
    :math:`\min_\eta \eta - e^{-\varepsilon} \prod_i (\eta - v_i)^{\hat p_i}`, v the values of
    the mu-tandem loss.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "c2"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.TANDEM, Quantity.ONE_ERRS)
    parameter_names: ClassVar[tuple[str, ...]] = ("mu",)

    @property
    def counts_coalitions(self) -> bool:
        """Never: beyond mu = 1/2 the loss has another range."""
        return False

    def at(
        self, moments: Moments, sizes: Sizes, delta: Fraction, parameters: Parameters
    ) -> Outcome:
        """Return the bound at these moments, at the best mu unless one is given."""
        n = sizes.n_pair
        complexity = round_up(
            2 * moments.divergence + ln_inverse_upper(delta) + round_up(np.log(n + 2 * n**0.5))
        )
        seen = np.array([moments.values[q] for q in self.quantities])
        seen = np.array([*seen, max(0.0, 1 - seen.sum())])
        mu, eta = _best_multipliers(seen, complexity / n, parameters.get("mu"))
        both = moments.upper(Quantity.TANDEM)
        one = (moments.lower if mu > 0 else moments.upper)(Quantity.ONE_ERRS)
        p_hat, gaps = (
            np.array([both, one, max(0.0, 1 - both - one)]),
            eta - _values(np.array([mu]))[:, 0],
        )
        logs = np.log(gaps)
        product = float(np.exp(p_hat @ logs - complexity / n))
        doubt = product * (2 + float(np.abs(logs).max()) + complexity / n)
        mean = round_up(eta - product, eta + doubt)
        size = mu * mu + (1 - 2 * mu) * both + abs(mu) * one
        p_mean = round_up(mu * mu + (1 - 2 * mu) * both - mu * one, size)
        scale = (0.5 - mu) ** 2
        witness = Witness(
            "trinomial", "mu_tandem", "upper", "trinomial", p_mean, n,
            complexity, delta, mean, 1, {"mu": mu, "eta": eta},
        )  # fmt: skip
        slopes = {q: -product * (logs[i] - logs[2]) / scale for i, q in enumerate(self.quantities)}
        return Outcome(
            # no mean of a square: an event failed
            round_up(mean / scale) if mean > 0 else 1.0,
            {"mu": mu},
            (witness,),
            slopes,
            2 * product / n / scale,
        )

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Chebyshev-Cantelli inequality on the mu-tandem loss, in exact numbers."""
        del threshold
        mean = limits["mu_tandem", "upper"]
        return mean / (HALF - parameters["mu"]) ** 2 if mean > 0 else Fraction(1)


def _values(mus: Floats) -> Floats:
    """Return the values of the mu-tandem loss, a row for each of both, one, none: exact."""
    return np.array([(1 - mus) ** 2, -mus * (1 - mus), mus**2])


def _best_multipliers(p_hat: Floats, budget: float, given: float | None) -> tuple[float, float]:
    """Return mu and eta of the least bound, in few bits: any are sound, these are nearly best."""
    if given is not None:
        if not given < HALF:
            msg = f"`mu` must be below 1/2, but is {given!r}"
            raise ValueError(msg)
        return given, _few_bits(float(_best_etas(p_hat, budget, np.array([given]))[0]))
    low, high = np.log(0.5 - MOST_MU), np.log(0.5 - LEAST_MU)
    for _ in range(4):
        mus = 0.5 - np.exp(np.linspace(high, low, 33))
        mus = np.round(mus * MU_UNIT) / MU_UNIT
        etas = _best_etas(p_hat, budget, mus)
        bounds = _dual(p_hat, budget, mus, etas) / (0.5 - mus) ** 2
        best = int(np.argmin(bounds))
        low, high = (np.log(0.5 - mus[min(32, best + 1)]), np.log(0.5 - mus[max(0, best - 1)]))
    return float(mus[best]), _few_bits(float(etas[best]))


def _dual(p_hat: Floats, budget: float, mus: Floats, etas: Floats) -> Floats:
    gaps = etas - _values(mus)
    return np.asarray(etas - np.exp(p_hat @ np.log(np.maximum(gaps, 1e-300)) - budget))


def _best_etas(p_hat: Floats, budget: float, mus: Floats) -> Floats:
    """Return the minimisers of the dual, by bisection on the log of their distance to the loss."""
    values = _values(mus)
    top = values.max(axis=0)
    low, high = np.full(len(mus), -20.0), np.full(len(mus), 40.0)
    for _ in range(50):
        middle = (low + high) / 2
        gaps = top + np.exp(middle) - values
        rises = np.exp(p_hat @ np.log(gaps) - budget) * (p_hat @ (1 / gaps)) < 1
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    return np.asarray(top + np.exp(high))


def _few_bits(eta: float) -> float:
    """Return a number of 30 bits that is no less."""
    fraction, exponent = frexp(eta)
    return float(np.ceil(fraction * 2.0**30) * 2.0 ** (exponent - 30))
