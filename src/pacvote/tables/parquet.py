"""What a Parquet file says of its pages, looked at before polars allocates what they ask for.

Numbers that cannot be make polars end the process: no exception says so. The headers are in
Thrift's compact protocol; numbers of fields are those of Parquet's own ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

MAGIC: Final = b"PAR1"
DEEP, LONG = 16, 2**26  # levels of structures, and bytes of all that is said of pages
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY = (1, 2), 3, (4, 5, 6), 7, 8
_LISTS, _STRUCT = (9, 10), 12
_FOOTER, _PAGE = 8, 2**10  # bytes: at the end of the file, and read at first of a page's header

Struct = dict[int, Any]


def refuse_impossible_pages(path: Path) -> None:
    """Refuse a Parquet file whose headers contradict each other; OSError with the reason."""
    facts = path.stat()
    _check(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _check(path: Path, size: int, mtime_ns: int) -> None:
    del mtime_ns
    with path.open("rb") as file:
        file.seek(max(size - _FOOTER, 0))
        end = file.read(_FOOTER)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC or length + _FOOTER > size:
            return  # polars says so
        file.seek(size - _FOOTER - length)
        try:
            for group in _structure(BytesIO(file.read(length)), 0)[4]:
                for column in group[1]:
                    _check_column(file, column[3], group[3], size)
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            msg = "a header of it is damaged"
            raise OSError(msg) from error


def _check_column(file: BinaryIO, chunk: Struct, n_rows: int, size: int) -> None:
    """Walk through the pages of a column of a group of rows."""
    n_values, unfolded, stored = chunk[5], chunk[6], chunk[7]
    start = min(offset for offset in (chunk[9], chunk.get(11, 0) or chunk[9]))
    _require(0 <= n_values == n_rows and stored >= 0 and start > 0 and start + stored <= size)
    at, end = start, start + stored
    while at < end:
        file.seek(at)
        header = BytesIO(file.read(min(_PAGE, end - at)))
        page = _structure(header, 0)
        counted = [page[k][1] for k in (5, 7, 8) if k in page]
        _require(len(counted) == 1 and 0 <= counted[0] <= max(n_values, unfolded))
        _require(7 in page or counted[0] <= n_values)
        _require(0 <= page[2] <= unfolded and 0 <= page[3] <= end - at - header.tell())
        _require(all(0 <= page.get(8, {}).get(k, 0) <= n_rows for k in (2, 3)))
        _require(all(0 <= page.get(8, {}).get(k, 0) <= page[2] for k in (5, 6)))
        at += header.tell() + page[3]


def _require(holds: bool) -> None:  # noqa: FBT001
    if not holds:
        msg = "its headers contradict each other"
        raise OSError(msg)


def _structure(data: BinaryIO, depth: int) -> Struct:
    """Read a structure: its fields by their numbers; texts as their lengths."""
    _require(depth < DEEP)
    fields: Struct = {}
    number = 0
    while True:
        head = _byte(data)
        if not head:
            return fields
        step, kind = divmod(head, 16)
        number = number + step if step else _signed(data)
        fields[number] = kind == 1 if kind in _BOOLEANS else _value(data, kind, depth)


def _value(data: BinaryIO, kind: int, depth: int) -> Any:
    if kind in _INTEGERS:
        return _signed(data)
    if kind == _BINARY:
        return _skip(data, _unsigned(data))
    if kind in _LISTS:
        return list(_items(data, depth))
    if kind == _STRUCT:
        return _structure(data, depth + 1)
    if kind in (_BYTE, *_BOOLEANS):
        return _byte(data)
    _require(kind == _DOUBLE)
    return _skip(data, 8)


def _items(data: BinaryIO, depth: int) -> Iterator[Any]:
    count, kind = divmod(_byte(data), 16)
    count = _unsigned(data) if count == 15 else count
    _require(count <= LONG)
    for _ in range(count):
        yield _value(data, kind, depth)


def _skip(data: BinaryIO, count: int) -> int:
    _require(count <= LONG and len(data.read(count)) == count)
    return count


def _byte(data: BinaryIO) -> int:
    return data.read(1)[0]


def _unsigned(data: BinaryIO) -> int:
    number = shift = 0
    while True:
        byte = _byte(data)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
        shift += 7
        _require(shift < 70)


def _signed(data: BinaryIO) -> int:
    number = _unsigned(data)
    return (number >> 1) ^ -(number & 1)
