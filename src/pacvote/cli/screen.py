"""What commands print: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json as jsonlib
import os
import secrets
import shlex
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pacvote._text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from pacvote.certificate import Certificate
    from pacvote.counts import PairCounts
    from pacvote.votes import Votes


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Screen:
    """One command's output: for people, or with ``json`` one object for machines.

    Parameters
    ----------
    json
        Print the result as JSON.
    quiet
        Print nothing but errors; the exit code and the files say the rest.
    """

    json: bool = False
    quiet: bool = False

    @cached_property
    def console(self) -> Console:
        """Standard output, in lines that are not too long to read."""
        console = Console(highlight=False, quiet=self.json or self.quiet)
        console.width = min(console.width, 100)
        return console

    @property
    def ascii_only(self) -> bool:
        """Whether the terminal has no other characters."""
        return self.console.options.ascii_only

    def show(self, *parts: RenderableType) -> None:
        """Print for people; a string may hold markup."""
        for part in parts:
            self.console.print(part)

    def line(self, text: str, style: str = "") -> None:
        """Print text as it is, whatever it holds."""
        self.console.print(Text(shown(text), style=style))

    def points(self, texts: Iterable[str]) -> None:
        """Print a list, each text as it is, its further lines indented like its first."""
        table = Table.grid(padding=(0, 1))
        for text in texts:
            table.add_row("-", Text(shown(text)), style="dim")
        self.console.print(table)

    def files(self, written: Sequence[tuple[str, Path]]) -> None:
        """Say what was written where; a path is never wrapped, so that it can be copied."""
        width = max(len(what) for what, _ in written) + 2
        for what, path in written:
            text = Text.assemble((f"{what}:".ljust(width), "dim"), str(path))
            self.console.print(text, soft_wrap=True)

    def next(self, *words: object) -> None:
        """Say what to do next: one text, or the words of a command, quoted where they must be."""
        command = str(words[0]) if len(words) == 1 else shlex.join(map(str, words))
        text = Text.assemble(("Next: ", "bold"), (shown(command), "cyan"))
        self.console.print(text, soft_wrap=True)

    def result(self, content: Mapping[str, Any]) -> None:
        """Print the result for machines."""
        if self.json:
            sys.stdout.write(jsonlib.dumps(content, indent=2) + "\n")

    @contextmanager
    def working(self, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show progress on stderr where it is a terminal; yields a function that advances it."""
        console = Console(stderr=True)
        columns = (
            SpinnerColumn("line" if console.options.ascii_only else "dots"),
            TextColumn("{task.description}"),
            *((BarColumn(20),) if total else ()),
            TimeElapsedColumn(),
            *((TextColumn("passed, left"), TimeRemainingColumn()) if total else ()),
        )
        off = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=off) as bar:
            task = bar.add_task(what, total=total)

            def advance(steps: int) -> None:
                bar.advance(task, steps)

            yield advance


class Clock:
    """A clock that starts when it is made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time since then."""
        return time.perf_counter() - self._start


def complain(message: str, options: Collection[str] = ()) -> None:
    """Print one line on stderr, arguments named as the options that they are here."""
    line = " ".join(message.split()).replace("`path` ", "")
    for option in options:
        line = line.replace(f"`{option}`", f"`--{option.replace('_', '-')}`")
    sys.stderr.write(f"pacvote: {shown(line)}\n")


def describe(error: Exception) -> str:
    """Return what went wrong in one line."""
    if isinstance(error, OSError) and error.strerror:
        file = f": {os.fspath(error.filename)!r}" if error.filename is not None else ""
        return f"{error.strerror}{file}"
    return str(error) or type(error).__name__


def check_out(path: Path, source: Path, *suffixes: str, name: str = "out") -> None:
    """Refuse, before the work, a file that cannot be written after it, or that is its input."""
    if path.suffix.lower() not in suffixes:
        msg = f"`{name}` must name a {' or '.join(suffixes)} file, but is {str(path)!r}"
        raise ValueError(msg)
    if path.is_dir() or not path.absolute().parent.is_dir():
        wrong = "is a directory" if path.is_dir() else "is in a directory that does not exist"
        msg = f"`{name}` {str(path)!r} {wrong}; name a file in a directory that exists"
        raise ValueError(msg)
    if path.exists() and source.exists() and path.samefile(source):
        msg = f"`{name}` {str(path)!r} is the input, which would be lost; name another file"
        raise ValueError(msg)
    if source.is_dir() and source.samefile(path.absolute().parent):
        msg = f"`{name}` {str(path)!r} is in the folder of the input, as if part of it; move it"
        raise ValueError(msg)


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Yield a directory whose files go to ``folder`` together at the end, or not at all."""
    part = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    if folder.exists() and not folder.is_dir():
        msg = f"`out` {str(folder)!r} is a file; name a directory"
        raise ValueError(msg)
    part.mkdir(parents=True)
    try:
        yield part
        folder.mkdir(exist_ok=True)
        for file in sorted(part.iterdir()):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(part)


def write_report(
    screen: Screen,
    path: Path,
    certificate: Certificate,
    evidence: Votes | PairCounts,
    *,
    held_out: tuple[int, int] | None = None,
) -> None:
    """Write a certificate as a page for people."""
    from pacvote.report import save

    with screen.working("writing the report"):
        save(path, certificate, evidence, held_out=held_out)
