"""Counting on a Dask cluster of processes, some of which die."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from dask import delayed
from distributed import Client, LocalCluster
from joblib import parallel_config
from sklearn.naive_bayes import GaussianNB

from pacvote import MajorityVoteClassifier, PairCounts, Votes, count
from pacvote.cli.app import run
from pacvote.cluster import connected, count_on_dask
from pacvote.datasets import load_pendigits
from pacvote.tables import count_table

N_WORKERS = 2


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of one thread each; one that dies is started again."""
    with LocalCluster(
        n_workers=N_WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(N_WORKERS)
        yield client


@pytest.fixture
def frame() -> pl.DataFrame:
    """What five voters say on 600 rows: strings, some of voter 1 missing."""
    random = np.random.default_rng(0)
    y = random.choice(["cat", "dog", "ox"], 600)
    said = np.where(
        random.random((600, 5)) < 0.7, y[:, None], random.choice(["cat", "ox"], 600)[:, None]
    )
    table = pl.DataFrame({"y": y} | {f"v{k}": said[:, k] for k in range(5)})
    heard = pl.Series(random.random(600) < 0.8)
    return table.with_columns(pl.when(heard).then(pl.col("v1")).alias("v1"))


@pytest.fixture
def folder(frame, tmp_path) -> Path:
    """The same in twelve Parquet files."""
    folder = tmp_path / "votes"
    folder.mkdir()
    for number, part in enumerate(frame.iter_slices(50)):
        part.write_parquet(folder / f"{number:02}.parquet")
    return folder


@pytest.mark.parametrize("null", ["out-of-bag", "error"])
def test_a_folder_and_a_file_and_a_dask_table_count_as_in_one_place(client, frame, folder, null):
    expected = count_table(folder, "y", null=null)
    seen: list[int] = []
    assert count_on_dask(folder, "y", null=null, progress=seen.append) == expected
    assert sorted(seen) == [50] * 12
    frame.write_csv(folder.with_suffix(".csv"))
    assert count_on_dask(folder.with_suffix(".csv"), "y", null=null) == expected
    table = dd.read_parquet(folder / "*.parquet")
    assert count_on_dask(table, "y", null=null) == expected
    assert (
        count_on_dask(dd.from_pandas(frame.to_pandas(), npartitions=7), "y", null=null) == expected
    )


def test_parts_may_be_votes_or_counts_or_tables(client, frame):
    table = frame.drop("v1")
    first, second, third, last = table.iter_slices(150)
    names = table.columns[1:]
    votes = Votes.from_predictions(first.drop("y"), first["y"])
    parts = [votes, count(second.drop("y"), second["y"]), third.to_pandas(), last.to_arrow()]
    found = count_on_dask([delayed(part) for part in parts], "y")
    assert found == count(table.drop("y"), table["y"])
    assert found.voters == tuple(names)


def die_once(part: pl.DataFrame, flag: Path) -> pl.DataFrame:
    """Kill the worker that computes this, but only the first."""
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def read_slowly(file: Path) -> pl.DataFrame:
    time.sleep(0.02)
    return pl.read_parquet(file)


def test_a_worker_killed_in_the_middle_changes_no_bit(client, folder, tmp_path):
    before = set(client.run(os.getpid).values())
    files = sorted(folder.glob("*.parquet"))
    flag = tmp_path / "killed"
    parts = [delayed(read_slowly)(file) for file in files]
    parts[6] = delayed(die_once)(parts[6], flag)
    found = count_on_dask(parts, "y", null="out-of-bag")
    assert flag.exists()
    assert found == count_table(folder, "y", null="out-of-bag")
    client.wait_for_workers(N_WORKERS)
    assert len(before - set(client.run(os.getpid).values())) == 1


def test_what_is_wrong_is_said_in_one_line(client, frame, folder, tmp_path):
    with pytest.raises(ValueError, match=r"column 'v1' is empty in row \d+ of '\d\d.parquet'"):
        count_on_dask(folder, "y")
    with pytest.raises(ValueError, match="`label` 'x' is no column"):
        count_on_dask(folder, "x")
    with pytest.raises(TypeError, match="`data` must hold Delayed parts, got DataFrame"):
        count_on_dask([frame], "y")
    with pytest.raises(ValueError, match="`data` has a part that is neither votes nor counts"):
        count_on_dask([delayed(7)], "y")
    with pytest.raises(ValueError, match="is read as a whole; count it without a cluster"):
        count_on_dask(tmp_path / "votes.npz")
    mixed = pd.DataFrame({"y": [1, "b"], "a": ["a", 2]}, dtype=object)
    with pytest.raises(ValueError, match="`data` has a part that is neither") as caught:
        count_on_dask([delayed(mixed)], "y")
    assert "\n" not in str(caught.value)
    wrong = [frame.select("y", "v0", "v2"), frame.select("y", "v2", "v0")]
    with pytest.raises(ValueError, match="`voters` must be the same to add counts, got 'v"):
        count_on_dask([delayed(part) for part in wrong], "y")
    with pytest.raises(ValueError, match="has no rows"):
        count_on_dask([delayed(frame.select("y", "v0").clear())], "y")
    with pytest.raises(ValueError, match="has no parts"):
        count_on_dask([], "y")


def test_categories_are_compared_by_what_they_stand_for(client):
    table = pd.DataFrame(
        {
            "y": pd.Categorical([1, 2, 1], categories=[2, 1]),
            "a": pd.Categorical([1, 2, 2], categories=[1, 2]),
            "b": pd.Categorical([2, 2, 2], categories=[3, 2]),
        }
    )
    assert count_on_dask([delayed(table)], "y").errors.tolist() == [1, 2]


def test_the_command_counts_on_a_cluster(client, cluster, frame, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder.parent)
    words = ["count", "votes", "--label", "y", "--null", "error", "--out", "c.npz", "--quiet"]
    assert run([*words, "--dask", cluster.scheduler_address]) == 0
    assert PairCounts.load("c.npz") == count_table(folder, "y", null="error")
    frame.with_columns(v0=pl.lit("cow")).write_csv("votes.csv")
    words[1] = "votes.csv"
    assert run([*words, "--dask", cluster.scheduler_address]) == 0
    assert "'v0' is wrong in every row" in capsys.readouterr().err


class Traced(GaussianNB):
    """A classifier that knows which process fitted it."""

    def fit(self, X, y):
        self.process_ = os.getpid()
        return super().fit(X, y)


def test_training_on_the_cluster_gives_the_same_certificate(client):
    X, y = load_pendigits(return_X_y=True)
    X, y = X[:1000], y[:1000]
    for estimator in (None, Traced()):
        alone = MajorityVoteClassifier(estimator, n_estimators=8, random_state=0).fit(X, y)
        with parallel_config(backend="dask"):
            vote = MajorityVoteClassifier(estimator, n_estimators=8, random_state=0).fit(X, y)
        assert vote.counts_ == alone.counts_
        assert vote.certificate_.exact_risk == alone.certificate_.exact_risk
        assert np.array_equal(vote.predict(X), alone.predict(X))
    fitters = {voter.process_ for voter in vote.estimators_}
    assert fitters <= set(client.run(os.getpid).values())
    assert os.getpid() not in fitters


def test_without_a_cluster_it_says_so(folder):
    with pytest.raises(ValueError, match="no cluster is connected; count inside of"):
        count_on_dask(folder, "y", null="error")


def always_die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_part_that_kills_every_worker_is_given_up(client):
    with pytest.raises(ChildProcessError, match="died of the same part"):
        count_on_dask([delayed(always_die)()], "y")


@pytest.mark.slow
def test_four_workers_one_killed_while_files_are_counted(tmp_path):
    random = np.random.default_rng(0)
    for number in range(40):
        y = random.integers(0, 9, 50_000, dtype=np.int8)
        said = np.where(random.random((50_000, 40)) < 0.8, y[:, None], 9 - y[:, None])
        table = pl.DataFrame({"y": y} | {f"v{k}": said[:, k] for k in range(40)})
        table.write_parquet(tmp_path / f"{number:02}.parquet")
    seen: list[int] = []
    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(4, timeout=120)
        processes = list(client.run(os.getpid).values())

        def kill(n_rows: int) -> None:
            seen.append(n_rows)
            if len(seen) == 5:
                os.kill(processes[0], signal.SIGKILL)

        found = count_on_dask(tmp_path, "y", progress=kill)
    assert found == count_table(tmp_path, "y")
    assert sum(seen) == 2_000_000


@pytest.mark.slow
def test_a_local_cluster(folder):
    with connected("local"):
        assert count_on_dask(folder, "y", null="error") == count_table(folder, "y", null="error")
