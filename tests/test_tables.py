"""Tables of votes in files: no file may make two labels look equal."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacvote import PairCounts, Votes, count
from pacvote.tables import count_table, iter_votes, n_rows, read_votes


def members(path: Path, **arrays: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return path


def declared(dtype: str, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """An array whose header says what it likes."""
    file = io.BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue() + data


@pytest.mark.parametrize(
    ("dtype", "n_rows", "size", "words"),
    [
        ("|u1", 2**40, 9, ""),
        ("<U0", 10**9, 0, "no bytes"),
        ("|u1", 2**26, 2**26, "would unfold"),
        ("<U1000000", 9, 36_000_000, "would unfold"),
    ],
)
def test_arrays_that_unfold_without_end_are_refused(tmp_path, dtype, n_rows, size, words):
    y, predictions = (declared(dtype, shape, bytes(size)) for shape in ((n_rows,), (n_rows, 1)))
    path = members(tmp_path / "votes.npz", predictions=predictions, y=y)
    with pytest.raises(ValueError, match=rf"\A`path` .*{words}.*\Z"):
        read_votes(path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".npz"])
def test_no_damaged_byte_is_anything_but_one_line(tmp_path, suffix):
    path, frame = tmp_path / f"votes{suffix}", pl.DataFrame({"y": [1, 2, 3], "a": [1, 2, 1]})
    if suffix == ".npz":
        np.savez_compressed(path, predictions=frame[["a"]].to_numpy(), y=frame["y"].to_numpy())
    else:
        write(frame, path)
    good = path.read_bytes()
    for at in range(0, len(good), 2):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            read_votes(path, None if suffix == ".npz" else "y")
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017 - some damage changes nothing


SUFFIXES = [".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc"]


def write(frame: pl.DataFrame, path: Path) -> Path:
    """Write a frame in the format of the path's suffix, Parquet in groups of two rows."""
    if path.suffix in (".csv", ".tsv"):
        frame.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".parquet":
        frame.write_parquet(path, row_group_size=2)
    else:
        frame.write_ipc(path)
    return path


def text(tmp_path: Path, content: str | bytes, name: str = "votes.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def errors(path: Path, **options: object) -> list[list[int]]:
    """Errors of each row; the same whether rows are read at once or one by one."""
    votes = read_votes(path, "y", **options)
    assert count_table(path, "y", chunk_rows=1, **options) == count(votes)
    return votes.errors.astype(int).tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["integers", "strings", "categories", "booleans"])
def test_every_format_and_kind_of_label_gives_the_same_errors(tmp_path, suffix, kind):
    values = {"integers": [3, -1], "booleans": [True, False]}.get(kind, ["cat", "dog, or 'x'"])
    y, a, b = (
        [values[k] for k in ks] for ks in ([0, 1, 1, 0, 1], [0, 1, 0, 0, 1], [1, 1, 1, 1, 1])
    )
    dtype = pl.Categorical if kind == "categories" else None
    frame = pl.DataFrame({"a": a, "y": y, "b": b}).with_columns(
        pl.all().cast(dtype) if dtype else pl.all()
    )
    path = write(frame, tmp_path / f"votes{suffix}")
    assert errors(path) == [[0, 1], [0, 0], [1, 0], [0, 1], [0, 0]]
    assert read_votes(path, "y").voters == ("a", "b")
    assert n_rows(path) == 5


@given(
    cells=st.lists(
        st.tuples(
            *[st.sampled_from(["1", "01", "1.0", "a", "2", "a ", "A", "\0", "a\0", "é"])] * 3
        ),
        min_size=1,
        max_size=12,
    )
)
def test_csv_never_takes_two_texts_for_equal_but_numbers(cells, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "votes.csv"
    frame = pl.DataFrame(cells, schema=["y", "a", "b"], orient="row")
    frame.write_csv(path)
    with contextlib.suppress(ValueError):  # whole numbers beside text
        found = np.array(errors(path))
        _check_against_python(cells, found)


def _check_against_python(cells, found):
    told = np.array([[row[0] != said for said in row[1:]] for row in cells])
    same_number = np.array([[{row[0], said} == {"1", "1.0"} for said in row[1:]] for row in cells])
    assert ((found == 1) == told)[~same_number].all()


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=9))
def test_strings_of_parquet_compare_as_strings(rows):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        pl.DataFrame(rows, schema=["y", "a"], orient="row").write_parquet(path)
        assert errors(path) == [[int(y != a)] for y, a in rows]


def test_leading_zeros_are_text_for_the_whole_file(tmp_path):
    assert errors(text(tmp_path, "y,a\n01,01\n02,2\n1,01\n")) == [[0], [1], [1]]
    assert errors(text(tmp_path, "y,a\n1,1\n2,x\n")) == [[0], [1]]


def test_whole_floats_of_csv_are_the_integers_that_they_are(tmp_path):
    assert errors(text(tmp_path, "y,a,b\n1,1.0,2\n2,2.0,2\n")) == [[0, 1], [0, 0]]


