"""The documentation site: Markdown pages as they are, reference pages made from the code."""

import sys
from pathlib import Path

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
exclude_patterns = ["_build", "README.md"]
html_theme = "furo"
html_title = f"nextquery {__version__}"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_favicon = "../src/nextquery/service/http/static/icon.svg"
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
pygments_style = "friendly"
# Fenced blocks without a language are commands and their output.
highlight_language = "none"
suppress_warnings = ["myst.xref_missing"]

write_reference(Path(__file__).parent / "generated")
