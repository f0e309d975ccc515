"""The paper's experiments: data sets, units that resume, and what is made of them."""

from __future__ import annotations

import csv
import html.parser
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from pacvote import BOUNDS, evaluate
from pacvote.datasets import load_pendigits
from pacvote.paper import datasets, reproduce, tables, units, weigh
from pacvote.paper.datasets import DATASETS, MissingDataError, Spec, load, split
from pacvote.paper.figures import bennett_ratio, oracle_ratio
from pacvote.paper.neighbours import Neighbours, NeighboursClassifier
from pacvote.paper.printed import printed
from pacvote.paper.results import COLUMNS, Results
from pacvote.paper.units import Heard, Unit, hear

if TYPE_CHECKING:
    from numpy.typing import NDArray

PENDIGITS = DATASETS["Pendigits"]
TINY = Spec("Tiny", "tiny", 240, 5, 3, 1 / 3, 1 / 3, ())


def tiny() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    return make_classification(
        240, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0, random_state=0
    )


@pytest.fixture(scope="module", params=["rf", "mce"])
def heard(request: pytest.FixtureRequest) -> Heard:
    return hear(Unit(request.param, "Tiny", 0), TINY, *tiny())


# ---------------------------------------------------------------- data sets


def test_the_overview_is_the_printed_one():
    with (files("pacvote.paper") / "printed" / "datasets.csv").open(encoding="utf-8") as lines:
        table = {row["dataset"]: row for row in csv.DictReader(lines)}
    # The printed SVMGuide1 has the size of one of its two files, and the results of both.
    ours = {**DATASETS, "SVMGuide1": DATASETS["SVMGuide1-3089"]}
    assert len(table) == 17
    for name, row in table.items():
        spec = ours[name]
        found = (spec.n_samples, spec.n_features, spec.n_classes, spec.smallest, spec.largest)
        assert found == tuple(float(row[key]) for key in ("n", "d", "classes", "c_min", "c_max"))


def test_pendigits_comes_with_the_package(tmp_path: Path):
    X, y = load(PENDIGITS, tmp_path)
    assert X.shape == (10992, 16)
    assert X.dtype == np.float64
    assert y.max() == 9


@pytest.mark.parametrize("form", ["npz", "libsvm"])
def test_both_forms_of_a_file_give_the_same_rows(tmp_path: Path, form: str):
    X, y = load_pendigits(return_X_y=True)
    if form == "npz":
        np.savez(tmp_path / "pendigits.npz", X=X.astype(np.uint8), y=y)
    else:
        for name, part in zip(PENDIGITS.texts, (slice(0, 7494), slice(7494, None)), strict=True):
            dump_svmlight_file(X[part], y[part], str(tmp_path / name), zero_based=False)
    ours = load(PENDIGITS, tmp_path)
    assert np.array_equal(ours[0], X)
    assert np.array_equal(ours[1], y)


def test_rows_with_missing_entries_are_dropped(tmp_path: Path):
    X, y = load_pendigits(return_X_y=True)
    damaged = np.vstack([X, np.full((3, 16), np.nan)])
    np.savez(tmp_path / "pendigits.npz", X=damaged, y=np.append(y, [0, 1, 2]))
    assert np.array_equal(load(PENDIGITS, tmp_path)[0], X)


def test_another_data_set_is_refused(tmp_path: Path):
    X, y = load_pendigits(return_X_y=True)
    np.savez(tmp_path / "pendigits.npz", X=X[1:], y=y[1:])
    with pytest.raises(ValueError, match=r"`data_dir` has another Pendigits: .*10991.*10992"):
        load(PENDIGITS, tmp_path)


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "Pendigits"])
def test_a_missing_file_is_named_with_its_source(tmp_path: Path, name: str):
    spec = DATASETS[name]
    with pytest.raises(MissingDataError) as error:
        load(spec, tmp_path)
    assert spec.stem + ".npz" in str(error.value)
    assert all(text in str(error.value) for text in spec.texts)
    assert (spec.source in str(error.value)) == bool(spec.texts)


def test_a_download_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def offline(**_: object) -> None:
        msg = "checksum differs"
        raise ValueError(msg)

    monkeypatch.setattr(datasets, "fetch_openml", offline)
    with pytest.raises(MissingDataError, match=r"Letter: OpenML gave nothing \(checksum differs"):
        load(DATASETS["Letter"], tmp_path, download=True)


