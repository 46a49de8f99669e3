"""For how long the other pages of a site are known to have been quiet since a page was seen last."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.utils.arrays import FloatArray

Ints = NDArray[np.int64]
# By how much less likely an update is at a time at which one sibling is known to have been quiet.
QUIET_SHARE: Final = 0.3
# What is left of that likelihood however many siblings were quiet.
LEAST_LEFT: Final = 0.1
# How many siblings that were quiet at one time count.
MOST_QUIET: Final = math.ceil(math.log(LEAST_LEFT) / math.log(1.0 - QUIET_SHARE))
_SECONDS: Final = 86_400.0
_SITE_SHIFT: Final = np.uint64(33)
_ONE: Final = np.uint64(1)
_STEPS: Final = 2.0**30


def quiet_days(
    own: Ints, last_visit: FloatArray, quiet_since: FloatArray, quiet_share: FloatArray, asked: Ints
) -> FloatArray:
    """Sum over the time since a page's last visit of 1 - max(`LEAST_LEFT`, (1 - `quiet_share`)^m).

    m is the number of pages of its site that are known to have been quiet at that moment, at most
    `MOST_QUIET`: each from `quiet_since`, its first visit or the last that found an update, to its last
    visit. Days, up to 49,710 (2^32 seconds), rounded to seconds. `own` are the pages' sites, numbers
    from 0; `quiet_share` has one element a site. Returned are the sums of the pages at places `asked`.

    Each site's time is cut at all these moments. Up to each of them the sum is kept, in whole numbers
    that may overflow: differences within a site are exact, whatever other sites there are.
    """
    until, since = (
        np.rint(days * _SECONDS).astype(np.uint64) for days in (last_visit, quiet_since)
    )
    site = own.astype(np.uint64) << _SITE_SHIFT
    is_quiet = np.flatnonzero(since < until)
    begins = site[is_quiet] | since[is_quiet] << _ONE
    ends = site[is_quiet] | until[is_quiet] << _ONE | _ONE
    moments = np.sort(np.concatenate([begins, ends]))
    if not len(moments):
        return np.zeros(len(asked))
    number = np.cumsum(1 - 2 * (moments & _ONE).astype(np.int64))
    whose = (moments >> _SITE_SHIFT).astype(np.int64)
    lost = _lost(quiet_share)[whose, np.minimum(number, MOST_QUIET)]
    at = (moments & (_ONE << _SITE_SHIFT) - _ONE).astype(np.int64) >> 1
    up_to = np.zeros(len(moments), np.int64)
    # 0 is lost from a site's last moment on
    np.cumsum(lost[:-1] * np.diff(at), out=up_to[1:])

    own, site, until = own[asked], site[asked], until[asked]
    last_of_site = np.searchsorted(moments, (site >> _SITE_SHIFT) + _ONE << _SITE_SHIFT) - 1
    before = np.searchsorted(moments, site | until << _ONE | _ONE, side="right") - 1
    is_within = (before >= 0) & (whose[before] == own)
    first_of_site = np.searchsorted(moments, site)
    seen = np.where(
        is_within,
        up_to[before] + lost[before] * (until.astype(np.int64) - at[before]),
        up_to[np.minimum(first_of_site, len(moments) - 1)],
    )
    has_quiet = first_of_site <= last_of_site
    return np.where(has_quiet, up_to[last_of_site] - seen, 0) / (_STEPS * _SECONDS)


def _lost(quiet_share: FloatArray) -> Ints:
    """Return the quantized loss while m siblings are quiet, by site and by m up to `MOST_QUIET`."""
    number = np.arange(MOST_QUIET + 1)
    left = np.maximum(LEAST_LEFT, (1.0 - quiet_share[:, np.newaxis]) ** number)
    return np.rint(_STEPS * (1.0 - left)).astype(np.int64)
