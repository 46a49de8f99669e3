"""By which rules pages are read that a browser showed, ours or the project's own."""

from __future__ import annotations

from dataclasses import replace

from scrapy.http import Response

from hacs_crawler.crawl.part import Part
from hacs_crawler.watch import Rules


class RenderedLinks(Part):
    """Keeps links of rendered pages apart from links of plain answers: see `LinkRules.rendered`."""

    def rules(self, response: Response, rules: Rules) -> Rules:
        """Return the rules for a page as a browser shows it if it is one."""
        return replace(rules, rendered=True) if is_rendered(response) else rules


def is_rendered(response: Response) -> bool:
    """Whether a response shows a page as a browser does: scrapy-playwright says so."""
    return "playwright" in response.flags
