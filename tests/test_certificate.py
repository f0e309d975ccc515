"""Certificates: exact numbers, canonical bytes, and files that are refused unless whole."""

import json
import re
from fractions import Fraction
from importlib.resources import files
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacvote import BOUNDS, CCBennett, Certificate, PairCounts, Votes, certify, count, evaluate
from pacvote._exactmath import exact_slopes
from pacvote.bounds.shared import SharedBound
from pacvote.certificate import PROTOCOL, fingerprint, percent_up, vacuous
from pacvote.concentration import mixture_slopes
from pacvote.exact import UNIT, to_integers
from pacvote.verify import verify

KEYS = ("fo", "tnd", "cctnd", "c_bound", "ccpbb")
PROVEN = [
    BOUNDS[key](constants=constants)
    for key in KEYS
    for constants in BOUNDS[key].known_constants
    if BOUNDS[key](constants=constants).sound
]
every_bound = pytest.mark.parametrize("bound", PROVEN, ids=lambda b: f"{b.key}-{b.constants}")


def some_votes(n=300, m=5, seed=0, p=0.25):
    rng = np.random.default_rng(seed)
    hard = rng.random((n, 1)) < 0.2
    errors = (rng.random((n, m)) < p) | (hard & (rng.random((n, m)) < 0.6))
    return Votes.from_errors(errors, rng.random((n, m)) < 0.8)


@pytest.fixture(scope="module")
def counts():
    return count(some_votes())


# ---------------------------------------------------------------- what is issued


@every_bound
def test_numbers_are_exact_and_on_their_grids(bound, counts):
    certificate = certify(counts, bound=bound)
    assert sum(certificate.weight_integers) == UNIT
    assert min(certificate.weight_integers) >= 0
    assert certificate.prior_integers == (1,) * counts.n_voters
    assert (certificate.exact_risk * UNIT).denominator == 1
    assert sum(certificate.ledger.values()) == certificate.delta == Fraction(1, 20)
    for claim in certificate.claims:
        assert (claim.value * UNIT).denominator == 1
        assert (claim.p_hat * 2**60).denominator == (claim.complexity * 2**60).denominator == 1
        outward = (
            claim.value >= claim.p_hat if claim.side == "upper" else claim.value <= claim.p_hat
        )
        assert outward or claim.inequality == "variance"
    names = [(claim.event, claim.quantity, claim.side) for claim in certificate.claims]
    assert names == sorted(names)


@every_bound
def test_risk_is_the_float_bound_or_above_it_by_a_grid_step(bound, counts):
    certificate = certify(counts, bound=bound)
    value = evaluate(bound, counts, certificate.weights).value
    assert value - 1e-10 <= certificate.exact_risk <= value + 1e-9
    assert certificate.risk >= certificate.exact_risk
    assert Fraction(certificate.risk) == certificate.exact_risk


@every_bound
def test_same_evidence_gives_the_same_bytes(bound, counts):
    parts = [count(some_votes(150, seed=seed)) for seed in (1, 2)]
    texts = [certify(part, bound=bound).to_json() for part in (sum(parts), parts[1] + parts[0])]
    first, second = (re.sub(r'"created": "[^"]*"', "", text) for text in texts)
    assert first == second


def test_votes_and_counts_give_one_certificate():
    votes = some_votes()
    one, other = certify(votes), certify(count(votes))
    assert one.claims == other.claims
    assert one.evidence_sha256 == other.evidence_sha256 == fingerprint(count(votes))


@every_bound
def test_file_round_trip(bound, counts, tmp_path):
    certificate = certify(counts, bound=bound)
    certificate.save(tmp_path / "c.json")
    loaded = Certificate.load(tmp_path / "c.json")
    assert loaded.to_json() == certificate.to_json() == (tmp_path / "c.json").read_text()
    assert loaded.claims == certificate.claims
    assert loaded.exact_risk == certificate.exact_risk


def test_weights_that_are_given_are_certified(counts):
    weights = np.array([0.5, 0.25, 0.125, 0.125, 0])
    certificate = certify(counts, weights=weights)
    assert (certificate.weights == weights).all()
    assert certificate.weight_numerators.tolist() == [2**39, 2**38, 2**37, 2**37, 0]
    assert certificate.exact_risk >= certify(counts).exact_risk


