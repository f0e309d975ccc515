"""A certificate for each class, or for each group of rows, all at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacvote._ballot import FIXED, HARD, Ballot, declared, stated
from pacvote._inputs import read_column
from pacvote.bounds.registry import exact_delta
from pacvote.certificate import percent_up, with_confidence
from pacvote.concentration import binomial_upper
from pacvote.votes import Votes

ASSUMPTIONS = (
    "Within each group, the labelled rows and the future rows are independent draws from one "
    "distribution; how many rows a group has may be chosen.",
    FIXED,
    "The groups and delta were fixed before anyone saw on which of these rows the vote errs.",
    HARD,
)


@final
@dataclass(frozen=True, slots=True)
class GroupRisk:
    """What is claimed of one group: at most ``risk``, which is 1 where it has no row."""

    name: Hashable
    n_rows: int
    n_errors: int
    risk: float

    def __str__(self) -> str:
        if not self.n_rows:
            return f"{self.name!r}: no labelled row, so nothing is claimed (100 %)"
        seen = f"{self.n_errors} of {self.n_rows} labelled rows"
        return f"{self.name!r}: at most {percent_up(Fraction(self.risk))} (seen: {seen})"


@final
@dataclass(frozen=True, slots=True)
class GroupCertificate:
    """With probability at least 1 - delta, the limits of all groups hold at once."""

    groups: tuple[GroupRisk, ...]
    delta: Fraction
    voters: tuple[str, ...]
    weight_integers: tuple[int, ...]
    assumptions: tuple[str, ...]

    @property
    def share(self) -> Fraction:
        """What each group spends of delta."""
        return self.delta / len(self.groups)

    @property
    def worst(self) -> GroupRisk:
        """The group with the largest limit: no group errs more often."""
        return max(self.groups, key=lambda group: group.risk)

    def __str__(self) -> str:
        head = (
            f"{with_confidence(self.delta)}, for all {len(self.groups)} groups at once, this "
            f"weighted vote of {len(self.voters)} voters errs on future rows of"
        )
        claim = "\n".join([head, *(f"  {group}" for group in self.groups)])
        return stated(claim, self.assumptions)


def certify_groups(
    votes: Votes,
    names: Sequence[Any] | NDArray[Any],
    *,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    delta: float | Fraction = 0.05,
) -> GroupCertificate:
    """Limit the risk of a fixed vote in each group of rows, or in each class.

    Parameters
    ----------
    votes : Votes
        What the voters said of labelled rows that had no part in making them or their weights.
    names : sequence
        All groups, declared beforehand. Each gets an equal share of delta, with rows or without.
    groups : array-like of shape (n_samples,), default=None
        The group of each row. Default: its true class, so that each limit is one on 1 - recall.
    weights : array-like of shape (n_voters,), default=None
        Weights of the vote, fixed beforehand, rounded to multiples of 2^-40; equal by default.
        Ties count as errors.
    delta : float or Fraction, default=0.05
        Probability with which any of the limits may be wrong.

    Returns
    -------
    GroupCertificate

    Raises
    ------
    ValueError
        For a row whose group was not declared, and for votes that are not of shared rows.

    Guarantee
    ---------
    With probability at least ``1 - delta``, for all groups at once: among the future rows of the
    group, the vote errs on at most ``risk``. A group without a labelled row gets the limit 1.
    """
    exact = exact_delta(delta)
    ballot = Ballot.of(votes, weights)
    column = votes.labels if groups is None else read_column(groups, votes.n_samples, "groups")
    listed, codes = declared("names", names, column)
    n_rows = np.bincount(codes, minlength=len(listed)).tolist()
    n_errors = np.bincount(codes[ballot.erred], minlength=len(listed)).tolist()
    share = exact / len(listed)
    risks = tuple(
        GroupRisk(name, n, k, binomial_upper(n, k, share) if n else 1.0)
        for name, n, k in zip(listed, n_rows, n_errors, strict=True)
    )
    return GroupCertificate(risks, exact, votes.voters, ballot.weights, ASSUMPTIONS)
