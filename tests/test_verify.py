"""The checker: it accepts what is issued, and nothing that claims anything else."""

import copy
import importlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import ctx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacvote import BOUNDS, PairCounts, Verdict, Votes, certify, count, exact_shared, verify
from pacvote import _exactmath as exactmath
from pacvote import certificate as issuer
from pacvote.bounds import ccpbb
from pacvote.bounds.ndraw import GRID
from pacvote.certificate import ASSUMPTIONS, FIXED, vacuous

checker = importlib.import_module("pacvote.verify")
rules, proofs, files, shared = (
    importlib.import_module(f"pacvote.verify.{name}")
    for name in ("checks", "proofs", "files", "shared")
)

KEYS = [key for key in BOUNDS if key not in {*shared.BOUNDS, "best_of"}]  # issued as its member
PROVEN = [
    BOUNDS[key](constants=constants)
    for key in KEYS
    for constants in BOUNDS[key].known_constants
    if BOUNDS[key](constants=constants).sound
]
every_bound = pytest.mark.parametrize("bound", PROVEN, ids=lambda b: f"{b.key}-{b.constants}")
UNIT = 2**40


def some_counts(n=400, m=4, seed=3):
    rng = np.random.default_rng(seed)
    errors = rng.random((n, m)) < [0.1, 0.15, 0.2, 0.3][:m]
    return count(Votes.from_errors(errors, rng.random((n, m)) < 0.8))


@pytest.fixture(scope="module")
def counts():
    return some_counts()


def text_of(certificate):
    return json.loads(certificate.to_json())


# ---------------------------------------------------------------- what is issued is accepted


@pytest.mark.parametrize("case", "ade")
def test_golden_certificates_are_accepted_within_two_seconds(golden, case, tmp_path):
    predictions, y = golden(case)
    votes = Votes.from_predictions(predictions, y, predictions >= 0)
    counts = count(votes)
    counts.save(tmp_path / "counts.npz")
    start = np.full(counts.n_voters, 1 / counts.n_voters)
    for bound in PROVEN:
        weights = start if bound.constants == "paper" else None
        certificate = certify(counts, bound=bound, weights=weights)
        certificate.save(tmp_path / "c.json")
        began = time.process_time()
        verdict = verify(tmp_path / "c.json", tmp_path / "counts.npz")
        assert time.process_time() - began < 1
        assert verdict == Verdict(True, (), tuple(rules.CHECKS))
        assert set(ASSUMPTIONS) < set(verdict.unchecked)
        assert verify(vacuous(counts, bound=bound), counts)
    assert verify(certificate, votes) == verify(certificate.to_json(), counts) == verdict
    assert verify(certificate.to_json().encode(), str(tmp_path / "counts.npz")) == verdict


tables = st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1))
rates = st.sampled_from([0.0, 0.02, 0.3, 0.5, 0.9, 1.0])


@given(tables, rates, st.sampled_from([0.3, 0.9, 1.0]), st.sampled_from(PROVEN), st.booleans())
@settings(max_examples=60, deadline=None)
@example((1, 1, 0), 0.0, 1.0, BOUNDS["tnd"](), True)
@example((2, 1, 0), 1.0, 1.0, BOUNDS["c_bound"](), False)
@example((1, 5, 0), 1.0, 1.0, BOUNDS["ccpbb"](), True)
def test_random_evidence(table, risk, share, bound, minimised):
    (n, m, seed) = table
    rng = np.random.default_rng(seed)
    validated = None if share == 1 else rng.random((n, m)) < share
    votes = Votes.from_errors(rng.random((n, m)) < risk, validated)
    counts, weights = count(votes), None if minimised else rng.dirichlet(np.ones(m))
    least = {"fo": counts.n_single, "ccpbb": counts.n_pair - 1}.get(bound.key, counts.n_pair)
    if least > 0:
        certificate = certify(counts, bound=bound, weights=weights, delta=Fraction(1, 1 + n))
    else:
        certificate = vacuous(counts, bound=bound)
    assert verify(certificate, votes).reasons == ()
    assert verify(certificate, counts).ok