def test_a_prior_that_is_given_is_kept(counts):
    prior = [0.5, 0.5, 0, 0, 0]
    certificate = certify(counts, bound="tnd", prior=prior)
    assert certificate.prior.tolist() == prior
    assert not certificate.weight_numerators[2:].any()
    assert verify(certificate, counts)
    with pytest.raises(ValueError, match="prior"):
        certify(counts, prior=prior, weights=[0.2] * 5)


@pytest.mark.parametrize("delta", [Fraction(1, 3), 0.05, Fraction(1, 10**150), 1e-300, 0.999])
def test_delta(counts, delta):
    certificate = certify(counts, delta=delta)
    exact = delta if isinstance(delta, Fraction) else Fraction(repr(delta))
    assert certificate.delta == sum(certificate.ledger.values()) == exact
    assert certificate.exact_risk == certify(counts, delta=exact).exact_risk
    assert verify(certificate, counts)


@pytest.mark.parametrize("delta", [Fraction(1, 10**500), 1 - Fraction(1, 10**70)])
def test_a_delta_that_no_file_or_no_arithmetic_holds_is_refused(counts, delta):
    for issue in (certify, vacuous):
        with pytest.raises(ValueError, match="digits"):
            issue(counts, delta=delta)


@pytest.mark.parametrize("constants", ["paper", "published"])
@pytest.mark.parametrize("issue", [certify, vacuous])
def test_what_is_not_proven_is_refused(counts, constants, issue):
    with pytest.raises(ValueError, match="not proven"):
        issue(counts, bound=CCBennett(constants=constants))


@every_bound
def test_vacuous(bound):
    counts = PairCounts.zero(3)
    certificate = vacuous(counts, bound=bound, prior=[0.5, 0.3, 0.2])
    assert certificate.exact_risk == 1
    assert certificate.claims == ()
    assert certificate.parameters == {}
    assert verify(certificate, counts).ok


def test_text_never_claims_less_than_the_certificate(counts):
    certificate = certify(counts)
    shown = Fraction(re.search(r"at most ([\d.]+) %", str(certificate)).group(1))
    assert shown / 100 >= certificate.exact_risk
    assert percent_up(Fraction(1, 3)) == "33.34 %"
    assert "With 95 % confidence" in str(certificate)
    assert "With 99.9999 % confidence" in str(certify(counts, delta=1e-9))


def test_a_printed_certificate_names_what_it_assumes_and_was_chosen_among(counts):
    alone = certify(counts, bound="fo")
    lines = str(alone).splitlines()
    assert lines == [alone.claim, "Assuming:", *(f"- {text}" for text in alone.assumptions)]
    third = certify(counts, bound="fo", selection=Fraction(1, 3), selected_from=("a", "b", "c"))
    assert third.choice == "It is one of 3 candidates fixed beforehand, at delta/3: 'a', 'b', 'c'."
    assert str(third).splitlines()[1] == third.choice
    part = certify(counts, bound="fo", selection=0.4)
    assert part.choice == "It is one of several candidates fixed beforehand, at 2/5 delta."
    sixth = certify(counts, bound="fo", selection=Fraction(1, 6), selected_from=("a", "b"))
    several = "It is one of several candidates fixed beforehand, at 1/6 delta: 'a', 'b'."
    assert sixth.choice == several


# ---------------------------------------------------------------- what hung on floats


