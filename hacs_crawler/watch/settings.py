"""The settings of watching."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.utils.settings import NotAllowedError, Setting, listed, loaded
from hacs_crawler.watch.rules import MarkRules

PUBLICATIONS: Final = "publications"
_ALLOWED: Final = (
    "links, publications, items, text, css:…, xpath:…, jmespath:…, or the dotted path of a function "
    "of a response"
)


def mark_rules(given: Any) -> MarkRules | None:
    """Return the rules for HACS_WATCH, None for links and publications; raises NotAllowedError."""
    name = given if isinstance(given, str) else ""
    kind, colon, expression = name.partition(":")
    if name in {"links", PUBLICATIONS}:
        return None
    from hacs_crawler.watch import items, selection  # noqa: PLC0415 - few crawls watch these

    if name == "items":
        return items.item_rules()
    if name == "text":
        return MarkRules(name, selection.text_reader())
    if colon and kind in selection.READERS and expression.strip():
        reader_of, answers = selection.READERS[kind]
        return MarkRules(name, reader_of(expression), answers)
    if not name or colon:
        raise NotAllowedError(_ALLOWED)
    function = loaded(name, _ALLOWED)
    if not callable(function):
        raise NotAllowedError(_ALLOWED)
    return MarkRules(name, lambda response, _: function(response), ())


def _names(given: Any) -> tuple[str, ...]:
    names = tuple(listed(given))
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise NotAllowedError("names of fields")
    return tuple(name.strip() for name in names)


@dataclass(frozen=True)
class WatchSettings:
    """The settings of what is watched on pages."""

    watch: Annotated[
        MarkRules | None,
        Setting(
            "HACS_WATCH",
            """
            [The part of a page that is watched](updates.md#what-is-news-to-you). `"links"`;
            `"publications"`: links, and citations without a link; `"items"`, which its callback yields;
            `"text"`: the paragraphs of its main text (needs the extra `text`); `"css:…"`, `"xpath:…"`
            or, for JSON answers, `"jmespath:…"`: the texts that an expression selects; or the dotted
            path of a function that takes the response and returns texts or bytes. After a change each
            page's next visit is a [baseline](how-it-works.md#what-counts-as-a-visit).
            """,
            mark_rules,
            default="links",
        ),
    ]
    watch_fields: Annotated[
        tuple[str, ...],
        Setting(
            "HACS_WATCH_FIELDS",
            """
            The fields of items that are watched, by default all. On the command line, separate them by
            commas. After a change of this or the next two settings, each page's next visit is a
            [baseline](how-it-works.md#what-counts-as-a-visit): its new items are not news.
            """,
            _names,
            default=[],
        ),
    ] = ()
    watch_key: Annotated[
        str,
        Setting(
            "HACS_WATCH_KEY",
            """
            The field that [identifies an item](updates.md#items-that-change), such as its id or URL,
            if items are watched. With it, changed items are distinguished from new ones.
            """,
        ),
    ] = ""
    watch_ignore: Annotated[
        tuple[str, ...],
        Setting(
            "HACS_WATCH_IGNORE",
            """
            Fields of items that are not watched, such as the time at which an item was scraped, its
            position in a list, or [how its page was reached](updates.md#items-that-change).
            """,
            _names,
            default=[],
        ),
    ] = ()

    updates: Annotated[
        Literal["page", "site", "change", "any-change"] | None,
        Setting(
            "HACS_UPDATES",
            """
            [What counts as an update](updates.md#what-is-news-to-you). `"page"`: a mark that the page
            had never shown, the default for links, as in the paper. `"site"`: a mark that [no page of
            its site](updates.md#links-new-to-the-site) had shown. `"change"`: a mark that the visit
            before did not show, the default for [other marks](#hacs_watch). `"any-change"`: that, or a
            mark that is gone since then.
            """,
        ),
    ] = None

    @property
    def takes_items(self) -> bool:
        """Whether items are watched."""
        return self.watch is not None and self.watch.takes_items

    def watches_field(self, name: str) -> bool:
        """Whether a field of an item is watched."""
        is_chosen = not self.watch_fields or name in self.watch_fields
        return is_chosen and name not in self.watch_ignore

    def watched(self) -> MarkRules | None:
        """Return the rules for marks, None for links; raises ConfigError if settings contradict."""
        for name in ("fields", "key", "ignore"):
            given = getattr(self, f"watch_{name}")
            if given and not self.takes_items:
                raise ConfigError(
                    f"HACS_WATCH_{name.upper()} = {given!r}: must be empty unless HACS_WATCH = "
                    '"items"; set it to "" in spiders that watch something else'
                )
        if self.takes_items:
            from hacs_crawler.watch.items import item_rules  # noqa: PLC0415 - few crawls watch items

            return item_rules(self.watch_fields, self.watch_ignore, self.watch_key)
        return self.watch
