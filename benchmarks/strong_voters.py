"""What a few strong voters prove, beside trees out of bag and a fifth held out: `make strong`.

Each data set of the paper is split as `pacvote reproduce` splits it, and each way to use its 80 %
of training rows is measured on its own: a file in --out, so that a run that was stopped goes on.
All certificates are at delta = 0.05 and of equal weights, but for the trees, whose weights
minimise the bound. A data set that is not in --data-dir is left out.

A way is `forest`, `fifth`, or `folds` or `halves` with a number of voters and of trees in each,
such as folds-3-100; `boosting` in the place of trees stands for a histogram-boosted model.
Letter/250 is the data set with 250 of its training rows.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

from pacvote import MajorityVoteClassifier, certify, count, evaluate, reweight, votes_of
from pacvote.paper.datasets import DATASETS, MissingDataError, Spec, load, split
from pacvote.paper.units import Unit

Bounds = dict[str, float]
Found = dict[str, Any]
Results = dict[tuple[str, str], Found]  # by data set and way


class Rows:
    """Rows to train on and to test on."""

    def __init__(self, name: str, folder: Path | None, seed: int) -> None:
        name, _, size = name.partition("/")
        X, y = _loaded(DATASETS[name], folder)
        train, test = split(y, Unit("rf", name, seed).random("split"))
        train = train[: int(size or len(train))]
        self.X, self.y, self.X_test, self.y_test = X[train], y[train], X[test], y[test]
        self.seed = seed

    def error(self, classifier: ClassifierMixin) -> float:
        return float(np.mean(classifier.predict(self.X_test) != self.y_test))


@lru_cache(maxsize=1)
def _loaded(spec: Spec, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(spec, folder)
    return X.astype(np.float32), y


# ---------------------------------------------------------------- ways to use the rows


def learner(kind: str, seed: int) -> ClassifierMixin:
    if kind == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    return RandomForestClassifier(int(kind), random_state=seed)


def forest(rows: Rows) -> tuple[Bounds, float]:
    """The paper's forest, with the error of its own vote."""
    fitted = learner("100", rows.seed).fit(rows.X, rows.y)
    found = reweight(fitted, rows.X, rows.y, bound="tnd")
    return {"tnd": found.certificate_.risk}, rows.error(fitted)


def whole(rows: Rows, kind: str) -> tuple[Bounds, float]:
    return {}, rows.error(learner(kind, rows.seed).fit(rows.X, rows.y))


def fifth(rows: Rows, kind: str) -> tuple[Bounds, float]:
    """A model of four fifths of the rows; the last is drawn without a look at labels."""
    X, X_new, y, y_new = train_test_split(rows.X, rows.y, test_size=0.2, random_state=rows.seed)
    model = learner(kind, rows.seed).fit(X, y)
    votes = votes_of([model], X_new, y_new)
    return {"binomial": certify(votes, bound="binomial").risk}, rows.error(model)


def folds(rows: Rows, n_voters: str, kind: str) -> tuple[Bounds, float]:
    return voters(rows, "folds", int(n_voters), kind, ("fo", "folds"))


def halves(rows: Rows, n_voters: str, kind: str) -> tuple[Bounds, float]:
    keys = ("fo", "folds", "two_moment", "tnd", "cctnd", "dis")
    return voters(rows, "subsample", int(n_voters), kind, keys)


def voters(
    rows: Rows, validation: str, n_voters: int, kind: str, keys: Iterable[str]
) -> tuple[Bounds, float]:
    """Bounds at equal weights; with "+", the test rows serve as rows without labels."""
    vote = MajorityVoteClassifier(
        learner(kind, rows.seed),
        n_estimators=n_voters,
        validation=validation,
        bound="folds",
        random_state=rows.seed,
    ).fit(rows.X, rows.y)
    counts, weights = vote.counts_, vote.weights_
    more = count(vote.votes_, unlabelled=vote.votes(rows.X_test))
    values = {key: evaluate(key, counts, weights).value for key in keys}
    values |= {f"{key}+": evaluate(key, more, weights).value for key in ("folds", "two_moment")}
    return values, rows.error(vote)


WAYS: dict[str, Callable[..., tuple[Bounds, float]]] = {
    way.__name__: way for way in (forest, whole, fifth, folds, halves)
}


def measured(path: Path, way: str, rows: Callable[[], Rows]) -> Found:
    """What the file says, or else what is measured now and written to it."""
    if not path.is_file():
        here, clock = rows(), time.perf_counter()
        kind, *settings = way.split("-")
        values, error = WAYS[kind](here, *settings)
        seconds = round(time.perf_counter() - clock, 1)
        fresh = {"rows": len(here.y), "bounds": values, "error": error, "seconds": seconds}
        path.with_suffix(".part").write_text(json.dumps(fresh) + "\n", encoding="utf-8")
        path.with_suffix(".part").replace(path)
    return json.loads(path.read_text(encoding="utf-8"))


