"""No certificate is issued that the checker refuses, and no bytes make a reader fail."""

import contextlib
import importlib
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacvote import BOUNDS, Certificate, PairCounts, Verdict, Votes, certify, count, verify

NAMES = importlib.import_module("pacvote.verify.files").NAMES
rules = importlib.import_module("pacvote.verify.checks")
pytestmark = pytest.mark.slow

OF_ROWS = importlib.import_module("pacvote.verify.shared").BOUNDS
PROVEN = [BOUNDS[key](constants=form) for key, form in rules.CLAIMS if key not in OF_ROWS]
CASES = 20_000


def often(cases):
    return settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def evidence(draw):
    """Counts of real rows, few or many times over, with equal and unequal sizes."""
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**63)))
    risks = rng.random(m) ** draw(st.sampled_from([0.1, 1, 4, 30]))
    share = draw(st.sampled_from([0.5, 0.9, 1.0]))
    validated = None if share == 1 else rng.random((n, m)) < share
    counts = count(Votes.from_errors(rng.random((n, m)) < risks, validated))
    times = draw(st.one_of(st.integers(1, 3), st.integers(0, 56).map(lambda k: 2**k)))
    arrays = [getattr(counts, name) * np.int64(times) for name in NAMES]
    return PairCounts(*arrays, counts.voters)


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
    with contextlib.suppress(ValueError):
        loaded = PairCounts.load(folder / "damaged.npz")
        assert verify(certificate, loaded).ok == (loaded == counts)
