"""The paper's tables with our numbers beside the printed ones."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from pacvote._files import atomic_write
from pacvote.paper.datasets import DATASETS
from pacvote.paper.printed import Printed, printed
from pacvote.paper.results import OURS, PAPER, PUBLISHED, SHARP, Results, Way
from pacvote.paper.units import Experiment

TITLES = {"uniform": "Uniform", "best": "Best voter", "fo": "FO", "tnd": "TND", "cctnd": "CCTND", "ccpbb": "CCPBB"}  # fmt: skip
OPTIMISED = ("fo", "tnd", "cctnd", "ccpbb")
SECOND_ORDER = OPTIMISED[1:]
ENSEMBLE = {"rf": "random forest", "mce": "seven different classifiers"}
# Half of the last digit that is printed: a printed deviation of 0.0000 is not zero.
ROUNDING = 0.00005


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place: a text, and how to set it off."""

    text: str
    bold: bool = False
    underlined: bool = False


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; groups of lines belong to one data set, named on the first."""

    name: str
    caption: str
    header: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]

    def write(self, out: Path) -> list[Path]:
        """Write Markdown, LaTeX, CSV and HTML."""
        forms: dict[str, Callable[[], str]] = {
            "md": self.markdown, "tex": self.latex, "csv": self.csv, "html": self.html
        }  # fmt: skip
        paths = []
        for suffix, form in forms.items():
            paths.append(out / f"{self.name}.{suffix}")
            atomic_write(paths[-1], form().encode())
        return paths

    def markdown(self) -> str:
        """Return a pipe table under its caption."""

        def said(cell: Cell) -> str:
            text = f"<u>{cell.text}</u>" if cell.underlined else cell.text
            return f"**{text}**" if cell.bold else text

        rules = ["---", "---", *["--:"] * (len(self.header) - 2)]
        rows = [self.header, rules, *([said(cell) for cell in line] for line in self.lines)]
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{self.caption}\n\n{body}\n"

    def latex(self) -> str:
        """Return a tabular for booktabs."""

        def said(cell: Cell) -> str:
            text = cell.text.translate(_TEX)
            text = rf"\underline{{{text}}}" if cell.underlined else text
            return rf"\textbf{{{text}}}" if cell.bold else text

        rows = [" & ".join(name.translate(_TEX) for name in self.header) + r" \\ \midrule"]
        for place, line in enumerate(self.lines):
            rule = r"\midrule " if place and line[0].text else ""
            rows.append(rule + " & ".join(map(said, line)) + r" \\")
        columns = "ll" + "r" * (len(self.header) - 2)
        body = "\n".join(rows)
        return (
            f"% {self.caption}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{body}\n"
            "\\bottomrule\n\\end{tabular}\n"
        )

    def csv(self) -> str:
        """Return the texts alone, the data set on each line."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(self.header)
        dataset = ""
        for line in self.lines:
            dataset = line[0].text or dataset
            lines.writerow([dataset, *(cell.text for cell in line[1:])])
        return text.getvalue()

    def html(self) -> str:
        """Return a table element."""

        def said(cell: Cell) -> str:
            text = html.escape(cell.text)
            text = f"<u>{text}</u>" if cell.underlined else text
            return f"<td><strong>{text}</strong></td>" if cell.bold else f"<td>{text}</td>"

        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.header)
        rows = "\n".join(f"<tr>{''.join(map(said, line))}</tr>" for line in self.lines)
        return (
            f"<table>\n<caption>{html.escape(self.caption)}</caption>\n<thead><tr>{head}</tr>"
            f"</thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n"
        )


_TEX = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "±": r"$\pm$", "−": "$-$", "µ": r"$\mu$"})


def overview() -> Table:
    """Return the table of data sets."""
    header = ("Data set", "Source", "N", "d", "Classes", "Smallest", "Largest")
    lines = tuple(
        tuple(
            Cell(text)
            for text in (
                spec.name,
                ", ".join(spec.texts) or (f"OpenML {spec.openml}" if spec.openml else "UCI"),
                str(spec.n_samples),
                str(spec.n_features),
                str(spec.n_classes),
                f"{spec.smallest:.4f}",
                f"{spec.largest:.4f}",
            )
        )
        for spec in DATASETS.values()
    )
    caption = "The data sets: rows, features, classes, and the shares of the smallest and largest."
    return Table("datasets", caption, header, lines)


def test_losses(results: Results, experiment: Experiment) -> Table:
    """Return test losses by weighting."""
    caption = (
        f"Test loss, {ENSEMBLE[experiment]}: mean (standard deviation). Bold: the least; "
        "underlined: the least of optimised weights. CCPBB of the paper's method is the form that "
        "was published. Difference: ours minus printed, in printed standard deviations."
    )
    weightings = ["uniform", "best", *OPTIMISED] if experiment == "mce" else ["uniform", *OPTIMISED]
    ways = {"paper's method": PAPER, "sharp (sound)": SHARP}
    return _table(
        results, experiment, "risk", f"{experiment}_test_loss", caption, weightings, ways, OPTIMISED
    )


def bounds(results: Results, experiment: Experiment) -> Table:
    """Return bounds by weighting."""
    caption = (
        f"Bounds at delta = 0.05, {ENSEMBLE[experiment]}: mean (standard deviation). Bold: the "
        "least; underlined: the least of second order. CCPBB of the paper's method is the form "
        "that was published, of our minimiser the theorem's. Difference: the paper's method minus "
        "printed, in printed standard deviations."
    )
    ways = {"paper's method": PAPER, "paper's, our minimiser": OURS, "sharp (sound)": SHARP}
    return _table(
        results, experiment, "bound", f"{experiment}_bound", caption, OPTIMISED, ways, SECOND_ORDER
    )


