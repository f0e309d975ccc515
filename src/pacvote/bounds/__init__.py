"""The bounds, one file each; `base` says what a bound is, `registry` finds it by its key."""

from pacvote.bounds.base import Bound, Witness
from pacvote.bounds.best_of import BestOf
from pacvote.bounds.binomial import Binomial
from pacvote.bounds.c_bound import CBound
from pacvote.bounds.ccpbb import CCBennett
from pacvote.bounds.ccskl import CCSplit
from pacvote.bounds.cctnd import CCTandem
from pacvote.bounds.choice import Choice, choose
from pacvote.bounds.dis import Disagreement
from pacvote.bounds.first_order import FirstOrder
from pacvote.bounds.folds import BestVoter, Folds
from pacvote.bounds.germain import GermainOne, GermainTwo
from pacvote.bounds.ndraw import NDraw
from pacvote.bounds.registry import BOUNDS, BoundValue, evaluate
from pacvote.bounds.tandem import Tandem
from pacvote.bounds.two_moment import TwoMoment

__all__ = [
    "BOUNDS",
    "BestOf",
    "BestVoter",
    "Binomial",
    "Bound",
    "BoundValue",
    "CBound",
    "CCBennett",
    "CCSplit",
    "CCTandem",
    "Choice",
    "Disagreement",
    "FirstOrder",
    "Folds",
    "GermainOne",
    "GermainTwo",
    "NDraw",
    "Tandem",
    "TwoMoment",
    "Witness",
    "choose",
    "evaluate",
]
