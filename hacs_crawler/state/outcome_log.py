"""Outcome records: the prediction and the outcome of each ranked visit.

Comparisons and calibration are computed from them alone. Each is written together with its visit; up to
`MOST_OUTCOMES` are kept.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from hacs_crawler.links import fingerprint
from hacs_crawler.model import ESTIMATORS, ONE_RATE
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# One visit of a ranked page. `at` is its time and `run` the start of its crawl, in seconds since
# 1970 UTC, `site` is `site_id` of its URL, `label` the number of its `Label`. `p` is the predicted
# probability of an update. `days_since_visit` is infinite if the page had never been seen. `bytes`
# is the size of the answer's body. `new_to_site` is how many of the `new_links` were new to the
# site. `flags` has SEEN if the visit showed the page, UPDATED if there was an update as HACS_UPDATES
# defines it, and in its upper six bits the page's churn as estimated then, see `churn_of`.
OUTCOME: Final = np.dtype(
    [
        ("page_id", "<i8"),
        ("at", "<u4"),
        ("run", "<u4"),
        ("site", "<u4"),
        ("label", "<u4"),
        ("p", "<f4"),
        ("days_since_visit", "<f4"),
        ("new_links", "<u2"),
        ("new_to_site", "<u2"),
        ("bytes", "<u4"),
        ("flags", "u1"),
    ]
)
# How many records a state keeps.
MOST_OUTCOMES: Final = 1_000_000
SEEN: Final = 1
UPDATED: Final = 2
_CHURN_SHIFT: Final = 2
_CHURN_STEPS: Final = 63

# The same layout; packing a single record is faster than with numpy.
PACKED: Final = struct.Struct("<qIIIIffHHIB")
MOST_LINKS: Final = 2**16 - 1
PASSED_OVER: Final = "%d damaged outcome records in %s are skipped"

Floats = NDArray[np.float64]
Outcomes = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Label:
    """What ranked a visit: the policy, and how p was computed."""

    policy: str
    estimator: str
    fade_days: float
    elapsed_from: str
    siblings: bool
    # The kind of update that p is the probability of, as in HACS_UPDATES.
    updates: str = "page"

    @property
    def number(self) -> int:
        """A unique number of the label, 1 to 2^32 - 1."""
        return _number_of(self)

    @property
    def model(self) -> str:
        """How p was computed: predictions of one model are calibrated together, across policies."""
        # a newer version may have recorded an unknown estimator
        fades = self.estimator in ESTIMATORS and self.estimator not in ONE_RATE
        fading = f", fading in {self.fade_days:g} days" if fades else ""
        since = f", since the last {self.elapsed_from}"
        siblings = ", with siblings" if self.siblings and self.elapsed_from == "visit" else ""
        of_site = ", new to the site" if self.updates == "site" else ""
        return f"{self.estimator}{fading}{since}{siblings}{of_site}"


@cache  # called for every ranked page, and a crawl has one label
def _number_of(label: Label) -> int:
    text = json.dumps(asdict(label), sort_keys=True)
    return (fingerprint(text) & 0xFFFF_FFFF) or 1


_Number = Annotated[int, Meta(ge=0, lt=2**32)]
_Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Prediction(NamedTuple):
    """The prediction for a visit when its page was ranked; see `OUTCOME`."""

    label: _Number
    run: _Number
    p: _Share
    rate_per_day: float
    days_since_visit: float
    churn: _Share


def flags_of(*, is_seen: bool, is_update: bool, churn: float) -> int:
    """Return the flags of an outcome record."""
    steps = round(min(max(churn, 0.0), 1.0) * _CHURN_STEPS)
    return SEEN * is_seen | UPDATED * is_update | steps << _CHURN_SHIFT


def churn_of(outcomes: Outcomes | np.void) -> Floats:
    """Return the pages' churn c as estimated when the visits were ranked, in steps of 1/63."""
    return (outcomes["flags"] >> _CHURN_SHIFT) / _CHURN_STEPS


def chance_of_new_links(p: Floats, churn: Floats) -> Floats:
    """Return 1 - (1 - c)(1 - p), the chance of new links from time or the request; p without churn."""
    return np.where(churn > 0.0, 1.0 - (1.0 - churn) * (1.0 - p), p)


def time_share(p: Floats, churn: Floats) -> Floats:
    """Return p / (1 - (1 - c)(1 - p)), the chance that time brought the new links; 1 without churn."""
    chance = chance_of_new_links(p, churn)
    return np.divide(p, chance, out=np.ones(len(p)), where=(churn > 0.0) & (chance > 0.0))


def share_of_time(outcomes: Outcomes) -> Floats:
    """Return the `time_share` of each visit."""
    return time_share(outcomes["p"].astype(np.float64), churn_of(outcomes))


def sound(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Return which records are valid: p is from 0 to 1, `days_since_visit` at least 0."""
    is_probability = (outcomes["p"] >= 0.0) & (outcomes["p"] <= 1.0)
    return is_probability & (outcomes["days_since_visit"] >= 0.0)


def sorted_outcomes(parts: Iterable[Outcomes]) -> Outcomes:
    """Join outcome records, by time; of a visit's records the last one written counts."""
    joined = np.concatenate([np.zeros(0, OUTCOME), *parts])
    order = np.lexsort((joined["page_id"], joined["at"]))
    joined = joined[order]
    is_last = np.ones(len(joined), np.bool_)
    is_last[:-1] = (joined["at"][1:] != joined["at"][:-1]) | (
        joined["page_id"][1:] != joined["page_id"][:-1]
    )
    return joined[is_last]


def withdrawn(outcomes: Outcomes, flags: int) -> Outcomes:
    """Return outcome records without the flags, and without new marks."""
    records = outcomes.copy()
    records["flags"] &= np.uint8(~flags & 0xFF)
    records["new_links"] = records["new_to_site"] = 0
    return records


def visits_of(outcomes: Outcomes) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return page and time of each record as one comparable value."""
    pairs = np.empty(len(outcomes), [("page", ">u8"), ("at", ">u8")])
    pairs["page"], pairs["at"] = outcomes["page_id"].view(np.uint64), outcomes["at"]
    return pairs.view("V16")


def whole_outcomes(stored: Sequence[Any], address: str) -> Outcomes:
    """Join stored outcome records, one or more to a value; damaged values are logged and skipped."""
    whole = [
        records
        for records in stored
        if isinstance(records, bytes) and len(records) % OUTCOME.itemsize == 0
    ]
    if len(whole) < len(stored):
        logger.error(PASSED_OVER, len(stored) - len(whole), address)
    return np.frombuffer(b"".join(whole), OUTCOME)
