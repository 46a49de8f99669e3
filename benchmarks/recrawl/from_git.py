"""Make histories of pages from files that were kept in git for years.

    python benchmarks/recrawl/from_git.py https://github.com/OpenTermsArchive/contrib-versions OUT
    python benchmarks/recrawl/from_git.py path/to/peps OUT --match "peps/*.rst" --update links

A file is a page, its first folders are the site. It is first seen when its first version was committed,
and updated by a commit that changed its content, or added lines or links which it had never shown. Files
are those of the newest commit, whatever they were called before; history is that along first parents.
Captures are made up: every 30 days.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from histories import Page, name_of, write

LINK = re.compile(rb"""https?://[^\s<>"'\])}]+|(?<=href=")[^"]+""")
LOG = "log --first-parent -m --reverse --raw --no-abbrev -M100% -l0 -z --format=%x01%ct HEAD"
MARKS: dict[str, Callable[[bytes], set[bytes]]] = {
    "content": lambda blob: {blob},
    "lines": lambda content: {line.strip() for line in content.splitlines()} - {b""},
    "links": lambda content: set(LINK.findall(content)),
}
CAPTURE_SECONDS = 30 * 86_400
Versions = list[tuple[int, str]]


def versions_of(repository: Path, match: str) -> dict[str, Versions]:
    """Return the seconds and blobs of each file's versions; a file's time never runs backwards."""
    fields = iter(_git(repository, *LOG.split()).decode("utf-8", "surrogateescape").split("\0"))
    found: dict[str, Versions] = {}
    at = 0
    for field in fields:
        text = field.strip("\n")
        if text.startswith("\x01"):
            at = int(text[1:])
        elif text.startswith(":"):
            _, mode, _, blob, status = text.split()
            path = next(fields)
            moved = found.pop(path, []) if status[0] in "DR" else []
            path = next(fields) if status[0] == "R" else path
            if status != "D" and mode.startswith("100"):
                versions = found.setdefault(path, moved)
                versions.append((max(at, versions[-1][0] if versions else 0), blob))
    return {path: versions for path, versions in found.items() if fnmatch(path, match)}


def contents(repository: Path, blobs: list[str]) -> Iterator[bytes]:
    """Yield the contents of blobs, in that order."""
    with tempfile.TemporaryFile() as names:
        names.write("".join(f"{blob}\n" for blob in blobs).encode())
        names.seek(0)
        command = ["git", "-C", str(repository), "cat-file", "--batch"]
        with subprocess.Popen(command, stdin=names, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while head := process.stdout.readline():
                if head.endswith(b" missing\n"):
                    sys.exit(f"{repository}: content is missing: {head.decode().strip()}")
                yield process.stdout.read(int(head.split()[2]) + 1)[:-1]


def updates_of(
    versions: Versions, marks: Iterator[set[bytes]], *, is_new_once: bool
) -> dict[int, int]:
    """Return at which seconds a version had marks that the one before had not, and how many.

    Where a mark `is_new_once`, no version before had them.
    """
    updates: dict[int, int] = {}
    seen: set[bytes] = set()
    for (at, _), shown in zip(versions, marks, strict=False):
        if at > versions[0][0] and shown - seen:
            updates[at] = len(shown - seen)
        seen = seen | shown if is_new_once else shown
    return updates


def pages_of(repository: Path, match: str, site_depth: int, update: str) -> Iterator[Page]:
    """Yield the page of each file; with depth 0 all are of one site."""
    found = versions_of(repository, match)
    if not found:
        sys.exit(f"{repository}: no file in it matches {match!r}")
    last = max(versions[-1][0] for versions in found.values())
    blobs = [blob for versions in found.values() for _, blob in versions]
    is_content = update == "content"
    shown = (blob.encode() for blob in blobs) if is_content else contents(repository, blobs)
    marks = map(MARKS[update], shown)
    for path, versions in found.items():
        updates = updates_of(versions, marks, is_new_once=not is_content)
        folders = path.split("/")[:-1][:site_depth]
        home = f"https://{name_of('/'.join(folders) or repository.resolve().name)}.example/"
        first = versions[0][0]
        captures = range(first, last + 1, CAPTURE_SECONDS)
        yield Page(home + name_of(path), home, first, updates, captures)


def _git(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        sys.exit(f"{repository}: git failed: {''.join(last)}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repository", help="a folder, or a URL that git can clone")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--match", default="*", help="which files are pages (%(default)s)")
    parser.add_argument("--site-depth", type=int, default=1, help="folders of a site (%(default)s)")
    parser.add_argument("--update", choices=MARKS, default="content")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        repository = Path(given.repository)
        if not repository.is_dir():
            repository = Path(work) / "clone"
            _git(Path(work), "clone", "--quiet", "--bare", "--", given.repository, "clone")
        print(write(given.out, pages_of(repository, given.match, given.site_depth, given.update)))


if __name__ == "__main__":
    main()