def test_columns_are_scaled_as_libsvm_does():
    X = np.array([[0.0, 5.0, 7.0], [10.0, 6.0, 7.0]])
    assert datasets._scaled(X, "from -1 to 1").tolist() == [[-1, -1, -1], [1, 1, -1]]
    assert datasets._scaled(X, "from 0 to 1").tolist() == (X / 10).tolist()
    assert datasets._scaled(X, "as it is") is X


def test_splits_keep_the_shares_of_classes():
    y = np.repeat([0, 1, 2], [700, 250, 50])
    train, test = split(y, np.random.RandomState(0))
    assert np.bincount(y[test]).tolist() == [140, 50, 10]
    assert sorted([*train, *test]) == list(range(1000))


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_are_those_of_the_overview(name: str):
    where = os.environ.get(datasets.VARIABLE)
    if where is None:
        pytest.skip("PACVOTE_DATA is not set: the data sets are too large to come along")
    try:
        X, y = load(DATASETS[name], where)
    except MissingDataError as error:
        assert name in ("Protein", "Sensorless")
        pytest.skip(str(error))
    assert np.isfinite(X).all()
    assert len(X) == len(y)


# ---------------------------------------------------------------- shared neighbours


@pytest.mark.parametrize(("k", "weights"), [(3, "uniform"), (5, "uniform"), (5, "distance")])
def test_shared_neighbours_vote_as_those_of_scikit_learn(k: int, weights: str):
    random = np.random.RandomState(k)
    pixels = random.randint(0, 256, (400, 30)).astype(np.uint8)
    pixels[1::40] = pixels[::40]  # rows that are equal, some with another label
    y = random.randint(0, 3, 400)
    bag = random.randint(0, 300, 300)
    asked = np.setdiff1d(np.arange(400), bag)
    ours = NeighboursClassifier(Neighbours.of(pixels), k, weights).fit(bag[:, None], y[bag])
    theirs = KNeighborsClassifier(k, weights=weights).fit(pixels[bag].astype(float), y[bag])
    assert np.array_equal(ours.predict(asked[:, None]), theirs.predict(pixels[asked].astype(float)))


def test_too_few_neighbours_are_refused():
    near = Neighbours.of(np.arange(80, dtype=np.uint8)[:, None])
    vote = NeighboursClassifier(near, 5, "uniform").fit(np.array([[79], [78]]), np.array([0, 1]))
    with pytest.raises(ValueError, match="`n_neighbors` 5 is too many: the search kept 64"):
        vote.predict(np.array([[0]]))


# ---------------------------------------------------------------- units


def test_a_unit_comes_back_from_its_file(heard: Heard, tmp_path: Path):
    heard.save(tmp_path / "unit.npz")
    again = Heard.load(tmp_path / "unit.npz")
    assert again.counts == heard.counts
    assert np.array_equal(again.votes, heard.votes)
    assert np.array_equal(again.labels, heard.labels)
    assert again.seconds == heard.seconds


def test_a_unit_depends_on_its_name_alone(heard: Heard):
    experiment = "rf" if heard.counts.n_voters == units.N_TREES else "mce"
    again = hear(Unit(experiment, "Tiny", 0), TINY, *tiny())
    other = hear(Unit(experiment, "Tiny", 1), TINY, *tiny())
    assert again.counts == heard.counts
    assert np.array_equal(again.votes, heard.votes)
    assert other.counts != heard.counts


def test_the_forest_is_that_of_scikit_learn(heard: Heard):
    if heard.counts.n_voters != units.N_TREES:
        pytest.skip("the seven classifiers are no forest")
    X, y = tiny()
    train, test = split(y, Unit("rf", "Tiny", 0).random("split"))
    forest = RandomForestClassifier(random_state=Unit("rf", "Tiny", 0).random("rf"))
    forest.fit(X[train], y[train])
    votes = np.stack([tree.predict(X[test]) for tree in forest.estimators_], axis=1)
    assert np.array_equal(votes, heard.votes)


def test_shared_neighbours_change_no_vote():
    random = np.random.RandomState(3)
    pixels = random.randint(0, 256, (240, 12)).astype(np.uint8)
    X, y = pixels.astype(np.float64), np.arange(240) % 3
    unit = Unit("mce", "Tiny", 0)
    alone, shared = hear(unit, TINY, X, y), hear(unit, TINY, X, y, Neighbours.of(pixels))
    assert alone.counts == shared.counts
    assert np.array_equal(alone.votes, shared.votes)


# ---------------------------------------------------------------- weights


