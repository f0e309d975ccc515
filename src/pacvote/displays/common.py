"""What the displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pacvote._text import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pacvote.certificate import Certificate
    from pacvote.counts import PairCounts
    from pacvote.ensemble import MajorityVoteClassifier


def axes(ax: Axes | None, size: tuple[float, float]) -> tuple[Axes, Figure]:
    """Return the axes to draw on, new ones where none are given, and their figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax, ax.get_figure(root=True)  # type: ignore[return-value]


def label(name: str, most: int = 40) -> str:
    """Return a name as the pictures show it."""
    cut = name if len(name) <= most else f"{name[: most - 1]}…"
    return shown(cut).replace("$", r"\$")  # no formula


def fitted(estimator: MajorityVoteClassifier) -> tuple[Certificate, PairCounts]:
    """Return what a fitted estimator certifies, and from what."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator, ["certificate_", "counts_"])
    return estimator.certificate_, estimator.counts_
