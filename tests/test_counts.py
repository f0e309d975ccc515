"""Pair counts are right, add up, and come from files that are counts or are refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacvote import _countsfile, _files
from pacvote.counts import PairCounts, count
from pacvote.votes import Votes

N_ROWS = st.one_of(st.integers(1, 130), st.sampled_from([63, 64, 65, 4095, 4096, 4097]))
MASKS = st.sampled_from(["shared", "random", "disjoint", "none", "one voter without rows"])


def a_table(seed, n_samples, n_voters, kind):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_samples)
    predictions = np.where(
        rng.random((n_samples, n_voters)) < 0.3, (y[:, None] + 1) % 3, y[:, None]
    )
    masks = {
        "shared": np.ones(predictions.shape, bool),
        "random": rng.random(predictions.shape) < 0.4,
        "disjoint": np.arange(n_samples)[:, None] % n_voters == np.arange(n_voters),
        "none": np.zeros(predictions.shape, bool),
        "one voter without rows": np.tile(np.arange(n_voters) > 0, (n_samples, 1)),
    }
    return predictions, y, masks[kind]


def by_hand(predictions, y, validated):
    """Count from matrices of booleans, as the definitions say."""
    valid = validated.astype(np.float64)  # exact, and faster than integers
    errors = ((predictions != y[:, None]) & validated).astype(np.float64)
    voters = tuple(map(str, range(predictions.shape[1])))
    products = (valid.T @ valid, errors.T @ errors, errors.T @ valid)
    return PairCounts(*(product.astype(np.int64) for product in products), voters=voters)


tables = st.builds(a_table, st.integers(0, 2**32), N_ROWS, st.integers(1, 9), MASKS)
counts_of_five = st.builds(
    lambda *args: by_hand(*a_table(*args)), st.integers(0, 2**32), N_ROWS, st.just(5), MASKS
)


@given(tables, st.sampled_from(["auto", "cpu", "plain"]))
def test_counts_are_right(table, engine):
    expected = by_hand(*table)
    assert count(Votes.from_predictions(*table), engine=engine) == expected
    assert count(*table, engine=engine) == expected
    assert count(pd.DataFrame(table[0]), *table[1:], engine=engine) == expected


@settings(max_examples=50)
@given(tables, st.integers(0, 2**32), st.integers(1, 6), st.sampled_from(["cpu", "plain"]))
def test_chunks_and_order_of_rows_do_not_matter(table, seed, n_parts, engine):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(table[1]))
    parts = [part for part in np.array_split(rows, n_parts) if len(part)]
    counts = [count(*(array[part] for array in table), engine=engine) for part in parts]
    assert sum(counts) == count(*table)


@given(tables, st.integers(0, 2**32))
def test_voters_may_be_permuted(table, seed):
    predictions, y, validated = table
    order = np.random.default_rng(seed).permutation(predictions.shape[1])
    counts = count(*table)
    permuted = count(predictions[:, order], y, validated[:, order])
    for name in ("pair_rows", "pair_errors", "left_errors"):
        assert np.array_equal(getattr(permuted, name), getattr(counts, name)[np.ix_(order, order)])


@given(counts_of_five, counts_of_five, counts_of_five)
def test_counts_are_a_commutative_monoid(a, b, c):
    zero = PairCounts.zero(5)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + zero == a == zero + a
    assert sum([a, b, c]) == a + b + c
    assert (a == b) == (pickle.dumps(a) == pickle.dumps(b))


@pytest.mark.parametrize(
    ("case", "n_single", "n_pair"), [("a", 1063, 350), ("d", 1430, 509), ("e", 7229, 2539)]
)
def test_golden_tables(golden, case, n_single, n_pair):
    predictions, y = golden(case)
    counts = count(predictions, y, predictions != -1)
    assert (counts.n_single, counts.n_pair, counts.shared) == (n_single, n_pair, False)
    assert counts == by_hand(predictions, y, predictions != -1)


def test_what_counts_say():
    validated = np.array([[True, False], [True, True], [True, True]])
    counts = count([[1, 0], [0, 1], [0, 0]], [0, 1, 1], validated)
    assert counts.n_voters == 2
    assert counts.rows.tolist() == [3, 2]
    assert counts.errors.tolist() == [3, 1]
    assert counts.pair_rows.tolist() == [[3, 2], [2, 2]]
    assert counts.pair_errors.tolist() == [[3, 1], [1, 1]]
    assert counts.left_errors.tolist() == [[3, 2], [1, 1]]
    assert (counts.n_single, counts.n_pair, counts.shared) == (2, 2, False)
    assert count([[1, 0]], [0]).shared
    with pytest.raises(ValueError, match="read-only"):
        counts.pair_rows[0, 0] = 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(counts)
    assert counts != "counts"


def test_names_go_along():
    frame = pd.DataFrame({"judge": [1], "other": [0]})
    assert count(frame, [1]).voters == ("judge", "other")
    assert count(Votes.from_predictions([[1, 0]], [1], voters=["a", "b"])).voters == ("a", "b")


def test_count_misused():
    votes = Votes.from_predictions([[1]], [1])
    with pytest.raises(TypeError, match=r"`y` and `validated` are part of `votes` already"):
        count(votes, [1])
    with pytest.raises(TypeError, match=r"`y` is missing; give Votes, or labels with list"):
        count([[1]])
    for arguments in ((votes,), ([[1]], [1])):
        with pytest.raises(
            ValueError, match=r"`engine` must be one of 'auto', 'cpu', 'cuda', 'plain'"
        ):
            count(*arguments, engine="gpu")


# --- what cannot be counts ---


def test_different_voters_do_not_add():
    with pytest.raises(ValueError, match=r"`voters` must be the same .* got 1 and 2 voters"):
        PairCounts.zero(1) + PairCounts.zero(2)
    with pytest.raises(ValueError, match=r"the same to add counts, got 'b' and 'c' at 1"):
        PairCounts.zero(3, ["a", "b", "x"]) + PairCounts.zero(3, ["a", "c", "y"])
    with pytest.raises(TypeError, match="unsupported operand"):
        PairCounts.zero(1) + 1
    with pytest.raises(TypeError, match="unsupported operand"):
        1 + PairCounts.zero(1)


def test_sums_do_not_overflow():
    half = np.array([[2**62]])
    large = PairCounts(half, half, half, ("a",))
    with pytest.raises(ValueError, match=r"`pair_rows` of the sum exceeds int64"):
        large + large
    most = np.array([[2**63 - 1]])
    assert PairCounts(most, most, most, ("a",)).n_single == 2**63 - 1


GOOD = {
    "pair_rows": [[9, 6], [6, 8]],
    "pair_errors": [[4, 1], [1, 5]],
    "left_errors": [[4, 3], [3, 5]],
}
LARGE = 2**63 - 1


def fields(**changes):
    arrays = {name: np.array(GOOD[name]) for name in GOOD}
    for name, (at, value) in changes.items():
        arrays[name][at] = value
    return arrays


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pair_errors": ((0, 1), -1)}, r"`pair_errors` is negative at \(0, 1\)"),
        ({"pair_errors": ((0, 1), -LARGE - 1)}, "`pair_errors` is negative"),
        ({"pair_errors": ((0, 1), 2)}, "`pair_errors` is not symmetric"),
        ({"pair_rows": ((0, 1), 7)}, "`pair_rows` is not symmetric"),
        ({"left_errors": ((0, 1), 0)}, r"`pair_errors` exceeds `left_errors` at \(0, 1\)"),
        ({"left_errors": ((1, 0), 7)}, "`left_errors` exceeds `pair_rows`"),
        ({"left_errors": ((1, 0), LARGE)}, "`left_errors` exceeds `pair_rows`"),
        ({"pair_rows": ((1, 1), 5)}, "`pair_rows` exceeds the rows of the voter"),
        ({"left_errors": ((0, 1), 5)}, "`left_errors` exceeds the errors of the voter"),
        ({"left_errors": ((1, 1), 6)}, "`left_errors` exceeds the errors of the voter"),
        ({"pair_errors": ((0, 0), 3)}, "`left_errors` exceeds the errors of the voter"),
        ({"left_errors": ((..., 0), [4, 5])}, "errors of either voter exceed `pair_rows`"),
        ({"pair_rows": ((0, 0), 6)}, "rows without error exceed those of the voter"),
    ],
)
def test_numbers_that_no_table_gives(changes, message):
    assert PairCounts(**fields(), voters=("a", "b")).n_pair == 6
    with pytest.raises(ValueError, match=message + ".*") as caught:
        PairCounts(**fields(**changes), voters=("a", "b"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pair_rows", np.ones((2, 2)), r"`pair_rows` must be int64 of shape \(2, 2\), .* float64"),
        ("pair_rows", np.ones((2, 2), np.uint64), "must be int64 .* got uint64"),
        ("left_errors", np.ones((2, 3), np.int64), r"`left_errors` must be .* got int64 \(2, 3\)"),
        ("pair_errors", [[1, 1], [1, 1]], r"`pair_errors` must be int64 .* got list \(2, 2\)"),
        ("voters", ("a",), r"must be int64 of shape \(1, 1\)"),
        ("voters", ("a", "a"), r"`voters` must be unique"),
    ],
)
def test_fields_that_do_not_fit(name, value, message):
    with pytest.raises(ValueError, match=message):
        PairCounts(**(fields() | {"voters": ("a", "b"), name: value}))


def test_no_voters():
    with pytest.raises(ValueError, match=r"`voters` must name at least one voter"):
        PairCounts.zero(0)


# --- files ---


@given(tables, st.lists(st.text(), min_size=9, max_size=9, unique=True))
def test_files_give_back_what_was_saved(tmp_path_factory, table, names):
    votes = Votes.from_predictions(*table, voters=names[: table[0].shape[1]])
    path = tmp_path_factory.mktemp("counts") / "counts.npz"
    counts = count(votes)
    counts.save(path)
    assert PairCounts.load(path) == counts
    content = path.read_bytes()
    counts.save(str(path))
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_large_counts_survive(tmp_path):
    most = np.full((2, 2), LARGE)
    counts = PairCounts(most, most, most, ("a", "b"))
    counts.save(tmp_path / "c.npz")
    assert PairCounts.load(tmp_path / "c.npz") == counts


def test_shared_rows_take_one_matrix(tmp_path):
    predictions, y, validated = a_table(0, 60_000, 60, "shared")
    count(predictions, y, validated).save(tmp_path / "c.npz")
    assert (tmp_path / "c.npz").stat().st_size < 60 * 60 * 2 + 60 * 2 + 2500


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        PairCounts.load(tmp_path / "none.npz")


def members(**changes):
    """Return the content of a good file, with some members replaced or (None) left out."""
    header = {"format": "pacvote pair counts", "version": 1, "voters": ["a", "b"]}
    header |= changes.pop("json", {})
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays = {"header": text} | fields() | changes
    return {name: array for name, array in arrays.items() if array is not None}


def member_bytes(array):
    data = io.BytesIO()
    np.lib.format.write_array(data, array, version=(1, 0))
    return data.getvalue()


def npy(header):
    """Return an array file with a header of our making and four bytes of data."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0\0\0\0"


