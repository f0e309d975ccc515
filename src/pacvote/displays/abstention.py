"""What abstaining gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from pacvote._ballot import Ballot
from pacvote.displays.common import axes, fitted
from pacvote.votes import Votes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from pacvote.abstention import AbstentionCertificate
    from pacvote.ensemble import MajorityVoteClassifier


@final
class AbstentionDisplay:
    """What a vote gains by abstaining where it is divided: measured, not certified.

    Parameters
    ----------
    margins : array-like of shape (n_samples,)
        By how much the first class leads the second, as a share of the weight.
    erred : bool array-like of shape (n_samples,)
        Where the vote is wrong; ties too.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Once plotted.

    Notes
    -----
    A threshold chosen by this picture is chosen by its rows: certify it on others, with
    `certify_abstention`.
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
        ballot = Ballot.of(Votes.from_predictions(predictions, y), weights)
        return cls(ballot.margins, ballot.erred)

    @classmethod
    def from_estimator(cls, estimator: MajorityVoteClassifier, X: Any, y: ArrayLike) -> Self:
        """Show a fitted `MajorityVoteClassifier` on rows that it was not fitted on."""
        fitted(estimator)
        return cls.from_predictions(estimator.votes(X), y, estimator.weights_)

    def plot(
        self, ax: Axes | None = None, *, certificate: AbstentionCertificate | None = None
    ) -> Self:
        """Draw the error among answered rows against their share.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; by default a new figure.
        certificate : AbstentionCertificate, default=None
            What to mark: its target, and how many rows are answered at least, on its own rows.

        Returns
        -------
        AbstentionDisplay
        """
        self.ax_, self.figure_ = axes(ax, (5.6, 3.6))
        self.ax_.step(100 * self.coverage, 100 * self.risk, where="post", label="measured here")
        if certificate is not None:
            target, chosen = 100 * float(certificate.target), certificate.chosen
            self.ax_.axhline(target, color="C3", ls="--", label=f"target {target:g} %")
            if chosen is not None:
                at = [100 * chosen.coverage], [target]
                name = f"certified, margin {chosen.threshold:g} or more"
                self.ax_.plot(*at, "o", color="C3", label=name)
            self.ax_.legend()
        self.ax_.set(xlabel="rows answered (%)", ylabel="errors among them (%)", ylim=(0, None))
        return self

    def frame(self) -> pl.DataFrame:
        """Return margin, coverage and error as a table, the strictest threshold first."""
        import polars as pl

        names = ("thresholds", "coverage", "risk")
        return pl.DataFrame({name.removesuffix("s"): getattr(self, name) for name in names})
