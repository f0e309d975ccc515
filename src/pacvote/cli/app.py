"""The commands, and what becomes of their errors."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from pacvote.cli.demo import demo
from pacvote.cli.fit import fit, predict
from pacvote.cli.plan import plan
from pacvote.cli.reproduce import reproduce
from pacvote.cli.screen import complain, describe
from pacvote.cli.votes import certify, count, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _shown(default: object) -> object:
    return default if isinstance(default, (str, int, float, Path)) and default else None


app = App(
    name="pacvote",
    help="Weights for a majority vote, and a certificate of its error that anyone can check.",
    help_epilogue="Start here: `pacvote demo`. Each command has its own `--help`, with an example. "
    "Exit codes: 0 done, 1 refuted, 2 misuse, 130 interrupted.",
    version=lambda: importlib.metadata.version("pacvote"),
    default_parameter=Parameter(negative=(), show_default=_shown),
    suppress_keyboard_interrupt=False,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
app.command(demo, help_epilogue="Example: `pacvote demo --seed 1`")
app.command(
    count, help_epilogue="Example: `pacvote count votes.csv --label truth --out counts.npz`"
)
app.command(
    certify,
    help_epilogue="Example: `pacvote certify counts.npz --bound tnd --out certificate.json`",
)
app.command(verify, help_epilogue="Example: `pacvote verify certificate.json counts.npz`")
app.command(fit, help_epilogue="Example: `pacvote fit data.csv --target class --out model`")
app.command(predict, help_epilogue="Example: `pacvote predict model new.csv --out predictions.csv`")
app.command(plan, help_epilogue="Example: `pacvote plan --risk 0.05 --expected-error 0.03`")
app.command(
    reproduce,
    help_epilogue="Example: `pacvote reproduce rf --datasets pendigits --repetitions 2`",
)
app.register_install_completion_command(help="Install tab completion for this shell.")


def _options() -> set[str]:
    """Return the names of all options, as the Python names of what they set."""
    commands = (app[name] for name in app if not name.startswith("-"))
    names = (arg.names for command in commands for arg in command.assemble_argument_collection())
    return {name.removeprefix("--").replace("-", "_") for found in names for name in found}


def _noter() -> Callable[..., None]:
    """Return what shows warnings, each text once."""
    seen: set[str] = set()

    def note(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            complain(f"note: {message}", _options())

    return note


def _plain(error: CycloptsError) -> str:
    """Return what is wrong, an option that was not given told from one without its value."""
    text = str(error)
    if isinstance(error, MissingArgumentError):
        text = text.partition(" parameter ")[2] or text
        if error.keyword is None:
            text = text.replace(" requires an argument.", " is missing.")
    return text


def run(tokens: Sequence[str]) -> int:
    """Run a command and return its exit code: 0 done, 1 refuted, 2 misuse, 130 interrupted."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _noter()
            result = app(list(tokens))
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted; no half-written file is left")
        return 130
    except BrokenPipeError:  # the reader of stdout, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CycloptsError as error:
        command = " ".join(("pacvote", *(error.command_chain or ())))
        complain(f"{_plain(error)} See: {command} --help")
        return 2
    except ModuleNotFoundError as error:
        extra = "dask" if error.name in ("dask", "distributed") else "app"
        complain(f"this command needs {error.name}; install: pip install 'pacvote[{extra}]'")
        return 2
    except (ValueError, TypeError, OSError) as error:
        complain(describe(error), _options())
        return 2
    return result if isinstance(result, int) else 0
