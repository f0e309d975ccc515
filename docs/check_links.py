"""Check that every link inside a built site leads somewhere: give the site's folder."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links that a page makes and the anchors that it offers."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.anchors = path, [], {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to and what it can be linked by."""
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.links.append(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """Return each link of the site that leads to no file, or to no anchor of its page."""
    pages = {
        path.resolve(): Page(path)
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    found = []
    for page in pages.values():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            target = target.resolve()
            known = target not in pages or unquote(parts.fragment) in pages[target].anchors
            if not target.is_file() or not known:
                found.append(f"{page.path.relative_to(site)}: {link}")
    return found


if __name__ == "__main__":
    failures = broken(Path(sys.argv[1]))
    print("\n".join(failures) or "every link inside the site leads somewhere")
    sys.exit(bool(failures))
