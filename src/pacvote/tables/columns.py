"""The columns of a file, settled before its first row is compared.

Two labels must not look equal in one part of a file and different in another. So all columns
become numbers or all become text, for the whole file. Cells of a CSV file are numbers where every
column holds nothing but whole numbers.
"""

from __future__ import annotations

import csv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from pacvote._inputs import nearest
from pacvote.tables.parquet import refuse_impossible_pages

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    PathLike = str | os.PathLike[str]

ARROW = {".arrow", ".feather", ".ipc"}
CSV = {".csv": ",", ".tsv": "\t"}
NPZ = ".npz"
SUFFIXES = (*CSV, ".parquet", *sorted(ARROW), NPZ)

# "01" and "+1" are text: someone may have meant them to differ from "1".
_WHOLE = r"^(?:0|-?[1-9][0-9]{0,17})(?:\.0+)?$"
# How programs write a missing value; believed only where all else in the column is a number.
MISSING = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")

TEXT = (pl.String, pl.Categorical, pl.Enum)
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_ROW_NUMBERS = {"", "Unnamed: 0", "__index_level_0__"}  # as pandas writes them


def suffix_of(path: PathLike) -> str:
    """Return what the name of a file says about its format."""
    return Path(path).suffix.lower()


@contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Turn whatever polars makes of a file into one line about it."""
    try:
        yield
    except pl.exceptions.NoDataError as error:
        refuse_empty(path, error)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "more fields" in reason:
            reason = "a line has more cells than the first, which names the columns"
        msg = f"`path` {str(path)!r} cannot be read as {suffix_of(path)[1:]}: {reason}"
        raise ValueError(msg) from error


def refuse_empty(path: PathLike, error: Exception | None = None) -> NoReturn:
    """Refuse a table without rows."""
    msg = f"`path` {str(path)!r} has no rows; give at least one below the names of the columns"
    raise ValueError(msg) from error


def files_of(path: PathLike) -> tuple[Path, ...]:
    """Return a file itself, or what a folder holds, in the order of the names.

    Names that begin with a dot or an underscore are left out: programs keep notes in such files.
    """
    folder = Path(path)
    if not folder.is_dir():
        return (folder,)
    files = sorted(file for file in folder.iterdir() if not file.name.startswith((".", "_")))
    for file in files:
        if file.is_dir() or suffix_of(file) not in (set(SUFFIXES) & {suffix_of(files[0])}) - {NPZ}:
            msg = (
                f"`path` {str(path)!r} holds {file.name!r}; a folder that is one table holds files "
                "of one kind, .parquet, .csv, .tsv or .arrow, and nothing else"
            )
            raise ValueError(msg)
    return tuple(files) or refuse_empty(path)


def scan(path: PathLike) -> pl.LazyFrame:
    """Open a file; every cell of a CSV file is text, and an empty one is null."""
    file, suffix = Path(path), suffix_of(path)
    if suffix not in SUFFIXES:
        msg = f"`path` {str(path)!r} is no table by its name; use {', '.join(SUFFIXES)}"
        raise ValueError(msg)
    with file.open("rb"):  # a missing file is an OSError, which says so better than polars
        pass
    with reading(path):
        if suffix in CSV:
            header = _header(file, CSV[suffix])
            _refuse_twice(header)
            _refuse_other_separators(path, header, CSV[suffix])
            text = pl.scan_csv(file, separator=CSV[suffix], infer_schema=False, glob=False)
            frame = text.with_columns(pl.when(pl.all() != "").then(pl.all()))
            frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
        elif suffix in ARROW:
            frame = pl.scan_ipc(file, glob=False)
        else:
            refuse_impossible_pages(file)
            frame = pl.scan_parquet(file, glob=False)
        refuse_names(frame.collect_schema().names())
    return frame


def _header(file: Path, separator: str) -> list[str]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        return next(csv.reader(lines, delimiter=separator), [])


def _refuse_other_separators(path: PathLike, names: Sequence[str], separator: str) -> None:
    other = next((sign for sign in ";\t," if sign != separator and sign in "".join(names)), None)
    if len(names) == 1 and other:
        msg = (
            f"`path` {str(path)!r} seems to separate cells by {other!r}, as in {names[0]!r}; "
            "write .csv with commas, or .tsv with tabs"
        )
        raise ValueError(msg)


def _refuse_twice(names: Sequence[str]) -> None:
    # polars would rename the second.
    for position, name in enumerate(names):
        if name in names[:position]:
            first = names.index(name) + 1
            msg = f"column {name!r} exists twice ({first} and {position + 1}); rename one"
            raise ValueError(msg)


def refuse_names(names: Sequence[str]) -> None:
    """Refuse columns that polars would take for patterns, and row numbers."""
    for position, name in enumerate(names):
        if name == "*" or (name.startswith("^") and name.endswith("$")):  # patterns to polars
            msg = f"column {position + 1} is named {name!r}; rename it, to begin with a letter"
            raise ValueError(msg)
        if name in _ROW_NUMBERS:
            msg = (
                f"column {position + 1} is named {name!r}, like the row numbers that pandas "
                "writes, which are no votes; write the table with index=False"
            )
            raise ValueError(msg)


def refuse_unknown(argument: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that no column has, and say which is the nearest."""
    if name not in names:
        hint = f"; did you mean {nearest(name, names)!r}?" if names else "."
        msg = f"`{argument}` {name!r} is no column{hint} Columns: {_listed(names)}"
        raise ValueError(msg)


