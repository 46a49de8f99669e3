"""Files that get their names when they are complete."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from hacs_crawler.exceptions import HacsError

_DATABASE: Final = b"SQLite format 3\0"


class Writable(Protocol):
    """A file, gzipped or not."""

    def write(self, data: bytes, /) -> int:
        """Write all of the data."""


@contextmanager
def replacing(target: Path) -> Iterator[Writable]:
    """Open a file that gets the name `target` when it is complete, and is removed otherwise.

    A name that ends in `.gz` is gzipped. A device or a pipe is written directly. Raises HacsError if the
    file cannot be written, or if the name is that of an SQLite database, such as a state.
    """
    try:
        # a device or a pipe cannot be replaced
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        path = target.resolve()
        if path.exists():
            with path.open("rb") as before:
                if before.read(len(_DATABASE)) == _DATABASE:
                    raise HacsError(f"cannot write {target}: it is an SQLite database")
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                if path.suffix == ".gz":
                    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                        yield packed
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise HacsError(f"cannot write {target}: {error.strerror or error}") from error
