"""Sphinx: how the pages of this repository become a site. `make docs` builds it, offline, warnings are errors.

The source folder is the repository, so that the pages' links to each other are the same here and on a code host; what
is a page is listed below. Pages that are added to docs/ are found by themselves.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from site_commands import named_again, write_modules  # noqa: E402
from site_texts import write_cheatsheet  # noqa: E402

import hedgerow  # noqa: E402

ADDRESS = ""  # where these pages are public, with a slash at the end; nothing is yet
project = "hedgerow"
author = "The hedgerow developers"
copyright = "The hedgerow developers, BSD-3-Clause"
release = version = hedgerow.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "site_commands",
    "site_docstrings",
    "site_links",
    "site_math",
    "site_texts",
]

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "bench/*.md"]
exclude_patterns = [
    "out/**",
    ".venv*/**",
    "build/**",
    "examples/**",
    "docs/gallery/**/*.ipynb",
    "docs/_templates/**",
    "docs/joss/**",
]
templates_path = [
    str(ROOT / "docs" / "_templates")
]  # absolute: autosummary looks below the source folder
nitpicky = False
highlight_language = "text"  # a block without a language is a command
suppress_warnings = ["config.cache"]  # the functions in the gallery's configuration

# -- Markdown ---------------------------------------------------------------------------------------------------

myst_enable_extensions = ["deflist", "dollarmath"]
html_math_renderer = "katex"
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4

# -- the reference: every public name, from its docstring ---------------------------------------------------------

shutil.rmtree(
    ROOT / "docs" / "api", ignore_errors=True
)  # pages of names that are gone would be warnings
write_modules(ROOT / "docs" / "api" / "other-tools.rst")
write_cheatsheet(ROOT / "docs" / "api" / "cheatsheet.md")
autosummary_generate = [  # named, since Sphinx does not look for new pages where it was run before
    str(page)
    for page in (ROOT / "docs" / "api.rst", ROOT / "docs" / "api" / "other-tools.rst")
    if page.is_file()
]
autosummary_context = {"again": named_again(ROOT / "docs" / "api.rst")}
autosummary_ignore_module_all = False  # what a module names in __all__, wherever it comes from
autosummary_imported_members = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"

# -- the gallery: run when the pages are built ---------------------------------------------------------------------


def _to_run() -> str:
    """Which examples are run: all, those whose data is there, or none (QUICK=1); the others show their code."""
    if os.environ.get("HEDGEROW_DOCS_QUICK"):
        return r"a^"
    if os.environ.get("HEDGEROW_DATA"):
        return r"/\w+\.py$"
    print(
        "HEDGEROW_DATA is not set: examples on cameras, faces, reviews show their code alone (`hedgerow data`)"
    )
    return r"/(?!\d+_data_)\w+\.py$"


sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["docs/gallery"],
    "filename_pattern": _to_run(),
    "ignore_pattern": r"/_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,
    "write_computation_times": False,
    "remove_config_comments": True,
    "copyfile_regex": r"a^",
    "capture_repr": (),
    "reset_modules": ("matplotlib", "gallery_style.reset"),
    "doc_module": ("hedgerow",),
    "backreferences_dir": None,
    "image_srcset": ["2x"],
}

# -- how it looks ------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "hedgerow"
html_baseurl = ADDRESS
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["hedgerow.css"]
html_extra_path = ["_extra"]  # the door: index.html leads to docs/index.html
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {
        "text": "hedgerow",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "search_bar_text": "Search these pages",
}
html_sidebars: dict[str, list[str]] = {"docs/index": []}

# what is loaded when first used has to be there before its docstrings are read
for _name in (
    "hedgerow.base",
    "hedgerow.estimator",
    "hedgerow.fleet",
    "hedgerow.live",
    "hedgerow.client",
):
    importlib.import_module(_name)
