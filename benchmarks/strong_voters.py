"""What a few strong voters prove, beside trees out of bag and a fifth held out: `make strong`.

Each data set of the paper is split as `pacvote reproduce` splits it, and each way to use its 80 %
of training rows is measured on its own: a file in --out, so that a run that was stopped goes on.
All certificates are at delta = 0.05 and of equal weights, but for the trees, whose weights
minimise the bound. A data set that is not in --data-dir is left out.

A way is `forest`, `fifth`, or `folds` or `halves` with a number of voters and of trees in each,
such as folds-3-100; `boosting` in the place of trees stands for a histogram-boosted model.
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

EVERY = [name for name in DATASETS if name != "SVMGuide1-3089"]  # a part of SVMGuide1
SMALL = [name for name in EVERY if DATASETS[name].n_samples <= 20_000]
MIDDLE = [name for name in EVERY if name not in {*SMALL, "MNIST", "Fashion"}]
BOOSTED = ["Phishing", "Pendigits", "Adult"]

Bounds = dict[str, float]
Found = dict[str, Any]
Results = dict[tuple[str, str], Found]  # by data set and way


class Rows:
    """Rows to train on and to test on."""

    def __init__(self, spec: Spec, folder: Path | None, seed: int) -> None:
        X, y = _loaded(spec, folder)
        train, test = split(y, Unit("rf", spec.name, seed).random("split"))
        self.X, self.y, self.X_test, self.y_test = X[train], y[train], X[test], y[test]
        self.seed = seed

    def error(self, classifier: ClassifierMixin) -> float:
        return float(np.mean(classifier.predict(self.X_test) != self.y_test))


@lru_cache(maxsize=1)
def _loaded(spec: Spec, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(spec, folder)
    return X.astype(np.float32), y


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


def of_splits(spec: Spec, way: str, n_splits: int, folder: Path | None, out: Path) -> Found:
    """Means over several splits, or what one of a large data set gives."""
    parts = [
        measured(out / f"{spec.stem}-{seed}-{way}.json", way, partial(Rows, spec, folder, seed))
        for seed in range(n_splits if spec.name in SMALL else 1)
    ]
    bounds = {key: mean(part["bounds"][key] for part in parts) for key in parts[0]["bounds"]}
    return parts[0] | {"bounds": bounds, "error": mean(part["error"] for part in parts)}


def measure(study: "Study", folder: Path | None, out: Path) -> Iterator[tuple[str, str, Found]]:
    """Measure each way on each data set, the smallest first."""
    for spec in sorted(
        map(DATASETS.__getitem__, study.names), key=lambda s: s.n_samples * s.n_features
    ):
        try:
            for way in study.ways:
                yield spec.name, way, of_splits(spec, way, study.n_splits, folder, out)
        except MissingDataError as error:
            print(error)


def row(*cells: object) -> str:
    texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
    return "| " + " | ".join(texts) + " |"


def times(a: float, b: float) -> str:
    return f"{a / b:.2f}" if b else "1.00" if a == b else "-"


def against(results: Results, voters: str, held_out: str, alone: str) -> Iterator[str]:
    """A line for each data set: certificates of three ways, and the errors behind them."""
    yield row(
        "data set",
        "rows",
        "100 trees",
        "3 voters",
        "of the trees'",
        "a fifth held out",
        "3 voters, of that",
        "one errs",
        "3 err",
        "of one's",
    )
    yield row(*["---"] * 10)
    for name in dict.fromkeys(name for name, _ in results):
        trees, three, fifth, one = (
            results[name, way] for way in ("forest", voters, held_out, alone)
        )
        a, b, c = trees["bounds"]["tnd"], three["bounds"]["folds"], fifth["bounds"]["binomial"]
        yield row(
            name,
            f"{trees['rows']:,}",
            a,
            b,
            times(b, a),
            c,
            times(b, c),
            one["error"],
            three["error"],
            times(three["error"], one["error"]),
        )


def choices(results: Results, default: str) -> Iterator[str]:
    """A line for each data set: certificates of all choices, as shares of the default's."""
    of = {way: found["bounds"] for (_, way), found in results.items()}
    keys = [(way, key) for way, bounds in of.items() for key in bounds]
    yield row("data set", "rows", *(f"{way} `{key}`" for way, key in keys))
    yield row(*["---"] * (2 + len(keys)))
    for name in dict.fromkeys(name for name, _ in results):
        least, n_rows = results[name, default]["bounds"]["folds"], results[name, default]["rows"]
        shares = (times(results[name, way]["bounds"][key], least) for way, key in keys)
        yield row(name, f"{n_rows:,}", *shares)
        errors = {way: results[name, way]["error"] for way in of}
        yield row("", "errs", *(errors[way] for way, _ in keys))


@dataclass(frozen=True)
class Study:
    """Ways to compare on data sets, over so many splits of the small ones, and how to show it."""

    names: list[str]
    ways: list[str]
    n_splits: int
    table: Callable[[Results], Iterator[str]]


FORESTS = ["forest", "fifth-100", "folds-3-100"]
BOOSTING = ["forest", "whole-boosting", "fifth-boosting", "folds-3-boosting"]
SHORT = ["folds-3-100", "folds-5-100", "folds-3-33", "halves-3-100"]
LONG = [*SHORT, "folds-9-100", "folds-3-300", "halves-5-100"]
STUDIES = [
    Study(
        EVERY,
        FORESTS,
        5,
        partial(against, voters=FORESTS[2], held_out=FORESTS[1], alone=FORESTS[0]),
    ),
    Study(
        BOOSTED,
        BOOSTING,
        5,
        partial(against, voters=BOOSTING[3], held_out=BOOSTING[2], alone=BOOSTING[1]),
    ),
    Study(SMALL, LONG, 2, partial(choices, default="folds-3-100")),
    Study(MIDDLE, SHORT, 1, partial(choices, default="folds-3-100")),
]


def rows() -> list[tuple[str, float, str]]:
    """For `make bench`: the data set that is in the package."""
    here = Rows(DATASETS["Pendigits"], None, 0)
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
        for name, way, found in measure(study, given.data_dir, given.out):
            print(f"{name} {way}: {found}", flush=True)
            results[name, way] = found
        print("", *study.table(results), "", sep="\n", flush=True)


if __name__ == "__main__":
    main()
