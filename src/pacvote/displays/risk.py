"""Risk on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self, final

import numpy as np

from pacvote.bounds import BOUNDS
from pacvote.bounds.folds import least_limit
from pacvote.bounds.registry import evaluate, exact_delta, simplex
from pacvote.certificate import percent_up
from pacvote.concentration import binomial_upper
from pacvote.counts import PairCounts, count
from pacvote.displays.common import axes, fitted, label
from pacvote.minimize import minimize
from pacvote.votes import Votes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from pacvote.bounds.evidence import Floats
    from pacvote.certificate import Certificate
    from pacvote.ensemble import MajorityVoteClassifier


Kind = Literal["certificate", "bound", "voter", "drawn", "held out"]


@final
@dataclass(frozen=True, slots=True)
class Line:
    """One line of the scale: what was measured, and what holds with confidence, if anything."""

    name: str
    kind: Kind
    measured: float | None
    limit: float | None


def held_out_line(n_rows: int, n_errors: int, delta: Fraction) -> Line:
    """Return what rows that played no part in the vote prove of it: an exact limit."""
    if not 0 <= n_errors <= n_rows or not n_rows:
        msg = f"`held_out` must be (rows, errors), with 0 <= errors <= rows, got {n_rows, n_errors}"
        raise ValueError(msg)
    limit = binomial_upper(n_rows, n_errors, delta)
    return Line(f"{n_rows:,} rows held out", "held out", n_errors / n_rows, limit)


def _single_lines(counts: PairCounts, weights: Floats, delta: Fraction) -> list[Line]:
    rates = counts.errors / counts.rows.clip(1)
    best, limit = least_limit(counts, None, delta)
    return [
        Line(f"best voter: {counts.voters[best]}", "voter", float(rates[best]), limit),
        Line("a voter drawn by weight", "drawn", float(rates @ weights), None),
    ]


@final
class BoundsDisplay:
    """Limits on the risk of a vote, and measured errors, on one scale.

    Parameters
    ----------
    lines : sequence of Line
        From the top: ``name``, ``kind``, ``measured`` and ``limit``, either of them None.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Once plotted.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = tuple(lines)

    @classmethod
    def from_counts(
        cls,
        evidence: Votes | PairCounts,
        weights: ArrayLike | None = None,
        *,
        bounds: Sequence[str] | None = None,
        delta: float | Fraction = 0.05,
        prior: ArrayLike | None = None,
        held_out: tuple[int, int] | None = None,
    ) -> Self:
        """Evaluate bounds on the evidence.

        Parameters
        ----------
        evidence : Votes or PairCounts
            The validation rows.
        weights : array-like of shape (n_voters,), default=None
            The vote. By default each bound at the weights that minimise it.
        bounds : sequence of str, default=None
            Keys of ``BOUNDS``; by default all that this evidence bears.
        delta : float or Fraction, default=0.05
            Of each limit by itself.
        prior : array-like of shape (n_voters,), default=None
            Uniform by default.
        held_out : (int, int), default=None
            Rows that played no part in the vote, and how many of them it got wrong.

        Returns
        -------
        BoundsDisplay
        """
        counts = evidence if isinstance(evidence, PairCounts) else count(evidence)
        share = exact_delta(delta)
        aside = [] if held_out is None else [held_out_line(*held_out, share)]
        lines = []
        for key in BOUNDS if bounds is None else bounds:
            if weights is not None and bounds is None and BOUNDS[key].for_fixed_weights:
                continue  # these weights may come from these rows
            try:
                if weights is None:
                    value = minimize(key, evidence, delta=share, prior=prior).value
                else:
                    value = evaluate(key, evidence, weights, delta=share, prior=prior).value
            except (ValueError, TypeError):
                if bounds is not None:  # asked for by name
                    raise
                continue
            lines.append(Line(key, "bound", None, value))
        uniform = np.full(counts.n_voters, 1 / counts.n_voters)
        rho = uniform if weights is None else simplex("weights", weights, counts.n_voters)
        lines += _single_lines(counts, rho, share)[: 1 if weights is None else 2]
        return cls(lines + aside)

    @classmethod
    def from_certificate(
        cls,
        certificate: Certificate,
        evidence: Votes | PairCounts,
        *,
        held_out: tuple[int, int] | None = None,
    ) -> Self:
        """Set a certificate beside the other bounds at its weights; see `from_counts`."""
        own = Line(certificate.bound, "certificate", None, certificate.risk)
        others = cls.from_counts(
            evidence,
            certificate.weights,
            delta=certificate.delta,
            prior=certificate.prior,
            held_out=held_out,
        )
        return cls([own, *(line for line in others.lines if line.name != certificate.bound)])

    @classmethod
    def from_estimator(
        cls, estimator: MajorityVoteClassifier, *, held_out: tuple[int, int] | None = None
    ) -> Self:
        """Show what a fitted `MajorityVoteClassifier` certifies; see `from_counts`."""
        return cls.from_certificate(*fitted(estimator), held_out=held_out)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the lines: a dot for what was measured, a bar at the limit.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        BoundsDisplay
        """
        self.ax_, self.figure_ = axes(ax, (6.4, 1.1 + 0.32 * len(self.lines)))
        for row, line in enumerate(self.lines):
            colour = "C3" if line.kind == "certificate" else "C0"
            if line.limit is not None:
                self.ax_.plot([line.measured or 0, line.limit], [row, row], color=colour, lw=1)
                self.ax_.plot(line.limit, row, "|", color=colour, ms=12, mew=2.5)
                self.ax_.annotate(
                    percent_up(Fraction(line.limit)),
                    (line.limit, row),
                    (6, 0),
                    textcoords="offset points",
                    va="center",
                )
            if line.measured is not None:
                self.ax_.plot(line.measured, row, "o", color="C2", ms=5)
        self._finish()
        return self

    def _finish(self) -> None:
        ends = [x for line in self.lines for x in (line.measured, line.limit) if x is not None]
        self.ax_.set_yticks(range(len(self.lines)), [label(line.name) for line in self.lines])
        self.ax_.invert_yaxis()
        self.ax_.set(xlim=(0, 1.2 * max(ends, default=0.0) or 1.0), xlabel="risk (%)")
        self.ax_.xaxis.set_major_formatter(lambda x, _: f"{100 * x:g}")
        self.ax_.plot([], [], "o", color="C2", ms=5, label="measured")
        self.ax_.plot([], [], "|", color="C0", ms=12, mew=2.5, label="holds with confidence")
        self.ax_.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)

    def frame(self) -> pl.DataFrame:
        """Return the lines as a table."""
        import polars as pl

        return pl.DataFrame(
            [(line.name, line.kind, line.measured, line.limit) for line in self.lines],
            schema={
                "name": pl.String,
                "kind": pl.String,
                "measured": pl.Float64,
                "limit": pl.Float64,
            },
            orient="row",
        )
