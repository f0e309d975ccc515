"""The paper's tables with our numbers beside the printed ones."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pacvote._files import atomic_write
from pacvote.paper.datasets import DATASETS
from pacvote.paper.printed import Printed, printed
from pacvote.paper.results import OURS, PAPER, SHARP, Mean, Results, Way
from pacvote.paper.units import Experiment

TITLES = {
    "uniform": "Uniform",
    "best": "Best voter",
    "fo": "FO",
    "tnd": "TND",
    "cctnd": "CCTND",
    "ccpbb": "CCPBB",
}
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


Line = tuple[Cell, ...]


@final
@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; groups of lines belong to one data set, named on the first."""

    name: str
    caption: str
    header: tuple[str, ...]
    lines: tuple[Line, ...]

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


_TEX = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "±": r"$\pm$", "µ": r"$\mu$"})


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
    """Return lines for the printed row, and for each way; the first way is the paper's."""
    quantity = "test_loss" if kind == "risk" else "bound"
    lines: list[Line] = []
    for dataset in results.datasets(experiment):
        before = _before(printed(experiment, kind).get(dataset, {}), weightings)
        ours = [
            [
                results.mean(experiment, dataset, way, weighting, quantity)
                for weighting in weightings
            ]
            for way in ways.values()
        ]
        marked = [_marked(weightings, means, underlined) for means in ours]
        rows = list(zip(ways, marked, strict=True))
        if any(before):
            apart = [Cell(_apart(*pair)) for pair in zip(ours[0], before, strict=True)]
            rows.insert(0, ("printed", _marked(weightings, before, underlined)))
            rows.insert(2, ("difference", apart))
        lines += _grouped(dataset, rows)
    header = ("Data set", "", *(TITLES[weighting] for weighting in weightings))
    return Table(name, caption, header, tuple(lines))


def _grouped(dataset: str, rows: Sequence[tuple[str, Sequence[Cell]]]) -> list[Line]:
    """Return the lines of a data set, which the first names."""
    return [
        (Cell("" if place else dataset), Cell(title), *cells)
        for place, (title, cells) in enumerate(rows)
    ]


def _before(row: dict[str, float], weightings: Sequence[str]) -> list[Mean | None]:
    """Return printed means and standard deviations, where there are any."""
    return [(row[f"{w}_mean"], row[f"{w}_std"]) if f"{w}_mean" in row else None for w in weightings]


def _marked(
    weightings: Sequence[str], means: Sequence[Mean | None], underlined: Sequence[str]
) -> list[Cell]:
    """Return cells, the least in bold and the least of some underlined, as printed digits tell."""
    shown = [f"{found[0]:.4f}" if found else "" for found in means]
    least = min(text for text in shown if text)
    best = min(text for w, text in zip(weightings, shown, strict=True) if text and w in underlined)
    return [
        Cell(
            f"{text} ({found[1]:.4f})" if found else "",
            bold=text == least,
            underlined=weighting in underlined and text == best,
        )
        for weighting, text, found in zip(weightings, shown, means, strict=True)
    ]


def _apart(ours: Mean, before: Mean | None) -> str:
    return f"{deviations(ours[0], before):+.1f}" if before else ""


def deviations(mean: float, before: Mean) -> float:
    """Return the difference from a printed mean in printed standard deviations."""
    return (mean - before[0]) / max(before[1], ROUNDING)


def values(results: Results, experiment: Experiment) -> Table:
    """Return Gibbs loss, tandem loss and mu at the optimised weights."""
    caption = (
        f"Gibbs loss (g), tandem loss (t) and µ at optimised weights, {ENSEMBLE[experiment]}: "
        "means, for which the paper prints no deviations. Difference: ours minus printed, in "
        "standard deviations of ours."
    )
    columns = [
        (weighting, quantity)
        for weighting in OPTIMISED
        for quantity in ("gibbs", "tandem", "mu")
        if quantity != "mu" or weighting in ("cctnd", "ccpbb")
    ]
    lines: list[Line] = []
    for dataset in results.datasets(experiment):
        ours, sharp = (
            [results.mean(experiment, dataset, way, *column) for column in columns]
            for way in (PAPER, SHARP)
        )
        rows = [("paper's method", _plain(ours)), ("sharp (sound)", _plain(sharp))]
        row = printed(experiment, "values").get(dataset, {})
        if row:
            before = [
                (row[f"{w}_{q}"], deviation)
                for (w, q), (_, deviation) in zip(columns, ours, strict=True)
            ]
            apart = [Cell(_apart(*pair)) for pair in zip(ours, before, strict=True)]
            rows[:1] = [("printed", _plain(before)), rows[0], ("difference", apart)]
        lines += _grouped(dataset, rows)
    short = {"gibbs": "g", "tandem": "t", "mu": "µ"}
    header = ("Data set", "", *(f"{TITLES[w]} {short[q]}" for w, q in columns))
    return Table(f"{experiment}_values", caption, header, tuple(lines))


def _plain(means: Sequence[Mean]) -> list[Cell]:
    return [Cell(f"{mean:.4f}") for mean, _ in means]


def write_tables(results: Results, out: Path) -> list[Path]:
    """Write all tables that the results allow."""
    tables = [overview()]
    for experiment in results.experiments:
        tables += [form(results, experiment) for form in (test_losses, bounds, values)]
    return [path for table in tables for path in table.write(out)]
