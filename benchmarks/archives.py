"""How many real archive files are read, and how many of them agree with a count made by other code.

    python benchmarks/archives.py FOLDER

looks at every WARC, ARC, WACZ, CDX and CDXJ file in a folder and those below it, gzipped or not. Of WARC
and ARC files warcio's own iterator says which HTML captures (URL and second) there are, of indexes a
plain look at their columns. Prints a line for each file that does not agree, and the sums.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import logging
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from hacs_crawler.cli.transfer import Importer
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import LinkRules
from hacs_crawler.state import Estimation, MemoryStore, State, Visit

KINDS = re.compile(r"\.(warc|arc|wacz|cdx|cdxj)(?:\.gz)?$")
HTML = ("text/html", "application/xhtml+xml")
Captures = Counter[tuple[str, int]]


class Recorder(State):
    """Notes which visits an import records."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), Estimation())
        self.seen: Captures = Counter()

    def record(self, visits, known=None):  # type: ignore[no-untyped-def]
        """Record visits."""
        self.seen.update(key_of(visit) for visit in visits)
        return super().record(visits, known)


def key_of(visit: Visit) -> tuple[str, int]:
    """URL, as far as both sides write it alike, and second."""
    return visit.url.replace(" ", "%20"), visit.at


def ours(path: Path) -> tuple[Captures, str]:
    """What an import records of a file, and the error that it ends with."""
    state = Recorder()
    try:
        Importer(lambda: state, LinkRules(), Counter()).import_file(str(path))
    except HacsError as error:
        return state.seen, str(error)
    return state.seen, ""


def of_warc(stream: io.BufferedIOBase) -> Captures:
    """The HTML captures that warcio finds."""
    found: Captures = Counter()
    with contextlib.redirect_stderr(io.StringIO()):
        for record in ArchiveIterator(stream):
            if record.rec_type not in {"response", "revisit"}:
                continue
            url = record.rec_headers.get_header("WARC-Target-URI") or record.rec_headers.get_header(
                "uri"
            )
            date = record.rec_headers.get_header("WARC-Date")
            at = second(date or record.rec_headers.get_header("archive-date"))
            http = record.http_headers
            if not (url or "").startswith("http") or at is None:
                continue
            if http is None:
                found[url.replace(" ", "%20"), at] += record.rec_type == "revisit"
                continue
            kind = (
                (http.get_header("Content-Type") or "text/html").partition(";")[0].strip().lower()
            )
            is_revisit = record.rec_type == "revisit"
            statuses = ("2", "304") if is_revisit else ("2",)
            if kind in HTML and (http.get_statuscode() or "").startswith(statuses):
                body = record.content_stream().read().strip()
                if is_revisit or (body and b"\0" not in body[:1024]):
                    found[url.replace(" ", "%20"), at] += 1
    return +found


def of_index(lines: Iterator[str]) -> Captures:
    """The HTML captures that an index's columns name."""
    found: Captures = Counter()
    columns = ["N", "b", "a", "m", "s", "k", "r", "M", "S", "V", "g"]
    for line in lines:
        if line.startswith((" CDX", "CDX")):
            columns = line.split()[1:]
            continue
        row: dict[str, str]
        if "{" in line:
            if line[0] in "!@":
                continue
            row = {key: str(value) for key, value in json.loads(line[line.index("{") :]).items()}
            row.setdefault("b", row.get("timestamp", line.split(" ")[1]))
            hosts, _, path = line.split(" ")[0].partition(")")
            own = f"http://{'.'.join(reversed(hosts.split(',')))}{path}"
            row["a"] = row.get("url", row.get("original_uri", own))
            row["m"] = row.get("mime", row.get("mime_type", "-"))
            row["s"] = row.get("status", row.get("status_code", "-"))
            row["k"] = row.get("digest", row.get("locator", "-"))
        else:
            row = dict(zip(columns, line.split(), strict=False))
        is_revisit = row.get("m") == "warc/revisit"
        is_good = row.get("s", "-")[:1] in {"2", "-"} or (is_revisit and row["s"] == "304")
        is_html = row.get("m", "-") in {*HTML, "unk", "-", "warc/revisit"}
        at = second(row.get("b"))
        if is_good and is_html and row.get("a", "").startswith("http") and at:
            has_digest = row.get("k", row.get("c", "-")) != "-"
            found[row["a"], at] += has_digest or is_revisit
    return +found


def second(text: str | None) -> int | None:
    """The second of an ISO date or of 14 digits."""
    digits = re.sub(r"\.\d+", "", text or "")
    for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y%m%d%H%M%S"):
        with contextlib.suppress(ValueError):
            return int(datetime.strptime(digits, form).replace(tzinfo=UTC).timestamp())
    return None


def theirs(path: Path) -> Captures:
    """What other code finds in a file."""
    kind = KINDS.search(path.name)
    assert kind is not None
    if kind[1] in {"warc", "arc"}:
        with path.open("rb") as file:
            return of_warc(file)
    if kind[1] == "wacz":
        found: Captures = Counter()
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith("archive/"):
                    with archive.open(name) as file:
                        found += of_warc(io.BytesIO(file.read()))
        return found
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        return of_index(iter(file))


def main(folder: str) -> None:
    """Print what the files of a folder show."""
    logging.disable(logging.CRITICAL)
    sums: Counter[str] = Counter()
    captures = 0
    files = sorted(path for path in Path(folder).rglob("*") if KINDS.search(path.name))
    for path in (one for one in files if one.is_file()):
        found, problem = ours(path)
        try:
            expected = theirs(path)
        except Exception as error:  # noqa: BLE001 - whatever damaged files make it raise
            expected, unread = None, f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        captures += found.total()
        result = "agree" if found == expected else "differ"
        if expected is None:
            result = "other code failed, refused by name" if problem else "other code failed, read"
        elif problem:
            result = f"{result}, with an error"
        sums[result] += 1
        if result != "agree":
            print(f"{path}: {result}: {found.total()} captures", end=", ")
            print(
                unread if expected is None else f"{expected.total()} by other code", problem[:160]
            )
    print(f"{sum(sums.values())} files, {captures} captures; {dict(sums)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    main(parser.parse_args().folder)