@given(st.integers(2, 10**7), st.integers(1, 10**9), st.sampled_from(proofs.MUS))
@settings(max_examples=60, deadline=None)
def test_the_grids_of_ccpbb_are_those_of_exact_arithmetic(n, over, mu):
    delta = Fraction(over, 10**9 + 1)
    lambdas, gammas = ccpbb.grids_sharp(n, delta)
    length = float(max(1 - mu, 1 - 2 * mu))
    points = [(lam, gammas[0]) for lam in lambdas] + [(lambdas[0], gamma) for gamma in gammas]
    for lam, gamma in (points[0], points[-1], points[len(lambdas) - 1]):
        parameters = {"mu": mu, "lambda": Fraction(lam), "gamma": Fraction(gamma / length)}
        sizes = [6 * len(gammas), 6 * len(lambdas)]
        claims = [{"grid": size, "parameters": parameters} for size in sizes]
        paper = {"n_pair": n, "delta": delta, "selection": 1, "parameters": parameters}
        paper["claims"] = claims
        with ctx.workprec(256):
            proofs.check_grids(paper)


def test_the_ledger_of_each_bound_sums_to_one():
    for (_, constants), text in rules.CLAIMS.items():
        rows = [row.split() for row in text.split(", ")]
        events = {(name, constants == "sharp" and side): Fraction(x) for name, side, x in rows}
        assert sum(events.values()) == 1


def test_the_checker_knows_what_the_issuer_says():
    assert rules.ASSUMPTIONS == ASSUMPTIONS
    assert tuple(map(float, proofs.MUS)) == ccpbb.MU_SHARP
    of_rows = {(key, "sharp") for key in shared.BOUNDS}
    assert set(rules.CLAIMS) == {(bound.key, bound.constants) for bound in PROVEN} | of_rows
    assert (FIXED, list(GRID), exact_shared.ABOVE) == (rules.FIXED, shared.GRID, shared.ABOVE)


# ---------------------------------------------------------------- mutations


def of_fraction(text):
    over, under = map(int, text.split("/"))
    exact = Fraction(over, under)
    for unit in (UNIT, 2**60, 2**80):
        yield from (exact + Fraction(1, unit), exact - Fraction(1, unit))
    yield from (-exact, 1 - exact, exact * 2, exact / 2, Fraction(over + 1, under), Fraction(0))
    yield from (Fraction(1, 2), Fraction(3, 5))  # for mu, beyond its region
    digit = str((int(text[0]) + 1) % 10) if text[0].isdigit() else "7"
    yield from (digit + text[1:], f"{2 * over}/{2 * under}", str(float(exact)), float(exact))


def of_integer(number):
    yield from (number + 1, number - 1, -number, 0, 2 * number, number * 10, float(number))
    yield from (True, str(number), 10**30, None)


def of_text(text):
    yield from (
        "7" * (text[:1] != "7") + text[1:],
        text + "x",
        text[:-1],
        text.upper(),
        text.swapcase(),
        "",
        "gibbs",
        "fo",
        "upper",
    )
    yield from ("lower", "paper", "sharp", "kl_paper", "0" * 64, 7, None, [text])


def of_list(items):
    yield from (items[:-1], items[1:], [*items, *items[-1:]], items[::-1], [], {}, None)
    for i in range(len(items) - 1):
        yield [*items[:i], items[i + 1], items[i], *items[i + 2 :]]
    if items and all(isinstance(item, int) for item in items):
        for shift in (1, -1, 2**20):
            yield [items[0] + shift, items[1] - shift, *items[2:]]
        yield from ([sum(items), *[0] * (len(items) - 1)], [2 * item for item in items])
        yield [UNIT - len(items) + 1, *[1] * (len(items) - 1)]  # another prior, or other weights


def of_object(fields):
    yield from ({**fields, "more": "1/2"}, {}, None, [])
    yield from ({k: v for k, v in fields.items() if k != name} for name in fields)


