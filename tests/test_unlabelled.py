"""Unlabelled rows: counted as an additive part, certified, and checked."""

import io
import json
import zipfile
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from pacvote import MajorityVoteClassifier, PairCounts, certify, count, evaluate, verify
from pacvote.certificate import FIXED, UNLABELLED
from pacvote.concentration import binomial_upper, mixture_slopes, mixture_upper
from pacvote.guards import refuse_known_rows
from pacvote.verify import checks
from test_verify import FREE, mutations, put, same_proof, text_of

FOLDS = 3


def table(n_samples, seed=0, risk=0.1, n_classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_samples)
    wrong = rng.random((n_samples, FOLDS)) < risk
    other = (y[:, None] + rng.integers(1, n_classes, wrong.shape)) % n_classes
    return np.where(wrong, other, y[:, None]), y


def by_folds(n_samples=900, n_unlabelled=2000, seed=0):
    predictions, y = table(n_samples, seed)
    validated = np.arange(n_samples)[:, None] % FOLDS == np.arange(FOLDS)
    return count(predictions, y, validated, unlabelled=table(n_unlabelled, seed + 1)[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_each_pair_of_voters_is_counted(n_rows, n_voters, seed, text):
    rng = np.random.default_rng(seed)
    said = rng.integers(0, 4, (n_rows, n_voters))
    y = rng.integers(0, 4, 7)
    rows = np.repeat(y[:, None], n_voters, axis=1)
    counts = count(rows, y, unlabelled=said.astype(str) if text else said)
    assert counts.n_unlabelled == n_rows
    for i in range(n_voters):
        for j in range(n_voters):
            assert counts.disagreements[i, j] == sum(a != b for a, b in said[:, [i, j]])


def test_they_add_up_and_are_kept(tmp_path):
    one, other = by_folds(seed=0), by_folds(seed=5)
    none = count(*table(50), np.ones((50, FOLDS), bool))
    both = one + other
    assert both.n_unlabelled == 4000
    assert np.array_equal(both.disagreements, one.disagreements + other.disagreements)
    assert (none + one).n_unlabelled == (one + none).n_unlabelled == 2000
    assert np.array_equal((none + one).disagreements, one.disagreements)
    assert one + PairCounts.zero(FOLDS, one.voters) == one
    assert none.disagreements is None
    assert one != none
    assert one != PairCounts(one.pair_rows, one.pair_errors, one.left_errors, one.voters)
    for counts in (one, none):
        counts.save(tmp_path / "counts.npz")
        assert PairCounts.load(tmp_path / "counts.npz") == counts


@pytest.mark.parametrize("key", ["folds", "two_moment"])
@pytest.mark.parametrize("weights", [[1 / 3] * 3, [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
def test_certificates_are_verified_and_other_rows_refuted(key, weights, tmp_path):
    counts = by_folds()
    certificate = certify(counts, bound=key, weights=weights)
    certificate.save(tmp_path / "certificate.json")
    counts.save(tmp_path / "counts.npz")
    assert verify(tmp_path / "certificate.json", tmp_path / "counts.npz")
    assert verify(certificate, counts)
    assert "unlabelled rows are further independent draws" in str(certificate)
    hidden = replace(certificate, assumptions=certificate.assumptions[:-1])
    assert verify(hidden, counts).reasons == ("the assumptions are not those published",)
    fewer = counts.disagreements.copy()
    fewer[0, 1] = fewer[1, 0] = fewer[0, 1] - 1
    for differ, n_rows in ((fewer, 2000), (counts.disagreements, 2001), (None, 0)):
        other = PairCounts(
            counts.pair_rows, counts.pair_errors, counts.left_errors, counts.voters, differ, n_rows
        )
        assert not verify(certificate, other)


@pytest.mark.parametrize("key", ["folds", "two_moment"])
def test_every_mutation_is_refused_or_changes_nothing(key):
    counts, tally = by_folds(), [0, 0]
    raw = text_of(certify(counts, bound=key, weights=[0.5, 0.3, 0.2], delta=0.2))
    for path, other in mutations(raw):
        changed = json.dumps(put(raw, path, other))
        if changed == json.dumps(raw):
            continue
        accepted = bool(verify(changed, counts))
        tally[accepted] += 1
        assert not accepted or path[0] in FREE or same_proof(raw, path, other), (path, other)
    print(f"{key} with unlabelled rows: {tally[0]} of {sum(tally)} refused")
    assert tally[0] > 500


def test_what_only_unlabelled_rows_assume_is_not_said_without_them():
    assert (checks.UNLABELLED, checks.FIXED) == (UNLABELLED, FIXED)
    assert UNLABELLED not in certify(by_folds(), bound="fo").assumptions
    assert UNLABELLED in certify(by_folds(), bound="folds").assumptions


def test_the_value_is_that_of_the_formula():
    counts, rho = by_folds(), np.array([0.5, 0.3, 0.2])
    c = 0.5
    limits = [
        binomial_upper(int(n), int(k), Fraction(1, 40) / 3)
        for n, k in zip(counts.rows, counts.errors, strict=True)
    ]
    share = Fraction(1, 40)
    kl = float(rho @ np.log(3 * rho))
    d_hat = float(rho @ (counts.disagreements / 2000) @ rho)
    price = 2 * kl + float(np.log(40))
    differ = mixture_upper(d_hat, price, 2000, mixture_slopes(2000, share))
    g = float(rho @ limits)
    expected = min(g / c, g + differ / (2 * c))
    assert evaluate("folds", counts, rho).value == pytest.approx(expected, rel=1e-6)


def test_where_voters_agree_they_replace_markovs_factor():
    predictions, y = table(900, risk=0.2)
    predictions[:] = predictions[:, :1]
    validated = np.arange(900)[:, None] % FOLDS == np.arange(FOLDS)
    plain = count(predictions, y, validated)
    more = count(predictions, y, validated, unlabelled=predictions)
    rho = np.full(3, 1 / 3)
    with_rows, without = (evaluate("folds", counts, rho).value for counts in (more, plain))
    assert with_rows < 0.85 * without


@pytest.mark.parametrize(
    ("unlabelled", "words"),
    [
        (np.zeros((5, 2), int), ["`unlabelled`", "3 predictions", "(5, 2)"]),
        (np.zeros((0, 3), int), ["`unlabelled`", "(0, 3)"]),
        (np.zeros(3, int), ["`unlabelled`"]),
        (np.full((4, 3), np.nan), ["`unlabelled`"]),
    ],
)
def test_bad_rows_are_refused_in_one_line(unlabelled, words):
    predictions, y = table(20)
    with pytest.raises((ValueError, TypeError)) as caught:
        count(predictions, y, unlabelled=unlabelled)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("n_rows", [-1, 1, 2**63, "2000", 1e9])
def test_a_file_that_says_another_number_is_refused(n_rows, tmp_path):
    counts = by_folds()
    certificate = certify(counts, bound="folds")
    counts.save(tmp_path / "counts.npz")
    header = {"format": "pacvote pair counts", "version": 1, "voters": counts.voters}
    text = json.dumps(header | {"n_unlabelled": n_rows}).encode()
    forged = tmp_path / "forged.npz"
    with zipfile.ZipFile(tmp_path / "counts.npz") as old, zipfile.ZipFile(forged, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "header.npy":
                member = io.BytesIO()
                np.save(member, np.frombuffer(text, np.uint8))
                data = member.getvalue()
            new.writestr(name, data)
    with pytest.raises(ValueError, match="not a file of pair counts"):
        PairCounts.load(forged)
    assert not verify(certificate, forged)


# ---------------------------------------------------------------- the classifier


def digits(n=900):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order[:n]], y[order[:n]], X[order[n:]]


def as_frame(X):
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


def strong(**settings):
    forest = RandomForestClassifier(10)
    return MajorityVoteClassifier(
        forest, n_estimators=3, validation="folds", random_state=0, **settings
    )


@pytest.mark.parametrize(
    "table", [np.asarray, as_frame, csr_array], ids=["array", "frame", "sparse"]
)
@pytest.mark.parametrize("bound", ["cctnd", "folds", "two_moment"])
def test_the_classifier_counts_disagreements_on_new_rows(table, bound):
    X, y, new = digits()
    vote = strong(bound=bound).fit(table(X), y, unlabelled=table(new))
    said = vote.votes(table(new))
    differ = [[int((said[:, i] != said[:, j]).sum()) for j in range(3)] for i in range(3)]
    assert vote.counts_.n_unlabelled == len(new)
    assert vote.counts_.disagreements.tolist() == differ
    assert UNLABELLED in vote.certificate_.assumptions
    assert verify(vote.certificate_, vote.counts_)
    assert vote.refit_weights(delta=0.1).counts_.n_unlabelled == len(new)


def test_without_them_two_moment_needs_common_rows():
    X, y, _ = digits()
    with pytest.raises(ValueError, match="rows that two voters share"):
        strong(bound="two_moment").fit(X, y)


@pytest.mark.parametrize(
    "table", [np.asarray, as_frame, csr_array], ids=["array", "frame", "sparse"]
)
def test_rows_of_the_fit_are_no_new_rows(table):
    X, y, new = digits()
    for known in (X, X[::2], np.concatenate([X[:500], new[:200]])):
        with pytest.raises(ValueError, match=r"^`unlabelled` has \d+% of its rows in `X`[^\n]*$"):
            strong().fit(table(X), y, unlabelled=table(known))


def test_rows_of_the_fit_are_known_in_any_kind_of_table():
    frame = pl.DataFrame({"a": np.arange(90), "b": np.arange(90.0)[::-1]})
    pandas = frame.to_pandas()
    plain = frame.to_numpy()
    tables = [frame, frame.cast(pl.Float32), pandas, plain, csr_array(plain)]
    for known, again in product(tables, tables):
        with pytest.raises(ValueError, match=r"^`unlabelled` has 100% of its rows in `X`"):
            refuse_known_rows(known, again)


def test_rows_of_few_kinds_may_be_equal():
    rng = np.random.default_rng(0)
    X, new = rng.integers(0, 2, (400, 3)), rng.integers(0, 2, (300, 3))
    y = X.sum(axis=1) > 1
    assert strong().fit(X, y, unlabelled=new).counts_.n_unlabelled == 300


def test_rows_of_another_shape_are_refused():
    X, y, new = digits()
    with pytest.raises(ValueError, match="features"):
        strong().fit(X, y, unlabelled=new[:, :10])
