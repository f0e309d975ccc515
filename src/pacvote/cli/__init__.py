"""The command `pacvote`."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import NoReturn

_EXTRA = ("cyclopts", "flint", "polars", "rich", "skops")


def main() -> NoReturn:
    """Run the command that the arguments name, and exit: 0 done, 1 refuted, 2 misuse."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that a terminal cannot write stops nothing
            stream.reconfigure(errors="backslashreplace")
    try:
        from pacvote.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.stderr.write(
            f"pacvote: the commands need {error.name}; install: pip install 'pacvote[app]'\n"
        )
        sys.exit(2)
    except KeyboardInterrupt:  # while modules are imported
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
