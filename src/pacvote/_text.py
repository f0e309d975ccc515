"""Text that came from files, as people may see it, and the cards that notebooks show."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def shown(text: str) -> str:
    """Return a text without what would steer a reader's screen instead of being read."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in {"Cc", "Cf", "Cs"} else char
        for char in text
    )


def card(head: str, facts: Mapping[str, str], about: str = "", points: Iterable[str] = ()) -> str:
    """Return HTML of a claim, the facts behind it and a list to unfold, all of it escaped."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(shown(name))}</th>'
        f'<td style="text-align:left">{escape(shown(fact))}</td></tr>'
        for name, fact in facts.items()
    )
    items = "".join(f"<li>{escape(shown(point))}</li>" for point in points)
    more = f"<details><summary>{escape(about)}</summary><ol>{items}</ol></details>"
    return (
        f'<div class="pacvote"><p><strong>{escape(shown(head))}</strong></p>'
        f"<table><tbody>{cells}</tbody></table>{more if items else ''}</div>"
    )


def quoted(name: str) -> str:
    """Return a name between quotes, on one line, without its end where it is long."""
    text = repr(name)
    return text if len(text) <= 40 else f"{text[:38]}…{text[0]}"