def _table(
    results: Results,
    experiment: Experiment,
    kind: Printed,
    name: str,
    caption: str,
    weightings: Sequence[str],
    ways: dict[str, Way],
    underlined: Sequence[str],
) -> Table:
    quantity = "test_loss" if kind == "risk" else "bound"
    lines: list[tuple[Cell, ...]] = []
    for dataset in results.datasets(experiment):
        before = printed(experiment, kind).get(dataset, {})
        rows: list[tuple[str, list[Cell]]] = []
        ours: dict[str, float] = {}
        if before:
            pairs = [(before.get(f"{w}_mean"), before.get(f"{w}_std")) for w in weightings]
            rows.append(("printed", _marked(weightings, pairs, underlined)))
        for title, way in ways.items():
            pairs = [_mean(results, experiment, dataset, way, w, quantity) for w in weightings]
            rows.append((title, _marked(weightings, pairs, underlined)))
            if way == PAPER:
                ours = {w: mean for w, (mean, _) in zip(weightings, pairs, strict=True)}
        if before:
            rows.insert(2, ("difference", [Cell(_apart(ours[w], before, w)) for w in weightings]))
        for place, (title, cells) in enumerate(rows):
            lines.append((Cell("" if place else dataset), Cell(title), *cells))
    header = ("Data set", "", *(TITLES[weighting] for weighting in weightings))
    return Table(name, caption, header, tuple(lines))


def _mean(
    results: Results, experiment: Experiment, dataset: str, way: Way, weighting: str, quantity: str
) -> tuple[float, float]:
    """Return mean and standard deviation over repetitions."""
    if weighting in ("uniform", "best"):
        way = PAPER
    elif weighting == "ccpbb" and way == PAPER:
        way = PUBLISHED
    values = results.values(experiment, dataset, way, weighting, quantity)
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _marked(
    weightings: Sequence[str],
    pairs: Sequence[tuple[float | None, float | None]],
    underlined: Sequence[str],
) -> list[Cell]:
    """Return cells, the least in bold and the least of some underlined, as printed digits tell."""
    shown = [f"{mean:.4f}" if mean is not None else "" for mean, _ in pairs]
    least = min(text for text in shown if text)
    among = [text for w, text in zip(weightings, shown, strict=True) if text and w in underlined]
    return [
        Cell(
            f"{text} ({deviation:.4f})" if text else "",
            bold=text == least,
            underlined=weighting in underlined and text == min(among),
        )
        for weighting, text, (_, deviation) in zip(weightings, shown, pairs, strict=True)
    ]


def _apart(mean: float, before: dict[str, float], weighting: str) -> str:
    """Return how far a mean is from the printed one, in printed standard deviations."""
    if f"{weighting}_mean" not in before:
        return ""
    return f"{deviations(mean, before, weighting):+.1f}".replace("-", "−")


def deviations(mean: float, before: dict[str, float], weighting: str) -> float:
    """Return the difference from the printed mean in printed standard deviations."""
    return (mean - before[f"{weighting}_mean"]) / max(before[f"{weighting}_std"], ROUNDING)


def values(results: Results, experiment: Experiment) -> Table:
    """Return Gibbs loss, tandem loss and mu at the optimised weights."""
    caption = (
        f"Gibbs loss (g), tandem loss (t) and µ at optimised weights, {ENSEMBLE[experiment]}: "
        "means, for which the paper prints no deviations. Difference: ours minus printed, in "
        "standard deviations of ours."
    )
    columns = [(w, q) for w in OPTIMISED for q in ("gibbs", "tandem")]
    columns += [("cctnd", "mu"), ("ccpbb", "mu")]
    columns.sort(key=lambda column: OPTIMISED.index(column[0]))
    lines: list[tuple[Cell, ...]] = []
    for dataset in results.datasets(experiment):
        before = printed(experiment, "values").get(dataset, {})
        ours = [_mean(results, experiment, dataset, PAPER, w, q) for w, q in columns]
        sharp = [_mean(results, experiment, dataset, SHARP, w, q) for w, q in columns]
        rows = [("paper's method", [f"{mean:.4f}" for mean, _ in ours])]
        if before:
            table = [before[f"{w}_{q}"] for w, q in columns]
            rows.insert(0, ("printed", [f"{mean:.4f}" for mean in table]))
            apart = [(m - b) / max(sd, ROUNDING) for (m, sd), b in zip(ours, table, strict=True)]
            rows.append(("difference", [f"{number:+.1f}" for number in apart]))
        rows.append(("sharp (sound)", [f"{mean:.4f}" for mean, _ in sharp]))
        for place, (title, texts) in enumerate(rows):
            cells = (Cell(text.replace("-", "−")) for text in texts)
            lines.append((Cell("" if place else dataset), Cell(title), *cells))
    short = {"gibbs": "g", "tandem": "t", "mu": "µ"}
    header = ("Data set", "", *(f"{TITLES[w]} {short[q]}" for w, q in columns))
    return Table(f"{experiment}_values", caption, header, tuple(lines))


def write_tables(results: Results, out: Path) -> list[Path]:
    """Write all tables that the results allow."""
    tables = [overview()]
    for experiment in sorted({unit.experiment for unit in results.weighed}):
        tables += [form(results, experiment) for form in (test_losses, bounds, values)]
    return [path for table in tables for path in table.write(out)]
