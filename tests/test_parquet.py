"""Headers of Parquet files: what any writer writes is let pass, and what cannot be is not."""

import io
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacvote.tables import parquet, read_votes
from pacvote.tables.parquet import refuse_impossible_pages


def table(n_rows=5000, kind="int"):
    rng = np.random.default_rng(0)
    said = rng.integers(0, 3, (n_rows, 3))
    columns = {name: said[:, k] for k, name in enumerate("yab")}
    if kind == "text":
        columns = {name: [f"label {x}" for x in column] for name, column in columns.items()}
    if kind == "null":
        columns["a"] = [None if x == 1 else int(x) for x in columns["a"]]
    return columns


@pytest.mark.parametrize("kind", ["int", "text", "null"])
@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "ZSTD", "GZIP", "LZ4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_what_pyarrow_writes_is_let_pass(tmp_path, kind, compression, version, dictionary):
    path = tmp_path / "v.parquet"
    pq.write_table(
        pa.table(table(kind=kind)),
        path,
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=1700,
        data_page_size=512,
        write_page_index=True,
        write_page_checksum=True,
    )
    refuse_impossible_pages(path)


@pytest.mark.parametrize("kind", ["int", "text", "null"])
@pytest.mark.parametrize("n_rows", [0, 1, 5000])
@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "gzip", "brotli"])
def test_what_polars_writes_is_let_pass(tmp_path, kind, n_rows, compression):
    path = tmp_path / "v.parquet"
    schema = dict.fromkeys("yab", pl.String if kind == "text" else pl.Int64)
    frame = pl.DataFrame(table(n_rows, kind), schema=schema)
    frame.write_parquet(path, compression=compression, row_group_size=1700)
    refuse_impossible_pages(path)


def test_pages_are_looked_at_anew_once_the_file_changes(tmp_path):
    path = tmp_path / "v.parquet"
    pl.DataFrame(table()).write_parquet(path)
    refuse_impossible_pages(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])  # the first page's header
    with pytest.raises(OSError, match="header"):
        refuse_impossible_pages(path)


def damaged(rng):
    """Bytes of a small file, a few of them changed, moved or cut."""
    file = io.BytesIO()
    pl.DataFrame(table(27, rng.choice(["int", "text"]))).write_parquet(file)
    data = bytearray(file.getvalue())
    for _ in range(rng.randint(1, 4)):
        start, stop = sorted(rng.randint(0, len(data)) for _ in range(2))
        stop = min(stop, start + rng.choice([0, 1, 2, 8, 10**6]))
        fresh = bytes(rng.randrange(256) for _ in range(rng.randint(0, 9)))
        data[start:stop] = rng.choice([fresh, bytes(data[:start][-20:])])
    return bytes(data)


def test_damage_is_an_oserror_or_nothing(tmp_path):
    rng, path, refused = random.Random(0), tmp_path / "v.parquet", 0
    for _ in range(3000):
        path.write_bytes(damaged(rng))
        parquet._check.cache_clear()  # two files of one size may be written within a tick
        try:
            refuse_impossible_pages(path)
        except OSError:
            refused += 1
    assert refused > 300


CRASH = """
import pathlib, sys
from pacvote.tables import read_votes
try:
    read_votes(sys.argv[1], "y")
except ValueError as error:
    print(error)
"""


def test_a_page_of_a_negative_number_of_values_does_not_end_the_process(tmp_path):
    path = tmp_path / "v.parquet"
    pl.DataFrame(table(27)).write_parquet(path, compression="uncompressed")
    good = path.read_bytes()
    rng, found = random.Random(1), 0
    for _ in range(400):  # a header begins after the magic number
        data = bytearray(good)
        data[rng.randrange(4, 40)] = rng.randrange(256)
        path.write_bytes(data)
        parquet._check.cache_clear()
        try:
            refuse_impossible_pages(path)
        except OSError:
            found += 1
            last = bytes(data)
    assert found > 20
    path.write_bytes(last)
    done = subprocess.run(
        [sys.executable, "-c", CRASH, path], capture_output=True, text=True, check=True
    )
    assert "cannot be read as parquet" in done.stdout
    Path(path).write_bytes(good)
    assert read_votes(path, "y").n_samples == 27
