"""Tables and labels as users have them, turned into integers that are equal where the labels are.

Two labels that differ must never look equal: each such pair is an error left uncounted and a
certificate that does not hold. What cannot be compared exactly is therefore refused.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import narwhals as nw
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_NULLS = {"NoneType", "NAType", "NaTType"}
_WHOLE = (int, np.integer, np.bool_)
_FLOATS = (float, np.floating)
_TIMES = (np.datetime64, np.timedelta64)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as pieces of one dtype each: one piece for an array, one per column of a frame."""

    pieces: tuple[NDArray[Any], ...]
    names: tuple[str, ...] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and voters."""
        return self.pieces[0].shape[0], sum(piece.shape[1] for piece in self.pieces)

    def blocks(self, rows: slice) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield which voters, and what they say on `rows`."""
        first = 0
        for piece in self.pieces:
            stop = first + piece.shape[1]
            yield slice(first, stop), piece[rows]
            first = stop

    def block(self, rows: slice) -> NDArray[Any]:
        """Return `rows` of all voters."""
        blocks = [block for _, block in self.blocks(rows)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which of some names is most like one that is not among them, whatever its case."""
    known = {known.lower(): known for known in names}
    return known[difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)[0]]


def _from_native(data: Any, argument: str) -> Any:
    try:
        return nw.from_native(data, pass_through=True, eager_only=True, allow_series=True)
    except (nw.exceptions.NarwhalsError, ValueError) as error:
        reason = " ".join(str(error).split())
        msg = f"`{argument}` is not a table with one name per column: {reason}"
        raise ValueError(msg) from error


def _array(data: Any, argument: str) -> NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray):
        msg = (
            f"`{argument}` is a masked array; pass its .data, and `validated` = what is not masked"
        )
        raise TypeError(msg)
    if isinstance(data, list | tuple):
        return _array_of_list(data, argument)
    array = np.asarray(data)
    if array.ndim == 0:
        kind = type(data).__name__
        msg = (
            f"`{argument}` must be a dense array, list or data frame, got {kind}; convert it first"
        )
        raise TypeError(msg)
    return array


def _array_of_list(data: Any, argument: str) -> NDArray[Any]:
    # By way of objects: NumPy would turn [1, "a"] into strings and [2**53 + 1, 0.5] into floats.
    try:
        array = np.array(data, dtype=object)
    except ValueError as error:
        msg = f"`{argument}` must be a table, got a list whose rows differ in length"
        raise ValueError(msg) from error
    kinds = set(map(type, array.ravel().tolist()))
    if kinds & {list, tuple, np.ndarray}:
        msg = f"`{argument}` must be a table, got a list whose rows differ in length"
        raise ValueError(msg)
    return array.astype(bool) if kinds == {bool} else array


def read_table(data: Any, argument: str) -> Table:
    """Read a two-dimensional array, list or data frame."""
    native = _from_native(data, argument)
    if isinstance(native, nw.DataFrame):
        names = tuple(map(str, native.columns))
        pieces = tuple(column.to_numpy()[:, None] for column in native.iter_columns())
    else:
        names, pieces = None, (_array(data, argument),)
    for piece in pieces:
        _check_two_dimensional(piece, argument)
    if not pieces or 0 in pieces[0].shape:
        shape = (len(native), 0) if not pieces else pieces[0].shape
        msg = f"`{argument}` is empty, of shape {shape}; give at least one row and one voter"
        raise ValueError(msg)
    return Table(pieces, names)


def _check_two_dimensional(array: NDArray[Any], argument: str) -> None:
    if array.ndim == 2:
        return
    advice = f"; for one voter pass {argument}.reshape(-1, 1)" if array.ndim == 1 else ""
    msg = f"`{argument}` must have shape (n_samples, n_voters), got {array.shape}{advice}"
    raise ValueError(msg)


def read_column(data: Any, n_samples: int, argument: str) -> NDArray[Any]:
    """Read a one-dimensional array, list or series of `n_samples` labels."""
    native = _from_native(data, argument)
    array = native.to_numpy() if isinstance(native, nw.Series) else _array(data, argument)
    if array.shape != (n_samples,):
        msg = (
            f"`{argument}` must have shape ({n_samples},), one label per row of `predictions`, "
            f"got {array.shape}"
        )
        raise ValueError(msg)
    return array


def read_mask(data: Any, table: Table, argument: str) -> Table | None:
    """Read which votes of `table` count; None where all do."""
    if data is None:
        return None
    mask = read_table(data, argument)
    if mask.shape != table.shape:
        msg = f"`{argument}` must have the shape of the votes, {table.shape}, got {mask.shape}"
        raise ValueError(msg)
    if mask.names and table.names and mask.names != table.names:
        msg = f"`{argument}` must have the columns of the votes, in their order; got {mask.names}"
        raise ValueError(msg)
    check_bool(mask, argument)
    return None if all(piece.all() for piece in mask.pieces) else mask


def check_bool(table: Table, argument: str) -> None:
    """Refuse a table of anything but booleans."""
    for piece in table.pieces:
        if piece.dtype != np.bool_:
            msg = f"`{argument}` must be boolean, got {piece.dtype}; compare or convert it first"
            raise TypeError(msg)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.setflags(write=False)
    return view


def check_voters(voters: Sequence[str], n_voters: int) -> tuple[str, ...]:
    """Return the names of `n_voters` voters, or refuse them."""
    names = tuple(voters)
    if isinstance(voters, str) or not all(isinstance(name, str) for name in names):
        msg = f"`voters` must be a sequence of str, got {voters!r:.80}"
        raise TypeError(msg)
    if len(names) != n_voters:
        msg = f"`voters` must have one name for each of {n_voters} voters, got {len(names)}"
        raise ValueError(msg)
    if len(set(names)) < n_voters:
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"`voters` must be unique, got {twice!r} twice; rename one"
        raise ValueError(msg)
    return names


def default_voters(n_voters: int) -> tuple[str, ...]:
    """Return the names of voters that have none."""
    return tuple(map(str, range(n_voters)))


class Labels:
    """The labels of one table: numbers that are whole, or strings, never both."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.codes: defaultdict[str, int] = defaultdict()
        self.codes.default_factory = self.codes.__len__

    def integers(
        self, values: NDArray[Any], needed: NDArray[np.bool_] | None, argument: str
    ) -> NDArray[np.integer[Any]]:
        """Return integers that are equal exactly where the `needed` labels are; None: all are."""
        if needed is not None and not needed.any():
            return np.zeros(values.shape, dtype=np.uint8)
        if values.dtype.kind in "OUT":
            return self._from_objects(values, needed, argument)
        if (
            values.dtype.kind in "mM"
            and np.isnat(values if needed is None else values[needed]).any()
        ):
            _refuse_missing(argument)
        if values.dtype.kind not in "biuf":
            refuse_type(str(values.dtype), argument)
        self._expect("numbers", argument)
        if values.dtype.kind == "f":
            return _from_floats(values, needed, argument)
        return _from_integers(values, needed, argument)

    def _expect(self, kind: str, argument: str) -> None:
        self.kind = self.kind or kind
        if self.kind != kind:
            msg = f"`{argument}` has {kind} where labels before were {self.kind}; use one kind"
            raise TypeError(msg)

    def _from_objects(
        self, values: NDArray[Any], needed: NDArray[np.bool_] | None, argument: str
    ) -> NDArray[np.int64]:
        items = values.ravel().tolist() if needed is None else values[needed].tolist()
        kinds = _kinds(items, argument)
        for kind in kinds:
            self._expect(kind, argument)
        if kinds == {"strings"}:
            found = np.fromiter(map(self.codes.__getitem__, items), np.int64, len(items))
        else:
            found = _from_numbers(items, argument)
        if needed is None:
            return found.reshape(values.shape)
        integers = np.zeros(values.shape, dtype=np.int64)
        integers[needed] = found
        return integers


def _kinds(items: list[Any], argument: str) -> set[str]:
    kinds = set()
    types = set(map(type, items))
    others = {kind for kind in types if not issubclass(kind, (str, *_WHOLE))}
    if others and any(is_missing(item) for item in items if type(item) in others):
        _refuse_missing(argument)
    for kind in types:
        if issubclass(kind, str):
            kinds.add("strings")
        elif issubclass(kind, _WHOLE + _FLOATS):
            kinds.add("numbers")
        else:
            refuse_type(kind.__name__, argument)
    return kinds


def is_missing(item: object) -> bool:
    # Only NaN and NaT differ from themselves.
    return type(item).__name__ in _NULLS or (isinstance(item, _FLOATS + _TIMES) and item != item)


def _from_integers(
    values: NDArray[Any], needed: NDArray[np.bool_] | None, argument: str
) -> NDArray[np.integer[Any]]:
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    if values.dtype == np.uint64:
        largest = (values if needed is None else values[needed]).max()
        _check_range(int(largest), argument)
        return values.astype(np.int64)
    return values


def _from_floats(
    values: NDArray[Any], needed: NDArray[np.bool_] | None, argument: str
) -> NDArray[np.int64]:
    given = values if needed is None else values[needed]
    if np.isnan(given).any():
        _refuse_missing(argument)
    wrong = given[given != np.trunc(given)]
    if wrong.size:
        msg = f"`{argument}` has {wrong[0]}, not a whole number; give predicted labels, not scores"
        raise ValueError(msg)
    # From here on the dtype has not every integer: a label may have been rounded to another one.
    limit = 2.0 ** min(np.finfo(values.dtype).nmant + 1, 63)
    large = given[np.abs(given) >= limit]
    if large.size:
        msg = f"`{argument}` has {large[0]}, too large for {values.dtype} to be exact; use integers"
        raise ValueError(msg)
    return (values if needed is None else np.where(needed, values, 0)).astype(np.int64)


def _from_numbers(items: list[Any], argument: str) -> NDArray[np.int64]:
    for kind in {type(item) for item in items if isinstance(item, _FLOATS)}:
        _from_floats(np.array([item for item in items if type(item) is kind]), None, argument)
    numbers = [int(item) for item in items]
    _check_range(min(numbers), argument)
    _check_range(max(numbers), argument)
    return np.array(numbers, dtype=np.int64)


def _check_range(number: int, argument: str) -> None:
    if not -(2**63) <= number < 2**63:
        msg = f"`{argument}` has {number}, past the range of int64; use smaller labels, or strings"
        raise ValueError(msg)


def _refuse_missing(argument: str) -> NoReturn:
    msg = (
        f"`{argument}` has a missing label (NaN or null) where a voter is validated; "
        "drop the row, or leave it out of `validated` if that was decided at random"
    )
    raise ValueError(msg)


def refuse_type(kind: str, argument: str) -> NoReturn:
    msg = f"`{argument}` has labels of type {kind}; use integers, strings, booleans or categories"
    raise TypeError(msg)