def test_integers_past_the_floats_stay_apart(tmp_path):
    big = 2**53
    assert errors(text(tmp_path, f"y,a\n{big + 1},{big}\n")) == [[1]]
    assert errors(text(tmp_path, f"y,a\n{10**25 + 1},{10**25}\n")) == [[1]]
    frame = pl.DataFrame({"y": [big + 1], "a": pl.Series([big], dtype=pl.UInt64)})
    assert errors(write(frame, tmp_path / "v.parquet")) == [[1]]
    frame = pl.DataFrame({"y": [-1], "a": pl.Series([255], dtype=pl.UInt8)})
    assert errors(write(frame, tmp_path / "v.parquet")) == [[1]]


def test_labels_come_back_as_they_were(tmp_path):
    frame = pl.DataFrame({"y": ["b", "a\0", "a"], "v": ["a", "a\0", "ä"]})
    votes = read_votes(write(frame, tmp_path / "v.parquet"), "y")
    assert list(votes.labels) == ["b", "a\0", "a"]
    assert list(votes.classes) == ["a", "a\0", "b", "ä"]


def test_categories_of_pandas_in_several_row_groups(tmp_path):
    frame = pd.DataFrame(
        {
            "y": pd.Categorical(["a", "b", "c", "a"]),
            "v": pd.Categorical(["b", "b", "a", "a"], categories=["b", "a"]),
            "w": ["a", "b", "c", "c"],
        }
    )
    frame.to_parquet(tmp_path / "v.parquet", row_group_size=1)
    assert errors(tmp_path / "v.parquet") == [[1, 0], [0, 0], [1, 0], [0, 1]]
    frame.to_feather(tmp_path / "v.feather")
    assert errors(tmp_path / "v.feather") == [[1, 0], [0, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("empty", ["", '""', "NA", "nan", "None"])
def test_nulls_are_refused_unless_they_mean_something(tmp_path, empty):
    path = text(tmp_path, f"y,a,b\n1,1,2\n2,{empty},2\n2,1,2\n")
    with pytest.raises(ValueError, match=r"column 'a' is empty in row 2; `null` must say"):
        read_votes(path, "y")
    with pytest.raises(ValueError, match=r"column 'a' is empty in row 2"):
        count_table(path, "y", chunk_rows=1)
    assert errors(path, null="error") == [[0, 1], [1, 0], [1, 0]]
    votes = read_votes(path, "y", null="out-of-bag")
    assert votes.validated.tolist() == [[True, True], [False, True], [True, True]]
    assert errors(path, null="out-of-bag") == [[0, 1], [0, 0], [1, 0]]
    with pytest.raises(ValueError, match="`null` must be out-of-bag or error"):
        read_votes(path, "y", null="abstain")


@pytest.mark.parametrize("kind", [pl.String, pl.Float64, pl.Categorical])
def test_nulls_of_typed_columns(tmp_path, kind):
    said = pl.Series([1.0, None, 2.0]).cast(pl.String) if kind != pl.Float64 else [1.0, None, 2.0]
    y = ["1.0", "1.0", "2.0"] if kind != pl.Float64 else [1, 1, 2]
    frame = pl.DataFrame({"y": y, "a": said, "b": y}).with_columns(pl.col("a").cast(kind))
    path = write(frame, tmp_path / "v.parquet")
    assert errors(path, null="error") == [[0, 0], [1, 0], [0, 0]]
    assert read_votes(path, "y", null="out-of-bag").validated[:, 0].tolist() == [True, False, True]


def test_a_voter_without_any_vote(tmp_path):
    frame = pl.DataFrame({"y": ["u", "v"], "a": [None, None], "b": ["u", "u"]})
    path = write(frame, tmp_path / "v.parquet")
    assert errors(path, null="error") == [[1, 0], [1, 1]]
    assert not read_votes(path, "y", null="out-of-bag").validated[:, 0].any()


def test_nan_is_a_null(tmp_path):
    frame = pl.DataFrame({"y": [1, 2], "a": [1.0, float("nan")]})
    path = write(frame, tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="column 'a' is empty in row 2"):
        read_votes(path, "y")
    assert errors(path, null="error") == [[0], [1]]


REFUSED = [
    ("y,a\n1,\n,1\n", "label column 'y' is empty in row 2"),
    ("y,a,a\n1,1,1\n", r"column 'a' exists twice \(2 and 3\)"),
    (",y,a\n0,1,1\n", "index=False"),
    ("*,y\n1,1\n", r"'\*'; rename it"),
    ("^.*$,y\n1,1\n", "rename it"),
    ("yy,a\n1,1\n", "`label` 'y' is no column; did you mean 'yy'"),
    ("y\n1\n", "no column is left for voters"),
    ("y,a\n", "has no rows"),
    ("", "has no rows"),
    ("y,a\n1,1,1\n", "cannot be read as csv"),
    (b"y,a\n\xff\xfe,1\n", "cannot be read as csv"),
    ("y,a\ncat,0\ndog,1\n", "'y' holds text, such as 'cat', and column 'a' holds whole numbers"),
    ("y,a,b\n1,1.0,x\n2,2.0,1\n", "holds whole numbers, such as '1', .* such as '1.0'"),
    ("y,a\n0,cat\n1,dog\n", "'y' holds whole numbers, such as '0', and column 'a' holds text"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_is_wrong_with_a_csv_is_said_in_one_line(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_votes(text(tmp_path, content), "y", null="error")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "a", "message"),
    [
        ([1, 2], ["1", "2"], "label column 'y' is Int64 and column 'a' is String"),
        (["1", "2"], [1, 2], "label column 'y' is String and column 'a' is Int64"),
        ([1, 2], [1.0, 0.5], "column 'a' has 0.5 in row 2, not a whole number"),
        ([1, 2], [dt.date(2020, 1, 1)] * 2, "column 'a' is Date"),
        ([1, 2], [[1], [2]], "column 'a' is List"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(tmp_path, y, a, message):
    path = write(pl.DataFrame({"y": y, "a": a}), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=message):
        read_votes(path, "y")


def test_other_columns_may_be_ignored(tmp_path):
    path = text(tmp_path, "id,y,a\nx7,1,1\nx8,2,1\n")
    assert errors(path, ignore=["id"]) == [[0], [1]]
    with pytest.raises(ValueError, match="`ignore` 'idd' is no column; did you mean 'id'"):
        read_votes(path, "y", ignore=["idd"])
    with pytest.raises(ValueError, match="`ignore` names 'y', which is the label"):
        read_votes(path, "y", ignore=["y"])
    with pytest.raises(ValueError, match="`label` is missing; name the column"):
        read_votes(path)


def test_blank_lines_and_byte_order_marks(tmp_path):
    assert errors(text(tmp_path, "\ufeffy,a\r\n1,1\r\n\r\n2,1\r\n\r\n")) == [[0], [1]]


@pytest.mark.parametrize("name", ["v.parquet", "v.arrow", "v.npz"])
def test_junk_is_refused_in_one_line(tmp_path, name):
    with pytest.raises(ValueError, match="v\\.") as caught:
        read_votes(text(tmp_path, "junk", name), None if name == "v.npz" else "y")
    assert "\n" not in str(caught.value)
    assert "pickle" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read_votes(tmp_path / f"no{name}", None if name == "v.npz" else "y")


def test_a_suffix_that_is_no_table(tmp_path):
    with pytest.raises(ValueError, match=r"use \.csv, \.tsv"):
        read_votes(text(tmp_path, "x", "votes.xlsx"), "y")


def test_arrays(tmp_path):
    path = tmp_path / "v.npz"
    said, y = np.array([["a", "b"], ["b", "b"]]), np.array(["a", "b"])
    validated = np.array([[True, True], [False, True]])
    np.savez(path, predictions=said, y=y, validated=validated)
    assert count_table(path) == count(said, y, validated)
    assert [votes.n_samples for votes in iter_votes(path, chunk_rows=1)] == [2]
    for option in ({"label": "y"}, {"null": "error"}, {"ignore": ["a"]}):
        with pytest.raises(ValueError, match=r"is for tables with named columns"):
            read_votes(path, **option)
    np.savez(path, votes=said)
    with pytest.raises(ValueError, match="no array 'predictions', only votes"):
        read_votes(path)
    np.savez(path, predictions=said.astype(object), y=y)
    with pytest.raises(ValueError, match="Python objects"):
        read_votes(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("chunk_rows", [1, 7, 64, 1000])
def test_any_chunking_counts_the_same(tmp_path, suffix, chunk_rows):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 200)
    said = np.where(random.random((200, 4)) < 0.6, y[:, None], random.integers(0, 3, (200, 4)))
    columns = {"y": y} | {f"v{k}": said[:, k] for k in range(4)}
    frame = pl.DataFrame(columns).with_columns(
        pl.when(pl.Series(random.random(200)) < 0.7).then(pl.col("v1")).alias("v1")
    )
    path = write(frame, tmp_path / f"v{suffix}")
    parts: list[Votes] = list(iter_votes(path, "y", null="out-of-bag", chunk_rows=chunk_rows))
    assert max(part.n_samples for part in parts) <= chunk_rows
    validated = np.ones(said.shape, dtype=bool)
    validated[:, 1] = frame["v1"].is_not_null().to_numpy()
    expected = count(Votes.from_predictions(said, y, validated, ["v0", "v1", "v2", "v3"]))
    seen: list[int] = []
    found = count_table(path, "y", null="out-of-bag", chunk_rows=chunk_rows, progress=seen.append)
    assert isinstance(found, PairCounts)
    assert found == expected == sum(count(part) for part in parts)
    assert sum(seen) == 200
