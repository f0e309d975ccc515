"""The bound for the evidence at hand, by its shape alone: never by what the rows hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

from pacvote.bounds.base import Bound
from pacvote.bounds.best_of import BestOf
from pacvote.bounds.binomial import Binomial
from pacvote.bounds.first_order import FirstOrder
from pacvote.bounds.folds import BestVoter, Folds
from pacvote.bounds.ndraw import NDraw
from pacvote.counts import PairCounts, count
from pacvote.votes import Votes

AUTO: Final = "auto"
WORTH_A_VOTE = Fraction(17, 10)  # times the claim of one voter: then the vote's is kept
FEW = 25  # voters whose smallest losing coalition is found exactly


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """A bound, and why it is the one for such evidence."""

    bound: Bound
    reason: str

    def __str__(self) -> str:
        names = [repr(member.key) for member, _ in self.bound.alternatives()]
        least = f"the least of {' and '.join(names)}, each at its share of delta"
        return f"bound='auto' is {names[0] if len(names) == 1 else least}: {self.reason}."


def choose(evidence: Votes | PairCounts, *, weighted: bool = False) -> Choice:
    """Choose a bound by which voters have which rows; no error of theirs is looked at.

    Parameters
    ----------
    evidence : Votes or PairCounts
        The validation rows.
    weighted : bool, default=False
        Whether weights are given, that may depend on the rows.

    Returns
    -------
    Choice

    Guarantee
    ---------
    That of the bound: it would have been the same, whatever the voters had said.
    """
    if isinstance(evidence, Votes) and evidence.shared:
        if weighted:
            why = "all voters are judged on the same rows, for weights that may depend on them"
            return Choice(NDraw(), why)
        why = "all voters are judged on the same rows, so that the vote itself can be counted"
        return Choice(BestOf(members=(Binomial(), BestVoter())), why)
    counts = evidence if isinstance(evidence, PairCounts) else count(evidence)
    if counts.n_pair > 0:
        why = "any two voters have validation rows in common, and those are counted"
        return Choice(BestOf(), why)
    if evidence.n_voters <= FEW:
        why = "a few voters are judged on different rows, some two on none alike"
        return Choice(BestOf(members=(Folds(), BestVoter()), slack=WORTH_A_VOTE), why)
    why = "many voters are judged on different rows, some two on none alike"
    return Choice(BestOf(members=(BestVoter(), FirstOrder())), why)
