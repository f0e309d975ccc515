"""Check a certificate against its evidence, sharing no code with what issued it.

Exact where numbers are rational, in ball arithmetic (Arb) where they are not. A new bound needs
its claims in `_CLAIMS`, its formula in `_formula` and, if that is new, its inequality.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple, final

UNIT, FINE = 2**40, 2**60  # limits and weights; empirical means and complexities
BITS = 2048  # of the balls; numbers that these cannot tell apart are refused
LARGEST_CERTIFICATE, LARGEST_COUNTS = 2**23, 2**30  # bytes, unfolded
ZERO, HALF, ONE = Fraction(0), Fraction(1, 2), Fraction(1)
ASSUMPTIONS = (
    "The validation rows and the future rows are independent draws from one distribution: "
    "no groups, no duplicates by construction, no order in time, no drift.",
    "No voter was influenced by the rows it is validated on, labelled or not, in training, "
    "preprocessing, selection or tuning.",
    "Which voter is validated on which row was decided without looking at that row.",
    "The prior, delta, the bound and its constants were fixed before the validation rows were "
    "seen.",
    "The claim is about the hard vote with exactly these weights; ties may fall either way.",
)
MUS = [Fraction(k, 256) for k in (-200, -100, -45, -18, -4, 8)]  # ccpbb's
_CERTIFICATE = "protocol bound constants exact_risk delta voters weight_integers prior_integers "
_CERTIFICATE += "parameters claims n_single n_pair evidence_sha256 assumptions version created"
_CLAIM = "event quantity side inequality p_hat n_samples complexity share grid value parameters"
_FRACTIONS = {"exact_risk", "delta", "p_hat", "complexity", "share", "value"}
_LISTS = {"voters", "weight_integers", "prior_integers", "claims", "assumptions"}
_INTEGERS = {"protocol", "n_single", "n_pair", "n_samples", "grid"}
_TYPES: dict[str, type] = {"parameters": dict, **dict.fromkeys(_INTEGERS, int)}
_TYPES |= dict.fromkeys(_LISTS, list) | dict.fromkeys(_FRACTIONS, Fraction)
_NAMES = ("pair_rows", "pair_errors", "left_errors")
_NPY = rb"\x93NUMPY\x01\x00(..)(\{'descr': '[|<]u([1248])', 'fortran_order': False, "
_NPY += rb"'shape': \(([0-9]{1,9}),(?: ([0-9]{1,9}))?\), \} *\n)"
Paper = dict[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a certificate is what its evidence proves, and what that answer rests on."""

    ok: bool
    reasons: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = (*ASSUMPTIONS, "The evidence is what was observed.")

    def __bool__(self) -> bool:
        return self.ok


def verify(certificate: Any, evidence: Any) -> Verdict:
    """Check a certificate against the evidence that it claims to rest on; neither is trusted.

    ``certificate``: a path, bytes, JSON text, or what has ``to_json``. ``evidence``: the path of
    a counts file, PairCounts or Votes. The time grows with the square of the number of voters.
    """
    for given, names in ((certificate, ["to_json"]), (evidence, ["pair_rows", "error_bits"])):
        known = isinstance(given, str | bytes | os.PathLike)
        if not known and all(getattr(given, name, None) is None for name in names):
            msg = f"give a path, or what has `{'` or `'.join(names)}`, not {type(given).__name__}"
            raise TypeError(msg)
    try:
        flint = import_module("flint")
    except ImportError:
        msg = "`verify` needs python-flint; install it with: pip install 'pacvote[app]'"
        raise ImportError(msg) from None
    checked: list[str] = []
    with flint.ctx.workprec(BITS):
        try:
            paper, counts = _parse(certificate), _count(evidence)
            for name, check in _CHECKS.items():
                check(paper, counts)
                checked.append(name)
        except Exception as error:  # noqa: BLE001 - whatever a hostile file leads to
            reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
            return Verdict(ok=False, reasons=(reason,), checked=tuple(checked))
    return Verdict(ok=True, reasons=(), checked=tuple(checked))