def of_splits(name: str, way: str, n_splits: int, folder: Path | None, out: Path) -> Found:
    """Means over several splits."""
    name_of_all, *size = name.split("/")
    stem = "-".join([DATASETS[name_of_all].stem, *size])
    parts = [
        measured(out / f"{stem}-{seed}-{way}.json", way, partial(Rows, name, folder, seed))
        for seed in range(n_splits)
    ]
    bounds = {key: mean(part["bounds"][key] for part in parts) for key in parts[0]["bounds"]}
    return parts[0] | {"bounds": bounds, "error": mean(part["error"] for part in parts)}


# ---------------------------------------------------------------- tables of them


def row(*cells: object) -> str:
    texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
    return "| " + " | ".join(texts) + " |"


def times(a: float, b: float) -> str:
    return f"{a / b:.2f}" if b else "1.00" if a == b else "-"


def names_of(results: Results) -> list[str]:
    return list(dict.fromkeys(name for name, _ in results))


def against(results: Results, voters: str, held_out: str, alone: str) -> Iterator[str]:
    """Three certificates, those of voters as shares of the others; error of one model, of three."""
    for name in names_of(results):
        ways = ("forest", voters, held_out, alone)
        trees, three, spared, one = (results[name, way] for way in ways)
        a, b = trees["bounds"]["tnd"], three["bounds"]["folds"]
        c, errors = spared["bounds"]["binomial"], (one["error"], three["error"])
        yield row(name, f"{trees['rows']:,}", a, b, times(b, a), c, times(b, c), *errors,
                  times(*errors[::-1]))  # fmt: skip


def choices(results: Results) -> Iterator[str]:
    """The default's certificate and error, and those of others as shares of it."""
    chosen = {title: way for title, way in CHOICES.items() if any(way[0] == w for _, w in results)}
    yield row("data set", "rows", "3 by folds", *chosen)
    for name in names_of(results):
        three = results[name, DEFAULT]
        bounds = (results[name, way]["bounds"][key] for way, key in chosen.values())
        errors = (results[name, way]["error"] for way, _ in chosen.values())
        least, error = three["bounds"]["folds"], three["error"]
        yield row(name, f"{three['rows']:,}", least, *(times(b, least) for b in bounds))
        yield row("errs", "", error, *(times(e, error) for e in errors))


# ---------------------------------------------------------------- what is compared

DEFAULT = "folds-3-100"
CHOICES = {
    "5": ("folds-5-100", "folds"),
    "9": ("folds-9-100", "folds"),
    "33 trees each": ("folds-3-33", "folds"),
    "halves, folds": ("halves-3-100", "folds"),
    "halves, two_moment": ("halves-3-100", "two_moment"),
    "halves, cctnd": ("halves-3-100", "cctnd"),
    "rows without labels": (DEFAULT, "folds+"),
}
EVERY = [name for name in DATASETS if name != "SVMGuide1-3089"]  # a part of SVMGuide1
LARGEST = ["Adult", "Cod-RNA", "Connect-4", "Shuttle", "w1a", "MNIST", "Fashion"]  # split once
SMALLER = [name for name in EVERY if name not in LARGEST]
FEW_ROWS = [f"{name}/{size}" for name in ("Letter", "Adult") for size in (250, 1000, 4000)]
SHORT = [DEFAULT, "halves-3-100", "folds-3-33", "folds-5-100"]
LONG = [*SHORT, "folds-9-100"]


@dataclass(frozen=True)
class Study:
    """Ways to compare on data sets, over so many splits of each, and how to show it."""

    names: list[str]
    ways: list[str]
    n_splits: int
    table: Callable[[Results], Iterator[str]]

    def found(self, folder: Path | None, out: Path) -> Iterator[tuple[str, str, Found]]:
        for name in self.names:
            n_splits = 1 if name in LARGEST else self.n_splits
            try:
                for way in self.ways:
                    yield name, way, of_splits(name, way, n_splits, folder, out)
            except MissingDataError as error:
                print(error)


def of_kind(names: list[str], kind: str, one: str) -> Study:
    ways = DEFAULT.replace("100", kind), f"fifth-{kind}", one
    table = partial(against, voters=ways[0], held_out=ways[1], alone=ways[2])
    return Study(names, list(dict.fromkeys(["forest", *ways])), 5, table)


STUDIES = [
    of_kind(SMALLER + LARGEST, "100", "forest"),
    of_kind(["Phishing", "Pendigits", "Adult"], "boosting", "whole-boosting"),
    Study(SMALLER + FEW_ROWS, LONG, 1, choices),
    Study(LARGEST[:5], SHORT, 1, choices),
]


def rows() -> list[tuple[str, float, str]]:
    """For `make bench`: the data set that is in the package."""
    here = Rows("Pendigits", None, 0)
    trees, spared, three = forest(here)[0], fifth(here, "100")[0], folds(here, "3", "100")[0]
    remark = f"bound {three['folds']:.4f}"
    return [
        ("Pendigits, 3 forests, of tnd", three["folds"] / trees["tnd"], remark),
        ("Pendigits, 3 forests, of hold-out", three["folds"] / spared["binomial"], remark),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PACVOTE_DATA"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for study in STUDIES:
        results = {}
        for name, way, found in study.found(given.data_dir, given.out):
            print(f"{name} {way}: {found}", flush=True)
            results[name, way] = found
        print("", *study.table(results), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