def mutations(value, path=()):
    """Yield where and what to put instead, for every value at every depth."""
    kinds = {dict: of_object, list: of_list, int: of_integer}
    fraction = isinstance(value, str) and value.replace("/", "").lstrip("-").isdigit()
    for other in kinds.get(type(value), of_fraction if fraction and "/" in value else of_text)(
        value
    ):
        plain = isinstance(other, Fraction)
        yield path, f"{other.numerator}/{other.denominator}" if plain else other
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            yield from mutations(item, (*path, name))


def put(raw, path, other):
    if not path:
        return other
    changed = copy.deepcopy(raw)
    target = changed
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = other
    return changed


FREE = {"version", "created"}  # say who issued it and when: nothing is claimed by them


def same_proof(raw, path, other):
    """A multiplier that differs by a hair proves the same limit, which stands there unchanged."""
    if path[-1] not in {"nu", "eta"}:
        return False
    before = Fraction(raw["claims"][path[1]]["parameters"][path[-1]])
    return abs(Fraction(other) / before - 1) < 2**-16


@every_bound
def test_every_mutation_is_refused_or_changes_nothing(bound, counts, record_property):
    weights = [0.4, 0.3, 0.2, 0.1] if bound.constants == "paper" else None
    raw = text_of(certify(counts, bound=bound, weights=weights, delta=0.2))
    assert verify(json.dumps(raw), counts)
    tally = Counter()
    for path, other in mutations(raw):
        changed = put(raw, path, other)
        if json.dumps(changed) == json.dumps(raw):
            continue
        refused = not verify(json.dumps(changed), counts)
        tally["refused" if refused else "accepted"] += 1
        assert refused or path[0] in FREE or same_proof(raw, path, other), (path, other)
    record_property("tally", dict(tally))
    print(f"{bound.key} {bound.constants}: {tally['refused']} of {tally.total()} refused")
    assert tally["refused"] > 500


def test_a_mutated_certificate_that_claims_nothing_still_claims_nothing(counts):
    raw = text_of(vacuous(counts))
    for path, other in mutations(raw):
        changed = put(raw, path, other)
        if verify(json.dumps(changed), counts):
            assert changed["exact_risk"] == "1/1"
            assert changed["claims"] == []


def test_other_evidence_is_refused(counts):
    certificate = certify(counts)
    arrays = {name: getattr(counts, name) for name in files.NAMES[:3]}
    for name, array in arrays.items():
        for i, j in np.ndindex(array.shape):
            for shift in (1, -1):
                other = array.copy()
                other[i, j] += shift
                other[j, i] = other[i, j] if name != "left_errors" else other[j, i]
                evidence = Loose({**arrays, name: other}, counts.voters)
                assert not verify(certificate, evidence)
    assert not verify(certificate, Loose(arrays, ("3", "2", "1", "0")))
    assert not verify(certificate, counts + counts)
    assert not verify(certificate, some_counts(seed=4))
    assert not verify(certificate, PairCounts.zero(4))
    assert verify(certificate, Loose(arrays, counts.voters))
    assert verify(certificate, Loose({k: v.tolist() for k, v in arrays.items()}, counts.voters))


class Loose:
    """Counts that nobody has checked."""

    def __init__(self, arrays, voters):
        self.__dict__.update(arrays, voters=voters)


# ---------------------------------------------------------------- forgeries of one piece


def forged(monkeypatch, module, name, value):
    monkeypatch.setattr(module, name, value)


def test_a_grid_chosen_after_the_fact_is_refused(counts, monkeypatch):
    forged(monkeypatch, ccpbb, "MU_SHARP", (-0.2, -0.1, -0.05, -0.02, -0.01, 0.0))
    verdict = verify(certify(counts, bound="ccpbb"), counts)
    assert verdict.reasons == ("mu is not on the published grid",)


def test_other_slopes_are_refused(counts, monkeypatch):
    exactmath.slope_table.cache_clear()
    forged(monkeypatch, exactmath, "exact_slopes", lambda n, share: [Fraction(1, 4)])
    even = count(Votes.from_errors(np.random.default_rng(3).random((400, 4)) < 0.2))
    certificate = certify(even, bound="tnd", delta=0.06)
    exactmath.slope_table.cache_clear()
    assert not verify(certificate, even)


