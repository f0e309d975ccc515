"""The paper's figures, drawn anew, as SVG and PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacvote import concentration as on
from pacvote._files import atomic_write
from pacvote.paper.results import PAPER, PUBLISHED, SHARP, Results, Way
from pacvote.paper.tables import ENSEMBLE, SECOND_ORDER, TITLES
from pacvote.paper.units import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

# Okabe and Ito's colours, told apart by colour-blind readers and in grey.
COLOURS = {"tnd": "#0072B2", "cctnd": "#D55E00", "ccpbb": "#009E73"}
MARKERS = {"tnd": "o", "cctnd": "s", "ccpbb": "D"}
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "y",
    "grid.color": "0.9",
    "legend.frameon": False,
    "svg.hashsalt": "pacvote",  # equal figures give equal bytes
    "figure.constrained_layout.use": True,
}
COMPLEXITY = 5 - math.log(0.05)  # KL = 5, delta = 0.05


def oracle_ratio(gibbs: Floats, tandem: Floats) -> Floats:
    """Return Thm. MV at mu* over the tandem bound where g^2 <= t <= g, else nan."""

    def ratio(g: float, t: float) -> float:
        if not g * g <= t <= g:
            return math.nan
        return on.chebyshev_cantelli(t, g, on.chebyshev_cantelli_mu(t, g)) / on.tandem_oracle(t)

    return np.asarray(np.vectorize(ratio, otypes=[np.float64])(gibbs, tandem))


def bennett_ratio(mean: Floats, variance: Floats, n: int) -> Floats:
    """Return PAC-Bayes-Bennett over PAC-Bayes-Bernstein, each at its best gamma, range 1."""

    def ratio(m: float, v: float) -> float:
        gamma = on.bennett_gamma(v, COMPLEXITY, n, 1.0)
        above = on.bennett_upper(m, v, COMPLEXITY, n, gamma, 1.0)
        gamma = min(1.0, math.sqrt(COMPLEXITY / ((math.e - 2) * n * v)))
        return above / on.bernstein_upper(m, v, COMPLEXITY, n, gamma, 1.0)

    return np.asarray(np.vectorize(ratio, otypes=[np.float64])(mean, variance))


def write_oracle(out: Path) -> list[Path]:
    """Draw the comparison of the two second-order oracle bounds."""
    g, t = np.linspace(0.001, 0.499, 250), np.linspace(0.0005, 0.4995, 500)
    gibbs, tandem = np.meshgrid(g, t)
    ratios = oracle_ratio(gibbs, np.clip(tandem, gibbs**2, gibbs))
    with _styled():
        figure = _figure(4.6, 3.8)
        axes = figure.subplots()
        edge = np.linspace(0, 0.5, 200)
        region = axes.fill_between(edge, edge**2, edge, facecolor="none", edgecolor="0.3", lw=0.8)
        _shaded(
            figure, axes, (g, t, ratios), "Chebyshev-Cantelli / Markov", (0.6, 0.75, 0.9), region
        )
        axes.plot(edge, edge / 2, color="black", lw=1.2)
        line = {"arrowstyle": "-"}
        axes.annotate("t = g / 2: µ* = 0, ratio 1", (0.4, 0.2), (0.25, 0.04), arrowprops=line)
        axes.set(xlabel="Gibbs loss g", ylabel="tandem loss t", xlim=(0, 0.5), ylim=(0, 0.5))
        return _save(figure, out / "oracle")


def write_bennett(out: Path) -> list[Path]:
    """Draw the comparison of PAC-Bayes-Bennett with PAC-Bayes-Bernstein."""
    mean, variance = np.linspace(0.0025, 0.5, 120), np.linspace(0.00125, 0.25, 120)
    with _styled():
        figure = _figure(8.4, 3.5)
        for axes, n in zip(figure.subplots(1, 2), (1000, 10000), strict=True):
            values = bennett_ratio(*np.meshgrid(mean, variance), n)
            shown = (mean, variance, values)
            _shaded(figure, axes, shown, "Bennett / Bernstein", (0.9, 0.94, 0.96, 0.98, 0.99))
            axes.set(xlabel="empirical loss", ylabel="variance", title=f"n = {n:,}")
        return _save(figure, out / "bennett_vs_bernstein")


def _shaded(
    figure: Figure,
    axes: Any,
    grid: Sequence[Floats],
    label: str,
    levels: Sequence[float],
    region: Any = None,
) -> None:
    """Draw shades and contours, where there is a region only within it."""
    axes.grid(visible=False)
    shades = axes.pcolormesh(*grid, cmap="viridis", rasterized=True, shading="nearest", vmax=1)
    lines = axes.contour(*grid, levels=levels, colors="white", linewidths=0.6)
    axes.clabel(lines, fontsize=7)
    if region is not None:
        for drawn in (shades, lines):
            drawn.set_clip_path(region.get_paths()[0], axes.transData)
    figure.colorbar(shades, ax=axes, label=label)


def write_ratios(results: Results, experiment: Experiment, out: Path) -> list[Path]:
    """Draw test losses over the uniform vote's, and bounds over the tandem bound."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    paths = []
    with _styled():
        for quantity, label in (
            ("test_loss", "test loss / uniform weights"), ("bound", "bound / TND"),
        ):  # fmt: skip
            figure = _figure(8.4, 3.6)
            axes = figure.subplots()
            _ratios(axes, results, experiment, quantity)
            axes.axhline(1, color="0.3", lw=0.8)
            axes.set(yscale="log", ylabel=label, title=f"{ENSEMBLE[experiment]}".capitalize())
            axes.grid(visible=True)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 4, 6, 8)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            figure.legend(ncols=5, loc="outside upper right")
            paths += _save(figure, out / f"{experiment}_{quantity}_ratio")
    return paths


