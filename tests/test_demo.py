"""The demo: one run, whose numbers are those of the certificate that it writes."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import numpy as np
import pytest

from pacvote import Certificate, PairCounts, evaluate
from pacvote.certificate import percent_up
from pacvote.cli.app import run
from pacvote.cli.demo import COMPARED, DECLARED, N_TREES
from pacvote.cli.scale import Row, scale
from pacvote.concentration import binomial_upper
from pacvote.datasets import load_pendigits
from pacvote.ensemble import MajorityVoteClassifier


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Where one run has written, and what it printed for machines."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        written = []
        patch.setattr("sys.stdout.write", written.append)
        assert run(["demo", "--out", str(folder), "--json"]) == 0
    return folder, json.loads("".join(written))


def test_the_certificate_is_of_the_declared_bound(demo):
    folder, result = demo
    certificate = Certificate.load(folder / "certificate.json")
    votes = {vote["weights"]: vote for vote in result["votes"]}
    assert list(votes) == [DECLARED, *COMPARED, "best_tree", "uniform", "held_out"]
    assert [key for key, vote in votes.items() if vote["declared"]] == [DECLARED]
    assert certificate.bound == DECLARED
    assert certificate.risk == votes[DECLARED]["certified_risk"] == result["certificate"]["risk"]
    assert result["certificate"]["claim"] == certificate.claim
    assert result["verified"] is True


def test_every_number_can_be_had_again_from_what_was_written(demo):
    folder, result = demo
    counts = PairCounts.load(folder / "counts.npz")
    certificate = Certificate.load(folder / "certificate.json")
    votes = {vote["weights"]: vote for vote in result["votes"]}
    assert counts.n_voters == N_TREES
    value = evaluate(DECLARED, counts, certificate.weights).value
    assert value == pytest.approx(votes[DECLARED]["certified_risk"], rel=1e-9)
    assert votes[DECLARED]["effective_voters"] == pytest.approx(1 / sum(certificate.weights**2))
    share = Fraction(1, 20 * N_TREES)
    limits = [
        binomial_upper(int(n), int(k), share)
        for n, k in zip(counts.rows, counts.errors, strict=True)
    ]
    assert votes["best_tree"]["certified_risk"] == pytest.approx(min(limits), rel=1e-12)
    errors = round(votes[DECLARED]["test_error"] * result["n_test"])
    exact = binomial_upper(result["n_test"], errors, Fraction(1, 20))
    assert votes["held_out"]["certified_risk"] == exact


def test_test_errors_are_those_of_the_estimator(demo):
    _, result = demo
    X, y = load_pendigits(return_X_y=True)
    test, train = np.split(np.random.default_rng(0).permutation(len(y)), [len(y) // 5])
    vote = MajorityVoteClassifier(random_state=0, n_jobs=-1).fit(X[train], y[train])
    found = {line["weights"]: line["test_error"] for line in result["votes"]}
    assert found[DECLARED] == pytest.approx(1 - vote.score(X[test], y[test]), abs=1e-12)
    vote.refit_weights(bound="fo")
    assert found["fo"] == pytest.approx(1 - vote.score(X[test], y[test]), abs=1e-12)
    assert (len(train), len(test)) == (result["n_train"], result["n_test"])


def test_no_test_error_is_above_what_is_certified(demo):
    _, result = demo
    for vote in result["votes"]:
        if vote["certified_risk"] is not None:
            assert vote["test_error"] <= vote["certified_risk"] < 0.25


@pytest.mark.parametrize("width", [80, 200])
def test_people_see_a_table_a_picture_and_what_is_not_promised(
    capsys, tmp_path, monkeypatch, width
):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("pacvote.cli.demo.N_TREES", 10)
    monkeypatch.chdir(tmp_path)
    assert run(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= min(width, 100)
    certificate = Certificate.load("demo/certificate.json")
    row = re.search(rf"{DECLARED} \(declared\) .*", out)
    assert row is not None
    assert f"<= {percent_up(certificate.exact_risk)}" in row[0]
    flat = " ".join(out.split())
    assert certificate.claim in flat
    for words in ("Verified from the counts", "Not promised:", "95 % confidence on its own"):
        assert words in flat
    assert out.endswith("Next: pacvote verify demo/certificate.json demo/counts.npz\n")
    assert run(["verify", "demo/certificate.json", "demo/counts.npz"]) == 0
    report = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert certificate.claim.replace("'", "&#39;") in report.replace("\xa0", " ")
    assert "2,198 rows held out" in report


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("largest", [0.004, 0.05, 0.13, 0.5, 1.0])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_scale_keeps_order_and_width(width, largest, ascii_only):
    rows = [Row("a", 0.0, largest), Row("b" * 30, largest / 2, None), Row("c", 0.0, largest / 3)]
    lines = scale(rows, width, ascii_only=ascii_only).plain.split("\n")
    assert max(map(len, lines)) <= width
    end, dot = "|o" if ascii_only else "┤●"
    assert lines[0].index(end) > lines[1].index(dot) >= lines[2].index(end) > 20
    assert lines[-1].split()[0] == "0"
    assert not ascii_only or "".join(lines).isascii()


def test_pendigits_is_as_uci_describes_it():
    bunch = load_pendigits()
    assert bunch.data.shape == (10992, 16)
    assert len(bunch.feature_names) == 16
    assert (bunch.data.min(), bunch.data.max()) == (0, 100)
    sizes = [1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055]
    assert np.bincount(bunch.target).tolist() == sizes
    for words in ("Alpaydin", "Alimoglu", "CC BY 4.0", "https://doi.org/10.24432/C5MG6K"):
        assert words in bunch.DESCR
    X, y = load_pendigits(return_X_y=True)
    assert np.array_equal(X, bunch.data)
    assert np.array_equal(y, bunch.target)
