"""The documentation as a site: `tox -e docs`, or `sphinx-build -W -c docs . OUTPUT`.

The sources are the Markdown files as they stand in the repository, so their links hold in both places.
The navigation is what docs/index.md lists, section by section.
"""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from posixpath import normpath
from typing import Any

from sphinx.application import Sphinx

project = "hacs-crawler"
release = version = version_of("hacs-crawler")
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
include_patterns = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"),
    *("benchmarks/README.md", "benchmarks/results/*.md", "benchmarks/recrawl/*.md"),
    "examples/README.md",
]
html_theme = "furo"
html_title = "hacs-crawler"
html_show_copyright = False
html_additional_pages = {"index": "begin.html"}
html_static_path = ["site/static"]
html_css_files = ["site.css"]
templates_path = ["site"]

myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
default_role = "literal"  # docstrings write `name` as Markdown does

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
ENTRY = re.compile(r"^- \[([^]]+)\]\(([^)#]+)\.md\)", re.MULTILINE)


def add_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Make a table of contents of each section's list of links."""
    if docname != root_doc:
        return
    texts = SECTION.split(source[0])
    trees = [
        "\n".join(
            [
                "```{toctree}\n:hidden:",
                f":caption: {heading}",
                "",
                *(f"{title} </{normpath(f'docs/{file}')}>" for title, file in ENTRY.findall(body)),
                "```\n",
            ]
        )
        for heading, body in zip(texts[1::2], texts[2::2], strict=True)
    ]
    source[0] = "\n".join([source[0], *trees])


def leave_out_of_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Have no table of contents list what benchmarks printed: their page has links to it."""
    if docname.startswith(("benchmarks/results/", "benchmarks/recrawl/")):
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect what is above to Sphinx."""
    app.connect("source-read", leave_out_of_navigation)
    app.connect("source-read", add_navigation)
    return {"parallel_read_safe": True}