@given(st.integers(1, 2**62), st.integers(1, 200), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_exact_slopes_are_those_of_the_float_bound(n, over, more):
    share = Fraction(over, over + more)
    assert [Fraction(c) for c in mixture_slopes(n, share).tolist()] == exact_slopes(n, share)


@every_bound
@pytest.mark.parametrize("errors", [0, 1, 2**40, 2**60, 2**62])
def test_counts_of_any_size_are_certified_at_once(bound, errors):
    rows = np.full((2, 2), 2**62, dtype=np.int64)
    wrong = np.full((2, 2), errors, dtype=np.int64)
    counts = PairCounts(rows, wrong, wrong, ("a", "b"))
    certificate = certify(counts, bound=bound, weights=[0.5, 0.5])
    assert certificate.exact_risk >= Fraction(min(2 * errors, 2**62), 2**62)
    assert verify(certificate, counts).reasons == ()


def test_mu_is_the_best_one_for_the_exact_limits():
    rows = np.full((2, 2), 2**50, dtype=np.int64)
    wrong = np.array([[499, 249], [249, 499]], dtype=np.int64) * (2**50 // 1000)
    left = np.broadcast_to(np.diagonal(wrong)[:, None], (2, 2)).copy()
    counts = PairCounts(rows, wrong, left, ("a", "b"))
    certificate = certify(counts, weights=[0.5, 0.5])
    limits = {(c.quantity, c.side): c.value for c in certificate.claims}
    bound, mu = BOUNDS["cctnd"](), certificate.parameters["mu"]
    half = Fraction(1, 2)
    least = bound.formula(limits, certificate.parameters, half)
    near = [mu * (1 + Fraction(sign, 2**k)) for sign in (-1, 1) for k in (10, 20, 40)]
    assert all(bound.formula(limits, {"mu": other}, half) >= least for other in near)
    assert verify(certificate, counts).reasons == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda w: sum(w) > 1e-3))
def test_rounded_weights_sum_to_one_and_keep_what_is_positive(weights):
    exact = np.array(weights) / np.sum(weights)
    integers = to_integers(exact)
    assert sum(integers) == UNIT
    assert [k > 0 for k in integers] == [w > 0 for w in exact]
    assert all(abs(k - w * UNIT) <= len(weights) for k, w in zip(integers, exact, strict=True))


# ---------------------------------------------------------------- what is refused


