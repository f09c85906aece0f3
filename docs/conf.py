"""The documentation site: Sphinx over the Markdown pages of this folder. `make docs` builds it."""

import sys
from pathlib import Path

import gnnplan

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "gnnplan"
author = "the gnnplan authors"
copyright = f"2026, {author}"
version = release = gnnplan.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "contracts", "verbs"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
highlight_language = "none"  # blocks without a language are output and drawings
default_role = "code"  # docstrings mark code with single backticks
autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "gnnplan"
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
exclude_patterns = ["_ext", "*.py"]