def test_numbers_are_those_of_the_library(heard: Heard):
    weighed = weigh.weigh(heard)
    numbers = {(r.constants, r.method, r.weighting, r.quantity): r.value for r in weighed.results}
    for key in weigh.KEYS:
        weights = weighed.weights[f"sharp/direct/{key}"]
        assert (
            numbers["sharp", "direct", key, "bound"] == evaluate(key, heard.counts, weights).value
        )
        wrong = np.array([np.bincount(row, weights).argmax() for row in heard.votes])
        assert numbers["sharp", "direct", key, "test_loss"] == pytest.approx(
            np.mean(wrong != heard.labels), abs=0.03
        )
    assert numbers["sharp", "direct", "tnd", "bound"] <= numbers["paper", "direct", "tnd", "bound"]
    assert numbers["paper", "paper", "uniform", "n_pair"] == heard.counts.n_pair
    risks = heard.counts.errors / heard.counts.rows
    assert numbers["paper", "paper", "best", "gibbs"] == risks.min()
    assert {r.constants for r in weighed.results if r.weighting == "ccpbb"} == set(
        BOUNDS["ccpbb"].known_constants
    )


def test_weights_come_back_from_their_file(heard: Heard, tmp_path: Path):
    weighed = weigh.weigh(heard)
    weighed.save(tmp_path / "unit.json")
    again = weigh.Weighed.load(tmp_path / "unit.json")
    assert again.results == weighed.results
    for name, weights in weighed.weights.items():
        assert np.array_equal(again.weights[name], weights)


# ---------------------------------------------------------------- tables and figures


