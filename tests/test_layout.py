"""The shape of the package: who imports whom, how long things are, and what stays out."""

import ast
import importlib
import importlib.metadata
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pacvote"
FILES = sorted(SOURCE.rglob("*.py"))

# A module imports only from modules of a lower rank. `__init__` is the package as its users see it.
RANK = {
    name: rank
    for rank, names in enumerate(
        [
            ["_exactmath", "voters", "_files", "_inputs", "_rounding", "_text"],
            ["concentration", "_countsfile"],
            ["kernels", "tilts"],
            ["_packing"],
            ["votes"],
            ["counts"],
            ["bounds"],
            ["alternation"],
            ["minimize"],
            ["exact"],
            ["exact_shared"],
            ["_certificatefile"],
            ["certificate"],
            ["candidates"],
            ["bags", "guards"],
            ["fitting"],
            ["_ballot", "recovery", "ensemble", "seen"],
            ["groups", "abstention", "costs", "planning"],
            ["adapters", "displays", "tables"],
            ["cluster", "report"],
            ["__init__"],
            ["paper"],
            ["cli"],
            ["__main__"],
        ]
    )
    for name in names
}
DATA = "datasets"  # no rank: imports nothing of ours, and only these may import it
READERS_OF_DATA = {"paper", "cli"}
CHECKER = "verify"  # no rank: imports nothing of ours, and anyone may import it
TRUSTED = sys.stdlib_module_names | {"flint"}


def unit(file: Path) -> str:
    """Top-level module or subpackage that a file belongs to."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


UNITS = {unit(file) for file in FILES}


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def absolute(file: Path, node: ast.ImportFrom) -> str:
    """Absolute name of the module in `from module import ...`."""
    if not node.level:
        return node.module or ""
    here = ("pacvote", *file.relative_to(SOURCE).parent.parts)
    parts = here[: len(here) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def imported(file: Path) -> Iterator[str]:
    """Absolute names of all that a file imports, wherever in the file it does so."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{absolute(file, node)}.{alias.name}" for alias in node.names)


def own_imports(file: Path) -> set[str]:
    """The units of pacvote that a file imports from."""
    names = [name.split(".") for name in imported(file) if name.split(".")[0] == "pacvote"]
    units = {parts[1] if len(parts) > 1 and parts[1] in UNITS else "__init__" for parts in names}
    return units - {unit(file)}


def allowed(importer: str, target: str) -> bool:
    if importer in {CHECKER, DATA}:
        return False
    if target == CHECKER:
        return True
    if target == DATA:
        return importer in READERS_OF_DATA
    return RANK.get(target, -1) < RANK[importer]


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file, node


def n_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from `def` to its end, its docstring not counted."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is None:
        return total
    text = node.body[0]
    return total - ((text.end_lineno or text.lineno) - text.lineno + 1)


def test_every_module_has_a_rank():
    new = UNITS - RANK.keys() - {DATA, CHECKER}
    assert not new, (
        f"{sorted(new)}: add each to RANK in {Path(__file__).name}, above all it imports"
    )


def test_imports_go_one_way():
    wrong = [
        f"{file.relative_to(SOURCE)} imports {target}"
        for file in FILES
        for target in sorted(own_imports(file))
        if unit(file) in RANK.keys() | {DATA, CHECKER} and not allowed(unit(file), target)
    ]
    assert not wrong


def test_the_checker_trusts_only_the_standard_library_and_flint():
    files = [file for file in FILES if unit(file) == CHECKER]
    names = {name for file in files for name in imported(file)}
    others = {name for name in names if not name.startswith(f"pacvote.{CHECKER}.")}
    assert {name.split(".")[0] for name in others} <= TRUSTED


def test_init_holds_only_imports_and_all():
    docstring, *rest = tree(SOURCE / "__init__.py").body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    for node in rest:
        if isinstance(node, ast.Assign):
            assert {ast.unparse(name) for name in node.targets} <= {"__all__", "__version__"}
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom), ast.unparse(node)


def test_all_is_what_init_imports():
    package = importlib.import_module("pacvote")
    nodes = [n for n in tree(SOURCE / "__init__.py").body if isinstance(n, ast.ImportFrom)]
    public = {
        alias.asname or alias.name
        for node in nodes
        if absolute(SOURCE / "__init__.py", node).startswith("pacvote")
        for alias in node.names
    }
    names = list(package.__all__)
    assert len(names) == len(set(names))
    assert {name for name in names if not name.startswith("__")} == public
    assert [name for name in names if name not in vars(package)] == []


def test_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = importlib.metadata.version("pacvote")
    assert project["version"] == version, (
        "the installed package is stale: run `make`'s install again"
    )
    assert getattr(importlib.import_module("pacvote"), "__version__", version) == version


def test_import_is_light():
    heavy = {"numba", "polars", "matplotlib", "cyclopts"}  # rich: scikit-learn imports it
    code = "import sys, pacvote; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_file_is_at_most_500_lines(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 500


def test_median_function_is_at_most_15_lines():
    lengths = {
        f"{file.name}:{node.lineno} {node.name}": n_lines(node) for file, node in functions()
    }
    longest = sorted(lengths, key=lengths.__getitem__)[-5:]
    assert statistics.median(lengths.values() or [0]) <= 15, f"the longest: {longest}"


def is_silent(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or all(isinstance(node, ast.Pass) for node in handler.body)


def is_unwanted(node: ast.AST) -> bool:
    """An assert, a look for an attribute, or an error that is swallowed."""
    if isinstance(node, ast.ExceptHandler):
        return is_silent(node)
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "hasattr")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_assert_no_hasattr_no_swallowed_error(file):
    found = [f"line {node.lineno}" for node in ast.walk(tree(file)) if is_unwanted(node)]
    assert not found


def test_nothing_tracked_is_over_a_megabyte():
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert [str(file) for file in files if file.is_file() and file.stat().st_size > 1_000_000] == []
