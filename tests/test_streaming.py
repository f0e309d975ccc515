"""Counting in parts: folders, checkpoints, and a process that is killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacvote import PairCounts, count
from pacvote.cli.app import run
from pacvote.tables import checkpoint as checkpoints
from pacvote.tables import count_table, iter_votes, n_rows, read_votes

N_ROWS = 100
CHUNK = 7
COUNT = ["count", "votes", "--label", "y", "--out", "c.npz", "--checkpoint", "ck", "--quiet"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoints, "_SHARE", 0)  # a checkpoint after every chunk


def random_frame(n_rows: int = N_ROWS, n_voters: int = 4, seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n_rows)
    said = np.where(
        random.random((n_rows, n_voters)) < 0.6,
        y[:, None],
        random.integers(0, 3, (n_rows, n_voters)),
    )
    return pl.DataFrame({"y": y} | {f"v{k}": said[:, k] for k in range(n_voters)})


def in_memory(frame: pl.DataFrame) -> PairCounts:
    return count(frame.drop("y"), frame["y"])


def write(frame: pl.DataFrame, path: Path) -> None:
    writers = {".csv": "write_csv", ".parquet": "write_parquet", ".arrow": "write_ipc"}
    getattr(frame, writers[path.suffix])(path)


def folder_of(frame: pl.DataFrame, suffix: str, sizes: tuple[int, ...] = (30, 0, 45, 25)) -> Path:
    folder = Path("votes")
    folder.mkdir()
    stops = itertools.accumulate(sizes)
    for number, (size, stop) in enumerate(zip(sizes, stops, strict=True)):
        write(frame.slice(stop - size, size), folder / f"part-{number}{suffix}")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.crc").touch()
    return folder


class StoppedError(Exception):
    """What a test stops a count with."""


def stop_after(n_chunks: int):
    """Let so many chunks pass."""
    calls = itertools.count()

    def progress(_: int) -> None:
        if next(calls) == n_chunks + 1:  # the first call tells what was done before
            raise StoppedError

    return progress


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_a_folder_counts_as_its_files_in_one(suffix):
    frame = random_frame()
    folder = folder_of(frame, suffix)
    assert count_table(folder, "y", chunk_rows=CHUNK) == in_memory(frame)
    parts = list(iter_votes(folder, "y", chunk_rows=CHUNK))
    assert max(part.n_samples for part in parts) == CHUNK
    assert sum(map(count, parts)) == in_memory(frame)
    assert n_rows(folder) == N_ROWS
    with pytest.raises(ValueError, match="is a folder; read its files one by one"):
        read_votes(folder, "y")


def test_columns_of_a_folder_may_differ_in_order_but_not_in_name():
    frame = random_frame()
    folder = folder_of(frame, ".parquet")
    last = folder / "part-3.parquet"
    table = pl.read_parquet(last)
    write(table.select(reversed(table.columns)), last)
    assert count_table(folder, "y") == in_memory(frame)
    write(table.drop("v2"), last)
    with pytest.raises(ValueError, match=r"part-3.parquet' lacks the column 'v2'"):
        count_table(folder, "y")
    write(table.with_columns(id=0), last)
    with pytest.raises(ValueError, match=r"part-3.parquet' has a column 'id'"):
        count_table(folder, "y")


def test_cells_of_csv_are_numbers_in_all_files_or_text_in_all():
    Path("votes").mkdir()
    Path("votes/a.csv").write_text("y,a\n1,1.0\n2,2\n")
    assert count_table("votes", "y").errors.tolist() == [0]
    Path("votes/b.csv").write_text("y,a\ncat,cat\n1,1\n")
    assert count_table("votes", "y").errors.tolist() == [1]  # "1" is not "1.0" as text


@pytest.mark.parametrize("name", ["b.csv", "deep", "readme.txt", "c.npz"])
def test_a_folder_with_anything_else_in_it_is_refused(name):
    folder = folder_of(random_frame(), ".parquet")
    (folder / name).mkdir() if name == "deep" else (folder / name).touch()
    with pytest.raises(ValueError, match=f"'votes' holds '({name}|part-0.parquet)'; a folder"):
        count_table(folder, "y")


def test_an_empty_folder_and_one_of_empty_files_are_refused():
    Path("votes").mkdir()
    with pytest.raises(ValueError, match="'votes' has no rows"):
        count_table("votes", "y")
    write(random_frame(0), Path("votes/a.parquet"))
    for call in (count_table, lambda *given: list(iter_votes(*given))):
        with pytest.raises(ValueError, match="'votes' has no rows"):
            call("votes", "y")


def test_an_error_names_the_file_of_a_folder_and_its_row():
    frame = random_frame().with_columns(
        pl.when(pl.int_range(pl.len()) != 40).then(pl.col("v1")).alias("v1")
    )
    folder = folder_of(frame, ".parquet")
    with pytest.raises(ValueError, match=r"column 'v1' is empty in row 11 of 'part-2.parquet'"):
        count_table(folder, "y", chunk_rows=3)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
@pytest.mark.parametrize("chunk_rows", [CHUNK, 13])
def test_stopped_after_any_chunk_it_goes_on(suffix, chunk_rows):
    frame = random_frame().with_columns(
        pl.when(pl.int_range(pl.len()) % 7 != 3).then(pl.col("v1")).alias("v1")
    )
    folder = folder_of(frame, suffix)
    options = {"label": "y", "null": "out-of-bag", "checkpoint": "ck"}
    whole = count_table(folder, "y", null="out-of-bag")
    for n_chunks in range(N_ROWS // CHUNK):
        Path("ck").unlink(missing_ok=True)
        with pytest.raises(StoppedError):
            count_table(folder, **options, chunk_rows=CHUNK, progress=stop_after(n_chunks))
        seen: list[int] = []
        found = count_table(folder, **options, chunk_rows=chunk_rows, progress=seen.append)
        assert found == whole
        assert sum(seen) == N_ROWS
        # The chunk whose progress stopped it had not been kept.
        assert seen[0] == sum(sizes_of_chunks()[:n_chunks])
    seen = []
    assert count_table(folder, **options, progress=seen.append) == whole
    assert seen == [N_ROWS]


def sizes_of_chunks() -> list[int]:
    return [min(CHUNK, size - start) for size in (30, 45, 25) for start in range(0, size, CHUNK)]


def test_it_may_be_stopped_many_times():
    frame = random_frame()
    write(frame, Path("v.parquet"))
    for _ in range(7):
        with pytest.raises(StoppedError):
            count_table("v.parquet", "y", chunk_rows=CHUNK, checkpoint="ck", progress=stop_after(2))
    found = count_table("v.parquet", "y", chunk_rows=CHUNK, checkpoint="ck")
    assert found == in_memory(frame)


@pytest.fixture
def begun() -> Path:
    """A folder half of which is counted."""
    folder = folder_of(random_frame(), ".parquet")
    with pytest.raises(StoppedError):
        count_table(folder, "y", chunk_rows=CHUNK, checkpoint="ck", progress=stop_after(6))
    return folder


def touched(folder: Path) -> None:
    facts = (folder / "part-0.parquet").stat()
    os.utime(folder / "part-0.parquet", ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))


def rewritten(folder: Path) -> None:
    """Change one row, and neither size nor time."""
    file = folder / "part-0.parquet"
    before = file.stat()
    frame = pl.read_parquet(file)
    for column, seed in itertools.product(frame.columns, range(20)):
        write(frame.with_columns(pl.col(column).shuffle(seed)), file)
        if file.stat().st_size == before.st_size and not pl.read_parquet(file).equals(frame):
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            return
    pytest.fail("no such change was found")


def renamed(folder: Path) -> None:
    (folder / "part-0.parquet").rename(folder / "part-9.parquet")


def grown(folder: Path) -> None:
    write(random_frame(3), folder / "part-9.parquet")


@pytest.mark.parametrize("change", [touched, rewritten, renamed, grown])
def test_a_checkpoint_of_other_files_is_refused(begun, change):
    change(begun)
    kept = Path("ck").read_bytes()
    with pytest.raises(ValueError, match="begun with another content of the files; give") as caught:
        count_table(begun, "y", checkpoint="ck")
    assert "\n" not in str(caught.value)
    assert Path("ck").read_bytes() == kept


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"label": "v0"}, "set of voters"),
        ({"label": "y", "null": "error"}, "null"),
        ({"label": "y", "ignore": ["v3"]}, "set of voters"),
    ],
)
def test_a_checkpoint_of_other_options_is_refused(begun, options, what):
    with pytest.raises(ValueError, match=f"`checkpoint` 'ck' .* begun with another {what}; give"):
        count_table(begun, checkpoint="ck", **options)


def test_a_checkpoint_of_another_version_is_refused(begun, monkeypatch):
    monkeypatch.setattr(checkpoints.importlib.metadata, "version", lambda _: "0.0")
    with pytest.raises(ValueError, match="begun with another version of pacvote"):
        count_table(begun, "y", checkpoint="ck")


@pytest.mark.parametrize("content", ["junk", "counts", "half", "table"])
def test_what_is_no_checkpoint_is_refused_and_left_alone(begun, content):
    path = Path("ck")
    if content == "junk":
        path.write_text("junk")
    elif content == "half":
        path.write_bytes(path.read_bytes()[:-100])
    elif content == "table":
        path.write_bytes((begun / "part-0.parquet").read_bytes())
    else:
        count_table(begun, "y").save(path)
    kept = path.read_bytes()
    with pytest.raises(
        ValueError, match="`checkpoint` 'ck' is not a checkpoint of this count"
    ) as e:
        count_table(begun, "y", checkpoint=path)
    assert "\n" not in str(e.value)
    assert path.read_bytes() == kept


def test_a_checkpoint_is_no_file_of_counts(begun):
    with pytest.raises(ValueError, match="is not a file of pair counts"):
        PairCounts.load("ck")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_that_changes_while_it_is_counted_is_refused(suffix):
    folder = folder_of(random_frame(), suffix)
    calls = itertools.count()

    def meddle(_: int) -> None:
        if next(calls) == 3:
            write(random_frame(30, seed=1), folder / f"part-0{suffix}")

    with pytest.raises(ValueError, match="is not the file that it was when the count began"):
        count_table(folder, "y", chunk_rows=CHUNK, progress=meddle)


def test_arrays_have_no_checkpoint():
    np.savez("v.npz", predictions=np.eye(3, dtype=int), y=np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match=r"`checkpoint` is for tables that are read in parts"):
        count_table("v.npz", checkpoint="ck")


def test_the_command_goes_on_and_removes_its_checkpoint(begun):
    assert run(COUNT) == 0
    assert PairCounts.load("c.npz") == in_memory(random_frame())
    assert not Path("ck").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--checkpoint", "c.npz"], "'c.npz' is also `out`"),
        (["--checkpoint", "votes/ck"], "is in the folder of the input"),
        (["--out", "votes/c.npz"], "is in the folder of the input"),
        (["--checkpoint", "no/ck"], "in a directory that does not exist"),
        (["--dask", "local"], "`checkpoint` and `dask` cannot be combined"),
        (["--null", "error"], "begun with another null"),
    ],
)
def test_the_command_refuses_in_one_line(begun, capsys, words, message):
    names = [word for word in words if word.startswith("--")]
    pairs = [COUNT[i : i + 2] for i in range(2, 8, 2)]
    kept = [word for pair in pairs if pair[0] not in names for word in pair]
    assert run([*COUNT[:2], *kept, *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error.replace("`--", "`")
    assert Path("ck").exists()


def test_a_folder_is_evidence_too(capsys):
    folder_of(random_frame(600, 9), ".csv", (200, 400))
    assert run(["certify", "votes", "--label", "y", "--out", "c.json"]) == 0
    assert run(["verify", "c.json", "votes", "--label", "y"]) == 0


def kill_midway(*command: str, until: int) -> int:
    """Kill a process once its checkpoint has so many rows; return how many it has."""
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            time.sleep(0.005)
            if Path("ck").exists() and (n_done := n_samples("ck")) >= until:
                process.send_signal(signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
                return n_done
    finally:
        process.kill()
        process.wait()
    return pytest.fail("it ended before it could be killed")


def n_samples(path: str) -> int:
    with np.load(path) as arrays:
        return int(arrays["place"][2])


KILLED = """
import itertools, os, signal
from pacvote.tables import count_table

