"""The documentation site: Markdown pages as they are, reference pages made from the code."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from reference import write_reference

from nextquery import __version__

project = "nextquery"
author = "the nextquery authors"
copyright = "the nextquery authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
nitpicky = False
exclude_patterns = ["_build", "README.md", "generated", "notebooks"]
html_theme = "furo"
html_title = f"nextquery {__version__}"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_favicon = "../src/nextquery/service/static/icon.svg"
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
pygments_style = "friendly"
# Fenced blocks without a language are commands and their output.
highlight_language = "none"


def titles_for_file_names(app: Any, page: str, source: list[str]) -> None:
    """A link that is called after its file gets the title of the page or section instead."""
    source[0] = re.sub(r"\[[\w-]+\.md\](\([\w./-]+\.md(?:#[\w-]+)?\))", r"[]\1", source[0])


def setup(app: Any) -> None:
    """What Sphinx calls before it reads the pages."""
    app.connect("source-read", titles_for_file_names)


write_reference(Path(__file__).parent / "generated")
