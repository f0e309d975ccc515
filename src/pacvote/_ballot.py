"""What a weighted vote says of rows that all voters share, in integers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacvote.bounds.registry import simplex
from pacvote.bounds.shared import tally
from pacvote.certificate import ASSUMPTIONS
from pacvote.exact import to_integers
from pacvote.votes import Votes

# What every claim about one fixed vote on labelled rows of its own rests on.
FIXED = "Voters and weights were fixed before these rows were seen, and not influenced by them."
HARD = ASSUMPTIONS[-1]
DRAWS = ASSUMPTIONS[0]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ballot:
    """The integer mass that each class gets on each row, and the position of the true class."""

    weights: tuple[int, ...]
    classes: NDArray[Any]
    truth: NDArray[np.unsignedinteger[Any]]
    mass: NDArray[np.int64]

    @classmethod
    def of(cls, votes: Votes, weights: ArrayLike | None) -> Self:
        """Cast the votes with weights; None: equal ones."""
        if weights is None:
            return cls.cast(votes, (1,) * votes.n_voters)
        return cls.cast(votes, to_integers(simplex("weights", weights, votes.n_voters)))

    @classmethod
    def cast(cls, votes: Votes, weights: Sequence[int]) -> Self:
        """Cast the votes with integer weights."""
        if votes.vote_codes is None or votes.label_codes is None or votes.classes is None:
            msg = (
                "`votes` must be of rows that every voter was asked about; out of bag each row is "
                "judged by other voters, so give rows that no voter has seen"
            )
            raise ValueError(msg)
        pairs = zip(votes.vote_codes.T, weights, strict=True)
        shape = (votes.n_samples, len(votes.classes))
        return cls(tuple(weights), votes.classes, votes.label_codes, tally(pairs, shape))

    @property
    def leaders(self) -> NDArray[np.bool_]:
        """The classes that may win each row: several where they tie."""
        return np.asarray(self.mass == self.mass.max(axis=1, keepdims=True))

    @property
    def erred(self) -> NDArray[np.bool_]:
        """Where the vote is wrong, or would be if a tie fell that way."""
        alone = self.leaders.sum(axis=1) == 1
        right = alone & self.leaders[np.arange(len(self.truth)), self.truth]
        return np.asarray(~right)

    @property
    def margins(self) -> NDArray[np.float64]:
        """By how much the first class leads the second, as a share of the weight."""
        ranked = np.sort(np.pad(self.mass, ((0, 0), (1, 0))), axis=1)
        return (ranked[:, -1] - ranked[:, -2]) / sum(self.weights)


def declared(
    argument: str, names: Sequence[Any] | NDArray[Any], found: NDArray[Any]
) -> tuple[list[Hashable], NDArray[np.int64]]:
    """Return the names that were declared, and where in them each of those found stands."""
    listed = names.tolist() if isinstance(names, np.ndarray) else list(names)
    position = {name: index for index, name in enumerate(listed)}
    if isinstance(names, str) or not 0 < len(position) == len(listed):
        msg = f"`{argument}` must list each name once, got {names!r:.80}"
        raise ValueError(msg)
    codes = np.array([position.get(item, -1) for item in found.tolist()], dtype=np.int64)
    if (codes < 0).any():
        first = found[codes < 0].tolist()[0]
        msg = f"`{argument}` lacks {first!r}, which occurs; declare it, or leave its rows out"
        raise ValueError(msg)
    return listed, codes


def stated(claim: str, assumptions: Sequence[str]) -> str:
    """Return a claim and what it rests on."""
    return "\n".join([claim, "It holds if:", *(f"- {one}" for one in assumptions)])
