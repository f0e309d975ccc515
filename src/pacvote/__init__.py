"""Weights for a majority vote, and a certificate of its error that anyone can check."""

from pacvote.adapters import reweight, votes_of
from pacvote.bounds import (
    BOUNDS,
    Bound,
    BoundValue,
    CBound,
    CCBennett,
    CCTandem,
    FirstOrder,
    Tandem,
    Witness,
    evaluate,
)
from pacvote.certificate import Certificate, certify
from pacvote.counts import PairCounts, count
from pacvote.displays import (
    AbstentionDisplay,
    BoundsDisplay,
    TandemDisplay,
    WeightsDisplay,
)
from pacvote.ensemble import MajorityVoteClassifier, paper_ensemble
from pacvote.minimize import Solution, Status, minimize
from pacvote.verify import Verdict, verify
from pacvote.votes import Votes

__all__ = [
    "BOUNDS",
    "AbstentionDisplay",
    "Bound",
    "BoundValue",
    "BoundsDisplay",
    "CBound",
    "CCBennett",
    "CCTandem",
    "Certificate",
    "FirstOrder",
    "MajorityVoteClassifier",
    "PairCounts",
    "Solution",
    "Status",
    "Tandem",
    "TandemDisplay",
    "Verdict",
    "Votes",
    "WeightsDisplay",
    "Witness",
    "certify",
    "count",
    "evaluate",
    "minimize",
    "paper_ensemble",
    "reweight",
    "verify",
    "votes_of",
]
