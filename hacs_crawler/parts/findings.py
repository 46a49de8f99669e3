"""Keeps the new things of updates as text, for people to read."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from lxml.html import HtmlElement
from scrapy.http import Response, XmlResponse

from hacs_crawler import watch
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import PageWriter
from hacs_crawler.crawl.meta import page_url
from hacs_crawler.crawl.observation import is_html, tree_of
from hacs_crawler.crawl.part import Observed
from hacs_crawler.crawl.secrets import is_secret_name
from hacs_crawler.links import (
    canonical_url,
    citation_fingerprint,
    is_file,
    link_fingerprint,
    page_id_of,
    page_links,
    publications,
)
from hacs_crawler.state import (
    FIRST,
    GONE,
    OPEN,
    Finding,
    Findings,
    State,
    Visit,
    findings_text,
    read_findings,
    write_findings,
)
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import ONLY_REQUESTS, MarkRules, Rules

logger = safe_logger(__name__)

_PARAMETER: Final = re.compile(r"(?<=[?&;])([^=&;#]+)=[^&;#]*")
# Fields that hold an item's URL, and fields that name an item, watched or not.
_URL_FIELDS: Final = ("url", "link", "href")
_NAMES: Final = watch.TITLES.union(_URL_FIELDS)
# Changed fields of an item: their values now and before.
_Changed = Mapping[str, tuple[Any, Any]]
# A link to a file with at most this many words, such as "PDF", gets the title of its publication.
_MOST_LABEL_WORDS: Final = 2


class FindingsWriter(PageWriter[Findings]):
    """Collects the text of updates, and writes it after the visits."""

    content = "the text of updates"

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        # Of responses in use: the new items as marks, fields and texts, and how many of these are kept.
        self._items: WeakKeyDictionary[
            Response, tuple[list[tuple[frozenset[int], int, dict[str, Any], dict[str, str]]], int]
        ] = WeakKeyDictionary()
        # Pages whose only text was replaced, and when the old text first appeared.
        self._replaced: dict[int, int] = {}
        # How many new things of this round exceeded HACS_FINDINGS.
        self._left_out = 0

    def shown(
        self, response: Response, item: object, marks: frozenset[int], *, may_be_news: bool
    ) -> None:
        """Keep the text of an item now: pipelines may change the item before the visit ends."""
        if may_be_news:
            config = self._crawl.config
            if response not in self._items:
                url = None if response.request is None else page_url(response.request)
                page = None if url is None else self._crawl.state.write_behind.page(url)
                is_known = page is not None and page.visits  # a first visit is no update
                self._items[response] = [], config.findings if is_known else 0
            items, most = self._items[response]
            if len(items) < most:
                key, fields = watch.item_key(item, config.watch_key) or 0, watch.item_fields(item)
                texts = {
                    name: text
                    for name, text in watch.item_texts(item).items()
                    if (name in {*_NAMES, config.watch_key} or config.watches_field(name))
                    and text
                    and not is_secret_name(name)
                }
                items.append((marks, key, fields, texts))

    def _changed(self, fields: Mapping[str, Any], before: Mapping[str, Any]) -> _Changed:
        """Return the watched fields of an item that differ from those of the last visit, if any."""
        return {
            name: (now, was)
            for name in {**fields, **before}
            if before
            and (was := before.get(name)) != (now := fields.get(name))
            and isinstance(was or now or None, str | int | float)
            and self._crawl.config.watches_field(name)
            and not is_secret_name(name)
        }

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Keep the new links, items or texts of an update."""
        recorded, response = observed.recorded, observed.response
        shown = self._items.pop(response, ([], 0))[0] if self._items else []
        watched = self._crawl.config.watch
        is_text = watched is not None and not watched.takes_items
        if observed.reason or not recorded.is_known or not (recorded.updated or is_text):
            return ()
        rules, page_id = self._crawl.rules(response), page_id_of(observed.visit.url)
        is_single = is_text and len(observed.visit.marks or ()) == 1
        if recorded.updated or (is_single and not recorded.before.visits):
            at, most = observed.visit.at, self._crawl.config.findings
            tree = tree_of(response) if is_html(response) else None
            marks = recorded.new_marks if recorded.updated else observed.visit.marks or frozenset()
            if recorded.updated and recorded.new_to_site is not None:
                marks = recorded.new_to_site
            before = self._crawl.parts.items_before(observed.visit.url, response) if shown else {}
            name = self._crawl.config.watch_key
            items = [
                _item_finding(texts, self._changed(fields, before.get(key, {})), name)
                for mine, key, fields, texts in shown
                if not mine.isdisjoint(marks)
            ]
            if observed.visit.rules == ONLY_REQUESTS.fingerprint:
                new = _new_requests(observed.leads_to, response, tree, marks)
            else:
                gone = Finding(0, GONE, f"{counted(recorded.lost, self._crawl.config.noun)} gone")
                only_gone = [gone] * recorded.is_loss
                new = iter(only_gone or items or _new_things(rules, response, tree, marks))
            things = tuple(
                Finding(
                    at, finding.kind, *map(findings_text, (finding.text, finding.url, finding.was))
                )
                for finding in islice(new, most)
            )
            self._left_out += max(0, len(marks) - most) if len(things) == most else 0
            if things:
                earlier = self.unwritten.get(page_id, Findings())
                element = None if tree is None else tree.find(".//title")
                title = "" if element is None else findings_text(" ".join(element.itertext()))
                if not recorded.updated:
                    things = (things[0]._replace(kind=FIRST),)
                self.unwritten[page_id] = Findings(title, things).joined(earlier, most)
                if is_single:
                    spells = recorded.before.sound.spells.each()
                    since = [first for first, last, marks in spells if last == OPEN for _ in marks]
                    if len(since) == 1:
                        self._replaced[page_id] = since[0]
        return ()

    def sum_up(self) -> None:
        """Log how many new things `hacs new` cannot list."""
        if self._left_out:
            logger.info(
                "`hacs new` leaves out %s of this run: it keeps %d of each page (HACS_FINDINGS)",
                counted(self._left_out, "new thing"),
                self._crawl.config.findings,
            )
            self._left_out = 0

    def write(self, state: State, unwritten: Mapping[int, Findings]) -> None:
        """Add the findings to the pages' earlier findings."""
        # pages added since `unwritten` was taken wait for the next write
        replaced = {
            page_id: since
            for page_id in unwritten
            if (since := self._replaced.pop(page_id, None)) is not None
        }
        kept = read_findings(state.store, list(replaced)) if replaced else {}
        findings = dict(unwritten)
        for page_id, since in replaced.items():
            newest, *others = findings[page_id].things
            earlier = *others, *kept.get(page_id, Findings()).things
            was = next((thing.text for thing in earlier if thing.at == since), "")
            findings[page_id] = findings[page_id]._replace(
                things=(newest._replace(was=was), *others)
            )
        write_findings(state.store, findings, self._crawl.config.findings)


