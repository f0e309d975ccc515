"""Bounds from each voter's own exact limit: the mean of them for a vote, the least for a voter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from scipy.special import betaincinv

from pacvote._rounding import round_up
from pacvote.bounds.base import (
    Claim,
    ClaimBound,
    Constants,
    Limits,
    Outcome,
    Parameters,
    Resolved,
    combine,
    voter_limits,
)
from pacvote.bounds.evidence import Counted, Floats, Quantity, Sizes
from pacvote.bounds.two_moment import GIBBS_AND_UNLABELLED
from pacvote.counts import PairCounts


@final
@dataclass(frozen=True, slots=True)
class Folds(ClaimBound):
    r"""Mean of exact limits on the voters' risks, for a few strong voters.

    .. math:: L(\mathrm{MV}_\rho) \le \frac1c \sum_h \rho_h\,
        \mathrm{BinInv}(n_h, k_h, \delta\pi_h),

    c the weight of the smallest losing coalition: 2/3 for three voters of equal weight. Where
    unlabelled rows were counted, half of delta pays for the probability D that two drawn voters
    disagree on them, and D/(2c) added to the mean replaces the factor 1/c where that is less.

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once.
    Rows i.i.d.; prior fixed beforehand; each voter validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "folds"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS,)

    def moments(self, sizes: Sizes) -> tuple[Quantity, ...]:
        """Return the Gibbs risk and, where there are unlabelled rows, the disagreement."""
        return self.quantities if not sizes.n_unlabelled else GIBBS_AND_UNLABELLED

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """Return the voters' limits, by the prior; unlabelled rows take half of delta."""
        n_rows = sizes.n_unlabelled
        share = delta / 2 if n_rows else delta
        gibbs = Claim(Quantity.GIBBS, "upper", "binomials", sizes.n_single, share)
        differ = Claim(Quantity.DISAGREEMENT, "upper", "mixture", n_rows, share)
        return (gibbs, differ) if n_rows else (gibbs,)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Markov's inequality, or the sum of the moments."""
        gibbs, *more = claims
        values = [round_up(gibbs.value / threshold)]
        values += [round_up(gibbs.value + differ.value / (2 * threshold)) for differ in more]
        return combine(min(values), parameters, [(gibbs, 1 / threshold)], *more)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Markov's inequality, or the sum of the moments, in exact numbers."""
        del parameters
        gibbs, differ = limits["gibbs", "upper"], limits.get(("disagreement", "upper"))
        alone = gibbs / threshold
        return alone if differ is None else min(alone, gibbs + differ / (2 * threshold))

    def settled(self, evidence: Counted, prior: Floats, delta: Fraction) -> Floats:
        """Return the prior's weights: chosen by the rows, one voter most often has the least."""
        del evidence, delta
        return prior


@final
@dataclass(frozen=True, slots=True)
class BestVoter(ClaimBound):
    r"""The least of exact limits on the voters' risks: what one voter alone would claim.

    .. math:: \min_h \mathrm{BinInv}(n_h, k_h, \delta\pi_h)

    Guarantee
    ---------
    With probability at least ``1 - delta`` over the validation rows, for all weights at once;
    those of `minimize` are one voter's. Rows i.i.d.; prior fixed beforehand; each voter
    validated on rows it was not trained on.
    """

    constants: Constants = "sharp"
    key: ClassVar[str] = "best_voter"
    known_constants: ClassVar[tuple[str, ...]] = ("sharp",)
    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.GIBBS,)

    def claims(self, sizes: Sizes, delta: Fraction) -> tuple[Claim, ...]:
        """All of delta pays for the voters' limits, by the prior."""
        return (Claim(Quantity.GIBBS, "upper", "binomials", sizes.n_single, delta),)

    def put_together(
        self, claims: Sequence[Resolved], parameters: Parameters, threshold: float
    ) -> Outcome:
        """Markov's inequality; for one voter, equality."""
        return Folds().put_together(claims, parameters, threshold)

    def formula(
        self, limits: Limits, parameters: Mapping[str, Fraction], threshold: Fraction
    ) -> Fraction:
        """Markov's inequality, in exact numbers."""
        return Folds().formula(limits, parameters, threshold)

    def settled(self, evidence: Counted, prior: Floats, delta: Fraction) -> Floats:
        """Return the weights of the voter with the least limit."""
        weights = np.zeros_like(prior)
        weights[least_limit(evidence.counts, prior, delta)[0]] = 1.0
        return weights


def least_limit(counts: PairCounts, prior: Floats | None, delta: Fraction) -> tuple[int, float]:
    """Return the voter with the least exact limit at its prior's share of delta, and the limit.

    SciPy's beta quantiles find those that come into question.
    """
    n, k, m = counts.rows, counts.errors, counts.n_voters
    prior = np.full(m, 1 / m) if prior is None else prior
    near = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - float(delta) * prior), 1.0)
    near[prior == 0] = np.inf
    if near.min() >= 1:
        return int(near.argmin()), 1.0
    close = np.flatnonzero(near <= near.min() * (1 + 1e-6))
    limits = voter_limits(counts, prior, delta, close)
    best = min(limits, key=limits.__getitem__)
    return best, limits[best]