HOSTILE = {
    "version": (members(json={"version": 2}), "it has version 2; this pacvote reads version 1"),
    "format": (members(json={"format": "x"}), "its header does not say 'pacvote pair counts'"),
    "voters": (members(json={"voters": 2}), "its header must list the names of the voters"),
    "voter": (members(json={"voters": ["a", 1]}), "must list the names"),
    "twice": (members(json={"voters": ["a", "a"]}), "`voters` must be unique"),
    "nobody": (members(json={"voters": []}), ""),
    "fewer": (members(json={"voters": ["a"]}), ""),
    "not a dict": (members(header=np.frombuffer(b"[1]", np.uint8)), "its header does not say"),
    "not json": (members(header=np.frombuffer(b"{", np.uint8)), "Expecting property name"),
    "deep": (members(header=np.frombuffer(b"[" * 100_000, np.uint8)), "recursion"),
    "not text": (members(header=np.frombuffer(b"\xff\xfe\xfd", np.uint8)), "codec can't decode"),
    "missing": (members(pair_rows=None), r"it must hold header\.npy, left_errors\.npy"),
    "more": (members(rows=np.zeros(2, np.int64)), "it must hold"),
    "floats": (members(pair_rows=np.ones((2, 2))), "`pair_rows` declares float64"),
    "objects": (members(pair_rows=np.array([[None, 1], [1, 1]])), "`pair_rows` declares object"),
    "shape": (members(pair_rows=np.ones((3, 3), np.int64)), ""),
    "one-d": (members(pair_rows=np.ones(2, np.int64)), "must be a matrix, got shape"),
    "empty": (members(pair_rows=np.ones((0, 2), np.int64)), ""),
    "large": (members(pair_rows=np.full((2, 2), 2**64 - 1, np.uint64)), "exceeds int64"),
    "negative": (members(pair_errors=np.full((2, 2), -1)), "`pair_errors` is negative"),
    "not counts": (members(pair_rows=np.ones((2, 2), np.int64)), "exceeds"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_content(tmp_path, case):
    arrays, message = HOSTILE[case]
    np.savez(tmp_path / "c.npz", **arrays)
    refused(tmp_path / "c.npz", message)


def test_a_good_file_of_other_origin(tmp_path):
    np.savez(tmp_path / "c.npz", **members())
    assert PairCounts.load(tmp_path / "c.npz") == PairCounts(**fields(), voters=("a", "b"))


def refused(path, message=""):
    with pytest.raises(
        ValueError, match=rf"^`path` '.*' is not a file of pair counts: .*{message}"
    ) as e:
        PairCounts.load(path)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (100000, 100000)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1, -1)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 1000000000000)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<i0', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1, 1)}",
        "__import__('os').abort()",
        "{",
        "",
    ],
)
def test_hostile_array_headers(tmp_path, header):
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        for name, array in members().items():
            data = npy(header) if name == "pair_rows" else member_bytes(array)
            archive.writestr(f"{name}.npy", data)
    refused(tmp_path / "c.npz")


