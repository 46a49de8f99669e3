"""The web archives in HACS_ARCHIVES: their addresses, kinds of index, and rate limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field, structs

from hacs_crawler.links import check_url, without_login
from hacs_crawler.utils.settings import NotAllowedError, Setting, converted_object, parsed_json

SETTING: Final = "HACS_ARCHIVES"
WAYBACK_MACHINE: Final = "https://web.archive.org"
PAUSE_SECONDS: Final = 60.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ArchiveKind(Enum):
    """The kind of an archive's index, named like the key of its address."""

    # A CDX server: the Wayback Machine's, OpenWayback's or pywb's.
    CDX = "cdx_url"
    # TimeMaps: at this URL followed by the page's.
    TIMEMAP = "timemap_url"
    # A TimeGate or Memento aggregator: at this URL followed by the page's; it names the TimeMap.
    TIMEGATE = "timegate_url"
    # Common Crawl: a list of CDX servers, whose rows name parts of WARC files.
    COLLINFO = "collinfo_url"


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """One archive: `index_url` is the address of its index, whose kind is `kind`.

    `memento_url` is the base URL of mementos (CDX) or of WARC files (COLLINFO); TimeMaps name the
    mementos themselves. Rates are in requests per minute, 0 for no limit.
    """

    name: str
    kind: ArchiveKind
    index_url: str
    memento_url: str = ""
    cdx_per_minute: float = 24.0
    mementos_per_minute: float = 60.0
    pause_seconds: float = PAUSE_SECONDS
    obeys_robots: bool = True

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts in its addresses."""
        urls = (self.index_url, self.memento_url)
        return frozenset(urlsplit(url).netloc for url in urls if url)

    @property
    def names_mementos(self) -> bool:
        """Whether its index names the URLs of mementos, which may be in other archives."""
        return self.kind in {ArchiveKind.TIMEMAP, ArchiveKind.TIMEGATE}

    @property
    def setting(self) -> str:
        """The setting with its address, for error messages."""
        return f"{SETTING}, {self.name!r}" if self.name else SETTING

    @property
    def shown_as(self) -> str:
        """Its name in log lines and items."""
        return self.name or urlsplit(self.index_url).netloc


Rate = Annotated[float, Meta(ge=0, le=1e6)]


class _Entry(Struct, forbid_unknown_fields=True, kw_only=True):
    """An entry of HACS_ARCHIVES; without an address, the Wayback Machine."""

    cdx_per_minute: Rate = 24.0
    mementos_per_minute: Rate = 60.0
    pause_seconds: Annotated[float, Meta(ge=0, le=86_400)] = field(
        name="archive_pause_seconds", default=PAUSE_SECONDS
    )
    obeys_robots: bool = field(name="robotstxt_obey", default=True)


class _Wayback(_Entry):
    index_url: str = field(name="cdx_url", default=f"{WAYBACK_MACHINE}/cdx/search/cdx")
    memento_url: str = f"{WAYBACK_MACHINE}/web"
    mementos_per_minute: Rate = 480.0


class _Cdx(_Entry):
    index_url: str = field(name="cdx_url")
    memento_url: str


class _TimeMap(_Entry):
    index_url: str = field(name="timemap_url")


class _TimeGate(_Entry):
    index_url: str = field(name="timegate_url")


class _CommonCrawl(_Entry):
    index_url: str = field(name="collinfo_url")
    memento_url: str = field(name="warc_url")


_ENTRIES: Final[dict[ArchiveKind, type[_Entry]]] = {
    ArchiveKind.CDX: _Cdx,
    ArchiveKind.TIMEMAP: _TimeMap,
    ArchiveKind.TIMEGATE: _TimeGate,
    ArchiveKind.COLLINFO: _CommonCrawl,
}
_KEYS: Final = {key for entry in _ENTRIES.values() for key in entry.__struct_encode_fields__}


def archives_of(given: Any) -> tuple[ArchiveAddress, ...]:
    """Return the archives in HACS_ARCHIVES, in order.

    Raises NotAllowedError that names the allowed values and the invalid entry.
    """
    given = parsed_json(given)
    if not isinstance(given, str | Mapping) or not given:
        raise NotAllowedError(
            'the URL of an archive, or archives by name, such as {"wayback": {}, "mine": '
            '"http://localhost:8080/coll"}'
        )
    if isinstance(given, str) or not _KEYS.isdisjoint(given):
        return (_address("", given),)
    archives = tuple(_address(str(name), entry) for name, entry in given.items())
    names: dict[str, str] = {}
    for address in archives:
        other = names.setdefault(address.index_url, address.name)
        if other != address.name:
            raise NotAllowedError(f"in {address.name!r} another archive than {other!r}")
    return archives


def _address(name: str, given: object) -> ArchiveAddress:
    context = f"in {name!r} " if name else ""
    if isinstance(given, str):
        kind, entry = ArchiveKind.CDX, _at(_checked(given, context))
    elif isinstance(given, Mapping):
        kinds = [kind for kind in ArchiveKind if kind.value in given]
        if len(kinds) > 1:
            raise NotAllowedError(
                f"{context}one of {', '.join(kind.value for kind in ArchiveKind)}"
            )
        kind = kinds[0] if kinds else ArchiveKind.CDX
        try:
            entry = converted_object(given, _ENTRIES[kind] if kinds else _Wayback)
        except NotAllowedError as error:
            raise NotAllowedError(f"{context}{error}") from error
    else:
        raise NotAllowedError(f"{context}a URL, or an object with the archive's address")
    address = ArchiveAddress(name, kind, **structs.asdict(entry))
    for url in filter(None, (address.index_url, address.memento_url)):
        _checked(url, context)
    return address


def _checked(url: str, context: str) -> str:
    problem = check_url(url)
    if problem is not None:
        shown = without_login(url)
        raise NotAllowedError(f"{context}the URL of a web archive, not {shown!r} ({problem})")
    return url


def _at(url: str) -> _Entry:
    """Return the archive at the URL of the Wayback Machine, a pywb collection or a CDX server."""
    parts, base = urlsplit(url), url.rstrip("/")
    if parts.hostname == urlsplit(WAYBACK_MACHINE).hostname:
        return _Wayback()
    if base.endswith("/cdx/search/cdx"):
        address = _Cdx(index_url=base, memento_url=f"{base.removesuffix('/cdx/search/cdx')}/web")
    else:
        root = base.removesuffix("/cdx")
        address = _Cdx(index_url=f"{root}/cdx", memento_url=root)
    if parts.hostname in _LOCAL:  # this machine needs no rate limit
        address.cdx_per_minute = address.mementos_per_minute = 0.0
    return address


@dataclass(frozen=True, kw_only=True)
class ArchiveSettings:
    """The setting of archives."""

    archives: Annotated[
        tuple[ArchiveAddress, ...],
        Setting(
            SETTING,
            """
            The archives that the spider [`wayback`](archives.md) reads. One URL (of the Wayback
            Machine, a pywb collection or a CDX server), one object, or an object of such archives
            by name, on the command line as JSON. [How an archive is
            named](archives.md#how-an-archive-is-named) has all keys.
            """,
            archives_of,
            default=WAYBACK_MACHINE,
        ),
    ]
