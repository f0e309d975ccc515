"""Read a certificate and its evidence, neither of which is trusted."""

from __future__ import annotations

import json
import os
import re
import stat
import struct
from array import array
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

LARGEST_CERTIFICATE, LARGEST_COUNTS = 2**23, 2**30  # bytes, unfolded
_CERTIFICATE = "protocol bound constants exact_risk delta selection selected_from voters "
_CERTIFICATE += "weight_integers prior_integers parameters claims n_single n_pair "
_CERTIFICATE += "evidence_sha256 assumptions version created"
_CLAIM = "event quantity side inequality p_hat n_samples complexity share grid value parameters"
_FRACTIONS = {"exact_risk", "delta", "selection", "p_hat", "complexity", "share", "value"}
_EXACT = re.compile(
    "|".join([*_FRACTIONS, "mu|eta|lambda|gamma|nu|draws|erring|(tau|limit)_[0-9]+"])
)
_LISTS = {"voters", "selected_from", "weight_integers", "prior_integers", "claims", "assumptions"}
_INTEGERS = {"protocol", "n_single", "n_pair", "n_samples", "grid"}
_TYPES: dict[str, type] = {"parameters": dict, **dict.fromkeys(_INTEGERS, int)}
_TYPES |= dict.fromkeys(_LISTS, list) | dict.fromkeys(_FRACTIONS, Fraction)
NAMES = ("pair_rows", "pair_errors", "left_errors", "disagreements")
_NPY = rb"\x93NUMPY\x01\x00(..)(\{'descr': '[|<]u([1248])', 'fortran_order': False, "
_NPY += rb"'shape': \(([0-9]{1,9}),(?: ([0-9]{1,9}))?\), \} *\n)"
Paper = dict[str, Any]


def require(holds: object, reason: str) -> None:
    """Refuse, with the reason, unless it holds."""
    if not holds:
        raise ValueError(reason)


def parse(source: Any) -> Paper:
    """Return a certificate as a dictionary of the known keys, fractions for its numbers."""
    if isinstance(source, str | os.PathLike) and not str(source).lstrip().startswith("{"):
        source = _read(source, LARGEST_CERTIFICATE)
    paper: Paper = _json(source if isinstance(source, str | bytes) else source.to_json())
    for item, names in ((paper, _CERTIFICATE), *((claim, _CLAIM) for claim in paper["claims"])):
        form = {name: _TYPES.get(name, str) for name in names.split(" ")}
        given = {name: type(value) for name, value in item.items()}
        require(given == form, f"it must have {names}, each of its type")
    require(paper["protocol"] == 1, "its protocol is not 1")
    return paper


def _read(path: str | os.PathLike[str], most: int) -> bytes:
    file = Path(path).stat()
    require(stat.S_ISREG(file.st_mode) and file.st_size <= most, "no plain file, or too large")
    return Path(path).read_bytes()


def _json(data: str | bytes) -> Any:
    text = data if isinstance(data, str) else data.decode("utf-8")
    fits = len(text) <= LARGEST_CERTIFICATE and text.count("[") + text.count("{") < 10**5
    require(fits, "the JSON is too long")
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs), "a key stands twice")
    return {key: _fraction(value) if _EXACT.fullmatch(key) else value for key, value in pairs}


def _fraction(text: str) -> Fraction:
    found = re.fullmatch(r"(0|-?[1-9][0-9]{0,399})/([1-9][0-9]{0,399})", text)
    over, under = map(int, found.groups() if found else (0, 2))
    require(Fraction(over, under).denominator == under, f"{text[:40]!r} is not in lowest terms")
    return Fraction(over, under)