def test_compressed_members_are_not_unfolded(tmp_path):
    np.savez_compressed(tmp_path / "c.npz", **members())
    refused(tmp_path / "c.npz", "is compressed; counts are stored as they are")


def test_newer_array_versions(tmp_path):
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        for name, array in members().items():
            archive.writestr(f"{name}.npy", member_bytes(array).replace(b"Y\x01", b"Y\x02", 1))
    refused(tmp_path / "c.npz", "is not an array of NPY version 1.0")


def test_a_member_twice(tmp_path):
    np.savez(tmp_path / "c.npz", **members())
    with (
        zipfile.ZipFile(tmp_path / "c.npz", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("header.npy", b"")
    refused(tmp_path / "c.npz", "it must hold")


def test_truncated_and_altered_files(tmp_path):
    PairCounts(**fields(), voters=("a", "b")).save(tmp_path / "good.npz")
    content, path = (tmp_path / "good.npz").read_bytes(), tmp_path / "c.npz"
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        refused(path)
    rng = np.random.default_rng(0)
    for _ in range(500):
        altered = bytearray(content)
        altered[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(altered)
        try:
            counts = PairCounts.load(path)
        except ValueError as error:
            assert str(error).startswith("`path` ")  # noqa: PT017
        else:
            assert counts == PairCounts.load(tmp_path / "good.npz")


# --- written whole or not at all ---


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    _files.atomic_write(path, b"old")

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(_files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        _files.atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    _files.atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_members_have_no_date(tmp_path):
    PairCounts.zero(2).save(tmp_path / "c.npz")
    with zipfile.ZipFile(tmp_path / "c.npz") as archive:
        assert {info.date_time[0] for info in archive.infolist()} == {1980}
    assert _countsfile._VERSION == 1


def test_more_voters_than_memory_has_pairs_for_are_refused():
    said = np.zeros((1, 2**15 + 1), dtype=np.int8)
    with pytest.raises(ValueError, match=r"^`votes` has 32,769 voters[^\n]*26 GB[^\n]*$"):
        count(said, [0])
