"""From a page's captures to its visits: which mementos have to be fetched, and what the others tell.

Content that an earlier capture had already shows no link that is new, so of captures with one digest
only the first memento is needed; the state is then the same as if all had been fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hacs_crawler.archive.capture import Capture
from hacs_crawler.links.urls import fingerprint
from hacs_crawler.state.page import Harvest


@dataclass(frozen=True, slots=True)
class Step:
    """One capture, in the order of time, on its way to becoming a visit.

    `digest` is the fingerprint of its content's digest, 0 where the archive names none. `is_new` says
    that no capture before it, as far as they are known, had this content; `changed` that the one before
    it is known to have had another, and that the archive itself does not call it a revisit.
    """

    capture: Capture
    digest: int
    is_new: bool
    changed: bool


def thinned(captures: Sequence[Capture], most: int) -> list[Capture]:
    """Return `most` of a page's captures, in time order and as evenly spread over time as they can be.

    The choice is by time alone, so it favours neither changed nor unchanged captures: first the last
    one and the first, then again and again the one farthest in time from all that are chosen.
    """
    if len(captures) <= most:
        return list(captures)
    times = np.array([capture.at for capture in captures], np.int64)
    chosen = [len(times) - 1]
    distance = np.abs(times - times[-1])
    while len(chosen) < most:
        farthest = int(np.argmax(distance))
        chosen.append(farthest)
        np.minimum(distance, np.abs(times - times[farthest]), out=distance)
    return [captures[index] for index in sorted(chosen)]


def steps(captures: Iterable[Capture], harvest: Harvest | None) -> Iterator[Step]:
    """Yield the steps of a page's captures, which come in time order and each in another second.

    `harvest` says how far the same archive's captures are recorded: up to there, there are none. A
    revisit record without a digest has the content of the capture before it.
    """
    previous = 0 if harvest is None else harvest.digest
    seen = {previous}
    is_first = harvest is None
    for capture in captures:
        if harvest is not None and capture.at <= harvest.until:
            continue
        digest = _fingerprint(capture.digest) if capture.digest else previous
        changed = previous not in (0, digest) and not capture.is_revisit
        yield Step(capture, digest, is_first or digest not in seen, changed)
        seen.add(digest)
        previous, is_first = digest, False


@lru_cache(maxsize=4_096)
def _fingerprint(digest: str) -> int:
    return fingerprint(digest)
