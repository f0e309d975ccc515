"""Who votes: weights, and which voters err together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, final

import numpy as np

from pacvote.bounds.registry import simplex
from pacvote.counts import PairCounts
from pacvote.displays.common import axes, fitted, label

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from pacvote.ensemble import MajorityVoteClassifier

BARS = 40  # voters that a picture names one by one


@final
class WeightsDisplay:
    """The weights of a vote, the heaviest first, beside the prior.

    Parameters
    ----------
    voters : sequence of str
        Their names.
    weights, prior : array-like of shape (n_voters,)
        Two points of the simplex.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Once plotted.
    """

    def __init__(self, voters: Sequence[str], weights: ArrayLike, prior: ArrayLike) -> None:
        rho, pi = (simplex(n, x, len(voters)) for n, x in (("weights", weights), ("prior", prior)))
        self.order = np.argsort(-rho, kind="stable")
        self.voters = tuple(voters[voter] for voter in self.order)
        self.weights, self.prior = rho[self.order], pi[self.order]

    @classmethod
    def from_counts(
        cls, counts: PairCounts, weights: ArrayLike, *, prior: ArrayLike | None = None
    ) -> Self:
        """Show weights of the voters that were counted; the prior is uniform by default."""
        uniform = np.full(counts.n_voters, 1 / counts.n_voters)
        return cls(counts.voters, weights, uniform if prior is None else prior)

    @classmethod
    def from_estimator(cls, estimator: MajorityVoteClassifier) -> Self:
        """Show the weights of a fitted `MajorityVoteClassifier`."""
        certificate, counts = fitted(estimator)
        return cls.from_counts(counts, certificate.weights, prior=certificate.prior)

    @property
    def effective(self) -> float:
        """How many equal weights would be as concentrated: 1 / sum of squares."""
        return float(1 / (self.weights @ self.weights))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a bar for each of a few voters, or the curve of many.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        WeightsDisplay
        """
        n = len(self.voters)
        few = n <= BARS
        self.ax_, self.figure_ = axes(ax, (6.4, 0.9 + 0.22 * n if few else 3.2))
        places = np.arange(n)
        if few:
            self.ax_.barh(places, self.weights)
            self.ax_.plot(self.prior, places, "k|", ms=9, label="prior")
            self.ax_.set_yticks(places, [label(name) for name in self.voters])
            self.ax_.invert_yaxis()
            self.ax_.set(xlabel="weight")
        else:
            self.ax_.fill_between(places + 1, self.weights, step="mid", alpha=0.6)
            self.ax_.plot(places + 1, self.prior, "k--", lw=1, label="prior")
            self.ax_.set(xlabel="voters, the heaviest first", ylabel="weight")
            self.ax_.set(xlim=(1, n), ylim=(0, None))
        title = f"{self.effective:.1f} effective voters"
        self.ax_.legend(title=title, loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
        return self

    def frame(self) -> pl.DataFrame:
        """Return voters, weights and prior as a table, the heaviest first."""
        import polars as pl

        columns = {"voter": self.voters, "weight": self.weights, "prior": self.prior}
        return pl.DataFrame(columns)


@final
class TandemDisplay:
    """How often each two voters err on the same row; voters that do so often stand together.

    Parameters
    ----------
    voters : sequence of str
        Their names.
    tandem : array-like of shape (n_voters, n_voters)
        The share of common rows on which both err; the diagonal is each voter's own error, and
        nan stands where two voters share no row.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Once plotted.
    """

    def __init__(self, voters: Sequence[str], tandem: ArrayLike) -> None:
        matrix = np.asarray(tandem, dtype=np.float64)
        if matrix.shape != (len(voters), len(voters)):
            msg = f"`tandem` must be {len(voters)} x {len(voters)}, but has shape {matrix.shape}"
            raise ValueError(msg)
        self.order = _clustered(matrix)
        self.voters = tuple(voters[voter] for voter in self.order)
        self.tandem = matrix[np.ix_(self.order, self.order)]

    @classmethod
    def from_counts(cls, counts: PairCounts) -> Self:
        """Show the pairs of counts."""
        empty = counts.pair_rows == 0
        rates = counts.pair_errors / np.where(empty, 1, counts.pair_rows)
        return cls(counts.voters, np.where(empty, np.nan, rates))

    @classmethod
    def from_estimator(cls, estimator: MajorityVoteClassifier) -> Self:
        """Show the pairs of voters of a fitted `MajorityVoteClassifier`."""
        return cls.from_counts(fitted(estimator)[1])

    @property
    def highest(self) -> float:
        """The largest value off the diagonal; own errors above it are drawn like it."""
        apart = self.tandem[~np.eye(len(self.voters), dtype=bool)]
        known = apart[~np.isnan(apart)]
        return float(known.max()) if len(known) else float(np.nanmax(self.tandem))

    def blocks(self, most: int) -> NDArray[np.float64]:
        """Return the matrix, neighbours averaged so that it has at most ``most`` lines."""
        n = len(self.voters)
        if n <= most:
            return self.tandem
        starts = np.arange(most) * n // most
        known = ~np.isnan(self.tandem)
        sums = [
            np.add.reduceat(np.add.reduceat(part, starts, axis=0), starts, axis=1)
            for part in (np.where(known, self.tandem, 0.0), known.astype(np.float64))
        ]
        return np.where(sums[1] > 0, sums[0] / np.maximum(sums[1], 1), np.nan)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        TandemDisplay
        """
        self.ax_, self.figure_ = axes(ax, (5.6, 4.8))
        image = self.ax_.imshow(100 * self.tandem, vmin=0, vmax=100 * self.highest or 1.0)
        self.figure_.colorbar(image, ax=self.ax_, label="rows on which both err (%)")
        if len(self.voters) <= BARS:
            names = [label(name, 20) for name in self.voters]
            self.ax_.set_xticks(range(len(names)), names, rotation=90)
            self.ax_.set_yticks(range(len(names)), names)
        else:
            self.ax_.set(xticks=[], yticks=[], xlabel=f"{len(self.voters)} voters, by likeness")
        return self

    def frame(self) -> pl.DataFrame:
        """Return a table of all pairs, each once: two voters and how often both err."""
        import polars as pl

        left, right = np.triu_indices(len(self.voters))
        names = np.array(self.voters, dtype=object)
        columns = {"voter": names[left].tolist(), "other": names[right].tolist()}
        return pl.DataFrame({**columns, "both_err": self.tandem[left, right]})


def _clustered(tandem: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the order of the leaves of a tree: near is who has many errors in common."""
    n = len(tandem)
    if n < 3:
        return np.arange(n)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    both = np.nan_to_num(tandem)
    own = both.diagonal()
    either = own[:, None] + own - both
    apart = 1 - np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    apart = np.clip((apart + apart.T) / 2, 0, 1)  # out of bag `either` may be below `both`
    np.fill_diagonal(apart, 0)
    tree = linkage(squareform(apart, checks=False), "average", optimal_ordering=n <= 150)
    return np.asarray(leaves_list(tree), dtype=np.intp)
