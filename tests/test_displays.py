"""Displays: the numbers that they draw, and how scikit-learn's users meet them."""

from __future__ import annotations

import inspect
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest

from pacvote import (
    BOUNDS,
    AbstentionDisplay,
    BoundsDisplay,
    MajorityVoteClassifier,
    PairCounts,
    TandemDisplay,
    Votes,
    WeightsDisplay,
    certify_abstention,
    count,
    evaluate,
    minimize,
)
from pacvote.concentration import binomial_upper
from pacvote.displays import Line

mpl.use("Agg")
from matplotlib import pyplot as plt

DISPLAYS = [BoundsDisplay, WeightsDisplay, TandemDisplay, AbstentionDisplay]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    return X, (X[:, 0] > 0) ^ (rng.random(400) < 0.05)


@pytest.fixture(scope="module")
def vote(data):
    return MajorityVoteClassifier(n_estimators=10, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def counts() -> PairCounts:
    """Six voters, three of which err together and so do the other three; names that bite."""
    rng = np.random.default_rng(1)
    common = rng.random((600, 2)) < 0.1
    errors = np.repeat(common, 3, axis=1)[:, [0, 3, 1, 4, 2, 5]] ^ (rng.random((600, 6)) < 0.01)
    found = count(errors, np.zeros(600, dtype=bool))
    names = ("$x", "<b>", "a" * 90, "\\frac$", "e", "f")
    return PairCounts(found.pair_rows, found.pair_errors, found.left_errors, names)


def drawn(display, **options):
    """Plot on axes that are given, and on new ones, as scikit-learn's displays do."""
    _, ax = plt.subplots()
    assert display.plot(ax=ax, **options) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    display.figure_.canvas.draw()
    assert display.plot(**options).ax_ is not ax
    display.figure_.canvas.draw()
    return display.ax_


@pytest.mark.parametrize("display", DISPLAYS)
def test_has_the_methods_of_the_convention(display):
    assert callable(display.from_estimator)
    assert callable(display.frame)
    assert "ax" in inspect.signature(display.plot).parameters


@pytest.mark.parametrize("display", DISPLAYS)
def test_an_estimator_must_be_fitted(display, data):
    given = data if display is AbstentionDisplay else ()
    with pytest.raises(ValueError, match="not fitted yet"):
        display.from_estimator(MajorityVoteClassifier(), *given)


def test_bounds_are_what_evaluate_says(counts):
    weights = np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    display = BoundsDisplay.from_counts(counts, weights, held_out=(300, 6))
    table = {row["name"]: row for row in display.frame().iter_rows(named=True)}
    for key in ("fo", "tnd", "cctnd"):
        assert table[key]["limit"] == evaluate(key, counts, weights).value
    rates = counts.errors / counts.rows
    assert table["a voter drawn by weight"]["measured"] == pytest.approx(rates @ weights)
    assert table["300 rows held out"]["measured"] == 0.02
    assert table["300 rows held out"]["limit"] == binomial_upper(300, 6, Fraction(1, 20))
    (best,) = (row for name, row in table.items() if name.startswith("best voter"))
    assert best["measured"] == rates.min()
    limit = binomial_upper(600, int(counts.errors.min()), Fraction(1, 120))
    assert limit <= best["limit"] == pytest.approx(limit, rel=1e-12)
    assert len(drawn(display).get_yticklabels()) == len(display.lines)


def test_limits_are_written_no_lower_than_they_are():
    lines = [
        Line("a", "bound", None, 0.12341),
        Line("b", "held out", 0.1, 0.2),
        Line("c", "bound", None, 1),
    ]
    written = [text.get_text() for text in drawn(BoundsDisplay(lines)).texts]
    assert written == ["12.35 %", "20.01 %", "100.00 %"]  # 0.2 is a float above 1/5


def test_names_are_cut_where_they_are_long_and_cannot_turn_the_line():
    names = ("\u202etxt.exe", "a" * 90, "$x$")
    ax = drawn(WeightsDisplay(names, [0.5, 0.3, 0.2], np.full(3, 1 / 3)))
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["\ufffdtxt.exe", "a" * 39 + "…", "\\$x\\$"]


def test_bounds_without_weights_are_minimised(counts):
    display = BoundsDisplay.from_counts(counts, bounds=["tnd"])
    assert display.lines[0].limit == minimize("tnd", counts).value
    assert [line.kind for line in display.lines] == ["bound", "voter"]


def test_a_bound_asked_for_by_name_may_not_be_left_out(counts):
    rows = counts.pair_rows * np.eye(6, dtype=np.int64)
    apart = PairCounts(
        rows,
        counts.pair_errors * np.eye(6, dtype=np.int64),
        counts.left_errors * np.eye(6, dtype=np.int64),
        counts.voters,
    )
    uniform = np.full(6, 1 / 6)
    names = [line.name for line in BoundsDisplay.from_counts(apart, uniform).lines]
    assert "fo" in names
    assert "tnd" not in names
    with pytest.raises(ValueError, match="share"):
        BoundsDisplay.from_counts(apart, uniform, bounds=["tnd"])


@pytest.mark.parametrize("held_out", [(0, 0), (10, 11), (10, -1)])
def test_held_out_rows_that_cannot_be(counts, held_out):
    with pytest.raises(ValueError, match="`held_out` must be"):
        BoundsDisplay.from_counts(counts, held_out=held_out)


def test_the_certificate_stands_first_and_once(vote):
    lines = BoundsDisplay.from_estimator(vote).lines
    assert (lines[0].name, lines[0].kind) == (vote.certificate_.bound, "certificate")
    assert lines[0].limit == vote.certificate_.risk
    assert [line.name for line in lines].count(vote.certificate_.bound) == 1
    assert set(BOUNDS) & {line.name for line in lines} >= {"fo", "tnd", "cctnd"}


def test_weights_are_sorted_with_their_names(counts):
    weights = np.array([0.1, 0.4, 0.0, 0.3, 0.2, 0.0])
    display = WeightsDisplay.from_counts(counts, weights)
    assert display.voters[:4] == ("<b>", "\\frac$", "e", "$x")
    assert display.frame()["weight"].to_list() == sorted(weights, reverse=True)
    assert display.effective == pytest.approx(1 / 0.3)
    drawn(display)


def test_many_weights_are_a_curve():
    voters = [str(k) for k in range(200)]
    rng = np.random.default_rng(0)
    drawn(WeightsDisplay(voters, rng.dirichlet(np.ones(200)), np.full(200, 1 / 200)))


def test_voters_that_err_together_stand_together(counts):
    display = TandemDisplay.from_counts(counts)
    halves = {frozenset(display.voters[:3]), frozenset(display.voters[3:])}
    assert halves == {frozenset({"$x", "a" * 90, "e"}), frozenset({"<b>", "\\frac$", "f"})}
    rates = counts.pair_errors / counts.pair_rows
    assert np.array_equal(display.tandem, rates[np.ix_(display.order, display.order)])
    pairs = display.frame()
    assert len(pairs) == 21
    both = {
        frozenset((row["voter"], row["other"])): row["both_err"]
        for row in pairs.iter_rows(named=True)
    }
    assert both[frozenset(("$x", "<b>"))] == rates[0, 1]
    assert display.highest == max(rates[~np.eye(6, dtype=bool)])
    drawn(display)


def test_blocks_are_averages_and_know_missing_pairs():
    rng = np.random.default_rng(0)
    matrix = rng.random((10, 10))
    matrix = (matrix + matrix.T) / 2
    matrix[0, 1] = matrix[1, 0] = np.nan
    display = TandemDisplay([str(k) for k in range(10)], matrix)
    assert np.array_equal(display.blocks(10), display.tandem, equal_nan=True)
    blocks = display.blocks(5)
    assert blocks.shape == (5, 5)
    assert blocks[4, 0] == pytest.approx(np.nanmean(display.tandem[8:10, 0:2]))
    assert np.isnan(TandemDisplay(["a", "b"], [[np.nan] * 2] * 2).blocks(1)).all()


@pytest.mark.parametrize("n_voters", [1, 2, 60])
def test_any_number_of_voters(n_voters):
    rng = np.random.default_rng(0)
    found = count(rng.random((200, n_voters)) < 0.2, np.zeros(200, dtype=bool))
    assert sorted(TandemDisplay.from_counts(found).order) == list(range(n_voters))
    drawn(TandemDisplay.from_counts(found))


def test_abstaining_by_hand():
    said = np.array([["a", "a", "a"], ["a", "a", "b"], ["b", "c", "b"], ["b", "b", "b"]])
    truth = np.array(["a", "b", "b", "b"])
    display = AbstentionDisplay.from_predictions(said, truth, [0.5, 0.3, 0.2])
    assert display.thresholds == pytest.approx([1.0, 0.6, 0.4])
    assert display.coverage.tolist() == [0.5, 0.75, 1.0]
    assert display.risk.tolist() == [0.0, 1 / 3, 1 / 4]
    assert display.frame().columns == ["threshold", "coverage", "risk"]
    found = certify_abstention(Votes.from_predictions(said, truth), 0.9, [0.3], delta=0.4)
    shown = drawn(display, certificate=found).get_legend().get_texts()
    assert [text.get_text() for text in shown][1] == "target 90 %"


def test_abstaining_ends_at_the_error_of_the_estimator(vote, data):
    display = AbstentionDisplay.from_estimator(vote, *data)
    assert display.coverage[-1] == 1
    assert display.risk[-1] == pytest.approx(1 - vote.score(*data))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: AbstentionDisplay([0.1, 0.2], [True]), "erred"),
        (lambda: AbstentionDisplay.from_predictions([0, 1], [0, 1]), "predictions"),
        (lambda: TandemDisplay(["a"], [[0.1, 0.2]]), "tandem"),
        (lambda: WeightsDisplay(["a"], [0.5], [1.0]), "weights"),
    ],
)
def test_misuse_names_the_argument(call, name):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        call()
