"""A part of one's own: each update is a line of a file as soon as it is seen."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.state import Visit


class UpdatesFile(Part):
    """Appends the page, the time and the number of new links of each update."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> UpdatesFile | None:
        """Return None where the setting UPDATES_FILE names no file."""
        path = crawl.crawler.settings["UPDATES_FILE"]
        return cls(Path(path)) if path else None

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Write a line where the page showed links that it never had before."""
        recorded = observed.recorded
        if recorded.is_known and recorded.updated:
            line = {
                "url": observed.visit.url,
                "at": observed.visit.at,
                "new_links": len(recorded.new_marks),
            }
            self._file.write(json.dumps(line) + "\n")
        return ()

    async def closing(self) -> None:
        """Close the file."""
        self._file.close()
