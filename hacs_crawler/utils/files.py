"""Files that appear under their names when they are whole."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

_DATABASE: Final = b"SQLite format 3\0"


class Writable(Protocol):
    """What takes bytes: a file, gzipped or not."""

    def write(self, data: bytes, /) -> int:
        """Write all of the data."""


@contextmanager
def replacing(target: Path) -> Iterator[Writable]:
    """Open a file that gets the name `target` when it is complete, and is removed otherwise.

    A name that ends in `.gz` is gzipped. A device or a pipe is written directly. Raises FileExistsError
    if the name is that of an SQLite database, such as a state.
    """
    # a device, a pipe: nothing to be replaced
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve()
    if target.exists():
        with target.open("rb") as before:
            if before.read(len(_DATABASE)) == _DATABASE:
                raise FileExistsError(errno.EEXIST, "it is an SQLite database")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
