"""The file of a certificate: JSON with exact numbers, read as if an enemy had written it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from fractions import Fraction
from typing import Any

from pacvote.exact import UNIT, ExactClaim

LARGEST_FILE = 8 * 2**20
LONGEST_NUMBER = 400  # digits of a numerator or denominator


def to_json(fields: Mapping[str, Any], protocol: int) -> str:
    """Return the canonical text: a line for each key in fixed order, "p/q", no floats."""
    lines = (
        f' "{name}": {json.dumps(value, default=_plain)}'
        for name, value in {"protocol": protocol, **fields}.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    msg = f"{type(value).__name__} has no place in a certificate"
    raise TypeError(msg)


def from_json(data: bytes, protocol: int) -> dict[str, Any]:
    """Return the fields that `to_json` wrote, or ValueError in one line."""
    try:
        return _parse(data, protocol)
    except (ValueError, TypeError, KeyError, RecursionError, ZeroDivisionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        msg = f"`path` is not a certificate of protocol {protocol}: {reason}"
        raise ValueError(msg) from None


def _parse(data: bytes, protocol: int) -> dict[str, Any]:
    if len(data) > LARGEST_FILE:
        msg = f"{len(data)} bytes are too many"
        raise ValueError(msg)
    raw = json.loads(
        data.decode("utf-8", errors="strict"),
        object_pairs_hook=_no_duplicates,
        parse_float=_refuse_float,
        parse_constant=_refuse_float,
        parse_int=_short_integer,
    )
    if not isinstance(raw, dict) or raw.pop("protocol", None) != protocol:
        msg = "no such protocol"
        raise ValueError(msg)
    fields = _read(raw, _CERTIFICATE)
    _refuse_impossible(**fields)
    return fields


def _refuse_impossible(
    voters: tuple[str, ...],
    weight_integers: tuple[int, ...],
    prior_integers: tuple[int, ...],
    exact_risk: Fraction,
    delta: Fraction,
    selection: Fraction,
    **_: object,
) -> None:
    """Refuse numbers that no certificate has; whether they are proved is for `verify`."""
    m = len(set(voters))
    if not 0 < m == len(voters) == len(weight_integers) == len(prior_integers):
        msg = "each voter must have a name of its own, one weight and one prior mass"
    elif min(weight_integers + prior_integers) < 0 or sum(weight_integers) != UNIT:
        msg = "weights must be at least 0 and sum to 2^40, and no prior mass may be negative"
    elif not any(prior_integers):
        msg = "the prior has no mass"
    elif not (0 <= exact_risk <= 1 and 0 < delta < 1 and 0 < selection <= 1):
        msg = "the risk, delta or the selection is out of range"
    else:
        return
    raise ValueError(msg)


def _read(raw: object, readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if not isinstance(raw, dict) or set(raw) != set(readers):
        found = sorted(raw) if isinstance(raw, dict) else type(raw).__name__
        msg = f"it must have the keys {', '.join(readers)}, but has {found}"
        raise ValueError(msg)
    return {name: read(raw[name]) for name, read in readers.items()}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        msg = "a key stands twice"
        raise ValueError(msg)
    return dict(pairs)


def _refuse_float(text: str) -> object:
    msg = f"{text[:20]} is not exact; numbers are integers or fractions"
    raise ValueError(msg)


def _short_integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        msg = f"a number has {len(text)} digits"
        raise ValueError(msg)
    return int(text)


def _is(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            msg = f"{str(value)[:40]!r} must be {kind.__name__}"
            raise ValueError(msg)
        return value

    return read


def _fraction(value: object) -> Fraction:
    text = _is(str)(value)
    long = max(map(len, text.split("/"))) > LONGEST_NUMBER
    if long or "." in text or "e" in text.lower():
        msg = f"{text[:40]!r} is not a fraction"
        raise ValueError(msg)
    fraction = Fraction(text)
    if f"{fraction.numerator}/{fraction.denominator}" != text:
        msg = f"{text[:40]!r} is not a fraction in lowest terms"
        raise ValueError(msg)
    return fraction


def _many(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(read(item) for item in _is(list)(value))


def _named_fractions(value: object) -> dict[str, Fraction]:
    return {name: _fraction(number) for name, number in _is(dict)(value).items()}


_CLAIM: dict[str, Callable[[Any], Any]] = {
    "event": _is(str),
    "quantity": _is(str),
    "side": _is(str),
    "inequality": _is(str),
    "p_hat": _fraction,
    "n_samples": _is(int),
    "complexity": _fraction,
    "share": _fraction,
    "grid": _is(int),
    "value": _fraction,
    "parameters": _named_fractions,
}

_CERTIFICATE: dict[str, Callable[[Any], Any]] = {
    "bound": _is(str),
    "constants": _is(str),
    "exact_risk": _fraction,
    "delta": _fraction,
    "selection": _fraction,
    "selected_from": _many(_is(str)),
    "voters": _many(_is(str)),
    "weight_integers": _many(_is(int)),
    "prior_integers": _many(_is(int)),
    "parameters": _named_fractions,
    "claims": _many(lambda raw: ExactClaim(**_read(raw, _CLAIM))),
    "n_single": _is(int),
    "n_pair": _is(int),
    "evidence_sha256": _is(str),
    "assumptions": _many(_is(str)),
    "version": _is(str),
    "created": _is(str),
}
