"""A vote that may abstain, and a limit on its risk where it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacvote._ballot import DRAWS, FIXED, HARD, Ballot, stated
from pacvote._inputs import read_table
from pacvote.bounds.registry import exact_delta
from pacvote.certificate import percent_up, with_confidence
from pacvote.concentration import binomial_lower, binomial_upper
from pacvote.votes import Votes

ASSUMPTIONS = (
    DRAWS,
    FIXED,
    "The target, the thresholds, delta and its shares were fixed before the labelled rows were "
    "seen.",
    HARD,
)


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One threshold: what was seen, whether the target is certified there, and its coverage."""

    threshold: float
    n_answered: int
    n_errors: int
    certified: bool
    coverage: float


@final
@dataclass(frozen=True, slots=True)
class AbstentionCertificate:
    """With probability at least 1 - delta, at every certified threshold: among the future rows
    that are answered the vote errs on at most ``target``, and ``coverage`` of rows are answered.
    """  # noqa: D205

    target: Fraction
    steps: tuple[Step, ...]
    n_samples: int
    delta: Fraction
    coverage_share: Fraction
    voters: tuple[str, ...]
    weight_integers: tuple[int, ...]
    assumptions: tuple[str, ...]

    @property
    def chosen(self) -> Step | None:
        """The most lenient certified threshold, or None: then the vote must not answer."""
        return next((step for step in reversed(self.steps) if step.certified), None)

    def answer(self, predictions: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return what the vote says of new rows, and where it may say it.

        Parameters
        ----------
        predictions : array or data frame of shape (n_samples, n_voters)
            What each voter predicts.

        Returns
        -------
        labels : array of shape (n_samples,)
            The vote; a tie goes to the first label in order.
        answered : bool array of shape (n_samples,)
            Where the margin reaches the chosen threshold; nothing is claimed of other rows.
        """
        said = read_table(predictions, "predictions").block(slice(None))
        if said.shape[1] != len(self.voters):
            msg = f"`predictions` must have {len(self.voters)} voters, got {said.shape[1]}"
            raise ValueError(msg)
        ballot = Ballot.cast(Votes.from_predictions(said, said[:, 0]), self.weight_integers)
        least = np.inf if self.chosen is None else self.chosen.threshold
        return ballot.classes[ballot.mass.argmax(axis=1)], ballot.margins >= least

    def __str__(self) -> str:
        chosen = self.chosen
        if chosen is None:
            first = self.steps[0]
            return (
                f"No threshold is certified for a risk of {percent_up(self.target)}: at the "
                f"strictest, {first.threshold!r}, the vote erred on {first.n_errors} of "
                f"{first.n_answered} answered rows. It must abstain from all."
            )
        covered = floor(Fraction(chosen.coverage) * 10_000) / 100
        claim = (
            f"{with_confidence(self.delta)}, among the future rows that this weighted vote of "
            f"{len(self.voters)} voters answers (margin of at least {chosen.threshold!r}) it errs "
            f"on at most {percent_up(self.target)}, and it answers at least {covered:.2f} % of all "
            f"rows (seen: {chosen.n_errors} errors in {chosen.n_answered} answered of "
            f"{self.n_samples} rows)."
        )
        return stated(claim, self.assumptions)


def certify_abstention(
    votes: Votes,
    target: float | Fraction,
    thresholds: Sequence[float],
    *,
    weights: ArrayLike | None = None,
    delta: float | Fraction = 0.05,
    coverage_share: float | Fraction = Fraction(1, 5),
) -> AbstentionCertificate:
    """Find from which margin on a fixed vote may answer, so that its answers meet a target.

    Parameters
    ----------
    votes : Votes
        What the voters said of labelled rows that had no part in making them or their weights.
    target : float or Fraction
        The risk allowed among answered rows, fixed beforehand.
    thresholds : sequence of float
        Margins in [0, 1], fixed beforehand. They are tested from the largest on, each with all
        of the risk's share of delta, and the first that fails ends the test. So the largest must
        leave rows enough to pass: with m answered rows and no error, (1 - target)^m is at most
        that share. See `pacvote.plan`.
    weights : array-like of shape (n_voters,), default=None
        Weights of the vote, fixed beforehand; equal by default. Given ones are rounded to
        multiples of 2^-40. A tie has margin 0 and counts as an error.
    delta : float or Fraction, default=0.05
        Probability with which the certificate may be wrong.
    coverage_share : float or Fraction, default=1/5
        The part of delta that pays for the limits on coverage, in equal shares.

    Returns
    -------
    AbstentionCertificate

    Guarantee
    ---------
    With probability at least ``1 - delta``, for all certified thresholds at once, whichever is
    used: P(vote errs | margin >= threshold) <= ``target``, and P(margin >= threshold) >=
    ``coverage`` for every threshold of the list. The first is a risk *given that the vote
    answers*, over rows and not for each row; nothing is claimed of rows that are not answered.
    """
    target, exact = exact_delta(target, "target"), exact_delta(delta)
    part = exact_delta(coverage_share, "coverage_share")
    ordered = _ordered(thresholds)
    ballot = Ballot.of(votes, weights)
    margins, erred = ballot.margins, ballot.erred
    seen = [_seen(margins >= threshold, erred) for threshold in ordered]
    passed = _fixed_sequence(seen, target, exact * (1 - part))
    share = exact * part / len(ordered)
    steps = tuple(
        Step(threshold, n, k, certified, binomial_lower(votes.n_samples, n, share))
        for threshold, (n, k), certified in zip(ordered, seen, passed, strict=True)
    )
    made = votes.voters, ballot.weights, ASSUMPTIONS
    return AbstentionCertificate(target, steps, votes.n_samples, exact, part, *made)


def _ordered(thresholds: Sequence[float]) -> list[float]:
    values = sorted({float(value) for value in thresholds}, reverse=True)
    if not values or not all(isfinite(value) and 0 <= value <= 1 for value in values):
        msg = f"`thresholds` must list margins in [0, 1], got {thresholds!r:.80}"
        raise ValueError(msg)
    return values


def _seen(answered: NDArray[np.bool_], erred: NDArray[np.bool_]) -> tuple[int, int]:
    return int(answered.sum()), int((answered & erred).sum())


def _fixed_sequence(
    seen: Sequence[tuple[int, int]], target: Fraction, delta: Fraction
) -> Iterator[bool]:
    """Test each of (rows, errors) at the full delta, and reject none after the first failure."""
    going = True
    for n, k in seen:
        going = going and n > 0 and binomial_upper(n, k, delta) <= target
        yield going
