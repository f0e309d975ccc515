"""Killed at any moment, a command leaves the old files or the new ones, and the next run works."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pacvote import Certificate, PairCounts, count, verify

pytestmark = pytest.mark.slow
MOMENTS = 50
PACVOTE = (sys.executable, "-c", "from pacvote.cli import main; main()")


def run(*tokens):
    return subprocess.run([*PACVOTE, *tokens], capture_output=True, text=True, check=False)


def kill_at(seconds, *tokens):
    """Start a command and kill it so many seconds later; whether it was still at work."""
    process = subprocess.Popen(
        [*PACVOTE, *tokens], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def moments(*tokens):
    """Random moments, most of them near the end of the command, when files are written."""
    start = time.perf_counter()
    done = run(*tokens)
    assert done.returncode == 0, done.stderr
    whole = time.perf_counter() - start
    rng = np.random.default_rng(0)
    return whole * np.concatenate([rng.random(MOMENTS // 2), rng.uniform(0.7, 1.1, MOMENTS // 2)])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, flip in (("old", 0.1), ("new", 0.3)):
        X = rng.normal(size=(400, 3))
        y = (X[:, 0] > 0) ^ (rng.random(400) < flip)
        frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(kind=pl.Series(y).cast(int))
        frame.write_csv(f"{name}.csv")
    return tmp_path


def test_certify_and_count(here):
    rng = np.random.default_rng(0)
    for name, risk in (("old", 0.1), ("new", 0.3)):
        count((rng.random((500, 40)) < risk).astype(int), np.zeros(500, int)).save(f"{name}.npz")
    tokens = ("certify", "new.npz", "--out", "c.json")
    assert run("certify", "old.npz", "--out", "c.json").returncode == 0
    killed = 0
    for moment in moments("certify", "new.npz", "--out", "elsewhere.json"):
        killed += kill_at(moment, *tokens)
        Certificate.load("c.json")
        assert [bool(verify("c.json", f"{name}.npz")) for name in ("old", "new")].count(True) == 1
    print(f"certify: killed at work at {killed} of {MOMENTS} moments")
    assert killed > MOMENTS // 3
    assert run(*tokens).returncode == 0
    assert verify("c.json", "new.npz")


def test_fit(here):
    options = ("--target", "kind", "--voters", "15")
    assert run("fit", "old.csv", *options, "--out", "m").returncode == 0
    files = ("model.skops", "counts.npz", "certificate.json")
    old = {name: Path("m", name).read_bytes() for name in files}
    killed = 0
    for moment in moments("fit", "new.csv", *options, "--out", "elsewhere"):
        killed += kill_at(moment, "fit", "new.csv", *options, "--out", "m")
        Certificate.load("m/certificate.json")
        PairCounts.load("m/counts.npz")
        now = {name: Path("m", name).read_bytes() for name in files}
        if now != old:
            done = run("predict", "m", "new.csv", "--out", "p.csv")
            assert done.returncode == 0, done.stderr
            old = now
    print(f"fit: killed at work at {killed} of {MOMENTS} moments")
    assert killed > MOMENTS // 3
    assert run("fit", "new.csv", *options, "--out", "m").returncode == 0
    assert verify("m/certificate.json", "m/counts.npz")
