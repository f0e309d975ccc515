"""No certificate is issued that the checker refuses, and no bytes make a reader fail."""

import contextlib
import importlib
import io
import json
import os
import resource
import time
import zipfile
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacvote import BOUNDS, Certificate, PairCounts, Verdict, Votes, certify, count, verify
from pacvote.tables import count_table, read_votes

NAMES = importlib.import_module("pacvote.verify.files").NAMES
rules = importlib.import_module("pacvote.verify.checks")
pytestmark = pytest.mark.slow

OF_ROWS = importlib.import_module("pacvote.verify.shared").BOUNDS
PROVEN = [BOUNDS[key](constants=form) for key, form in rules.CLAIMS if key not in OF_ROWS]
CASES = int(os.environ.get("PACVOTE_CASES", "20000"))
SECONDS, KIBIBYTES = 5, 2**20  # that no file may cost


def often(cases):
    return settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def memory():
    """Tell the peak: polars keeps some megabytes for each damaged Arrow file that it panics at."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory: {before // 1024} MiB before, {after // 1024} MiB after")


@contextlib.contextmanager
def soon():
    began, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        assert time.thread_time() - began < SECONDS
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KIBIBYTES


@st.composite
def evidence(draw):
    """Counts of real rows, few or many times over, with equal and unequal sizes."""
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**63)))
    risks = rng.random(m) ** draw(st.sampled_from([0.1, 1, 4, 30]))
    share = draw(st.sampled_from([0.5, 0.9, 1.0]))
    validated = None if share == 1 else rng.random((n, m)) < share
    said = (rng.random((n, m)) < risks).astype(int)
    n_unlabelled = draw(st.sampled_from([0, 0, 1, 50]))
    unlabelled = rng.integers(0, 3, (n_unlabelled, m)) if n_unlabelled else None
    counts = count(said, np.zeros(n, int), validated, unlabelled=unlabelled)
    times = draw(st.one_of(st.integers(1, 3), st.integers(0, 25).map(lambda k: 2**k)))
    arrays = [getattr(counts, name) * np.int64(times) for name in NAMES[:3]]
    return PairCounts(*arrays, counts.voters, counts.disagreements, counts.n_unlabelled)


def simplexes(m):
    masses = st.one_of(st.just(0.0), st.floats(1e-3, 1), st.floats(-300, 0).map(lambda x: 10**x))
    lists = st.lists(masses, min_size=m, max_size=m).filter(lambda w: sum(w) > 1e-9)
    return lists.map(lambda w: np.array(w) / np.sum(w))


deltas = st.one_of(
    st.sampled_from([0.05, 0.01, 0.2, Fraction(1, 3)]),
    st.floats(5e-324, 1, exclude_max=True),
    st.builds(lambda a, b: Fraction(a, a + b), *[st.integers(1, 10**100)] * 2).filter(
        lambda delta: 1 - delta > Fraction(1, 2**59)
    ),
)


@given(st.data(), evidence(), st.sampled_from(PROVEN), deltas)
@often(CASES)
def test_what_is_issued_is_accepted(data, counts, bound, delta):
    least = {"fo": counts.n_single, "ccpbb": counts.n_pair - 1}.get(bound.key, counts.n_pair)
    if least < 1:
        return
    m = counts.n_voters
    prior = data.draw(st.one_of(st.none(), simplexes(m).filter(lambda p: (p > 0).all())))
    weights = data.draw(simplexes(m))
    certificate = certify(counts, bound=bound, delta=delta, weights=weights, prior=prior)
    assert verify(certificate, counts).reasons == ()


@given(st.data(), st.integers(0, 2**63), st.integers(1, 60), st.integers(1, 6), deltas)
@often(CASES // 20)
def test_what_is_issued_of_shared_rows_is_accepted(data, seed, n, m, delta):
    rng, bound = np.random.default_rng(seed), data.draw(st.sampled_from(OF_ROWS))
    said, y = rng.integers(0, 3, (n, m)), rng.integers(0, 3, n)
    votes = Votes.from_predictions(np.where(rng.random((n, m)) < rng.random(), said, y[:, None]), y)
    certificate = certify(votes, bound=bound, delta=delta, weights=data.draw(simplexes(m)))
    assert verify(certificate, votes).reasons == ()


@given(evidence(), st.sampled_from(PROVEN), deltas)
@often(CASES // 20)
def test_what_is_minimised_is_accepted(counts, bound, delta):
    least = {"fo": counts.n_single, "ccpbb": counts.n_pair - 1}.get(bound.key, counts.n_pair)
    if least > 0:
        certificate = certify(counts, bound=bound, delta=delta)
        assert verify(certificate, counts).reasons == ()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    counts = count(Votes.from_errors(rng.random((99, 3)) < 0.1, rng.random((99, 3)) < 0.9))
    certificate = certify(counts)
    counts.save(folder / "counts.npz")
    certificate.save(folder / "c.json")
    return folder, counts, certificate


def damaged(draw, whole):
    """Bytes cut, overwritten, or moved."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        end = min(end, at + draw(st.sampled_from([0, 1, 2, 8, 10**6])))
        data[at:end] = draw(st.one_of(st.binary(max_size=9), st.just(bytes(data[:at][-20:]))))
    return bytes(data)


