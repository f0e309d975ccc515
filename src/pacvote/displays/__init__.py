"""Pictures of a vote: its risk on one scale, its weights, which voters err together.

Each has ``from_counts`` and ``from_estimator``, draws with ``plot``, and gives its numbers as a
table with ``frame``. Drawing needs matplotlib and ``frame`` polars: ``pip install 'pacvote[app]'``.
"""

from pacvote.displays.abstention import AbstentionDisplay
from pacvote.displays.risk import BoundsDisplay, Line
from pacvote.displays.voters import BARS, TandemDisplay, WeightsDisplay

__all__ = [
    "BARS",
    "AbstentionDisplay",
    "BoundsDisplay",
    "Line",
    "TandemDisplay",
    "WeightsDisplay",
]
