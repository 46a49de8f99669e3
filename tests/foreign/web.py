"""A web without a network: every request is answered by pages of the kind that a spider asks for.

What a page shows is made from the spider's own source: the selectors, rules and keys in it. It is a
function of the request and the round alone, so that two crawls which ask for the same see the same.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from re import _constants as part, _parser as parser
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

PAGES_A_PATTERN: Final = 12
LINKS_A_PATTERN: Final = 4
DEEPEST: Final = 12
"""A request behind more than so many others is answered with 404: some spiders count up for ever."""
_LITERAL = r"""[rfbu]{0,2}("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_SELECTOR = re.compile(rf"\b(css|xpath)\(\s*{_LITERAL}")
_RULE = re.compile(rf"\b(?:allow|sitemap_rules|follow)\b\s*=\s*[\[(]*\s*{_LITERAL}")
_KEY = re.compile(r"""(?:\[|\.get\(\s*)["']([\w@-]+)["']""")
_NESTED = re.compile(r"""["']([\w@-]+)["']\s*[\])]\s*(?:\[|\.get\()\s*["']""")
_LISTED = re.compile(r"""\bin\b[^\n]*?["']([\w@-]+)["'][^\n\w]*:?\s*$""", re.M)
_JSON = re.compile(r"\.json\(\)|json\.loads\(|ijson|JSONBlob|graphql", re.I)
_STEP = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+|\[[^\]]*\]|:[\w-]+(?:\([^)]*\))?)*)")
_TEST = re.compile(r"""[@]?([a-z-]+)\s*(?:[*^$~|]?=|,)\s*["']?([^"'\])]+)""")
_STATUSES: Final = {0: 0, 1: 302, 2: 302, 3: 404, 4: 410, 5: 404, 6: 503, 7: 500, 8: 429, 9: 301}
"""What some of a hundred pages are answered with in one round; 0 for nothing at all."""
_HOSTS: Final = {0: 0, 1: 404, 2: 500, 3: 429, 4: 302}
"""The same of all pages of some of a hundred hosts; those with 302 have moved to another host."""
_OTHER_FILES = (".pdf", ".zip", ".jpg", ".png", ".xls", ".xlsx", ".doc", ".docx")
_DATA = re.compile(r"api|json|ajax|graphql|rest|data|search|\.php|service", re.I)


def number_of(*what: object) -> int:
    """The same for the same, in every process."""
    return zlib.crc32(repr(what).encode())


class Web:
    """What one spider finds; `source` is that of its class, and of those it inherits from."""

    def __init__(self, source: str, rules: Iterable[str], round_: int) -> None:
        self._round = round_
        found = [eval(text) for text in _RULE.findall(source)]
        self._patterns = sorted({*map(str, rules), *map(str, found)})
        self._selectors = sorted({(kind, eval(text)) for kind, text in _SELECTOR.findall(source)})
        self._keys = sorted({*_KEY.findall(source)})[:60]
        self._nested, self._listed = {*_NESTED.findall(source)}, {*_LISTED.findall(source)}
        self._wants_json = _JSON.search(source) is not None
        self._is_array = re.search(r"in (?:response|self)\.json\(\)|in json\.loads\(", source)

    def answer(self, request: Request) -> Response:
        """Answer a request; raises OSError where the host is down."""
        url, path = request.url, urlsplit(request.url).path
        if path == "/robots.txt":
            return _response(request, "User-agent: *\nDisallow: /private/\n", "text/plain")
        host = urlsplit(url).netloc
        chance = number_of(request.method, url, request.body, self._round) % 100
        of_host = _HOSTS.get(number_of(host, self._round) % 100)
        status = _STATUSES.get(chance) if of_host is None else of_host
        if request.meta.get("depth", 0) > DEEPEST:
            status = 404
        if status == 0:
            raise ConnectionRefusedError(f"{host} is down")
        headers = {"ETag": f'"{chance}"', "Set-Cookie": f"session={number_of(host)}; Path=/"}
        if status:
            moved = f"//new.{host}{path}" if status == of_host else f"/moved/{chance}.html"
            headers |= {"Location": urljoin(url, moved), "Retry-After": "1"}
            return _response(request, "not here", "text/html", status, **headers)
        return _response(request, *self._content(request, path), **headers)

    def _content(self, request: Request, path: str) -> tuple[str, str]:
        """Return a text, and of what kind it is."""
        is_data = not self._selectors or _DATA.search(request.url) or request.method != "GET"
        if path.endswith(_OTHER_FILES):
            return "%PDF", "application/octet-stream"
        if path.endswith((".xml", ".xml.gz")) or "sitemap" in path:
            return self._sitemap(request.url), "application/xml"
        if self._wants_json and is_data and not path.endswith((".html", "/")):
            return json.dumps(self._data(request.url)), "application/json"
        return self._page(request.url), "text/html; charset=utf-8"

    def _links(self, url: str) -> Iterator[str]:
        for pattern in self._patterns or [r"/page/\d\d\.html"]:
            for number in range(LINKS_A_PATTERN):
                index = number_of(url, pattern, number) % PAGES_A_PATTERN
                yield urljoin(url, text_for(pattern, index))
            yield urljoin(url, text_for(pattern, PAGES_A_PATTERN + self._round))

    def _sitemap(self, url: str) -> str:
        pages = [text_for(pattern, n) for pattern in self._patterns for n in range(5)]
        pages += [f"/page/{n}.html" for n in range(3)]
        named = "".join(f"<url><loc>{_escaped(urljoin(url, page))}</loc></url>" for page in pages)
        return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{named}</urlset>'

    def _page(self, url: str) -> str:
        links = list(self._links(url))
        parts = [
            f'<li><a href="{_escaped(link)}">page {n}</a></li>' for n, link in enumerate(links)
        ]
        for kind, selector in self._selectors:
            for number in range(2):
                link = links[number_of(url, selector, number) % len(links)]
                parts.append(_matching(kind, selector, link, f"text {number}"))
        store = {
            "@context": "https://schema.org",
            "@type": "Store",
            "name": f"store {number_of(url) % 1000}",
            "url": url,
            "geo": {"@type": "GeoCoordinates", "latitude": 52.5, "longitude": 13.4},
        }
        linked = f'<script type="application/ld+json">{json.dumps(store)}</script>'
        head = f"<head><title>{number_of(url)}</title>{linked}</head>"
        return f"<html>{head}<body><ul>{''.join(parts)}</ul></body></html>"

    def _data(self, url: str, depth: int = 0) -> Any:
        if depth == 0 and self._is_array:
            return [self._data(f"{url}/{n}", 1) for n in range(3)]
        return {key: self._value(key, url, depth) for key in self._keys}

    def _value(self, key: str, url: str, depth: int) -> Any:
        name, number = key.lower(), number_of(url, key)
        value: Any = f"{key} {number % 100}"
        if depth < 2 and key in self._listed:
            value = [self._data(f"{url}/{key}/{n}", depth + 1) for n in range(3)]
        elif depth < 2 and key in self._nested:
            value = self._data(f"{url}/{key}", depth + 1)
        elif name.startswith(("lat", "lng", "lon")):
            value = 13.0 + number % 1000 / 1000
        elif re.search("url|link|href|^next", name):
            value = urljoin(url, f"/page/{number % PAGES_A_PATTERN}.html")
        elif re.search("total|count|pages|num|id$|size|limit", name):
            value = 3 + number % 3
        return value


