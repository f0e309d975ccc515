"""The bounds, one file each; `base` says what a bound is, `registry` finds it by its key."""

from pacvote.bounds.base import Bound, Witness
from pacvote.bounds.c_bound import CBound
from pacvote.bounds.ccpbb import CCBennett
from pacvote.bounds.cctnd import CCTandem
from pacvote.bounds.first_order import FirstOrder
from pacvote.bounds.registry import BOUNDS, BoundValue, evaluate
from pacvote.bounds.tandem import Tandem

__all__ = [
    "BOUNDS",
    "Bound",
    "BoundValue",
    "CBound",
    "CCBennett",
    "CCTandem",
    "FirstOrder",
    "Tandem",
    "Witness",
    "evaluate",
]