def advance(_, calls=itertools.count()):
    if next(calls) == 50:
        os.kill(os.getpid(), signal.SIGKILL)

count_table("v.parquet", "y", chunk_rows=20, checkpoint="ck", progress=advance)
"""


def test_a_killed_process_goes_on_with_the_same_bits():
    frame = random_frame(2_000, 10)
    write(frame, Path("v.parquet"))
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert 20 <= n_samples("ck") < 50 * 20
    seen: list[int] = []
    found = count_table("v.parquet", "y", checkpoint="ck", progress=seen.append)
    assert found == in_memory(frame)
    assert seen[0] >= 20


# The peak of the process itself: what `getrusage` tells of a child begins at its parent's size.
MEASURED = """
import atexit, pathlib
from pacvote.cli import main

def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    pathlib.Path("peak").write_text(next(line.split()[1] for line in lines if "VmHWM" in line))

atexit.register(peak)
main()
"""


@pytest.mark.slow
def test_five_million_rows_in_600_megabytes_killed_at_half():
    n_rows, n_voters, step = 5_000_000, 100, 250_000
    random = np.random.default_rng(0)
    columns = ["y", *(f"v{k}" for k in range(n_voters))]
    parts = []
    with pq.ParquetWriter(
        "votes.parquet", pa.schema([(name, pa.int8()) for name in columns])
    ) as file:
        for _ in range(n_rows // step):
            y = random.integers(0, 10, step, dtype=np.int8)
            other = random.integers(0, 10, (n_voters, step), dtype=np.int8)
            said = np.where(random.random(other.shape, dtype=np.float32) < 0.8, y, other)
            file.write_table(pa.table([y, *said], names=columns), row_group_size=step)
            parts.append(count(pl.DataFrame(dict(zip(columns[1:], said, strict=True))), y))
    words = [word.replace("votes", "votes.parquet") for word in COUNT]
    command = (sys.executable, "-c", MEASURED, *words)
    n_done = kill_midway(*command, until=n_rows // 2)
    assert n_rows // 2 <= n_done < n_rows
    subprocess.run(command, check=True)
    assert PairCounts.load("c.npz") == sum(parts)
    assert int(Path("peak").read_text(encoding="ascii")) < 600_000  # kilobytes