def text_for(pattern: str, number: int) -> str:
    """Return a path that a regular expression finds, another one for another number."""
    for filler in (str(number), "".join("abcdefghij"[int(digit)] for digit in str(number))):
        try:
            text = "".join(_texts(parser.parse(pattern), number, filler))
            if re.search(pattern, text):
                return text if text.startswith(("http", "/")) else f"/{text}"
        except (re.error, OverflowError, RecursionError):
            break
    return f"/page/{number}.html"


def _texts(parsed: Any, number: int, filler: str) -> Iterator[str]:
    for code, given in parsed:
        if code is part.LITERAL:
            yield chr(given)
        elif code in (part.ANY, part.NOT_LITERAL):
            yield filler[-1]
        elif code is part.IN:
            yield _one_of(given, filler[-1])
        elif code is part.BRANCH:
            yield from _texts(given[1][number % len(given[1])], number, filler)
        elif code is part.SUBPATTERN:
            yield from _texts(given[3], number, filler)
        elif code in (part.MAX_REPEAT, part.MIN_REPEAT):
            least, most, repeated = given
            is_one_of_some = len(repeated) == 1 and repeated[0][0] in (part.IN, part.ANY)
            once = "".join(_texts(repeated, number, filler))
            is_free = is_one_of_some and once == filler[-1] and most >= len(filler) >= least
            yield filler if is_free else once * max(least, 1)


def _one_of(given: Any, wanted: str) -> str:
    """Return a character of a set: the wanted one, or the first of those that the set names."""
    code, value = given[0]
    if code is part.LITERAL:
        return chr(value)
    if code is part.RANGE and not value[0] <= ord(wanted) <= value[1]:
        return wanted if len(given) > 1 else chr(value[0])
    return wanted


def _matching(kind: str, selector: str, link: str, text: str) -> str:
    """Return an element within elements that a selector finds, as far as it is a plain one."""
    first = re.split(r"\s*[|,]\s*(?![^(\[]*[)\]])", selector)[0]
    first = re.sub(
        r"::[\w-]+(\([^)]*\))?|/?/?@[\w-]+$|/?/?text\(\)$|^\.?/+|^\(+|\)\[\d+\]", "", first
    )
    steps = re.split(r"/+(?![^\[]*\])" if kind == "xpath" else r"[\s>+~]+(?![^\[]*\])", first)
    opened, closed = "", ""
    for step in steps:
        found = _STEP.match(step.rsplit("::", 1)[-1])
        name = (found[1] if found and found[1] not in (None, "*") else "div") if found else "div"
        tests = found[2] if found else ""
        given = {"class": " ".join(re.findall(r"\.([\w-]+)", re.sub(r"\[.*?\]", "", tests)))}
        given |= {"id": "".join(re.findall(r"#([\w-]+)", tests)[:1])}
        for attribute, value in _TEST.findall(tests):
            given[attribute] = f"{given.get(attribute) or ''} {value}".strip()
        if name in ("a", "link"):
            given.setdefault("href", link)
        named = "".join(f' {key}="{_escaped(value)}"' for key, value in given.items() if value)
        opened, closed = f"{opened}<{name}{named}>", f"</{name}>{closed}"
    own = "" if "</a>" in closed else f'<a href="{_escaped(link)}">{text}</a>'
    return f"{opened}{text}{own}{closed}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def _response(
    request: Request, text: str, kind: str, status: int = 200, **headers: str
) -> Response:
    body, given = text.encode(), Headers({"Content-Type": kind, **headers})
    made = responsetypes.from_args(headers=given, url=request.url, body=body)
    return made(url=request.url, status=status, headers=given, body=body, request=request)
