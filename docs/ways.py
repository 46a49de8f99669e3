"""Draws docs/ways.svg: which files of the kernel a start request enters, and which its response.

Run `python docs/ways.py` after a file has come or gone. `tests/integration/test_ways.py` follows a
request through a crawl, and fails where it enters other files than these.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

PICTURE = Path(__file__).parent / "ways.svg"
REQUEST: Final = {
    "middlewares/link_additions.py": "opens the state, then yields what start() yields",
    "crawl/start_watch.py": "tells when start() pauses or is over",
    "crawl/scheduler.py": "takes the request, and gives it to the engine in the end",
    "crawl/meta.py": "keeps what is known of a request in its tag",
    "crawl/scrapy_internals.py": "asks Scrapy for its filter, its slots, and what is under way",
    "crawl/queues.py": "holds it until it is ranked, then until a slot of its host is free",
    "crawl/ranker.py": "has it scored with others, and chooses",
    "crawl/crawl.py": "says by which options, and whether the state is open",
    "crawl/parts.py": "asks parts what they know of its page",
    "crawl/state_access": "reads the row of its page, later the page itself",
    "crawl/stats.py": "counts it",
    "middlewares/downloads.py": "claims its page, and lets parts change it",
}
RESPONSE: Final = {
    "middlewares/downloads.py": "waits until the page is read, and lets parts replace the answer",
    "crawl/state_access": "holds the page, takes the visit, writes it behind",
    "middlewares/link_additions.py": "has it observed before the callback runs",
    "crawl/meta.py": "tells which page it is of, and what was predicted",
    "crawl/crawl.py": "says which links count, and where visits go",
    "crawl/parts.py": "tells parts of it; other visits may follow",
    "crawl/part.py": "is what they are told",
    "crawl/observation.py": "makes it a visit, or says why it is none",
    "crawl/outputs.py": "passes on what the callback yields",
    "crawl/scrapy_internals.py": "looks after each item whether the spider is to close",
}

WIDTH, TOP, STEP, TALL, LEFT, WIDE = 720, 44, 34, 26, 12, 216


def drawing() -> str:
    """Return the picture as SVG: one way below the other."""
    ways = {"A start request": REQUEST, "Its response": RESPONSE}
    rows, y = [], 0
    for name, files in ways.items():
        rows += [*_way(f"{name}: {len(files)} files and folders", files, y)]
        y += TOP + len(files) * STEP
    return "\n".join([HEAD.format(width=WIDTH, height=y + 8), *rows, "</svg>\n"])


def _way(title: str, files: dict[str, str], y: int) -> Iterator[str]:
    yield f'<text class="title" x="{LEFT}" y="{y + 28}">{title}</text>'
    for number, (file, does) in enumerate(files.items()):
        top = y + TOP + number * STEP
        yield (
            f'<rect class="box" x="{LEFT}" y="{top}" width="{WIDE}" height="{TALL}" rx="4"/>'
            f'<text class="name" x="{LEFT + WIDE / 2:g}" y="{top + 18}">{file}</text>'
            f'<text class="does" x="{LEFT + WIDE + 14}" y="{top + 18}">{does}</text>'
        )
        if number + 1 < len(files):
            x = LEFT + WIDE / 2
            yield f'<path class="line" d="M{x:g} {top + TALL}v{STEP - TALL}"/>'


HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-labelledby="t d" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">
<title id="t">The ways of a start request and of its response through the kernel</title>
<desc id="d">Two lists of files, in the order in which they are entered, with what each does.</desc>
<style>
.box {{ fill: #ddeeff; stroke: #0a5cb8; }} .line {{ fill: none; stroke: #8c959f; }}
.name {{ fill: #1f2328; font-size: 13px; text-anchor: middle; }}
.does {{ fill: #1f2328; font-size: 14px; }}
.title {{ fill: #1f2328; font-size: 16px; font-weight: 600; }}
@media (prefers-color-scheme: dark) {{
.box {{ fill: #10294a; stroke: #6cb1ff; }} .line {{ stroke: #656d76; }}
.name, .does, .title {{ fill: #f0f6fc; }}
}}
</style>"""

if __name__ == "__main__":
    PICTURE.write_text(drawing())