def _require(holds: object, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


def _parse(source: Any) -> Paper:
    if isinstance(source, str | os.PathLike) and not str(source).lstrip().startswith("{"):
        source = _read(source, LARGEST_CERTIFICATE)
    paper: Paper = _json(source if isinstance(source, str | bytes) else source.to_json())
    for item, names in ((paper, _CERTIFICATE), *((claim, _CLAIM) for claim in paper["claims"])):
        form = {name: _TYPES.get(name, str) for name in names.split(" ")}
        given = {name: type(value) for name, value in item.items()}
        _require(given == form, f"it must have {names}, each of its type")
    _require(paper["protocol"] == 1, "its protocol is not 1")
    return paper


def _read(path: str | os.PathLike[str], most: int) -> bytes:
    file = Path(path).stat()
    _require(stat.S_ISREG(file.st_mode) and file.st_size <= most, "no plain file, or too large")
    return Path(path).read_bytes()


def _json(data: str | bytes) -> Any:
    text = data if isinstance(data, str) else data.decode("utf-8")
    fits = len(text) <= LARGEST_CERTIFICATE and text.count("[") + text.count("{") < 10**5
    _require(fits, "the JSON is too long")
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _require(len(dict(pairs)) == len(pairs), "a key stands twice")
    exact = _FRACTIONS | {"mu", "lambda", "gamma"}
    return {key: _fraction(value) if key in exact else value for key, value in pairs}


def _fraction(text: str) -> Fraction:
    found = re.fullmatch(r"(0|-?[1-9][0-9]{0,399})/([1-9][0-9]{0,399})", text)
    over, under = map(int, found.groups() if found else (0, 2))
    _require(Fraction(over, under).denominator == under, f"{text[:40]!r} is not in lowest terms")
    return Fraction(over, under)


class _Counts(NamedTuple):
    """Flat square matrices: rows of each pair, where both erred, where the left one erred."""

    voters: list[str]
    rows: array[int]
    both: array[int]
    left: array[int]

    def lines(self, i: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield, for voter i and each other: rows, both err, i errs, the other errs."""
        line = slice(i * len(self.voters), (i + 1) * len(self.voters))
        columns = self.rows[line], self.both[line], self.left[line]
        return zip(*columns, self.left[i :: len(self.voters)], strict=True)


def _count(source: Any) -> _Counts:
    if isinstance(source, str | bytes | os.PathLike):
        return _from_file(source if isinstance(source, bytes) else _read(source, LARGEST_COUNTS))
    if getattr(source, "pair_rows", None) is None:
        return _from_votes(source)
    flat = (array("q", (x for y in getattr(source, name) for x in y)) for name in _NAMES)
    return _Counts(list(source.voters), *flat)


def _from_file(data: bytes) -> _Counts:
    """Read stored members by their local headers alone: nothing unfolds, nothing is executed."""
    found, at = {}, 0
    for _ in range(4):
        head = struct.unpack_from("<4s2xHH8xIIHH", data, at)
        (kind, flags, packing, size, whole), lengths = head[:5], head[5:]
        name, start = data[at + 30 : at + 30 + lengths[0]], at + 30 + sum(lengths)
        member, at = data[start : start + size], start + size
        plain = kind == b"PK\3\4" and flags == packing == 0 and size == whole == len(member)
        _require(plain, "not a counts file: a member is compressed, or something else")
        found[name.decode()] = member
    _require(len(found) == 4 and data[at : at + 4] == b"PK\1\2", "not a counts file")
    header = _json(_array(found["header.npy"]).tobytes())
    voters = header.pop("voters", None)
    _require(header == {"format": "pacvote pair counts", "version": 1}, "another kind of counts")
    return _Counts(voters, *(_array(found[f"{name}.npy"], len(voters)) for name in _NAMES))


def _array(member: bytes, m: int = 0) -> array[int]:
    """Return a vector, or an m x m matrix of which one row, or column, may stand for all."""
    head = re.match(_NPY, member, re.DOTALL)
    length, text, size, rows, columns = head.groups() if head else (b"", b"?", 1, 0, 0)
    flat: array[int] = array({1: "B", 2: "H", 4: "I", 8: "Q"}[int(size)])
    flat.frombytes(member[10 + len(text) :])
    fits = int.from_bytes(length, "little") == len(text) and 3 * m * m * int(size) <= LARGEST_COUNTS
    shape = (int(rows), int(columns or 1))
    fits = fits and len(flat) == shape[0] * shape[1] and (not m or {*shape} <= {1, m})
    _require(fits, "not a counts file: an array is not what it should be")
    if shape[1] < m:
        flat = array(flat.typecode, (x for x in flat for _ in range(m)))
    return flat * m if shape[0] < m else flat


def _from_votes(votes: Any) -> _Counts:
    """Count the pairs; in which order a row's bits are packed does not matter."""
    erred = [int.from_bytes(bytes(line), "little") for line in votes.error_bits]
    pairs = [(erred, erred), (erred, [-1] * len(erred))]
    flat = [array("q", [int(votes.n_samples)]) * len(erred) ** 2]
    if votes.validation_bits is not None:
        valid = [int.from_bytes(bytes(line), "little") for line in votes.validation_bits]
        pairs, flat = [(valid, valid), (erred, erred), (erred, valid)], []
    flat += [array("q", ((a & b).bit_count() for a in x for b in y)) for x, y in pairs]
    return _Counts(list(votes.voters), *flat)


def _mean(counts: _Counts, weights: list[int], claim: Paper) -> Fraction:
    """Return the posterior mean that a claim is about, at the certificate's weights."""
    quantity, mu, sums = claim["quantity"], claim["parameters"].get("mu", ZERO), dict[int, int]()
    for i, weight in ((i, weight) for i, weight in enumerate(weights) if weight):
        others = weights if quantity != "gibbs" else [UNIT * (i == j) for j in range(len(weights))]
        for w, (n, both, left, right) in zip(others, counts.lines(i), strict=True):
            if w:
                loss = _loss(quantity, mu, both, left + right - 2 * both, n)
                sums[n] = sums.get(n, 0) + weight * w * loss
    sizes = {n: n * (n - 1 if quantity == "mu_variance" else 1) for n in sums}
    total = sum((Fraction(sums[n], sizes[n]) for n in sums), ZERO)
    return Fraction(total, (UNIT * mu.denominator) ** 2)


def _loss(quantity: str, mu: Fraction, both: int, one: int, n: int) -> int:
    """Return q^2 times a loss summed over n rows, mu = p / q; a variance, over pairs of rows."""
    (p, q), none = mu.as_integer_ratio(), n - both - one
    if quantity == "mu_tandem":
        return (q - p) ** 2 * both - p * (q - p) * one + p * p * none
    if quantity == "mu_variance":  # n (n - 1) times the unbiased one
        return ((q - p) ** 2 * one + (q - 2 * p) ** 2 * none) * both + p * p * one * none
    return q * q * both


def _ball(number: Fraction | int) -> Any:
    flint = import_module("flint")
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def _above(left: Any, right: Any) -> bool:
    _require(left - right > 0 or right - left > 0, "two numbers are too close to compare")
    return bool(left > right)


def _middle(ball: Any) -> Fraction:
    """Return what a ball is known as; what is rounded here is irrational, so never a tie."""
    mantissa, exponent = map(int, ball.mid().man_exp())
    return mantissa * Fraction(2) ** exponent


def _to_12_bits(ball: Any) -> Fraction:
    number = _middle(ball)
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    unit = Fraction(2) ** (exponent + (number >= Fraction(2) ** exponent) - 12)
    return round(number / unit) * unit


def _nats(paper: Paper, claim: Paper) -> Any:
    """Return KL(rho || pi), twice for pairs, plus ln(grid / share), and ln(2 sqrt n) for kl."""
    weights, prior = paper["weight_integers"], paper["prior_integers"]
    parts = ((w, Fraction(w * sum(prior), p * UNIT)) for w, p in zip(weights, prior) if w)  # noqa: B905
    divergence = sum((w * _ball(ratio).log() for w, ratio in parts), _ball(0)) / UNIT
    order = 1 if claim["quantity"] == "gibbs" else 2
    nats = order * divergence + _ball(claim["grid"] / claim["share"]).log()
    kl = claim["inequality"] == "kl_paper"
    return nats + _ball(4 * claim["n_samples"]).log() / 2 if kl else nats


def _mixture(claim: Paper, p: Fraction) -> Any:
    """Return ln sum_j w_j exp(n phi_j(p, p_hat)), slopes C_j and weights w_j rebuilt.

    Slopes are geometric from min(1, sqrt(8 ln(1/share) / n)) to 6, each rounded to 12 bits;
    none but 1 and 6 is rational, so none is a tie. Weights go with min(1, 1.5 / C_j).
    """
    n, sign = claim["n_samples"], -1 if claim["side"] == "upper" else 1
    least, most = (8 * _ball(1 / claim["share"]).log() / n).sqrt(), _ball(6)
    width = (most / (least if _above(1, least) else 1)).log()
    last = max(5, ceil(_middle(width / _ball(Fraction(8, 5)).log())))
    slopes = [_to_12_bits(most * (width * (i - last) / last).exp()) for i in range(last + 1)]
    masses, total = [min(ONE, Fraction(3, 2) / slope) for slope in slopes], _ball(0)
    for mass, slope in zip(masses, slopes, strict=True):
        tilt = _ball(sign * slope)
        phi = tilt * _ball(claim["p_hat"]) - (1 + (tilt.exp() - 1) * _ball(p)).log()
        total += _ball(mass / sum(masses)) * (n * phi).exp()
    return total.log()


def _kl(claim: Paper, p: Fraction) -> Any:
    parts = ((claim["p_hat"], p), (1 - claim["p_hat"], 1 - p))
    return claim["n_samples"] * sum(_ball(q) * _ball(q / r).log() for q, r in parts if q)


def _is_tightest(left: Callable[[Paper, Fraction], Any], claim: Paper) -> bool:
    """Whether the limit is proved, and one grid step nearer to p_hat is not."""
    at, upper, mean = claim["value"] * UNIT, claim["side"] == "upper", claim["p_hat"] * UNIT
    inner, last, step = (ceil(mean), UNIT, 1) if upper else (floor(mean), 0, -1)
    if at.denominator > 1 or not 0 <= step * (at - inner) <= step * (last - inner):
        return False
    enough = _ball(claim["complexity"])
    if at != last and not _above(left(claim, at / UNIT), enough):
        return False
    return at == inner or not _above(left(claim, (at - step) / UNIT), enough)


def _is_ceiling(number: Fraction, exact: Any, unit: int) -> bool:
    """Whether the number is the least multiple of 1 / unit that is not below the exact one."""
    near = _above(_ball(number), exact) and _above(exact, _ball(number - Fraction(1, unit)))
    return near and (number * unit).denominator == 1


def _is_limit(paper: Paper, claim: Paper) -> bool:
    """Whether the limit is the tightest multiple of 2^-40 that the inequality proves."""
    if claim["inequality"] in {"mixture", "kl_paper"}:
        return _is_tightest(_mixture if claim["inequality"] == "mixture" else _kl, claim)
    n, mu, price = claim["n_samples"], claim["parameters"]["mu"], claim["complexity"]
    length = max(1 - mu, 1 - 2 * mu)
    if claim["inequality"] == "variance":
        lam = claim["parameters"]["lambda"]
        keep = 1 - lam * n / (2 * (n - 1))
        limit = min((claim["p_hat"] + length**2 * price / (n * lam)) / keep, length**2 / 4)
        return bool(keep > 0 and claim["value"] == Fraction(ceil(limit * UNIT), UNIT))
    gamma, variance = claim["parameters"]["gamma"], paper["claims"][1]["value"]
    tilt, rest = _ball(gamma * length), _ball(claim["p_hat"] + price / (gamma * n))
    mean = (tilt.exp() - tilt - 1) * _ball(variance / (gamma * length**2)) + rest
    return _is_ceiling(claim["value"], mean, UNIT)


def _check_grids(paper: Paper) -> None:
    """Refuse what is not one of every sixteenth point of the paper's grids, in 12 bits."""
    n, mu, (bennett, variance) = paper["n_pair"], paper["parameters"]["mu"], paper["claims"]
    _require(mu in MUS, "mu is not on the published grid")
    length = float(max(1 - mu, 1 - 2 * mu))  # exact; quotients are rounded as IEEE 754 says
    price, ratio = _ball(2 / paper["delta"]).log(), _ball(Fraction(1.05))
    scale, target, rise = ((n - 1) / price + 1).sqrt() + 1, 4 * price / n, 1 + (n - 1) / price / 2
    least = _root(lambda u: u.exp() * (u - 1) + 1 - target, 2 + (1 + target).log())
    most = _root(lambda u: (u.exp() - 1) / u - rise, 2 + 2 * rise.log())
    first = _ball(Fraction(2 * (n - 1), n)) / scale
    rows = [("lambda", variance, first, scale / 2), ("gamma", bennett, least, most / least)]
    for name, claim, start, width in rows:
        count = max(1, ceil(_middle(width.log() / ratio.log())))
        points = [_to_12_bits(start * ratio**i) for i in range(min(8, count - 1), count, 16)]
        divisor = length if name == "gamma" else 1.0
        fits = claim["parameters"][name] in [Fraction(float(x) / divisor) for x in points]
        _require(fits, f"{name} is not on the published grid")
        _require(claim["grid"] == len(MUS) * len(points), f"the grid of {name} has another size")


def _root(rising: Callable[[Any], Any], high: Any) -> Any:
    low, high = high * 0, high.mid()
    for _ in range(160):
        middle = ((low + high) / 2).mid()
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


_THREE = "gibbs lower 1/20, gibbs upper 1/20, tandem upper 9/10"
_CLAIMS = {  # quantity, side and share of delta, in the order of their names
    ("fo", "sharp"): "gibbs upper 1",
    ("fo", "paper"): "gibbs upper 1",
    ("tnd", "sharp"): "tandem upper 1",
    ("tnd", "paper"): "tandem upper 1",
    ("cctnd", "sharp"): _THREE,
    ("cctnd", "paper"): "gibbs lower 1/2, gibbs upper 1/2, tandem upper 1/2",
    ("c_bound", "sharp"): _THREE,
    ("c_bound", "paper"): "gibbs lower 1/2, gibbs upper 1/2, tandem lower 1/2, tandem upper 1/2",
    ("ccpbb", "sharp"): "mu_tandem upper 1/2, mu_variance upper 1/2",
}
_PARAMETERS = {"cctnd": {"mu"}, "ccpbb": {"mu", "lambda", "gamma"}}
_COVERED = {"bennett": {"mu", "gamma"}, "variance": {"mu", "lambda"}}  # by the event's grid


def _formula(paper: Paper, limits: Mapping[tuple[str, str], Fraction]) -> Fraction:
    """Return the bound from its limits; limits that contradict each other claim nothing."""
    if paper["bound"] == "fo":
        return 2 * limits["gibbs", "upper"]
    if paper["bound"] == "ccpbb":
        mean = limits["mu_tandem", "upper"]
        return mean / (HALF - paper["parameters"]["mu"]) ** 2 if mean > 0 else ONE
    t = limits["tandem", "upper"]
    if paper["bound"] == "tnd":
        return 4 * t
    above, below = limits["gibbs", "upper"], limits["gibbs", "lower"]
    if paper["bound"] == "cctnd":
        return _cantelli(t, above, below, paper["parameters"]["mu"])
    if paper["constants"] == "paper":
        over, rest = t - below**2, ONE / 4 + limits["tandem", "lower"] - above
        return over / rest if above < HALF and rest > 0 and over > 0 else ONE
    g = min(max(2 * t, below), above)
    flat = g == 2 * t or above >= HALF or t < g**2
    return 4 * t if flat else (t - g**2) / (ONE / 4 + t - g)


def _cantelli(t: Fraction, above: Fraction, below: Fraction, stated: Fraction) -> Fraction:
    """Return the least bound over mu: the lower limit goes with mu >= 0, the upper with mu < 0."""
    values = {ZERO: 4 * t}
    if below < HALF and t > below**2 and 2 * t < below:
        values[(below / 2 - t) / (HALF - below)] = (t - below**2) / (ONE / 4 + t - below)
    if above < HALF and 2 * t > above:
        mu = (above / 2 - t) / (HALF - above)
        values[mu] = (t - 2 * mu * above + mu * mu) / (HALF - mu) ** 2
    best = min(values, key=values.__getitem__)
    _require(stated == best, "mu is not the best one")
    return values[best]


def _check_evidence(paper: Paper, counts: _Counts) -> None:
    m, digest = len(counts.voters), hashlib.sha256(json.dumps(counts.voters).encode())
    _require(paper["voters"] == counts.voters, "the evidence names other voters")
    _require(
        0 < m == len({name for name in counts.voters if type(name) is str}),
        "each voter needs a name of its own",
    )
    for flat in (counts.rows, counts.both, counts.left):
        _require(len(flat) == m * m, "the counts are not of all pairs of voters")
        for start in range(0, m * m, m):
            digest.update(array("q", flat[start : start + m]))
    _require(paper["n_single"] == min(counts.rows[:: m + 1]), "`n_single` is wrong")
    _require(paper["n_pair"] == min(counts.rows), "`n_pair` is wrong")
    _require(digest.hexdigest() == paper["evidence_sha256"], "the evidence has another SHA-256")
    for i in range(m):
        _check_voter(counts, i)


def _check_voter(counts: _Counts, i: int) -> None:
    """Refuse what no table of rows can give."""
    m, lines = len(counts.voters), list(counts.lines(i))
    twins = zip(counts.rows[i::m], counts.both[i::m], strict=True)
    fits, (rows, errors, same, _) = [line[:2] for line in lines] == list(twins), lines[i]
    for n, both, left, right in lines:
        fits = fits and 0 <= both <= left <= errors == same and n <= rows
        fits = fits and 0 <= right - both <= n - left <= rows - errors
    _require(fits, f"voter {i} has counts that no table of rows can give")


def _check_weights(paper: Paper, counts: _Counts) -> None:
    weights, prior, m = paper["weight_integers"], paper["prior_integers"], len(counts.voters)
    fits = all(type(x) is int and x >= 0 for x in weights + prior)
    total, fits = sum(prior), fits and len(weights) == len(prior) == m
    _require(fits and sum(weights) == UNIT, "the weights must be integers that sum to 2^40")
    _require(total == UNIT or {*prior} == {1}, "the prior must be ones, or sum to 2^40")
    pairs = list(zip(weights, prior, strict=True))
    _require(all(p for w, p in pairs if w), "a voter has weight without prior mass")
    near = all(abs(w * total - p * UNIT) <= m * total for w, p in pairs)
    _require(paper["claims"] or near, "weights that claim nothing must be the prior's")


def _check_claimed(paper: Paper, _: _Counts) -> None:
    claims, bound = paper["claims"], paper["bound"]
    _require(paper["assumptions"] == [*ASSUMPTIONS], "the assumptions are not those published")
    _require(0 < paper["delta"] < 1, "delta must lie between 0 and 1")
    _require((bound, paper["constants"]) in _CLAIMS, "the bound is not among those proven")
    names = _PARAMETERS.get(bound, set()) if claims else set()
    _require(paper["parameters"].keys() == names, "the parameters are not those of the bound")
    fields = ("event", "quantity", "side", "inequality", "share")
    expected = []
    for row in _CLAIMS[bound, paper["constants"]].split(", "):
        name, side, share = row.split()
        form = "mixture" if paper["constants"] == "sharp" else "kl_paper"
        form = {"mu_tandem": "bennett", "mu_variance": "variance"}.get(name, form)
        event = {"mixture": f"{name} {side}", "kl_paper": name}.get(form, form)
        expected.append([event, name, side, form, Fraction(share) * paper["delta"]])
    same = not claims or [[claim[name] for name in fields] for claim in claims] == expected
    _require(same, "events, inequalities or shares of delta are not those of the bound")


def _check_parameters(paper: Paper, _: _Counts) -> None:
    gridded = paper["bound"] == "ccpbb"
    for claim in paper["claims"]:
        n = paper["n_single" if claim["quantity"] == "gibbs" else "n_pair"]
        _require(claim["n_samples"] == n >= 1 + gridded, "`n_samples` is wrong, or too small")
        covered = _COVERED.get(claim["inequality"], ())
        same = claim["parameters"] == {name: paper["parameters"][name] for name in covered}
        _require(same, "the parameters of a claim are not those of the certificate")
        _require(gridded or claim["grid"] == 1, "a claim has a grid that its bound has not")
    if gridded and paper["claims"]:
        _check_grids(paper)


def _check_claims(paper: Paper, counts: _Counts) -> None:
    for claim in paper["claims"]:
        name = f"{claim['event']}, {claim['side']}"
        scaled = _mean(counts, paper["weight_integers"], claim) * FINE
        mean = Fraction(ceil(scaled) if claim["side"] == "upper" else floor(scaled), FINE)
        _require(claim["p_hat"] == mean, f"{name}: `p_hat` is not the mean of the evidence")
        price = _is_ceiling(claim["complexity"], _nats(paper, claim), FINE)
        _require(price, f"{name}: `complexity` is not that of weights, prior and share")
        _require(_is_limit(paper, claim), f"{name}: `value` is not the tightest that is proved")


def _check_risk(paper: Paper, _: _Counts) -> None:
    limits = {(claim["quantity"], claim["side"]): claim["value"] for claim in paper["claims"]}
    risk = Fraction(ceil(_formula(paper, limits) * UNIT), UNIT) if limits else ONE
    _require(paper["exact_risk"] == min(ONE, risk), "the claimed risk is not what is proved")


_CHECKS: dict[str, Callable[[Paper, _Counts], None]] = {
    "SHA-256, voters and sizes of the evidence": _check_evidence,
    "weights and prior": _check_weights,
    "assumptions, events, inequalities, ledger of delta": _check_claimed,
    "numbers of rows, parameters and grids": _check_parameters,
    "empirical means, complexities and limits": _check_claims,
    "claimed risk": _check_risk,
}
