"""Every piece of code that the documentation shows runs, and prints what the page says.

On a page (README.md, docs/**/*.md) the blocks marked `python` run in their order, in one
namespace, in a folder of their own; a block marked `text` right after one is what it prints.
Lines of blocks marked `sh` that begin with `pacvote` run as commands. Blocks without a mark, and
`{code-block}`, are only shown. Of the reader's own files there is one, `votes.csv`.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import runpy
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import pacvote
from pacvote import BOUNDS
from pacvote.cli.app import run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BUILT = {"api", "gallery", "_build"}  # by `make docs`
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if page.relative_to(ROOT).parts[1:2] not in [(b,) for b in BUILT]]
WITH_CODE = [
    p
    for p in PAGES
    if {kind for kind, _ in BLOCK.findall(p.read_text(encoding="utf-8"))} & {"python", "sh"}
]
ELSEWHERE = {"docs/guide/cluster.md": "a Dask scheduler, Ray and Spark"}  # needed; only compiled
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
VOTES = (
    "model_a,model_b,model_c,truth\n" + "cat,cat,dog,cat\ndog,dog,dog,dog\ndog,cat,cat,cat\n" * 200
)


def name(path):
    return str(path.relative_to(ROOT))


def says(wanted, got):
    """Whether a page says what was printed; `...` stands for anything."""
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)


def command(line):
    words = shlex.split(line, comments=True)
    if words[:1] == ["pacvote"]:
        assert run(words[1:]) == 0, line


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("votes.csv").write_text(VOTES, encoding="utf-8")
    namespace, printed = {"__name__": "page"}, None
    for match in BLOCK.finditer(text := page.read_text(encoding="utf-8")):
        kind, code = match.groups()
        if kind == "text" and printed is not None:
            assert says(code, printed), f"{name(page)} shows\n{code}\nbut it prints\n{printed}"
        printed = None
        if kind == "python":
            at = "\n" * text[: match.start(2)].count("\n")  # the line of the page, in a traceback
            compiled = compile(at + code, page, "exec", dont_inherit=True)
            if name(page) in ELSEWHERE:
                continue
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compiled, namespace)  # noqa: S102
            printed = out.getvalue()
        elif kind == "sh":
            for line in code.replace("\\\n", " ").splitlines():
                command(line)


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_runs_and_shows_something(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    plt.switch_backend("agg")
    runpy.run_path(str(script), run_name="__main__")
    shown = plt.get_fignums()
    plt.close("all")
    assert shown or capsys.readouterr().out.count("\n") > 3
    assert list(tmp_path.iterdir()) == [], "an example leaves files behind"


def test_the_reference_has_every_public_module():
    reference = (DOCS / "api.md").read_text(encoding="utf-8").split()
    for file in sorted((ROOT / "src" / "pacvote").rglob("__init__.py")):
        module = ".".join(file.relative_to(ROOT / "src").parts[:-1])
        names = set(getattr(importlib.import_module(module), "__all__", ()))
        shared = names & set(pacvote.__all__)
        assert not names or shared or module in reference, f"add {module} to docs/api.md"


@pytest.mark.parametrize("key", BOUNDS)
def test_every_bound_has_a_row_where_bounds_are_chosen(key):
    rows = (DOCS / "which.md").read_text(encoding="utf-8")
    assert re.search(rf"\| \{{doc\}}`{key} <theory/\w+>` \|", rows)


def test_links_of_the_readme_lead_somewhere():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(\s*([^)#]+)", readme)
    assert len(links) > 10
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
