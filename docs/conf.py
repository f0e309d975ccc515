"""How the documentation is built: `make docs`."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpydoc.docscrape import NumpyDocString

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Examples fit small models one after the other: one thread each, and no window.
os.environ.setdefault("MPLBACKEND", "agg")
# A page of the reference would outlive the name that it is about.
shutil.rmtree(Path(__file__).parent / "api", ignore_errors=True)

project = "pacvote"
author = "The pacvote maintainers"
copyright = author  # noqa: A001 - the name that Sphinx asks for
release = version = importlib.metadata.version("pacvote")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reproduction/tables"]
templates_path = ["_templates"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_typehints = "none"
NumpyDocString.sections["Guarantee"] = []
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "reference_url": {"pacvote": None},
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("pacvote",),
}

html_theme = "pydata_sphinx_theme"
html_title = "pacvote"
html_static_path = ["_static"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}

warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")


def _show_guarantee(*given: Any) -> None:
    """Let numpydoc, which shows no section Guarantee, show it as a note."""
    lines: list[str] = given[-1]
    text = "\n".join(lines)
    lines[:] = re.sub(r"(?m)^Guarantee\n-+\n", "Notes\n-----\n**Guarantee.** ", text).split("\n")


def setup(app: Sphinx) -> None:
    """Connect before numpydoc, whose priority is 500."""
    app.connect("autodoc-process-docstring", _show_guarantee, priority=400)