class Reader(html.parser.HTMLParser):
    """Counts cells, and checks that tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def shown(experiment: str) -> Results:
    heard = hear(Unit(experiment, "Tiny", 0), TINY, *tiny())
    weighed = weigh.weigh(heard)
    pairs = ((Unit(experiment, "Pendigits", repetition), weighed) for repetition in (0, 1))
    return Results.of(pairs)


@pytest.mark.parametrize("experiment", ["rf", "mce"])
def test_tables_stand_beside_the_printed_ones(experiment: str, tmp_path: Path):
    results = shown(experiment)
    paths = tables.write_tables(results, tmp_path)
    assert len(paths) == 16
    for name in ("test_loss", "bound", "values"):
        stem = tmp_path / f"{experiment}_{name}"
        rows = list(csv.reader(read(stem.with_suffix(".csv")).splitlines()))
        assert [row[1] for row in rows[1:4]] == ["printed", "paper's method", "difference"]
        assert {row[0] for row in rows[1:]} == {"Pendigits"}
        reader = Reader()
        reader.feed(read(stem.with_suffix(".html")))
        assert reader.open == []
        assert reader.cells == sum(map(len, rows[1:]))
        markdown = read(stem.with_suffix(".md")).splitlines()
        assert {line.count("|") for line in markdown[2:]} == {len(rows[0]) + 1}
        latex = read(stem.with_suffix(".tex"))
        assert latex.count(r"\\") == len(rows)
    before = printed(experiment, "bound")["Pendigits"]["tnd_mean"]
    assert f"{before:.4f}" in read(tmp_path / f"{experiment}_bound.md")


def test_the_least_is_bold_and_the_least_optimised_underlined():
    means = [(0.1, 0.0), (0.2, 0.0), (0.10001, 0.01), None]
    cells = tables._marked(["uniform", "fo", "tnd", "best"], means, ["fo", "tnd"])
    said = ["0.1000 (0.0000)", "0.2000 (0.0000)", "0.1000 (0.0100)", ""]
    assert [cell.text for cell in cells] == said
    assert [cell.bold for cell in cells] == [True, False, True, False]
    assert [cell.underlined for cell in cells] == [False, False, True, False]


def test_differences_are_in_printed_deviations():
    assert tables.deviations(0.12, (0.10, 0.01)) == pytest.approx(2)
    # A printed deviation of 0.0000 may be half of its last digit.
    assert tables.deviations(0.00005, (0.0, 0.0)) == pytest.approx(1)


def test_all_figures_are_drawn_and_equal_each_time(tmp_path: Path):
    from pacvote.paper.figures import write_figures

    results = shown("mce")
    drawn = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        drawn.append({p.name: p.read_bytes() for p in write_figures(results, tmp_path / name)})
    assert drawn[0] == drawn[1]
    assert {name.split(".")[0] for name in drawn[0]} == {
        "mce_test_loss_ratio",
        "mce_bound_ratio",
        "mce_weights",
    }


def test_figures_are_drawn_where_no_vote_erred(tmp_path: Path):
    from pacvote.paper.figures import write_figures

    results = shown("mce")
    for place, numbers in results.numbers.items():
        if place[-1] == "test_loss":
            numbers[:] = [0.0] * len(numbers)
    assert len(write_figures(results, tmp_path)) == 6


def test_oracle_bounds_meet_where_tandem_is_half_of_gibbs():
    g = np.linspace(0.01, 0.49, 49)
    assert oracle_ratio(g, g / 2) == pytest.approx(np.ones(49), abs=1e-12)
    gibbs, tandem = np.meshgrid(g, np.linspace(0.001, 0.49, 200))
    ratios = oracle_ratio(gibbs, tandem)
    feasible = (gibbs**2 <= tandem) & (tandem <= gibbs)
    assert np.array_equal(np.isfinite(ratios), feasible)
    assert (ratios[feasible] <= 1 + 1e-12).all()
    assert (ratios[feasible & (np.abs(tandem - gibbs / 2) > 0.01)] < 1).all()


@pytest.mark.parametrize("n", [1000, 10000])
def test_bennett_is_never_above_bernstein(n: int):
    ratios = bennett_ratio(*np.meshgrid(np.linspace(0, 0.5, 30), np.linspace(1e-4, 0.25, 30)), n)
    assert (ratios <= 1).all()
    assert ratios.min() < 0.9


# ---------------------------------------------------------------- the command


def start(*arguments: str, out: Path) -> subprocess.Popen[str]:
    code = "from pacvote.cli import main; main()"
    command = [sys.executable, "-c", code, "reproduce", *arguments, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def final(out: Path) -> dict[str, bytes]:
    """Return all that is written at the end, but for what was timed."""
    written = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and "units" not in path.parts
    }
    written["details.csv"] = b"\n".join(
        line for line in written["details.csv"].splitlines() if b",seconds," not in line
    )
    return written


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path):
    what = ("mce", "--datasets", "pendigits", "--repetitions", "2")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    process = start(*what, "--n-jobs", "2", out=whole)
    assert process.communicate(timeout=300)[1] == ""
    process = start(*what, out=cut)
    while not list(cut.glob("units/*-0-*.npz")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = {path: path.read_bytes() for path in cut.glob("units/*.npz")}
    assert len(kept) == 1
    assert not (cut / "results.csv").exists()
    process = start(*what, out=cut)
    assert process.communicate(timeout=300)[1] == ""
    assert final(cut) == final(whole)
    assert {path: path.read_bytes() for path in kept} == kept
    rows = list(csv.DictReader(read(cut / "results.csv").splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert {row["repetition"] for row in rows} == {"0", "1"}


def test_what_is_missing_is_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch):
    calls: list[Unit] = []
    monkeypatch.setattr(reproduce, "hear", lambda *_: hear(Unit("mce", "Tiny", 0), TINY, *tiny()))
    store = reproduce.Store(tmp_path, tmp_path, download=False)
    todo = reproduce.plan(["mce"], ["Letter", "Pendigits"], 2, seed=0)
    results, missing = reproduce.run_units(todo, store, n_jobs=1, done=calls.append)
    assert results.datasets("mce") == ["Pendigits"]
    assert list(missing) == ["Letter"]
    assert "letter.npz" in missing["Letter"]
    assert [unit.dataset for unit in calls] == ["Pendigits"] * 2


def test_pictures_are_searched_once(tmp_path: Path, monkeypatch):
    random = np.random.RandomState(0)
    spec = replace(TINY, name="Pictures", stem="pictures", n_features=9, pixels=True)
    monkeypatch.setitem(DATASETS, "Pictures", spec)
    X = random.randint(0, 256, (240, 9)).astype(np.uint8)
    X[0] = 255
    np.savez(tmp_path / "pictures.npz", X=X, y=np.arange(240) % 3)
    store = reproduce.Store(tmp_path, tmp_path / "out", download=False)
    todo = reproduce.plan(["mce"], ["Pictures"], 2, seed=0)
    results, _ = reproduce.run_units(todo, store, n_jobs=1, done=lambda _: None)
    assert len(results.weighed) == 2
    found = Neighbours.load(tmp_path / "out" / "units" / "neighbours-pictures.npz")
    assert np.array_equal(found.rows, Neighbours.of(X).rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["rf", "--datasets", "iris"],
            "`--datasets` has no 'iris'; did you mean 'Pendigits'? Known: Adult",
        ),
        (["rf", "--repetitions", "0"], "`--repetitions` must be at least 1, got 0"),
        (["mce", "--datasets", "letter"], "Letter: no letter.npz in"),
    ],
)
def test_misuse_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys, monkeypatch
):
    from pacvote.cli.app import run

    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