def malformed(text):
    """Yield what kind of damage was done, and the damaged text."""
    raw = json.loads(text)

    def changed(**fields):
        return json.dumps({**raw, **fields})

    yield "empty", ""
    yield "truncated", text[: len(text) // 2]
    yield "no JSON", "protocol 1"
    yield "a list", "[]"
    yield "another protocol", changed(protocol=2)
    yield "protocol as text", changed(protocol="1")
    yield "a duplicate key", text.replace("{", '{"protocol": 1,', 1)
    yield "a key too many", changed(more=1)
    yield "NaN", changed(n_single=float("nan"))
    yield "1e308", text.replace(f'"n_single": {raw["n_single"]}', '"n_single": 1e308')
    yield "a float", changed(n_single=1.0)
    yield "a bool", changed(n_single=True)
    yield (
        "a huge integer",
        text.replace(f'"n_single": {raw["n_single"]}', '"n_single": ' + "9" * 5000),
    )
    yield "nesting", "[" * 100_000
    yield "a fraction by zero", changed(delta="1/0")
    yield "a fraction not in lowest terms", changed(delta="2/40")
    yield "a fraction as decimal", changed(delta="0.05")
    yield "a long fraction", changed(delta="1/" + "7" * 500)
    yield "delta 0", changed(delta="0/1")
    yield "risk above 1", changed(exact_risk="2/1")
    yield "risk below 0", changed(exact_risk="-1/2")
    yield "weights that do not sum", changed(weight_integers=[1] * 5)
    yield "a weight below 0", changed(weight_integers=[UNIT + 1, -1, 0, 0, 0])
    yield "too few weights", changed(weight_integers=[UNIT])
    yield "prior below 0", changed(prior_integers=[-1, 1, 1, 1, 1])
    yield "prior 0", changed(prior_integers=[0] * 5)
    yield "voters twice", changed(voters=["a"] * 5)
    yield "a claim short of a key", changed(claims=[{"event": "gibbs"}])
    yield "no UTF-8", "\ud800"
    for name in raw:
        yield f"no {name}", json.dumps({k: v for k, v in raw.items() if k != name})
        yield f"{name} is null", changed(**{name: None})


def test_load_refuses_what_is_malformed_in_one_line(counts, tmp_path):
    path = tmp_path / "c.json"
    for kind, text in malformed(certify(counts).to_json()):
        path.write_bytes(text.encode(errors="surrogatepass"))
        with pytest.raises(ValueError, match=r"\A`path` is not a certificate .*\Z"):
            Certificate.load(path)
        assert not verify(path, counts), kind


# ---------------------------------------------------------------- the published schema

SCHEMA = json.loads(files("pacvote").joinpath("certificate.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def errors_of(value, schema, where="$"):
    """The few keywords of JSON Schema that ours uses."""
    if "$ref" in schema:
        schema = schema | SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "type" in schema and type(value) is not TYPES[schema["type"]]:
        yield f"{where}: not {schema['type']}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{where}: {value!r} is not allowed"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} is not like {schema['pattern']}"
    if isinstance(value, int) and value < schema.get("minimum", value):
        yield f"{where}: below the minimum"
    if isinstance(value, list):
        yield from errors_of_list(value, schema, where)
    if isinstance(value, dict):
        yield from errors_of_object(value, schema, where)


def errors_of_list(value, schema, where):
    unique = len({json.dumps(item) for item in value}) == len(value)
    if len(value) < schema.get("minItems", 0) or (schema.get("uniqueItems") and not unique):
        yield f"{where}: too short, or twice the same"
    for i, item in enumerate(value):
        yield from errors_of(item, schema.get("items", {}), f"{where}[{i}]")


def errors_of_object(value, schema, where):
    known = dict(schema.get("properties", {}))
    for pattern, form in schema.get("patternProperties", {}).items():
        known |= {name: form for name in value if re.search(pattern, name)}
    yield from (f"{where}: no {name}" for name in schema.get("required", []) if name not in value)
    for name, item in value.items():
        if name not in known:
            yield f"{where}: {name} is not known"
        yield from errors_of(item, known.get(name, {}), f"{where}.{name}")


ALL = [  # but for `best_of`, which is issued as its member
    type_(constants=constants)
    for type_ in BOUNDS.values()
    for constants in type_.known_constants
    if type_.key != "best_of"
    and not issubclass(type_, SharedBound)
    and type_(constants=constants).sound
]


@pytest.mark.parametrize("bound", ALL, ids=lambda b: f"{b.key}-{b.constants}")
def test_certificates_follow_the_schema(bound, counts):
    assert SCHEMA["properties"]["protocol"]["const"] == PROTOCOL
    assert set(SCHEMA["properties"]["bound"]["enum"]) == BOUNDS.keys() - {"best_of"}
    for certificate in (certify(counts, bound=bound), vacuous(counts, bound=bound)):
        assert list(errors_of(json.loads(certificate.to_json()), SCHEMA)) == []


def test_the_documentation_has_every_field_and_the_schema():
    page = (Path(__file__).parents[1] / "docs/certificate.md").read_text()
    assert "certificate.schema.json" in page
    claim = SCHEMA["$defs"]["claim"]["properties"]
    forms = claim["inequality"]["enum"]
    parameters = SCHEMA["$defs"]["parameters"]["properties"]
    for name in (*SCHEMA["properties"], *claim, *forms, *parameters, "tau_0", "limit_0"):
        assert f"`{name}`" in page, name


def test_the_schema_refuses_what_is_malformed(counts):
    raw = json.loads(certify(counts).to_json())
    for name in raw:
        assert list(errors_of({k: v for k, v in raw.items() if k != name}, SCHEMA))
        assert list(errors_of({**raw, name: None}, SCHEMA))
    assert list(errors_of({**raw, "delta": "0.05"}, SCHEMA))
    assert list(errors_of({**raw, "more": 1}, SCHEMA))


def test_the_true_bound_is_never_above_the_certificate(counts):
    """The tandem bound at uniform weights, by hand: KL is 0 but for the rounded weights."""
    certificate = certify(counts, bound=BOUNDS["tnd"](constants="paper"), weights=[0.2] * 5)
    t = np.mean(counts.pair_errors / counts.pair_rows)
    p = certificate.claims[0].value
    kl = t * np.log(t / float(p)) + (1 - t) * np.log((1 - t) / (1 - float(p)))
    assert counts.n_pair * kl == pytest.approx(np.log(2 * np.sqrt(counts.n_pair) / 0.05), abs=1e-6)
    assert certificate.exact_risk == min(1, Fraction(ceil(4 * p * UNIT), UNIT))
