"""What abstaining gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from pacvote.bounds.registry import simplex
from pacvote.displays.common import axes, fitted

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from pacvote.ensemble import MajorityVoteClassifier


@final
class AbstentionDisplay:
    """What a vote gains by abstaining where it is divided: measured, not certified.

    Parameters
    ----------
    margins : array-like of shape (n_samples,)
        By how much the first class leads the second, as a share of the weight.
    erred : bool array-like of shape (n_samples,)
        Where the vote is wrong.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Once plotted.

    Notes
    -----
    A threshold chosen by this picture is chosen by its rows: certify it on others.
    """

    def __init__(self, margins: ArrayLike, erred: ArrayLike) -> None:
        margin, wrong = np.asarray(margins, dtype=np.float64), np.asarray(erred, dtype=np.bool_)
        if margin.ndim != 1 or margin.shape != wrong.shape or not len(margin):
            msg = f"`erred` must have one entry for each margin, got {wrong.shape}, {margin.shape}"
            raise ValueError(msg)
        order = np.argsort(-margin, kind="stable")
        last = np.append(np.diff(margin[order]) != 0, True)  # of those with the same margin
        answered = np.arange(1, len(margin) + 1)[last]
        self.thresholds = margin[order][last]
        self.coverage = answered / len(margin)
        self.risk = np.cumsum(wrong[order])[last] / answered

    @classmethod
    def from_predictions(
        cls, predictions: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Self:
        """Take what each voter says on labelled rows.

        Parameters
        ----------
        predictions : array-like of shape (n_samples, n_voters)
            Labels.
        y : array-like of shape (n_samples,)
            True labels.
        weights : array-like of shape (n_voters,), default=None
            Equal by default.

        Returns
        -------
        AbstentionDisplay
        """
        said, truth = np.asarray(predictions), np.asarray(y)
        if said.ndim != 2 or len(said) != len(truth):
            msg = f"`predictions` must have a row for each label, got {said.shape}, {truth.shape}"
            raise ValueError(msg)
        n = said.shape[1]
        rho = np.full(n, 1 / n) if weights is None else simplex("weights", weights, n)
        classes = np.unique(said)
        mass = np.stack([(said == label) @ rho for label in classes], axis=1)
        ranked = np.sort(np.pad(mass, ((0, 0), (1, 0))), axis=1)
        return cls(ranked[:, -1] - ranked[:, -2], classes[mass.argmax(axis=1)] != truth)

    @classmethod
    def from_estimator(cls, estimator: MajorityVoteClassifier, X: Any, y: ArrayLike) -> Self:
        """Show a fitted `MajorityVoteClassifier` on rows that it was not fitted on."""
        fitted(estimator)
        return cls.from_predictions(estimator.votes(X), y, estimator.weights_)

    def plot(self, ax: Axes | None = None, *, target: float | None = None) -> Self:
        """Draw the error among answered rows against their share.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; by default a new figure.
        target : float, default=None
            A risk to mark.

        Returns
        -------
        AbstentionDisplay
        """
        self.ax_, self.figure_ = axes(ax, (5.6, 3.6))
        self.ax_.step(100 * self.coverage, 100 * self.risk, where="post")
        if target is not None:
            self.ax_.axhline(100 * target, color="C3", ls="--", label=f"target {100 * target:g} %")
            self.ax_.legend()
        self.ax_.set(xlabel="rows answered (%)", ylabel="errors among them (%)", ylim=(0, None))
        return self

    def frame(self) -> pl.DataFrame:
        """Return margin, coverage and error as a table, the strictest threshold first."""
        import polars as pl

        names = ("thresholds", "coverage", "risk")
        return pl.DataFrame({name.removesuffix("s"): getattr(self, name) for name in names})