@given(st.data())
@often(CASES // 2)
def test_no_damage_to_a_certificate_is_a_crash_or_a_claim(files, data):
    folder, counts, certificate = files
    text = damaged(data.draw, certificate.to_json().encode())
    with soon():
        verdict = verify(text, counts)
    if verdict:
        given, issued = (json.loads(each) for each in (text, certificate.to_json()))
        free = dict.fromkeys(("version", "created"))
        assert given | free == issued | free
    (folder / "damaged.json").write_bytes(text)
    with contextlib.suppress(ValueError):
        assert verify(Certificate.load(folder / "damaged.json"), counts).ok == verdict.ok


@given(st.data())
@often(CASES // 2)
def test_no_damage_to_a_counts_file_is_a_crash_or_other_counts(files, data):
    folder, counts, certificate = files
    whole = (folder / "counts.npz").read_bytes()
    (folder / "damaged.npz").write_bytes(damaged(data.draw, whole))
    assert isinstance(verify(certificate, folder / "damaged.npz"), Verdict)
    with contextlib.suppress(ValueError), soon():
        loaded = PairCounts.load(folder / "damaged.npz")
        assert verify(certificate, loaded).ok == (loaded == counts)


TABLE = pl.DataFrame({"y": [1, 2, 3] * 9, "a": [1, 2, 1] * 9, "b": [3, 2, 1] * 9})
TEXTS = TABLE.with_columns(pl.all().cast(pl.String))


def tables():
    """Good tables of votes, by the suffix of their files."""
    for frame in (TABLE, TEXTS):
        for suffix, write in (
            (".csv", frame.write_csv),
            (".parquet", frame.write_parquet),
            (".arrow", frame.write_ipc),
        ):
            file = io.BytesIO()
            write(file)
            yield suffix, file.getvalue()
    votes = {"predictions": TABLE[["a", "b"]].to_numpy(), "y": TABLE["y"].to_numpy()}
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **votes)
        yield ".npz", file.getvalue()


TABLES = sorted(tables())
dtypes = st.sampled_from(
    [
        "|u1",
        "<i8",
        ">i8",
        "<f8",
        "<f2",
        "|b1",
        "<U0",
        "<U3",
        "|S0",
        "|S3",
        "|V8",
        "|O",
        "<M8[s]",
        "<c16",
    ]
)
sizes = st.one_of(st.integers(0, 30), st.integers(-1, 2**62), st.sampled_from([2**20, 2**31]))
# Pairs of more than 6,000 voters take a gigabyte, whatever the file: that is what was asked for.
wide = st.one_of(st.integers(-1, 2000), st.integers(2**20, 2**62))


@st.composite
def forged(draw):
    """An .npz file whose arrays are not what their headers say."""
    file = io.BytesIO()
    rows, voters = draw(sizes), draw(wide)
    with zipfile.ZipFile(file, "w", draw(st.sampled_from([0, 8]))) as archive:
        for name, shape in (("predictions", (rows, voters)), ("y", (rows,))):
            member = io.BytesIO()
            fields = {"descr": draw(dtypes), "fortran_order": draw(st.booleans()), "shape": shape}
            np.lib.format.write_array_header_1_0(member, fields)
            data = draw(st.one_of(st.binary(max_size=99), sizes.map(lambda n: bytes(n % 2**22))))
            archive.writestr(f"{name}.npy", member.getvalue() + data)
    return ".npz", file.getvalue()


@given(st.data())
@often(CASES)
def test_no_damage_to_a_table_of_votes_is_more_than_one_line(files, data):
    if data.draw(st.booleans()):
        suffix, whole = data.draw(st.sampled_from(TABLES))
        whole = damaged(data.draw, whole)
    else:
        suffix, whole = data.draw(forged())
    path, label = files[0] / f"votes{suffix}", None if suffix == ".npz" else "y"
    path.write_bytes(whole)
    for read in (read_votes, count_table):
        try:
            with soon():
                read(path, label)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017 - some damage changes nothing