class Counts(NamedTuple):
    """Flat square matrices: rows of each pair, where both erred, where the left one erred.

    ``differ`` are the unlabelled rows, out of ``n_unlabelled``, on which a pair disagreed.
    """

    voters: list[str]
    rows: array[int]
    both: array[int]
    left: array[int]
    differ: array[int] = array("q")
    n_unlabelled: int = 0

    def lines(self, i: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield, for voter i and each other: rows, both err, i errs, the other errs."""
        line = slice(i * len(self.voters), (i + 1) * len(self.voters))
        columns = self.rows[line], self.both[line], self.left[line]
        return zip(*columns, self.left[i :: len(self.voters)], strict=True)


def count(source: Any) -> Counts:
    """Return the counts that a file, PairCounts or Votes hold."""
    if isinstance(source, str | bytes | os.PathLike):
        return _from_file(source if isinstance(source, bytes) else _read(source, LARGEST_COUNTS))
    if getattr(source, "pair_rows", None) is None:
        return _from_votes(source)
    n_rows = int(getattr(source, "n_unlabelled", 0))
    names = NAMES if n_rows else NAMES[:3]
    flat = [array("q", (x for y in getattr(source, name) for x in y)) for name in names]
    counts = Counts(list(source.voters), flat[0], flat[1], flat[2])
    return counts._replace(differ=flat[3], n_unlabelled=n_rows) if n_rows else counts


def _from_file(data: bytes) -> Counts:
    """Read stored members by their local headers alone: nothing unfolds, nothing is executed."""
    found, at = dict[str, bytes](), 0
    while data[at : at + 4] == b"PK\3\4" and len(found) < len(NAMES) + 1:
        head = struct.unpack_from("<4s2xHH8xIIHH", data, at)
        (kind, flags, packing, size, whole), lengths = head[:5], head[5:]
        name, start = data[at + 30 : at + 30 + lengths[0]], at + 30 + sum(lengths)
        member, at = data[start : start + size], start + size
        plain = kind == b"PK\3\4" and flags == packing == 0 and size == whole == len(member)
        require(plain, "not a counts file: a member is compressed, or something else")
        found[name.decode()] = member
    require(data[at : at + 4] == b"PK\1\2" and "header.npy" in found, "not a counts file")
    header = _json(_array(found["header.npy"]).tobytes())
    voters, n_rows = header.pop("voters", None), header.pop("n_unlabelled", 0)
    require(header == {"format": "pacvote pair counts", "version": 1}, "another kind of counts")
    names = NAMES if n_rows else NAMES[:3]
    require(len(found) == len(names) + 1 and type(n_rows) is int, "not a counts file")
    flat = [_array(found[f"{name}.npy"], len(voters)) for name in names]
    counts = Counts(voters, flat[0], flat[1], flat[2])
    return counts._replace(differ=flat[3], n_unlabelled=n_rows) if n_rows else counts


def _array(member: bytes, m: int = 0) -> array[int]:
    """Return a vector, or an m x m matrix of which one row, or column, may stand for all."""
    head = re.match(_NPY, member, re.DOTALL)
    length, text, size, rows, columns = head.groups() if head else (b"", b"?", 1, 0, 0)
    flat: array[int] = array({1: "B", 2: "H", 4: "I", 8: "Q"}[int(size)])
    flat.frombytes(member[10 + len(text) :])
    fits = int.from_bytes(length, "little") == len(text) and 3 * m * m * int(size) <= LARGEST_COUNTS
    shape = (int(rows), int(columns or 1))
    fits = fits and len(flat) == shape[0] * shape[1] and (not m or {*shape} <= {1, m})
    require(fits, "not a counts file: an array is not what it should be")
    if shape[1] < m:
        flat = array(flat.typecode, (x for x in flat for _ in range(m)))
    return flat * m if shape[0] < m else flat


def _from_votes(votes: Any) -> Counts:
    """Count the pairs; in which order a row's bits are packed does not matter."""
    erred = [int.from_bytes(bytes(line), "little") for line in votes.error_bits]
    pairs = [(erred, erred), (erred, [-1] * len(erred))]
    flat = [array("q", [int(votes.n_samples)]) * len(erred) ** 2]
    if votes.validation_bits is not None:
        valid = [int.from_bytes(bytes(line), "little") for line in votes.validation_bits]
        pairs, flat = [(valid, valid), (erred, erred), (erred, valid)], []
    flat += [array("q", ((a & b).bit_count() for a in x for b in y)) for x, y in pairs]
    return Counts(list(votes.voters), flat[0], flat[1], flat[2])
