"""What axe-core, the rules of which are those of WCAG and of good practice, finds fault with."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from browser import Tab

_RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(one =>
  ({rule: one.id, number: one.nodes.length,
    where: one.nodes.slice(0, 5).map(node => node.target.join(" "))})))
"""


def accessibility_faults(tab: Tab) -> list[dict[str, Any]]:
    """Return the rules that the page breaks as it is now, each with where it does."""
    source = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    tab.run(f"{source}\n;1")
    found: list[dict[str, Any]] = tab.run(_RUN)
    return found
