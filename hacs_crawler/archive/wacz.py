"""WACZ files: a ZIP archive with WARC files in its folder `archive`.

Source: https://specs.webrecorder.net/wacz/1.1.1/
"""

import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

from hacs_crawler.archive.capture import ArchiveError
from hacs_crawler.archive.source import Source, source_of

ZIP_MAGIC: Final = b"PK\x03\x04"
_FOLDER: Final = "archive/"
_ENDINGS: Final = (".warc", ".warc.gz", ".arc", ".arc.gz")


def warcs_of(path: str) -> Iterator[Source]:
    """Yield the WARC files in a WACZ file, each open until the next is asked for.

    Raises ArchiveError, with the name of the file, if it is no ZIP archive, or has no WARC file in it.
    """
    if path == "-":
        raise ArchiveError("standard input: a ZIP file (WACZ?) can only be read by its name")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [
                name
                for name in archive.namelist()
                if name.startswith(_FOLDER) and name.endswith(_ENDINGS)
            ]
            for name in names:
                with archive.open(name) as file:
                    yield source_of(file, f"{path}, {name}")
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"{path}: cannot read: {error}") from error
    if not names:
        raise ArchiveError(f"{path}: a ZIP file, but no WACZ: there is no WARC file in {_FOLDER}")
