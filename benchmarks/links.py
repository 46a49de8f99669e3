"""Time link extraction and page keys against their peers, in one run.

python benchmarks/links.py [--links 30] [--bytes 2048] [--repeat 7]

The page is of about 2 KB with 30 links, as in the crawl benchmark. "Plain" hrefs take the short cut,
"mixed" ones are a third relative, a third absolute with queries, a third of the kind that needs the
long way (escapes, session ids, non-ASCII), once with a cold and once with a warm cache.
"""

import argparse
import platform
import timeit
from collections.abc import Callable

from parsel import Selector
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from surt import surt

from hacs_crawler.links.anchors import page_links
from hacs_crawler.links.canonical import canonical_url
from hacs_crawler.links.extract import LinkRules, link_fingerprints
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.urls import _slow_surt, page_surt

URL = "http://127.0.0.1:8000/site/12/page345.html"


def plain_href(number: int) -> str:
    return (f"/site/{number}/page{number}.html", f"paper{number}.pdf", f"../{number}/#top")[
        number % 3
    ]


def mixed_href(number: int) -> str:
    return (
        f"paper{number}.pdf",
        f"https://www.example.org/show?year=1999&id={number}",
        f"http://example.com/%7eada/caf\u00e9 {number};jsessionid=0123456789ABCDEF",
    )[number % 3]


def page(href: Callable[[int], str], links: int, size: int) -> bytes:
    items = "".join(
        f'<li><a href="{href(number)}">Work {number}</a></li>' for number in range(links)
    )
    html = f"<html><head><title>Home</title></head><body><ul>{items}</ul>\n<p></p></body></html>"
    filler = ("lorem ipsum " * size)[: max(0, size - len(html.encode()))]
    return html.replace("<p></p>", f"<p>{filler}</p>").encode()


def microseconds(call: Callable[[], object], repeat: int) -> float:
    """Return the best of `repeat` runs: the least disturbed one."""
    timer = timeit.Timer(call)
    number = max(1, timer.autorange()[0] // 2)
    return min(timer.repeat(repeat, number)) / number * 1e6


def link_calls(body: bytes, mixed: bytes) -> dict[str, Callable[[], object]]:
    def response() -> HtmlResponse:
        return HtmlResponse(URL, body=body, encoding="utf-8")

    def ours_on(root: object, *, is_cold: bool = False) -> object:
        if is_cold:
            canonical_url.cache_clear()
        return link_fingerprints(root, URL, None)

    parsed = response()
    root = parsed.selector.root
    mixed_root = Selector(mixed.decode()).root
    same_site = LinkRules("same-site")
    extractor = LinkExtractor()
    return {
        "HtmlResponse and parsing alone": lambda: response().selector.root,
        "Scrapy LinkExtractor, parsing included": lambda: extractor.extract_links(response()),
        "parsel css, parsing included": lambda: response().css("a::attr(href)").getall(),
        "HACS, parsing included": lambda: link_fingerprints(response().selector.root, URL),
        "Scrapy LinkExtractor, tree given": lambda: extractor.extract_links(parsed),
        "parsel css, tree given": lambda: parsed.css("a::attr(href)").getall(),
        "walking lxml's tree (hrefs only)": lambda: [a.get("href") for a in root.iter("a")],
        "**HACS, tree given**": lambda: ours_on(root),
        "HACS, tree given, same-site": lambda: link_fingerprints(root, URL, same_site),
        "HACS, tree given, links with text": lambda: list(page_links(root, URL)),
        "HACS, tree given, mixed hrefs, warm": lambda: ours_on(mixed_root),
        "HACS, tree given, mixed hrefs, cold": lambda: ours_on(mixed_root, is_cold=True),
    }


def key_calls() -> dict[str, Callable[[], object]]:
    plain, odd = "https://www.cs.odu.edu/~mln/pubs/index.html", "http://example.org/a?b=2&a=%20"

    def cold() -> str:
        _slow_surt.cache_clear()
        return page_surt(odd)

    return {
        "surt.surt, regular URL": lambda: surt(plain),
        "**page_surt, regular URL**": lambda: page_surt(plain),
        "page_id, regular URL": lambda: page_id_of(plain),
        "surt.surt, URL with query": lambda: surt(odd),
        "page_surt, URL with query, cold": cold,
        "page_surt, URL with query, warm": lambda: page_surt(odd),
    }


def print_table(title: str, calls: dict[str, Callable[[], object]], repeat: int) -> None:
    print(f"\n| {title} | µs a call |\n|---|---:|")
    for name, call in calls.items():
        print(f"| {name} | {microseconds(call, repeat):.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--links", type=int, default=30, help="links on the page (%(default)s)")
    parser.add_argument("--bytes", type=int, default=2048, help="size of the page (%(default)s)")
    parser.add_argument("--repeat", type=int, default=7, help="runs; the best counts (%(default)s)")
    options = parser.parse_args()
    body = page(plain_href, options.links, options.bytes)
    mixed = page(mixed_href, options.links, options.bytes)
    print(f"Python {platform.python_version()}; {len(body)} bytes, {options.links} links")
    print_table("links of a page", link_calls(body, mixed), options.repeat)
    print_table("key of a page", key_calls(), options.repeat)


if __name__ == "__main__":
    main()
