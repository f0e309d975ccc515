"""Several votes compared on rows that are new to all of them: the best one, with a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from pacvote.bounds.registry import exact_delta, resolve
from pacvote.certificate import Certificate, certify
from pacvote.counts import PairCounts
from pacvote.minimize import minimize
from pacvote.votes import Votes

TUNED = ("fo", "tnd", "cctnd")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """One certificate for each candidate; all of them hold together with 1 - delta.

    So any may be chosen after a look at them, and none needs another correction.
    """

    certificates: Mapping[str, Certificate]

    @property
    def name(self) -> str:
        """The candidate with the least certified risk, the first of equal ones."""
        return min(self.certificates, key=lambda name: self.certificates[name].exact_risk)

    @property
    def best(self) -> Certificate:
        """Its certificate."""
        return self.certificates[self.name]


def certify_candidates(
    votes: Votes,
    candidates: Mapping[str, ArrayLike],
    *,
    prior: Mapping[str, float | Fraction] | None = None,
    delta: float | Fraction = 0.05,
) -> Candidates:
    """Compare votes that were declared beforehand on rows that all their voters share.

    Parameters
    ----------
    votes : Votes
        Shared rows that were seen by nobody who chose the candidates.
    candidates : mapping of str to array-like of shape (n_voters,)
        A name and weights for each vote.
    prior : mapping of str to float or Fraction, default=None
        The share of delta of each candidate, fixed before the rows were seen; together at most
        1. By default equal shares.
    delta : float or Fraction, default=0.05
        Probability with which any of the certificates may be wrong.

    Returns
    -------
    Candidates
        ``best`` is the certificate to report, ``certificates`` are all.

    Guarantee
    ---------
    Occam: each candidate has the exact ``binomial`` bound at its own share of delta. With
    probability at least ``1 - delta`` all of them hold, so the best one does.
    """
    names = tuple(candidates)
    if not names:
        msg = "`candidates` is empty; give at least one name with its weights"
        raise ValueError(msg)
    certificates = {
        name: certify(
            votes,
            bound="binomial",
            delta=delta,
            weights=candidates[name],
            selection=share,
            selected_from=names if len(names) > 1 else (),
        )
        for name, share in _shares(names, prior).items()
    }
    return Candidates(certificates)


def _shares(
    names: Sequence[str], prior: Mapping[str, float | Fraction] | None
) -> dict[str, Fraction]:
    if prior is None:
        return {name: Fraction(1, len(names)) for name in names}
    if set(prior) != set(names):
        msg = f"`prior` must have a share for each candidate, {names}, but has {tuple(prior)}"
        raise ValueError(msg)
    shares = {
        name: Fraction(1) if prior[name] == 1 else exact_delta(prior[name], "prior")
        for name in names
    }
    if sum(shares.values()) > 1:
        msg = f"`prior` must sum to 1 at most, but sums to {float(sum(shares.values()))!r}"
        raise ValueError(msg)
    return shares


def certify_holdout(
    training: Votes | PairCounts,
    holdout: Votes,
    *,
    tuned: Sequence[str] = TUNED,
    prior: Mapping[str, float | Fraction] | None = None,
    delta: float | Fraction = 0.05,
) -> Candidates:
    """Weigh voters by rows of the training side, and compare the votes on rows held out.

    Equivalent to ``certify_candidates`` with equal weights and those of
    ``minimize(key, training)`` for each key, whose names are the keys.

    Parameters
    ----------
    training : Votes or PairCounts
        Votes of the same voters on other rows, such as the out-of-bag ``counts_`` of a fitted
        `MajorityVoteClassifier`, or of what `reweight` makes of a forest.
    holdout : Votes
        Rows that all voters share and that had no part in training or weighing, such as
        ``Votes.from_predictions(vote.votes(X_new), y_new)``.
    tuned : sequence of str, default=("fo", "tnd", "cctnd")
        Keys of ``BOUNDS`` whose minimising weights compete with equal weights.
    prior : mapping of str to float or Fraction, default=None
        As in `certify_candidates`; the candidates are ``"uniform"`` and those of `tuned`.
    delta : float or Fraction, default=0.05
        Probability with which any of the certificates may be wrong.

    Returns
    -------
    Candidates

    Guarantee
    ---------
    That of `certify_candidates`: the weights were fixed before the held-out rows were seen.
    """
    if training.voters != holdout.voters:
        msg = "`holdout` must have the voters of `training`, by the same names in the same order"
        raise ValueError(msg)
    m = training.n_voters
    weights = {"uniform": np.full(m, 1 / m)}
    for key in tuned:
        weights[key] = minimize(resolve(key), training, delta=delta).weights
    return certify_candidates(holdout, weights, prior=prior, delta=delta)
