"""Votes say who erred where, for every kind of label, and refuse what cannot be compared."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from pacvote import _packing
from pacvote.votes import Votes


def errors_of(predictions, y, validated=None):
    return Votes.from_predictions(predictions, y, validated).errors


# --- right, for all kinds of label ---


@given(
    st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 7), st.booleans(), st.integers(1, 5)
)
def test_errors_are_right(seed, n_samples, n_voters, masked, n_classes):
    rng = np.random.default_rng(seed)
    predictions = rng.integers(-2, n_classes, (n_samples, n_voters), np.int8)
    y = rng.integers(-2, n_classes, n_samples)
    validated = rng.random(predictions.shape) < 0.6 if masked else None
    votes = Votes.from_predictions(predictions, y, validated)
    mask = np.ones(predictions.shape, bool) if validated is None else validated
    assert np.array_equal(votes.validated, mask)
    assert np.array_equal(votes.errors, (predictions != y[:, None]) & mask)
    assert votes.shared == mask.all()
    if votes.shared:
        assert np.array_equal(votes.labels, y)
        assert np.array_equal(votes.classes[votes.vote_codes], predictions)
        assert np.array_equal(votes.classes, np.unique([*predictions.ravel(), *y]))


WRONG = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], bool)
LABELS = np.array([0, 1, 1, 2])
SAID = np.where(WRONG, (LABELS[:, None] + 1) % 3, LABELS[:, None])
KINDS = {
    "int8": lambda codes: codes.astype(np.int8),
    "uint64": lambda codes: codes.astype(np.uint64) + np.uint64(2**62),
    "large": lambda codes: codes + 2**53,
    "far": lambda codes: np.array([-(2**63), 0, 2**63 - 1])[codes],
    "spread": lambda codes: np.array([7, -300, 10**9])[codes],
    "middling": lambda codes: np.array([7, -300, 5000])[codes],
    "float32": lambda codes: codes.astype(np.float32),
    "longdouble": lambda codes: codes.astype(np.longdouble),
    "U": lambda codes: np.array(["z", "", "ä"])[codes],
    "StringDType": lambda codes: np.array(["z", "", "ä"], np.dtypes.StringDType())[codes],
    "object strings": lambda codes: np.array(["a", "a\0", "b"], object)[codes],
    "object numbers": lambda codes: np.array([True, 2.0, np.int8(3)], object)[codes],
    "object integers": lambda codes: np.array([2**53, 2**53 + 1, -5], object)[codes],
    "list": lambda codes: (codes + 2**53).tolist(),
    "list of strings": lambda codes: np.array(["a", "a\0", "b"], object)[codes].tolist(),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(kind):
    predictions, y = KINDS[kind](SAID), KINDS[kind](LABELS)
    assert np.array_equal(errors_of(predictions, y), WRONG)
    mask = WRONG | (np.arange(3) == 0)
    assert np.array_equal(errors_of(predictions, y, mask), WRONG & mask)


def frames():
    words = np.array(["z", "a", "m"], object)
    said = {f"voter {k}": SAID[:, k] for k in range(3)}
    text = {name: words[codes] for name, codes in said.items()}
    yield "pandas", pd.DataFrame(said), pd.Series(LABELS)
    yield (
        "pandas mixed",
        pd.DataFrame(said).astype({"voter 0": "uint64", "voter 1": "float"}),
        LABELS,
    )
    yield "pandas Int64", pd.DataFrame(said).astype("Int64"), pd.Series(LABELS, dtype="Int64")
    yield "pandas str", pd.DataFrame(text), pd.Series(words[LABELS])
    category = pd.CategoricalDtype(["m", "z", "unused", "a"])
    yield "pandas category", pd.DataFrame(text).astype(category), pd.Categorical(words[LABELS])
    yield "pandas int category", pd.DataFrame(said).astype("category"), LABELS
    yield "polars", pl.DataFrame(said), pl.Series(LABELS)
    yield "polars str", pl.DataFrame(text), pl.Series(words[LABELS].tolist())
    yield "polars category", pl.DataFrame(text).cast(pl.Categorical), words[LABELS]
    yield "arrow", pl.DataFrame(said).to_arrow(), LABELS


@pytest.mark.parametrize(
    ("predictions", "y"), [f[1:] for f in frames()], ids=[f[0] for f in frames()]
)
def test_frames(predictions, y):
    votes = Votes.from_predictions(predictions, y)
    assert np.array_equal(votes.errors, WRONG)
    assert votes.voters == ("voter 0", "voter 1", "voter 2")
    mask = pd.DataFrame(~WRONG, columns=list(votes.voters))
    assert not errors_of(predictions, y, mask).any()


def test_booleans_are_zero_and_one():
    assert not errors_of([[True, False]], [1])[0, 0]
    assert np.array_equal(errors_of(np.array([[1, 0, 2]]), np.array([True])), [[False, True, True]])
    votes = Votes.from_predictions(np.array([[True], [False]]), np.array([True, True]))
    assert votes.labels.dtype == bool


def test_labels_beyond_the_dtype_of_the_predictions_are_errors():
    predictions = np.array([[0, 44], [1, 44]], np.uint8)
    assert np.array_equal(errors_of(predictions, [300, 1]), [[True, True], [False, True]])
    assert np.array_equal(errors_of(predictions, [-256, 1]), [[True, True], [False, True]])


def test_neighbours_that_floats_confuse_differ():
    signed, unsigned = np.array([[2**53 + 1]], np.int64), np.array([2**53], np.uint64)
    assert errors_of(signed, unsigned).all()
    assert errors_of(signed.astype(np.uint64), unsigned.astype(np.int64)).all()
    assert errors_of([[2**53 + 1, 0.0]], [2**53]).all()
    assert errors_of([["1", "a\0"]], ["a"]).all()


def test_many_classes_need_wider_codes():
    y = np.random.default_rng(0).permutation(300)
    votes = Votes.from_predictions(np.roll(y, 1)[:, None], y)
    assert votes.vote_codes.dtype == np.uint16
    assert np.array_equal(votes.labels, y)
    assert np.array_equal(votes.classes, np.arange(300))


@given(st.integers(0, 2**32), st.sampled_from([int, str]))
def test_chunks_do_not_show(seed, kind):
    rng = np.random.default_rng(seed)
    table = rng.permutation(400)[rng.integers(0, 400, (300, 4))].astype(kind)
    whole = Votes.from_predictions(table[:, 1:], table[:, 0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_packing, "_CHUNK", 1)
        parts = Votes.from_predictions(table[:, 1:], table[:, 0])
    for name in ("error_bits", "vote_codes", "label_codes", "classes"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


# --- where a voter is not validated, anything goes ---


@pytest.mark.parametrize(
    "unused", [None, np.nan, pd.NaT, pd.NA, 0.5, 2.0**80, "no label", b"x", np.inf, 10**30, [1]]
)
@pytest.mark.parametrize("label", [1, "a"])
def test_votes_that_do_not_count_are_not_looked_at(unused, label):
    predictions, y = np.empty((3, 2), object), np.empty(3, object)
    predictions[:], y[:] = label, label
    predictions[0, 0] = predictions[1, 0] = predictions[1, 1] = y[1] = unused
    validated = np.array([[False, True], [False, False], [True, True]])
    votes = Votes.from_predictions(predictions, y, validated)
    assert not votes.errors.any()
    assert np.array_equal(votes.validated, validated)


def test_nan_and_null_columns():
    predictions = np.array([[np.nan, 1], [2, 2]])
    assert not errors_of(predictions, [1, 2], [[False, True], [True, True]]).any()
    frame = pl.DataFrame({"a": [None, "x"], "b": ["y", "x"]})
    mask = pl.DataFrame({"a": [False, True], "b": [True, True]})
    assert not errors_of(frame, ["y", "x"], mask).any()
    empty = pl.DataFrame({"a": [None, None], "b": ["y", "x"]})
    assert not errors_of(empty, ["y", "x"], [[False, True], [False, True]]).any()


def test_uint64_that_does_not_count_may_be_large():
    predictions = np.array([[2**64 - 1, 3]], np.uint64)
    assert not errors_of(predictions, [3], [[False, True]]).any()


def test_a_mask_of_only_true_is_none():
    votes = Votes.from_predictions(SAID, LABELS, np.ones(SAID.shape, bool))
    assert votes.shared
    assert votes.validation_bits is None
    assert np.array_equal(votes.labels, LABELS)


def test_no_vote_validated_at_all():
    votes = Votes.from_predictions([[None]], [None], [[False]])
    assert not votes.validated.any()


# --- refused ---

MISSING = [None, np.nan, np.float32("nan"), pd.NaT, pd.NA, np.datetime64("NaT")]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("other", [1, "a"])
def test_missing_labels(missing, other):
    with pytest.raises(ValueError, match=r"^`predictions` has a missing label .* `validated`"):
        Votes.from_predictions([[other, missing]], [other])
    with pytest.raises(ValueError, match=r"^`y` has a missing label"):
        Votes.from_predictions([[other], [other]], [other, missing])
    with pytest.raises(ValueError, match=r"^`y` has a missing label"):
        Votes.from_predictions([[other], [other]], [missing, other], [[True], [False]])


@pytest.mark.parametrize(
    "predictions",
    [
        np.array([[np.nan]]),
        np.array([["NaT"]], "M8[ns]"),
        pl.DataFrame({"a": [None]}, schema={"a": pl.Int64}),
        pl.DataFrame({"a": [None]}, schema={"a": pl.String}),
        pd.DataFrame({"a": pd.array([None], "Int64")}),
        pd.DataFrame({"a": pd.Categorical([None], ["x"])}),
        pd.DataFrame({"a": pd.array([None], "string")}),
        pd.DataFrame({"a": pd.array([None], "boolean")}),
    ],
    ids=lambda table: str(getattr(table, "dtypes", getattr(table, "dtype", ""))),
)
def test_missing_labels_in_tables(predictions):
    with pytest.raises(ValueError, match=r"^`predictions` has a missing label"):
        Votes.from_predictions(predictions, [1])


@pytest.mark.parametrize(
    ("predictions", "y", "error", "message"),
    [
        ([[0.5]], [1], ValueError, r"`predictions` has 0\.5, not a whole number; .* not scores"),
        (np.array([[np.inf]]), [1], ValueError, r"`predictions` has inf"),
        ([[1]], [1.5], ValueError, r"`y` has 1\.5, not a whole number"),
        (np.array([[2.0**53]]), [1], ValueError, r"too large for float64 to be exact; use int"),
        (np.array([[-(2.0**60)]]), [1], ValueError, r"too large for float64"),
        (np.array([[2.0**24]], "f4"), [2**24], ValueError, r"too large for float32"),
        (np.array([[2048]], "f2"), [2048], ValueError, r"too large for float16"),
        ([[2.0**53]], [1], ValueError, r"too large for float64"),
        (np.array([[2**63]], "u8"), [1], ValueError, r"has 9223372036854775808, past the range"),
        ([[2**70]], [1], ValueError, r"past the range of int64; use smaller labels, or strings"),
        (np.array([[1]]), ["1"], TypeError, r"`predictions` has numbers .* were strings; use one"),
        ([["1"]], [1], TypeError, r"`predictions` has strings where labels before were numbers"),
        ([["1", 1]], ["1"], TypeError, r"has numbers where labels before were strings"),
        ([[1]], [1j], TypeError, r"`y` has labels of type complex; use integers, strings"),
        (np.array([[1j]]), [1], TypeError, r"`predictions` has labels of type complex128"),
        ([[b"a"]], ["a"], TypeError, r"`predictions` has labels of type bytes"),
        (np.array([[b"a"]]), ["a"], TypeError, r"`predictions` has labels of type \|S1"),
        (np.array([["2020"]], "M8[D]"), [1], TypeError, r"labels of type datetime64\[D\]"),
        ([1, 0], [1, 0], ValueError, r"shape \(n_samples, n_voters\), .*reshape\(-1, 1\)"),
        ([[[1]]], [1], ValueError, r"must have shape \(n_samples, n_voters\), got \(1, 1, 1\)"),
        ([[1], [1, 0]], [1, 0], ValueError, r"`predictions` must be a table, .* differ in length"),
        ([[1], 1], [1, 0], ValueError, r"`predictions` must be a table, .* differ in length"),
        ([[1], [0]], [1], ValueError, r"`y` must have shape \(2,\), one label per row .* \(1,\)"),
        ([[1]], [[1]], ValueError, r"`y` must have shape \(1,\), .* got \(1, 1\)"),
        (np.empty((0, 3)), [], ValueError, r"`predictions` is empty, of shape \(0, 3\); give"),
        (np.empty((3, 0)), [1, 1, 1], ValueError, r"`predictions` is empty, of shape \(3, 0\)"),
        (pl.DataFrame(), [], ValueError, r"`predictions` is empty, of shape \(0, 0\)"),
        (np.ma.array([[1]]), [1], TypeError, r"`predictions` is a masked array; pass its \.data"),
        ([[1]], np.ma.array([1]), TypeError, r"`y` is a masked array"),
        (scipy.sparse.csr_array([[1]]), [1], TypeError, r"dense array, .* got csr_array; convert"),
        (pl.LazyFrame({"a": [1]}), [1], TypeError, r"got LazyFrame"),
        (3, [1], TypeError, r"`predictions` must be a dense array, list or data frame, got int"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], ValueError, r"'?a'?"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), [1], ValueError, r"`voters` must be unique"),
    ],
)
def test_what_cannot_be_compared_is_refused(predictions, y, error, message):
    with pytest.raises(error, match=message) as caught:
        Votes.from_predictions(predictions, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("validated", "error", "message"),
    [
        ([[1, 0]], TypeError, r"`validated` must be boolean, got object; compare or convert"),
        (np.array([[1, 0]]), TypeError, r"`validated` must be boolean, got int64"),
        (
            [[True]],
            ValueError,
            r"`validated` must have the shape of the votes, \(1, 2\), got \(1, 1\)",
        ),
        ([True, False], ValueError, r"`validated` must have shape \(n_samples, n_voters\)"),
        (np.ma.array([[True, True]]), TypeError, r"`validated` is a masked array"),
        (
            pl.DataFrame({"b": [True], "a": [True]}),
            ValueError,
            r"`validated` must have the columns of the votes, in their order",
        ),
    ],
)
def test_masks_that_do_not_fit(validated, error, message):
    with pytest.raises(error, match=message):
        Votes.from_predictions(pl.DataFrame({"a": [1], "b": [0]}), [1], validated)


@pytest.mark.parametrize(
    ("voters", "error", "message"),
    [
        (["a"], ValueError, r"`voters` must have one name for each of 2 voters, got 1"),
        (["a", "a"], ValueError, r"`voters` must be unique, got 'a' twice; rename one"),
        (["a", 1], TypeError, r"`voters` must be a sequence of str"),
        ("ab", TypeError, r"`voters` must be a sequence of str, got 'ab'"),
    ],
)
def test_names_that_do_not_fit(voters, error, message):
    with pytest.raises(error, match=message):
        Votes.from_predictions([[1, 0]], [1], voters=voters)


# --- the object itself ---


def test_from_errors():
    votes = Votes.from_errors(WRONG, voters=["a", "b", "c"])
    assert np.array_equal(votes.errors, WRONG)
    assert votes.voters == ("a", "b", "c")
    assert not votes.labels.any()
    mask = np.eye(4, 3, dtype=bool)
    assert np.array_equal(Votes.from_errors(WRONG, mask).errors, WRONG & mask)
    assert np.array_equal(Votes.from_errors(WRONG.tolist()).errors, WRONG)
    with pytest.raises(TypeError, match=r"`errors` must be boolean, got int64"):
        Votes.from_errors(WRONG.astype(np.int64))


def test_labels_are_kept_on_shared_rows_only():
    votes = Votes.from_predictions(SAID, LABELS, ~WRONG)
    assert (votes.vote_codes, votes.label_codes, votes.classes) == (None, None, None)
    with pytest.raises(ValueError, match=r"`labels` are kept only where all voters share all rows"):
        _ = votes.labels


def test_read_only_and_pickled():
    votes = Votes.from_predictions(SAID, LABELS)
    with pytest.raises(ValueError, match="read-only"):
        votes.error_bits[0, 0] = 0
    with pytest.raises(AttributeError):
        votes.n_samples = 3
    copy = pickle.loads(pickle.dumps(votes))  # noqa: S301
    assert np.array_equal(copy.errors, votes.errors)


BITS = np.array([[5], [1]], np.uint64)
CODES = np.zeros((3, 2), np.uint8), np.zeros(3, np.uint8), np.array([0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((BITS, BITS[::-1], 3, ("a", "b")), "has an error where `validation_bits` has no"),
        ((BITS, BITS, 2, ("a", "b")), "`error_bits` must be zero past row 2; clear the padding"),
        ((BITS, BITS | np.uint64(8), 3, ("a", "b")), "`validation_bits` must be zero past row 3"),
        ((BITS, BITS, 65, ("a", "b")), r"`error_bits` must be uint64 of shape \(2, 2\), got"),
        ((BITS, BITS, 3, ("a",)), r"`error_bits` must be uint64 of shape \(1, 1\)"),
        ((BITS.astype(np.int64), BITS, 3, ("a", "b")), "must be uint64 .* got int64"),
        ((BITS[:0], None, 3, ()), "must be uint64 of shape"),
        ((BITS, None, 3, ("a", "b")), "must be given exactly where rows are shared"),
        ((BITS, BITS, 3, ("a", "b"), *CODES), "must be given exactly where rows are shared"),
        ((BITS, None, 3, ("a", "b"), CODES[0].T, *CODES[1:]), r"`vote_codes` must be unsigned"),
        (
            (BITS, None, 3, ("a", "b"), CODES[0] + 1, *CODES[1:]),
            "`vote_codes` has 1, but there are 1",
        ),
        ((BITS, None, 3, ("a", "a"), *CODES), "`voters` must be unique"),
    ],
)
def test_fields_that_contradict_each_other(fields, message):
    with pytest.raises(ValueError, match=message):
        Votes(*fields)