@pytest.mark.parametrize("shares", [("1/10", "9/10"), ("1", "1"), ("1/20", "19/20")])
def test_another_ledger_is_refused(counts, monkeypatch, shares):
    gibbs, tandem = map(Fraction, shares)
    honest = BOUNDS["cctnd"].claims

    def claims(self, sizes, delta):
        for claim in honest(self, sizes, delta):
            share = gibbs if claim.quantity.value == "gibbs" else tandem
            yield type(claim)(
                claim.quantity, claim.side, claim.inequality, claim.n_samples, share * delta
            )

    forged(monkeypatch, BOUNDS["cctnd"], "claims", lambda *given: tuple(claims(*given)))
    verdict = verify(certify(counts), counts)
    assert verdict.reasons[0].startswith("events, inequalities or shares")


def test_a_worse_mu_is_refused_as_a_looser_claim(counts, monkeypatch):
    forged(monkeypatch, BOUNDS["cctnd"], "choices", lambda *given: [{"mu": Fraction(-1, 5)}])
    verdict = verify(certify(counts), counts)
    assert verdict.reasons == ("mu is not the best one",)


def test_other_assumptions_are_refused(counts, monkeypatch):
    forged(monkeypatch, issuer, "ASSUMPTIONS", ASSUMPTIONS[1:])
    assert not verify(certify(counts), counts)


def test_more_rows_than_the_least_are_refused(counts, monkeypatch):
    forged(monkeypatch, PairCounts, "n_pair", property(lambda self: int(self.pair_rows.max())))
    assert not verify(certify(counts, bound="tnd"), counts)


# ---------------------------------------------------------------- hostile files


def hostile_certificates(text):
    raw = json.loads(text)
    yield from (b"", b"{", b"\xff\xfe", b"null", b"1", b'"x"', b"[" * 10**7, b'{"a":' * 10**6)
    yield text.encode()[:-3]
    yield text.encode("utf-16")
    yield ("{" + '"protocol": 1,' + text[1:]).encode()
    yield b"[" + b"[]," * 3 * 10**6 + b"[]]"
    yield b" " * (2**24 + 1)
    for value in ("NaN", "-Infinity", "1e308", "1e999", "9" * 10**6, "[" * 5000, '"\\ud800"'):
        for name in raw:
            yield text.replace(f'"{name}":', f'"{name}": {value}, "x":', 1).encode()
    for name, item in raw.items():
        for other in (None, [], {}, True, 10**20, -1, "1/3", [[]], [None], {"mu": "1/3"}):
            if other != item and name not in FREE:
                yield json.dumps({**raw, name: other}).encode()


@pytest.mark.parametrize("key", ["cctnd", "ccpbb"])
def test_hostile_certificates_are_refused_within_a_second(counts, key):
    for data in hostile_certificates(certify(counts, bound=key).to_json()):
        began = time.process_time()
        assert not verify(data, counts), data[:80]
        assert time.process_time() - began < 1


def npz(members, packing=zipfile.ZIP_STORED):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", packing) as archive:
        for name, array in members.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array))
            archive.writestr(name, member.getvalue())
    return data.getvalue()


def header(**fields):
    text = json.dumps({"format": "pacvote pair counts", "version": 1, **fields})
    return np.frombuffer(text.encode(), np.uint8)


