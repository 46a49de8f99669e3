"""Which rows of an index are about the pages of an author's site."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from urllib.parse import urlsplit

from hacs_crawler.archive import Capture, Cleaning, names_other_file
from hacs_crawler.links import DEEPEST, fingerprint, page_key

_INDEX_FILE = re.compile(r"(?:index|default|home|welcome)\.[a-z]{3,5}|index").fullmatch
_DEFAULT_PORT = re.compile(r"^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)")


class Site:
    """A homepage, and with `has_subpages` also the pages below it, two levels deep.

    Nothing is below a homepage that a query tells from others.
    Raises ValueError if the homepage's URL has no key.
    """

    def __init__(self, homepage: str, *, has_subpages: bool) -> None:
        self.homepage = homepage
        self.page_key = page_key(homepage)
        self.has_subpages = has_subpages and "?" not in self.page_key
        self._folder = _without_index(self.page_key.partition("?")[0])

    @property
    def key(self) -> int:
        """One number for all spellings of the homepage, with and without index file."""
        return fingerprint(self._folder + "".join(self.page_key.partition("?")[1:]))

    @property
    def prefix(self) -> str:
        """The URL below which all its pages lie: the homepage's without index file, query and slash."""
        parts = urlsplit(self.homepage)
        return f"{parts.scheme}://{parts.netloc}{_without_index(parts.path)}"

    def url_of(self, capture: Capture) -> str:
        """Return the URL under which a capture is recorded: the homepage's own, or without its port."""
        if capture.page_key == self.page_key:
            return self.homepage
        return _DEFAULT_PORT.sub(r"\1\2", capture.url)

    def pages(
        self, captures: Iterable[Capture], dropped: Cleaning
    ) -> Iterator[tuple[str, list[Capture]]]:
        """Yield the keys of the site's pages and their captures in time order, from an index's rows.

        Captures of other pages, a second one in the same second, and revisits of what is no HTML are
        left out and counted (see `problem`; ``duplicate``, ``not_html``).
        """
        by_page: dict[str, list[Capture]] = {}
        for key, run in groupby(captures, key=attrgetter("page_key")):
            problem = self.problem(key)
            if problem:
                dropped[problem] += sum(1 for _ in run)
            else:
                by_page.setdefault(key, []).extend(run)
        for key, found in by_page.items():
            if names_other_file(key) and all(capture.is_revisit for capture in found):
                dropped["not_html"] += len(found)
            else:
                yield key, list(_one_a_second(found, dropped))

    def problem(self, key: str) -> str:
        """Return the kind under which a page is left out, "" if it belongs to the site.

        ``outside``: another site, ``too_deep``: more than two levels below the homepage,
        ``second_homepage``: another URL of the homepage itself.
        """
        if key == self.page_key:
            return ""
        place = key.partition("?")[0]
        if place != self._folder and not place.startswith(self._folder + "/"):
            return "outside"
        if _without_index(place) == self._folder:
            return "second_homepage"
        below = place[len(self._folder) :].strip("/")
        return "too_deep" if not self.has_subpages or below.count("/") >= DEEPEST else ""


def _without_index(place: str) -> str:
    folder, _, name = place.rpartition("/")
    return folder if not name or _INDEX_FILE(name.lower()) else place


def _one_a_second(captures: list[Capture], dropped: Cleaning) -> Iterator[Capture]:
    """Yield captures in time order; of those in one second the first with content of its own."""
    captures.sort(key=lambda capture: (capture.at, capture.is_revisit))
    last = 0
    for capture in captures:
        if capture.at == last:
            dropped["duplicate"] += 1
        else:
            last = capture.at
            yield capture
