"""The commands: exit codes, one-line errors, and output for machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from threadpoolctl import threadpool_limits

from pacvote import BOUNDS, Certificate, MajorityVoteClassifier, PairCounts, Votes, count
from pacvote import certify as issue
from pacvote.bounds.shared import SharedBound
from pacvote.cli import main
from pacvote.cli.app import app, run
from pacvote.cli.screen import whole
from pacvote.fitting import PROGRESS

COMMANDS = ["demo", "count", "certify", "verify", "fit", "predict", "plan", "reproduce"]
FIT = ["fit", "votes.parquet", "--target", "truth", "--out", "m"]
CERTIFY = ["certify", "votes.parquet", "--label", "truth", "--out", "c.json"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def votes() -> Votes:
    """Three good voters of 900 rows, in `votes.parquet` of several row groups."""
    random = np.random.default_rng(0)
    truth = random.choice(["cat", "dog"], 900)
    other = np.where(truth == "cat", "dog", "cat")
    said = {f"judge {k}": np.where(random.random(900) < 0.05, other, truth) for k in range(3)}
    frame = pl.DataFrame({"truth": truth, **said}).with_columns(pl.all().cast(pl.Categorical))
    frame.write_parquet("votes.parquet", row_group_size=256)
    return Votes.from_predictions(np.stack(list(said.values()), axis=1), truth, voters=list(said))


@pytest.fixture
def counts(votes) -> PairCounts:
    """Their counts, in `counts.npz`."""
    found = count(votes)
    found.save("counts.npz")
    return found


def refused(capsys, *tokens: str) -> str:
    """Return the one line on stderr of a command that ends with 2 and writes nothing."""
    before = sorted(Path().rglob("*"))
    assert run(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pacvote: ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
    return err


def printed(capsys, *tokens: str, code: int = 0) -> dict[str, object]:
    """Return what a command prints for machines."""
    assert run([*tokens, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return dict(json.loads(out))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_parses(capsys, command):
    assert run([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "\x1b" not in shown
    example = shown.partition("Example: pacvote ")[2].split()
    assert example[0] == command
    app.parse_args(example)


def test_help_names_every_command_and_imports_no_engine():
    code = (
        "import sys; from pacvote.cli.app import run; run(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in COMMANDS if name not in done.stdout] == []
    assert {"numba", "skops", "matplotlib"} & set(done.stderr.split()) == set()


def test_count_writes_the_counts_of_the_table(capsys, votes):
    result = printed(capsys, "count", "votes.parquet", "--label", "truth", "--out", "c.npz")
    assert PairCounts.load("c.npz") == count(votes)
    assert (result["n_voters"], result["n_single"], result["shared"]) == (3, 900, True)


def test_certify_and_verify_from_a_table_or_its_counts(capsys, counts):
    result = printed(capsys, *CERTIFY)
    certificate = Certificate.load("c.json")
    assert result["risk"] == certificate.risk < 0.5
    assert result["assumptions"] == list(certificate.assumptions)
    same = printed(capsys, "certify", "counts.npz", "--out", "d.json")
    assert same["claim"] == result["claim"]
    for evidence in (["counts.npz"], ["votes.parquet", "--label", "truth"]):
        verdict = printed(capsys, "verify", "c.json", *evidence)
        assert verdict["ok"] is True
        assert verdict["unchecked"]


OF_ROWS = [key for key, bound in BOUNDS.items() if issubclass(bound, SharedBound)]


@pytest.mark.parametrize("bound", sorted(BOUNDS.keys() - {*OF_ROWS}))
def test_every_bound_certifies(capsys, counts, bound):
    result = printed(capsys, "certify", "counts.npz", "--bound", bound, "--out", "c.json")
    assert result["bound"] in ({"best_voter", "cctnd"} if bound == "best_of" else {bound})
    assert run(["verify", "c.json", "counts.npz"]) == 0


def test_people_read_the_claim_its_assumptions_and_what_next(capsys, counts):
    assert run(CERTIFY) == 0
    out = capsys.readouterr().out
    certificate = Certificate.load("c.json")
    flat = " ".join(out.split())
    for line in (certificate.claim, *certificate.assumptions):
        assert line in flat
    assert out.endswith("Next: pacvote verify c.json votes.parquet --label truth\n")
    assert max(map(len, out.splitlines())) <= 80


def test_a_changed_certificate_is_refuted_with_1(capsys, counts):
    run(CERTIFY)
    text = Path("c.json").read_text(encoding="utf-8")
    risk = Certificate.load("c.json").exact_risk
    forged = text.replace(f"{risk.numerator}/{risk.denominator}", "1/100")
    assert forged != text
    Path("c.json").write_text(forged, encoding="utf-8")
    capsys.readouterr()
    assert printed(capsys, "verify", "c.json", "counts.npz", code=1)["ok"] is False
    assert run(["verify", "c.json", "counts.npz"]) == 1
    assert "REFUTED" in capsys.readouterr().out


def test_given_weights_are_certified_as_they_are(capsys, counts):
    weights = {"judge 2": 0.5, "judge 0": 0.25, "judge 1": 0.25}
    Path("w.json").write_text(json.dumps(weights), encoding="utf-8")
    run([*CERTIFY, "--weights", "w.json"])
    assert Certificate.load("c.json").weights.tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ('{"judge 0": 1}', "has none for voter 'judge 1'"),
        ('{"judge 00": 1}', "names 'judge 00', which is no voter; did you mean 'judge 0'"),
        ('{"judge 0": "1", "judge 1": 0, "judge 2": 0}', "give a number"),
        ('{"judge 0": 1, "judge 1": 1, "judge 2": 0}', "must sum to 1"),
        ("[1, 0, 0]", "must hold one object"),
        ("junk", "is not JSON"),
    ],
)
def test_weights_that_are_none(capsys, counts, weights, message):
    Path("w.json").write_text(weights, encoding="utf-8")
    line = refused(capsys, *CERTIFY, "--weights", "w.json")
    assert message in line
    assert "`--weights`" in line


MISUSE = [
    (["certfy"], 'Did you mean "certify"?'),
    (["count", "votes.parquet", "--lable", "truth", "--out", "c.npz"], "Did you mean --label?"),
    (["count", "votes.parquet", "--label", "truth"], "--out"),
    (["count", "votes.parquet", "--out", "c.npz"], "`--label` is missing; name the column"),
    (["count", "votes.parquet", "--label", "Truth", "--out", "c.npz"], "did you mean 'truth'?"),
    (["count", "no.csv", "--label", "y", "--out", "c.npz"], "No such file or directory: 'no.csv'"),
    (["count", ".", "--label", "y", "--out", "c.npz"], "is in the folder of the input"),
    (["count", "votes.parquet", "--label", "truth", "--out", "c.csv"], "must name a .npz file"),
    (["count", "votes.parquet", "--label", "truth", "--out", "no/c.npz"], "does not exist"),
    ([*CERTIFY, "--bound", "tdn"], "`--bound` 'tdn' is not known; did you mean 'tnd'?"),
    ([*CERTIFY, "--delta", "5"], "`--delta` must lie in (0, 1)"),
    ([*CERTIFY, "--delta", "small"], "--delta"),
    ([*CERTIFY, "--null", "skip"], "out-of-bag"),
    (["count", "counts.npz", "--out", "counts.npz"], "is the input, which would be lost"),
    (["certify", "counts.npz", "--label", "truth", "--out", "c.json"], "holds counts; leave it"),
    (["verify", "no.json", "counts.npz"], "No such file or directory: 'no.json'"),
    (["verify", "counts.npz", "no.npz"], "No such file or directory: 'no.npz'"),
    (
        ["predict", "no", "votes.parquet", "--out", "p.csv"],
        "'no' is no directory that `pacvote fit`",
    ),
    (["predict", "counts.npz", "votes.parquet", "--out", "p.csv"], "is no directory"),
    (["fit", "votes.parquet", "--target", "trut", "--out", "m"], "did you mean 'truth'?"),
    (
        ["fit", "votes.parquet", "--out", "m"],
        "pacvote: --target is missing. See: pacvote fit --help",
    ),
    (["fit", "votes.parquet", "--out"], "--out requires an argument"),
    ([*FIT, "--ensemble", "forst"], 'Did you mean "forest"?'),
    ([*FIT, "--ignore", "JUDGE 1"], "`--ignore` 'JUDGE 1' is no column; did you mean 'judge 1'?"),
    ([*FIT, "--ignore", "truth"], "`--ignore` names 'truth', which is the target"),
    ([*FIT, "--voters", "0"], "must be an integer of at least 1"),
    (["fit", "votes.parquet", "--target", "truth", "--out", "counts.npz"], "is a file; name a dir"),
    ([*FIT, "--ensemble", "vote-of-forests", "--bound", "tnd"], "share no row; use 'folds'"),
    (["reproduce", "rf", "--datasets", "pendigit"], "did you mean 'Pendigits'?"),
    (["demo", "--seed", "-1"], "`--seed` must be from 0"),
    (["plan", "--expected-error", "0.1"], "`--risk` or `--n-rows` must be given, one of them"),
    (["plan", "--risk", "0.1", "--expected-error", "0.2"], "above `--expected-error` 0.2, but is"),
]


@pytest.mark.parametrize(("tokens", "message"), MISUSE, ids=lambda value: str(value)[:60])
def test_misuse_is_one_line_and_2(capsys, counts, tokens, message):
    assert message in refused(capsys, *tokens)


def test_plan_gives_rows_for_a_risk_and_a_risk_for_rows(capsys):
    target = printed(capsys, "plan", "--risk", "0.05", "--expected-error", "0.03")
    assert target["risk"] <= 0.05
    rows = str(target["n_rows"])
    bought = printed(capsys, "plan", "--n-rows", rows, "--expected-error", "0.03")
    assert bought["risk"] <= 0.05
    assert min(target["attained"], bought["attained"]) >= 0.8
    assert run(["plan", "--risk", "0.05", "--expected-error", "0.03"]) == 0
    assert str(target["claim"]) in " ".join(capsys.readouterr().out.split())


UNREADABLE = [
    ("a;b;y\n1;2;0\n", "seems to separate cells by ';', as in 'a;b;y'; write .csv with commas"),
    ("a,y\n1,0\n2,1,3\n", "a line has more cells than the first"),
    ("a,y\n", "has no rows; give at least one"),
    ("", "has no rows; give at least one"),
    ("a,y\n1,no\n2,no\n", "target column 'y' holds one class only, 'no'"),
    ("a,y\n1,no\n2,\n", "target column 'y' is empty in row 2; drop rows without a label"),
    ("y\n1\n0\n", "`--target` 'y' is the only column left"),
]


@pytest.mark.parametrize(("text", "message"), UNREADABLE)
def test_tables_that_cannot_be_fitted(capsys, text, message):
    Path("t.csv").write_text(text, encoding="utf-8")
    assert message in refused(capsys, "fit", "t.csv", "--target", "y", "--out", "m")


def test_a_voter_that_is_always_wrong_is_pointed_out(capsys):
    Path("v.csv").write_text("y,a,b\n" + "cat,cat,0.9\ndog,dog,0.1\n" * 9, encoding="utf-8")
    assert run(["count", "v.csv", "--label", "y", "--out", "c.npz"]) == 0
    assert "note: 'b' is wrong in every row" in capsys.readouterr().err


def test_names_that_the_terminal_cannot_write_stop_nothing(tmp_path):
    Path("v.csv").write_text("y,Ольга\n" + "1,1\n" * 90, encoding="utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = pacvote("certify", "v.csv", "--label", "y", "--out", "c.json", cwd=tmp_path, env=env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "\\u041e" in out


def test_names_from_a_file_cannot_steer_the_terminal(capsys):
    name = "\x1b[31m[bold]x[/bold]"
    frame = pl.DataFrame({"y": [0, 1] * 40, name: [0, 1] * 40, "[/]": [0, 1] * 40})
    frame.write_parquet("v.parquet")
    assert run(["certify", "v.parquet", "--label", "y", "--out", "c.json"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert "\x1b" not in refused(capsys, "count", "v.parquet", "--label", "z", "--out", "c.npz")


def test_empty_cells_need_a_meaning(capsys):
    Path("v.csv").write_text("y,a,b\n" + "1,1,1\n1,,1\n0,0,1\n" * 50, encoding="utf-8")
    line = refused(capsys, "count", "v.csv", "--label", "y", "--out", "c.npz")
    assert "column 'a' is empty in row 2; `--null` must say what that means" in line
    out = printed(capsys, "count", "v.csv", "--label", "y", "--null", "error", "--out", "c.npz")
    assert out["n_single"] == 150
    out = printed(
        capsys, "count", "v.csv", "--label", "y", "--null", "out-of-bag", "--out", "c.npz"
    )
    assert out["n_single"] == 100


def table(n_samples: int = 240) -> pl.DataFrame:
    """Return rows of two numbers and a category, some of them missing, and a class."""
    random = np.random.default_rng(0)
    size, colour = random.normal(size=n_samples), random.choice(["red", "blue"], n_samples)
    there = random.random(n_samples) < 0.9
    return pl.DataFrame(
        {
            "size": size,
            "colour": pl.Series(colour).zip_with(
                pl.Series(there), pl.Series([None]).cast(pl.String)
            ),
            "count": random.integers(0, 5, n_samples),
            "kind": np.where((size > 0) | (colour == "red"), "yes", "no"),
        }
    )


def fitted(capsys, *options: str) -> dict[str, object]:
    table().write_csv("data.csv")
    return printed(capsys, "fit", "data.csv", "--target", "kind", "--out", "m", *options)


def test_fit_then_predict_from_any_format_and_order(capsys):
    result = fitted(capsys, "--voters", "15")
    assert result["n_voters"] == 15
    frame = table()
    frame.drop("kind").select("count", "colour", "size").write_parquet("new.parquet")
    for data in ("data.csv", "new.parquet"):
        done = printed(capsys, "predict", "m", data, "--out", "p.csv")
        assert done["n_rows"] == len(frame)
        assert (pl.read_csv("p.csv")["kind"] == frame["kind"]).mean() > 0.9
    run(["predict", "m", "data.csv", "--out", "p.parquet"])
    assert pl.read_parquet("p.parquet").equals(pl.read_csv("p.csv"))
    assert run(["verify", "m/certificate.json", "m/counts.npz"]) == 0


def test_predict_refuses_other_columns_and_says_how(capsys):
    fitted(capsys, "--voters", "3")
    frame = table()
    frame.rename({"colour": "color"}).write_csv("new.csv")
    line = refused(capsys, "predict", "m", "new.csv", "--out", "p.csv")
    assert "the table lacks 'colour' and has 'color', which the model does not know" in line
    frame.with_columns(size=pl.lit("big")).write_csv("new.csv")
    line = refused(capsys, "predict", "m", "new.csv", "--out", "p.csv")
    assert "column 'size' was numbers when the model was fitted, now it has 'big'" in line


def test_ignored_columns_are_no_features_and_may_be_missing_later(capsys):
    named = table().with_columns(id=pl.Series(range(240)).cast(pl.String) + "x")
    named.write_csv("data.csv")
    assert run(["fit", "data.csv", "--target", "kind", "--voters", "3", "--out", "m"]) == 0
    assert "column 'id' is text that differs in most rows" in capsys.readouterr().err
    printed(
        capsys,
        "fit",
        "data.csv",
        "--target",
        "kind",
        "--ignore",
        "id",
        "--voters",
        "3",
        "--out",
        "m",
    )
    for frame in (named, table()):
        frame.write_csv("new.csv")
        assert printed(capsys, "predict", "m", "new.csv", "--out", "p.csv")["n_rows"] == 240


def test_a_word_among_numbers_is_named(capsys):
    sizes = table()["size"].round(2).cast(pl.String).to_list()
    frame = table().with_columns(size=pl.Series(["NA", "unknown", "n/a", *sizes[3:]]))
    frame.write_csv("data.csv")
    assert run(["fit", "data.csv", "--target", "kind", "--voters", "3", "--out", "m"]) == 0
    assert "column 'size' holds numbers and 'unknown', so" in capsys.readouterr().err
    frame.filter(pl.col("size") != "unknown").write_csv("data.csv")
    assert run(["fit", "data.csv", "--target", "kind", "--voters", "3", "--out", "m"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    said = "Rows 239 Features 3: 2 as numbers, 1 as categories ('colour') Classes 2"
    assert said in " ".join(out.split())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_with_decimals_are_no_classes(capsys, suffix):
    frame = table()
    (frame.write_csv if suffix == "csv" else frame.write_parquet)(f"data.{suffix}")
    line = refused(capsys, "fit", f"data.{suffix}", "--target", "size", "--out", "m")
    assert f"such as {frame['size'][0]!r}; pacvote predicts classes, not numbers" in line


def interrupted(folder: Path) -> None:
    with whole(folder) as part:
        (part / "model.skops").write_bytes(b"half")
        raise KeyboardInterrupt


def test_a_folder_is_replaced_whole_or_not_at_all(capsys):
    fitted(capsys, "--voters", "3")
    before = {path.name: path.read_bytes() for path in Path("m").iterdir()}
    with pytest.raises(KeyboardInterrupt):
        interrupted(Path("m"))
    assert {path.name: path.read_bytes() for path in Path("m").iterdir()} == before
    with whole(Path("m")) as part:
        (part / "model.skops").write_bytes(b"whole")
    assert {path.name for path in Path("m").iterdir()} == set(before)
    assert Path("m/model.skops").read_bytes() == b"whole"
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv", "m"]


def test_progress_advances_with_each_voter():
    steps: list[int] = []
    token = PROGRESS.set(steps.append)
    try:
        X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
        MajorityVoteClassifier(n_estimators=7, n_jobs=2).fit(X, y)
    finally:
        PROGRESS.reset(token)
    assert steps == [1] * 7


def test_new_categories_and_missing_ones_are_predicted(capsys):
    fitted(capsys, "--voters", "3")
    table().with_columns(colour=pl.lit("green")).write_csv("new.csv")
    assert printed(capsys, "predict", "m", "new.csv", "--out", "p.csv")["n_rows"] == 240


def test_missing_values_are_named_where_the_ensemble_does_not_take_them(capsys):
    table().write_csv("data.csv")
    line = refused(
        capsys, "fit", "data.csv", "--target", "kind", "--out", "m", "--ensemble", "heterogeneous"
    )
    assert "column 'colour' is empty in" in line
    assert "use forest" in line


def test_a_vote_of_strong_models(capsys):
    with threadpool_limits(1):  # threads of OpenMP spin where tests run side by side
        result = fitted(capsys, "--ensemble", "vote-of-boosters")
    assert (result["n_voters"], result["bound"]) == (3, "folds")
    assert printed(capsys, "predict", "m", "data.csv", "--out", "p.csv")["n_rows"] == 240


def test_a_model_of_other_types_is_refused(capsys):
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    fitted(capsys, "--voters", "3")
    skops.io.dump(FunctionTransformer(os.system), "m/model.skops")
    line = refused(capsys, "predict", "m", "data.csv", "--out", "p.csv")
    assert "which `pacvote fit` does not save" in line
    Path("m/model.skops").write_bytes(b"junk")
    assert "is no model" in refused(capsys, "predict", "m", "data.csv", "--out", "p.csv")


def pacvote(*tokens: str, **options: object) -> subprocess.Popen[str]:
    code = "import sys; from pacvote.cli import main; sys.argv[0] = 'pacvote'; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *tokens],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


def test_the_console_entry(counts):
    process = pacvote("verify", "no.json", "counts.npz")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "pacvote: No such file or directory: 'no.json'\n"


def test_without_the_extra_one_line_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "pacvote.cli.app")
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    with pytest.raises(SystemExit, match="2"):
        main()
    advice = "pacvote: the commands need cyclopts; install: pip install 'pacvote[app]'\n"
    assert capsys.readouterr().err == advice


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_is_130_and_leaves_nothing(votes, tmp_path):
    os.mkfifo("slow.csv")  # the command waits for it to be written
    process = pacvote("count", "slow.csv", "--label", "y", "--out", "c.npz", cwd=tmp_path)
    with Path("slow.csv").open("w", encoding="utf-8"):  # opens when the command does
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "pacvote: interrupted; no half-written file is left\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slow.csv", "votes.parquet"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_while_fitting_leaves_nothing(tmp_path):
    table().write_csv("data.csv")
    process = pacvote(
        "fit", *["data.csv", "--target", "kind", "--out", "m", "--voters", "100000"], cwd=tmp_path
    )
    while not list(tmp_path.glob(".m.*")):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        130,
        "pacvote: interrupted; no half-written file is left\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.skipif(os.name != "posix", reason="terminals")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colours_unless_it_wants_none(counts, tmp_path, no_color):
    import pty

    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color}
    process = pacvote(*CERTIFY, cwd=tmp_path, env=env, stdout=theirs)
    _, err = process.communicate(timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert (process.returncode, err) == (0, "")
    assert "With 95 % confidence" in shown
    assert ("\x1b[3" in shown) is not bool(no_color)


# ---------------------------------------------------------------- bounds on shared rows


@pytest.mark.parametrize("bound", OF_ROWS)
def test_bounds_on_shared_rows_take_the_table(capsys, counts, bound):
    result = printed(capsys, *CERTIFY, "--bound", bound, "--report", "r.html")
    assert (result["bound"], result["risk"] < 0.05) == (bound, True)
    table = ["votes.parquet", "--label", "truth"]
    assert printed(capsys, "verify", "c.json", *table)["ok"] is True
    frame = pl.read_parquet("votes.parquet")
    frame.head(899).write_parquet("other.parquet")
    assert run(["verify", "c.json", "other.parquet", "--label", "truth"]) == 1
    frame.cast(pl.String).sample(fraction=1, shuffle=True, seed=0).write_csv("votes.csv")
    assert run(["verify", "c.json", "votes.csv", "--label", "truth"]) == 0
    assert "certificate" in Path("r.html").read_text(encoding="utf-8")
    capsys.readouterr()
    for path in ("c.json", "r.html", "other.parquet"):
        Path(path).unlink()
    message = refused(capsys, "certify", "counts.npz", "--bound", bound, "--out", "c.json")
    assert "give the votes" in message


def with_nulls(n_null):
    """The table of `votes`, where the first judge is silent on some rows."""
    frame = pl.read_parquet("votes.parquet").with_columns(pl.all().cast(pl.String))
    silent = pl.when(pl.int_range(pl.len()) < n_null).then(None).otherwise(pl.col("judge 0"))
    frame.with_columns(silent.alias("judge 0")).write_parquet("nulls.parquet")
    return frame


@pytest.mark.parametrize("bound", OF_ROWS)
def test_missing_votes_on_shared_rows_are_errors_or_refused(capsys, votes, bound):
    frame, certify = with_nulls(40), ["certify", "nulls.parquet", "--label", "truth"]
    certify += ["--bound", bound, "--out", "c.json"]
    assert "`--null` must say" in refused(capsys, *certify)
    assert "count as an error" in refused(capsys, *certify, "--null", "out-of-bag")
    result = printed(capsys, *certify, "--null", "error")
    table = ["nulls.parquet", "--label", "truth", "--null", "error"]
    assert printed(capsys, "verify", "c.json", *table)["ok"] is True
    (claim,) = Certificate.load("c.json").claims
    said = frame.drop("truth").to_numpy() != frame["truth"].to_numpy()[:, None]
    said[:40, 0] = True
    assert result["risk"] == issue(Votes.from_errors(said), bound=bound).risk
    if bound == "binomial":
        assert claim.p_hat * 900 >= int((said.sum(axis=1) >= 2).sum())