def hostile_counts(counts):
    arrays = {f"{name}.npy": getattr(counts, name).astype("<u2") for name in files.NAMES[:3]}
    whole = {"header.npy": header(voters=list(counts.voters)), **arrays}
    good = npz(whole)
    yield from (b"", b"PK", good[:100], good[: len(good) // 2], b"PK\3\4" + b"\xff" * 10**6)
    yield npz(whole, zipfile.ZIP_DEFLATED)
    yield npz({**whole, "header.npy": np.array([object()], dtype=object)})
    yield npz({**whole, "../left_errors.npy": arrays["left_errors.npy"]})
    yield npz({f"/etc/{name}": array for name, array in whole.items()})
    yield npz({**whole, "header.npy": header(voters=["a"] * 4)})
    yield npz({**whole, "header.npy": header(voters=[[], {}, 1, None])})
    yield npz({**whole, "header.npy": header(voters=7)})
    yield npz({**whole, "header.npy": header(voters=["0", "1", "2"])})
    yield npz({**whole, "left_errors.npy": arrays["left_errors.npy"].astype(float)})
    yield npz({**whole, "left_errors.npy": arrays["left_errors.npy"].astype("<i8") - 500})
    yield npz({**whole, "left_errors.npy": np.asfortranarray(arrays["left_errors.npy"])})
    huge = {name: np.full((1, 1), 2**64 - 1, "<u8") for name in arrays}
    yield npz({**whole, **huge})
    names = [str(i) for i in range(30_000)]
    yield npz({"header.npy": header(voters=names), **dict.fromkeys(arrays, np.ones((1, 1), "u1"))})
    shape = good.replace(b"(4, 4)", b"(999999999, 999999999)"[:6].ljust(6))
    yield shape if shape != good else b""
    yield good.replace(b"'<u2'", b"'|O8'")
    yield good.replace(struct.pack("<H", 118), struct.pack("<H", 65535))


def test_hostile_counts_are_refused_within_a_second(counts, tmp_path):
    certificate = certify(counts)
    path = tmp_path / "counts.npz"
    for data in hostile_counts(counts):
        path.write_bytes(data)
        began = time.process_time()
        assert not verify(certificate, path), data[:80]
        assert time.process_time() - began < 1


def test_no_byte_of_a_counts_file_makes_the_checker_fail(counts, tmp_path):
    certificate = certify(counts)
    path = tmp_path / "counts.npz"
    counts.save(path)
    good = path.read_bytes()
    assert verify(certificate, path)
    for at in range(0, len(good), 3):
        verdict = verify(certificate, good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        assert isinstance(verdict, Verdict)
        assert not verify(certificate, good[:at]) or at > good.index(b"PK\1\2") - 1


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of Unix")
def test_what_is_no_plain_file_is_refused_at_once(counts, tmp_path):
    certificate = certify(counts)
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path, tmp_path / "pipe", tmp_path / "none", "a\0b", "x" * 9999):
        assert not verify(certificate, path)
        assert not verify(path, counts)


@pytest.mark.parametrize("given", [None, 7, [], {}, object()])
def test_misuse_is_a_type_error(counts, given):
    with pytest.raises(TypeError, match="give a path"):
        verify(given, counts)
    with pytest.raises(TypeError, match="give a path"):
        verify("{}", given)


def test_evidence_that_is_no_evidence_is_refused(counts):
    certificate = certify(counts)
    for arrays in ([[1.5]], "abcd", [[-1]], [[2**70]], None, 5, [["a"]]):
        evidence = Loose(dict.fromkeys(files.NAMES, arrays), counts.voters)
        evidence.error_bits = arrays
        evidence.validation_bits = None
        if arrays is not None:
            assert not verify(certificate, evidence)


# ---------------------------------------------------------------- alone


ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import checker
assert "flint" not in sys.modules
verdict = checker.verify(sys.argv[2], sys.argv[3])
assert not {"pacvote", "numpy", "scipy"} & {name.split(".")[0] for name in sys.modules}
print(verdict.ok, *verdict.reasons)
"""


def test_the_checker_works_alone(counts, tmp_path):
    shutil.copytree(Path(checker.__file__).parent, tmp_path / "checker")
    certify(counts, bound="ccpbb").save(tmp_path / "c.json")
    counts.save(tmp_path / "counts.npz")
    arguments = [tmp_path, tmp_path / "c.json", tmp_path / "counts.npz"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *arguments],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_without_flint_it_says_what_to_install(counts, monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ImportError, match=r"pacvote\[app\]"):
        verify("{}", counts)
