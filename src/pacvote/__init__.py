"""Weights for a majority vote, and a certificate of its error that anyone can check."""

from pacvote.abstention import AbstentionCertificate, certify_abstention
from pacvote.adapters import reweight, votes_of
from pacvote.bounds import (
    BOUNDS,
    Binomial,
    Bound,
    BoundValue,
    CBound,
    CCBennett,
    CCTandem,
    FirstOrder,
    NDraw,
    Tandem,
    Witness,
    evaluate,
)
from pacvote.candidates import Candidates, certify_candidates, certify_holdout
from pacvote.certificate import Certificate, certify
from pacvote.costs import CostCertificate, certify_cost
from pacvote.counts import PairCounts, count
from pacvote.displays import (
    AbstentionDisplay,
    BoundsDisplay,
    TandemDisplay,
    WeightsDisplay,
)
from pacvote.ensemble import MajorityVoteClassifier
from pacvote.groups import GroupCertificate, certify_groups
from pacvote.minimize import Solution, Status, minimize
from pacvote.planning import Plan, plan
from pacvote.verify import Verdict, verify
from pacvote.voters import paper_ensemble
from pacvote.votes import Votes

__all__ = [
    "BOUNDS",
    "AbstentionCertificate",
    "AbstentionDisplay",
    "Binomial",
    "Bound",
    "BoundValue",
    "BoundsDisplay",
    "CBound",
    "CCBennett",
    "CCTandem",
    "Candidates",
    "Certificate",
    "CostCertificate",
    "FirstOrder",
    "GroupCertificate",
    "MajorityVoteClassifier",
    "NDraw",
    "PairCounts",
    "Plan",
    "Solution",
    "Status",
    "Tandem",
    "TandemDisplay",
    "Verdict",
    "Votes",
    "WeightsDisplay",
    "Witness",
    "certify",
    "certify_abstention",
    "certify_candidates",
    "certify_cost",
    "certify_groups",
    "certify_holdout",
    "count",
    "evaluate",
    "minimize",
    "paper_ensemble",
    "plan",
    "reweight",
    "verify",
    "votes_of",
]