def _ratios(axes: Any, results: Results, experiment: Experiment, quantity: str) -> None:
    base = ("uniform", PAPER) if quantity == "test_loss" else ("tnd", PAPER)
    names = [
        name
        for name in results.datasets(experiment)
        if results.values(experiment, name, base[1], base[0], quantity).all()
    ]
    series = [(key, PUBLISHED if key == "ccpbb" else PAPER) for key in SECOND_ORDER]
    series = (
        series if quantity == "test_loss" else [*series[1:], *((k, SHARP) for k in SECOND_ORDER)]
    )
    for place, (key, way) in enumerate(series):
        points = [
            np.quantile(
                results.values(experiment, name, way, key, quantity)
                / results.values(experiment, name, base[1], base[0], quantity),
                [0.25, 0.5, 0.75],
            )
            for name in names
        ]
        low, middle, high = np.reshape(points, (-1, 3)).T  # none where no vote erred
        axes.errorbar(
            np.arange(len(names)) + (place - (len(series) - 1) / 2) * 0.15,
            middle,
            [middle - low, high - middle],
            fmt=MARKERS[key],
            color=COLOURS[key],
            markerfacecolor="white" if way == SHARP else COLOURS[key],
            markersize=4,
            capsize=2,
            lw=1,
            label=TITLES[key] + (" sharp" if way == SHARP else ""),
        )
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")


def write_weights(results: Results, experiment: Experiment, out: Path) -> list[Path]:
    """Draw optimised weights for each data set, means over the repetitions."""
    names = results.datasets(experiment)
    ways: Mapping[str, Way] = {"tnd": PAPER, "cctnd": PAPER, "ccpbb": PUBLISHED}
    rows = -(-len(names) // 4)
    with _styled():
        figure = _figure(8.4, 1.7 * rows + 0.4)
        grid = figure.subplots(rows, 4, squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            for place, (key, way) in enumerate(ways.items()):
                found = results.weights(experiment, name, "/".join((*way, key)))
                _weights(axes, found, experiment, key, place)
            axes.set_title(name, fontsize=9)
            axes.set_ylim(bottom=0)
        for axes in grid[len(names) :]:
            axes.remove()
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
        return _save(figure, out / f"{experiment}_weights")


def _weights(axes: Any, found: Floats, experiment: Experiment, key: str, place: int) -> None:
    """Draw bars for voters that have names, sorted curves for trees, which are alike."""
    if experiment == "rf":
        ordered = np.sort(found, axis=1)[:, ::-1].mean(axis=0)
        ranks = np.arange(1, len(ordered) + 1)
        axes.plot(ranks, ordered, color=COLOURS[key], lw=1.2, label=TITLES[key])
        axes.axhline(1 / len(ordered), color="0.3", lw=0.6, ls=":")
    else:
        voters = ("LDA", "3-NN", "5-NN", "5-NN d", "tree", "logistic", "Bayes")
        where = np.arange(found.shape[1]) + (place - 1) * 0.27
        axes.bar(where, found.mean(axis=0), 0.25, color=COLOURS[key], label=TITLES[key])
        axes.set_xticks(range(found.shape[1]), voters, rotation=60, fontsize=6)


def write_figures(results: Results, out: Path) -> list[Path]:
    """Draw all that needs results."""
    return [
        path
        for experiment in results.experiments
        for draw in (write_ratios, write_weights)
        for path in draw(results, experiment, out)
    ]


def _styled() -> Any:
    from matplotlib import rc_context

    return rc_context(STYLE)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _save(figure: Figure, stem: Path) -> list[Path]:
    """Write SVG and PNG without dates, so that equal figures are equal files."""
    paths = []
    for suffix, stamp in (("svg", "Date"), ("png", "Software")):
        image = io.BytesIO()
        figure.savefig(image, format=suffix, dpi=150, metadata={stamp: None})
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
        atomic_write(paths[-1], image.getvalue())
    return paths
