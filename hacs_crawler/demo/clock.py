"""The demonstration's clock: weeks pass between two rounds, seconds within one.

The time is in a file, so that the pages served and the crawls that visit them agree on it whatever
process asks: the second of demo time at which the round began, and the real second at which it did.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import replacing

VARIABLE: Final = "HACS_DEMO_CLOCK"
"""The environment variable that names the file."""


def now() -> float:
    """Return the demo time in seconds since 1970 UTC: the setting `HACS_CLOCK` of the demonstration.

    Raises HacsError where the environment names no such clock.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        raise HacsError(f"{VARIABLE} is not set: it names the file of the demonstration's clock")
    return read(Path(name))


def read(file: Path) -> float:
    """Return the demo time that a file tells; raises HacsError where it tells none."""
    try:
        began, really_began = map(float, file.read_text().split())
    except OSError as error:
        raise HacsError(f"{file}: cannot read the clock: {error.strerror}") from error
    except ValueError:
        raise HacsError(f"{file}: no clock of a demonstration") from None
    return began + max(0.0, time.time() - really_began)


def set_to(file: Path, second: float) -> None:
    """Let it be that second of demo time now."""
    with replacing(file) as stream:
        stream.write(f"{second:.3f} {time.time():.3f}\n".encode())