def _new_things(
    rules: Rules, response: Response, tree: HtmlElement | None, marks: frozenset[int]
) -> Iterator[Finding]:
    """Yield the links with their texts, or the texts, that have one of the marks."""
    if isinstance(rules, MarkRules):
        for thing in rules.read(response, tree):
            if not rules.marks_of(thing).isdisjoint(marks):
                yield Finding(0, "text", thing if isinstance(thing, str) else _text_of(thing))
        return
    entries = cache(lambda: list(publications(tree, response.url)))
    titles = cache(lambda: {link: entry.title for entry in entries() for link in entry.links})
    for link, text in page_links(tree, response.url):
        identity = rules.volatile.identity(link) if rules.volatile is not None else link
        if link_fingerprint(identity) in marks:
            if is_file(link) and len(text.split()) <= _MOST_LABEL_WORDS:
                text = titles().get(link, text)  # noqa: PLW2901 - replaces a text such as "PDF"
            yield Finding(0, "link", text, _without_secrets(link))
    for entry in entries() if rules.citations else ():
        if not entry.links and citation_fingerprint(entry.title) in marks:
            yield Finding(0, "text", entry.title)


def _text_of(canonical: bytes) -> str:
    """Return JSON as text: the values of a list, or an object's fields with their names.

    Other bytes, as a user's function may return, are text by themselves.
    """
    try:
        value = json.loads(canonical)
    except (ValueError, RecursionError):
        return canonical[:4096].decode("utf-8", "replace")  # more than is kept
    fields = value if isinstance(value, dict) else {}
    parts = value if isinstance(value, list) else fields.values() if fields else [value]
    # canonical JSON has numbers other than integers as texts
    texts = [each if isinstance(each, str) else json.dumps(each) for each in parts]
    return ", ".join(map(" ".join, zip(fields, texts, strict=True)) if fields else texts)


def _new_requests(
    urls: Mapping[str, str], response: Response, tree: HtmlElement | None, marks: frozenset[int]
) -> Iterator[Finding]:
    """Yield the requested URLs that have one of the marks, with the texts of their links or entries."""
    texts = dict(page_links(tree, response.url))
    if isinstance(response, XmlResponse):
        for url, title in watch.entry_titles(response):
            texts[canonical_url(url) or ""] = title
    for asked, url in urls.items():
        link = canonical_url(asked)
        if link is not None and link_fingerprint(link) in marks:
            yield Finding(0, "link", texts.get(link, ""), _without_secrets(url))


def _item_finding(texts: Mapping[str, str], changed: _Changed, key: str) -> Finding:
    """Return an item as text: its names, then the fields that changed, or all fields if it is new.

    "A book: price 9.99", which was "10.49", or "A book, price 9.99, stock 3". `key` names its key field.
    """
    fields = dict(texts)
    urls = [fields.pop(name) for name in _URL_FIELDS if "://" in fields.get(name, "")]
    names = [fields.pop(name) for name in texts if name in watch.TITLES and name not in changed]
    # a key is often a bare number, superfluous by the title
    if (value := fields.pop(key, "")) and not names:
        names = [_named(key, value)]
    new = [_named(name, now) for name, (now, _) in changed.items()]
    was = ", ".join(_named(name, before) for name, (_, before) in changed.items())
    if len(changed) == 1:
        was = was.removeprefix(f"{next(iter(changed))} ")
    if changed:
        text = ": ".join(filter(None, (", ".join(names), ", ".join(new))))
    else:
        is_bare = not names and len(fields) == 1
        others = fields.values() if is_bare else map(_named, fields, fields.values())
        text = ", ".join([*names, *others])
    return Finding(0, "item", text, _without_secrets("".join(urls[:1])), was)


def _named(field: str, value: Any) -> str:
    return f"no {field}" if value in watch.EMPTY else f"{field} {_without_secrets(str(value))}"


def _without_secrets(url: str) -> str:
    """Return a URL without the values of parameters with a secret's name."""

    def masked(match: re.Match[str]) -> str:
        return f"{match[1]}=…" if is_secret_name(match[1]) else match[0]

    return _PARAMETER.sub(masked, url)