def choose(
    names: Sequence[str], label: str | None, ignore: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the column of labels and those of voters."""
    if label is None:
        msg = f"`label` is missing; name the column of true labels, one of: {_listed(names)}"
        raise ValueError(msg)
    for argument, name in (("label", label), *(("ignore", name) for name in ignore)):
        refuse_unknown(argument, name, names)
    if label in ignore:
        msg = f"`ignore` names {label!r}, which is the label; name other columns"
        raise ValueError(msg)
    voters = tuple(name for name in names if name != label and name not in ignore)
    if not voters:
        msg = f"no column is left for voters, only {_listed(names)}; give one for each voter"
        raise ValueError(msg)
    return label, voters


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def refuse_others(file: Path, names: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse a file whose columns are not those of the first, in whatever order."""
    for name in set(names) ^ set(expected):
        has = "has a" if name in names else "lacks the"
        msg = f"`path` {str(file)!r} {has} column {name!r}, unlike the first file; write all alike"
        raise ValueError(msg)


def settle(frames: Mapping[Path, pl.LazyFrame], label: str, voters: tuple[str, ...]) -> bool | None:
    """Refuse columns that cannot be compared.

    Returns
    -------
    bool or None
        Of CSV files, whether the cells are whole numbers, in all of them; else None.
    """
    columns = {file: frame.select(label, *voters) for file, frame in frames.items()}
    first = next(iter(columns))
    if suffix_of(first) in CSV:
        with reading(first):
            return _settle_cells(pl.concat(columns.values()), label, voters)
    for file, frame in columns.items():
        with reading(file):
            plain_types(frame, label)
    return None


def plain_cells(frame: pl.LazyFrame, *, numbers: bool) -> pl.LazyFrame:
    """Return the cells of a CSV file as they are, or as the whole numbers that they are."""
    if not numbers:
        return frame
    given = pl.when(~pl.all().is_in(MISSING)).then(pl.all())
    return frame.with_columns(given.str.replace(r"\.0+$", "").cast(pl.Int64))


def plain_types(frame: pl.LazyFrame, label: str) -> pl.LazyFrame:
    """Return the label and the voters, all as numbers or all as text, nulls where they were."""
    schema = frame.collect_schema()
    kinds = {name: _kind(name, dtype) for name, dtype in schema.items()}
    for name in schema:
        if kinds[name] not in (kinds[label], "nothing"):
            msg = (
                f"label column {label!r} is {schema[label]} and column {name!r} is "
                f"{schema[name]}, which cannot be compared; store both as one type"
            )
            raise ValueError(msg)
    return frame.with_columns(_plain(name, dtype, kinds[label]) for name, dtype in schema.items())


def _kind(name: str, dtype: pl.DataType) -> str:
    if dtype in TEXT:
        return "text"
    if dtype in _INTEGERS or dtype == pl.Boolean or dtype.is_float():
        return "numbers"
    if dtype == pl.Null:
        return "nothing"
    msg = (
        f"column {name!r} is {dtype}; labels are integers, strings, booleans or categories, and "
        "columns that are no votes go into `ignore`"
    )
    raise ValueError(msg)


def _plain(name: str, dtype: pl.DataType, kind: str) -> pl.Expr:
    column = pl.col(name)
    if kind == "text":
        return column.cast(pl.String)
    if dtype.is_float():
        return column.fill_nan(None)
    return column.cast(pl.UInt8) if dtype in (pl.Boolean, pl.Null) else column


def _settle_cells(frame: pl.LazyFrame, label: str, voters: tuple[str, ...]) -> bool:
    whole, missing = pl.all().str.contains(_WHOLE), pl.all().is_in(MISSING)
    numbers = _row(frame.select((whole | missing).all()))
    if all(numbers.values()):
        return True
    numbers = _row(frame.select(whole.all()))
    filled = _row(frame.select(pl.all().count() > 0))
    for name in voters:
        if filled[name] and (numbers[name] or numbers[label]):
            _refuse_strangers(frame, label, name, numbers)
    return False


def _row(frame: pl.LazyFrame) -> dict[str, bool]:
    return frame.collect(engine="streaming").row(0, named=True)


def _refuse_strangers(
    frame: pl.LazyFrame, label: str, voter: str, numbers: Mapping[str, bool]
) -> None:
    """Refuse labels none of which is ever voted for, where only their writing differs."""
    labels, votes = (
        set(frame.select(pl.col(name).unique()).collect(engine="streaming")[name].drop_nulls())
        for name in (label, voter)
    )
    alike = {_number(text) for text in labels} & {_number(text) for text in votes}
    if not labels & votes and (numbers[label] != numbers[voter] or alike):
        kinds = ["whole numbers" if numbers[name] else "text" for name in (label, voter)]
        msg = (
            f"label column {label!r} holds {kinds[0]}, such as {min(labels, default='')!r}, and "
            f"column {voter!r} holds {kinds[1]}, such as {min(votes)!r}; write the same labels "
            "in both, or name in `ignore` a column that is no voter"
        )
        raise ValueError(msg)


def _number(text: str) -> str:
    return text.partition(".")[0]
