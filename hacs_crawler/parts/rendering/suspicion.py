"""Signs in a page's plain markup that a browser shows more of it."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

ROOTS: Final = ("root", "app", "__next", "__nuxt", "___gatsby", "q-app", "svelte", "main-app")
"""Ids of the elements that applications of React, Vue, Next, Nuxt, Gatsby, Quasar and others fill."""
_MARKS: Final = ("ng-app", "data-ng-app", "data-reactroot", "data-v-app", "data-server-rendered")
FEW_LINKS: Final = 10
"""A page with fewer links may have the others made by its scripts."""
SCRIPT_FILE_CHARACTERS: Final = 10_000
"""What a script in a file of its own counts for: its length is not known."""
SCRIPT_SHARE: Final = 5.0
"""How many characters of script for one of text are much script."""

_root: Final = etree.XPath(
    "(//*[" + " or ".join(f"@id='{name}'" for name in ROOTS) + "]"
    " | //app-root | //*[" + " or ".join(f"@{name}" for name in _MARKS) + "])[1]"
)
_has_links: Final = etree.XPath("boolean(.//a[@href])")
# Not joined by "|", nor `//noscript//text()`: libxml2 joins sets by comparing each with each.
_links: Final = etree.XPath("count(//*[self::a or self::area][@href])")
_files: Final = etree.XPath("count(//script[@src])")
_script_texts: Final = etree.XPath("//script[not(@src)]/text()", smart_strings=False)
_notices: Final = etree.XPath("//text()[ancestor::noscript]", smart_strings=False)
_texts: Final = etree.XPath(
    "//body//text()[not(ancestor::script or ancestor::style or ancestor::noscript)]",
    smart_strings=False,
)
_asks_for_scripts = re.compile(r"java\s*script", re.IGNORECASE).search


def suspicion_of(root: etree._Element | None) -> str:
    """Return in a few words why a browser may show more links of a parsed page, "" where nothing does.

    A page without scripts is never suspected.
    """
    if root is None:
        return ""
    scripts = _files(root) * SCRIPT_FILE_CHARACTERS + sum(map(len, _script_texts(root)))
    if not scripts:
        return ""
    for place in _root(root):
        if not _has_links(place):
            return "an application's root without links"
    if any(_asks_for_scripts(text) for text in _notices(root)):
        return "a notice to those without JavaScript"
    if _links(root) < FEW_LINKS:
        text = sum(len(text.strip()) for text in _texts(root))
        if scripts > SCRIPT_SHARE * text:
            return "few links and much script"
    return ""
