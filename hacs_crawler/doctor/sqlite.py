"""The SQLite file: whether it is whole, and where it lies."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hacs_crawler.doctor.check import Check, failure, ok, size_text, warning

CHECK_SECONDS: Final = 60.0
"""How long the whole file may be read for."""
LEAST_FREE_BYTES: Final = 64 * 2**20
LEAST_FREE_SHARE: Final = 0.1
_NETWORK: Final = re.compile(
    r"nfs4?|cifs|smb3|smbfs|ncpfs|afs|9p|ceph|glusterfs|lustre|davfs|vboxsf"
    r"|fuse\.(?:sshfs|glusterfs|s3fs|rclone|ceph)"
)


def sqlite_checks(path: Path) -> Iterator[Check]:
    """Look at the file of a state that could be opened."""
    yield _whole_check(path)
    yield _place_check(path)
    yield _space_check(path)
    yield from _file_clock_checks(path)


def _whole_check(path: Path) -> Check:
    deadline = time.monotonic() + CHECK_SECONDS
    database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        database.set_progress_handler(lambda: int(time.monotonic() > deadline), 100_000)
        found = [str(line) for (line,) in database.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            text = (
                f"quick_check was not through after {CHECK_SECONDS:g} s; nothing wrong until then"
            )
            return ok("sqlite", text)
        found = [str(error)]
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    finally:
        database.close()
    if found == ["ok"]:
        return ok("sqlite", "quick_check finds the file whole")
    return failure(
        "sqlite",
        f"{path} is damaged: {'; '.join(found)}",
        "restore a backup, or save what can be read with `hacs export` into a new state",
    )


def _place_check(path: Path) -> Check:
    kind = file_system(path.resolve())
    if _NETWORK.fullmatch(kind):
        return failure(
            "sqlite",
            f"{path} lies on a network file system ({kind}): SQLite's WAL mode can lose data there",
            "move the state to a local disk, or use Redis",
        )
    return ok("sqlite", f"{path} lies on a local disk" + (f" ({kind})" if kind else ""))


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the kind of the file system that a path lies on, "" where that cannot be said."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        _, mounted, found = line.split(maxsplit=3)[:3]
        mounted = mounted.replace(r"\040", " ")
        if path.is_relative_to(mounted) and len(mounted) >= len(best):
            best, kind = mounted, found
    return kind


def _space_check(path: Path) -> Check:
    free = shutil.disk_usage(path.parent).free
    size = path.stat().st_size
    text = f"{size_text(free)} free on its disk"
    if free < LEAST_FREE_BYTES:
        return failure("disk", text, "make room: without it visits cannot be written")
    if free < LEAST_FREE_SHARE * size:
        return warning("disk", f"{text}, the state has {size_text(size)}", "make room in time")
    return ok("disk", text)


def _file_clock_checks(path: Path) -> Iterator[Check]:
    """Compare the clock with that of the file system, which on a server may be another one."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".doctor-") as file:
            file.write(b"x")
            file.flush()
            ahead = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError as error:
        yield failure(
            "disk",
            f"no file can be made in {path.parent}: {error.strerror or error}",
            "SQLite writes its journal beside the state: give it the right to",
        )
        return
    if abs(ahead) > 2.0:
        yield warning(
            "clock", f"the file system's is {ahead:+.1f} s from ours", "have both set by NTP"
        )
