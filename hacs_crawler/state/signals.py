"""Signals of pages in a state, and the reliability of their sources.

Records of pages are kept by site (the number in the pages' rows) and kind of signal, evidence by source.
A source belongs to one host, even if it lists pages of others.
"""

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hacs_crawler.links import fingerprint
from hacs_crawler.model import (
    POINTS,
    USUAL_PINGS,
    USUAL_SIGNALS,
    Trust,
    fit_prior_of_signals,
    posterior,
    trust_of,
)
from hacs_crawler.state.database import State
from hacs_crawler.state.signal_records import (
    EVIDENCE,
    RECORD,
    Evidence,
    Records,
    add_gaps,
    evidence_likelihood,
    gap_evidence,
    joined_ids,
    open_evidence,
    read_again,
    read_before_visits,
    settled,
)
from hacs_crawler.state.store import (
    Annotation,
    Ids,
    Store,
    change_annotations,
    change_note,
    read_note,
)
from hacs_crawler.utils.arrays import FloatArray, IndexArray

Others = Literal["gone", "silent", "unread"]
# The note with the kinds of signals in use, and the prior of each.
NOTE: Final = "signals"
# Limit on the pages of a source: the number that one sitemap may list.
MOST_PAGES: Final = 50_000
SITES_A_CALL: Final = 10_000
MOST_SOURCES_TO_FIT: Final = 2_000
_HEARD_VERSION: Final = 1
_HEARD: Final = struct.Struct("<Bq")
_EVIDENCE_VERSION: Final = 1
_TRIES: Final = 5
_Prior = Annotated[
    list[Annotated[float, Meta(ge=0, lt=2**53)]], Meta(min_length=POINTS, max_length=POINTS)
]


class _Expected(Struct):
    priors: dict[str, _Prior]


class _Source(Struct):
    """The part of a source's entry that is read here; `parts.signals.register` writes entries."""

    origin: str
    read: int = 0


def source_kind(kind: str) -> str:
    """Return the kind of annotations that registers the sources of a kind of signals."""
    return f"source.{kind}"


def source_id(origin: str) -> int:
    """Return the 64-bit number of a host as a source of signals; scheme and `www.` are ignored."""
    netloc = origin.lower().partition("://")[2] or origin.lower()
    return fingerprint(netloc.removeprefix("www."))


@dataclass(frozen=True, slots=True)
class KnownSignals:
    """Records of one kind, by ascending page id, and the reliability of their sources.

    `source` are places in `sources` (numbers of sources) and in the rows of `weights`, the probabilities
    of the model's points; `prior` has those for an unknown source.
    """

    kind: str
    records: Records
    source: IndexArray
    sources: tuple[int, ...]
    weights: FloatArray
    prior: FloatArray


def signal_kinds(store: Store) -> dict[str, FloatArray]:
    """Return the kinds of signals in use, with the prior of each; takes one round trip."""
    note = read_note(store, NOTE, _Expected)
    return {kind: np.array(prior) for kind, prior in note.priors.items()} if note else {}


def read_known_signals(store: Store, sites: NDArray[np.integer]) -> list[KnownSignals]:
    """Return the signals of the pages of these sites (0: no site), by kind.

    Takes one round trip, and two more for each kind in use.
    """
    kinds = signal_kinds(store)
    wanted = [site for site in np.unique(sites).tolist() if site] if kinds else []
    return [_of_kind(store, kind, prior, wanted) for kind, prior in kinds.items()]


def _of_kind(store: Store, kind: str, prior: FloatArray, sites: Sequence[int]) -> KnownSignals:
    bodies = [
        body
        for start in range(0, len(sites), SITES_A_CALL)
        for body in store.annotations(_records(kind), sites[start : start + SITES_A_CALL]).values()
    ]
    parts = [_decoded(body) for body in bodies]
    sources = tuple(sorted({source for source, _ in parts}))
    records, of_part = _concatenated([records for _, records in parts])
    source = np.searchsorted(sources, [source for source, _ in parts])[of_part]
    weights = _weights(store, kind, sources, prior)
    return KnownSignals(kind, records, source, sources, weights, prior)


def _concatenated(parts: Sequence[Records]) -> tuple[Records, IndexArray]:
    """Return the records by ascending page id, and the place of the part that each came from."""
    records = np.concatenate([np.zeros(0, RECORD), *parts])
    order = np.argsort(records["page_id"], kind="stable")
    numbers = np.array([*map(len, parts)], np.int64)
    return records[order], np.repeat(np.arange(len(parts)), numbers)[order]


def _weights(store: Store, kind: str, sources: Sequence[int], prior: FloatArray) -> FloatArray:
    """Return the probabilities of the model's points for sources, in their order."""
    bodies = store.annotations(_worth(kind), sources) if sources else {}
    evidence = _joined([_evidence_of(bodies.get(source, b"")) for source in sources])
    return posterior(evidence_likelihood(evidence), prior)


def _joined(parts: Sequence[Evidence]) -> Evidence:
    return np.concatenate([np.zeros(0, EVIDENCE), *parts])


def record_signals(
    state: State,
    kind: str,
    origin: str,
    at: int,
    page_ids: Ids,
    times: np.ndarray[Any, np.dtype[np.int64]],
    *,
    others: Others = "gone",
    sites: Sequence[int] = (),
) -> tuple[int, ...]:
    """Record a source's content at second `at`: the latest signals of pages, by their ids.

    Unknown pages are skipped, and pages beyond `MOST_PAGES`. `others` says how to treat pages of
    `sites` that the source listed before, but does not list now: they are "gone" from it, it was
    "silent" about them, or they are "unread". The evidence on the source is updated with the outcomes of
    visits since. Returns the sites whose pages' signals were recorded. Raises StateError.
    """
    ids, number = np.unique(page_ids, return_inverse=True)
    shown = np.zeros(len(ids), np.int64)
    np.maximum.at(shown, number, times)
    rows = state.rows(ids)
    is_known = np.flatnonzero(rows["site"] > 0)[:MOST_PAGES]
    ids, shown, page_sites = ids[is_known], shown[is_known], rows["site"][is_known]
    wanted = sorted({*page_sites.tolist(), *sites})
    for _ in range(_TRIES):
        before = state.store.annotations(_records(kind), wanted)
        own, of_part = _concatenated([_decoded(body)[1] for body in before.values()])
        listed, listed_sites = ids, page_sites
        if others != "gone":
            listed, first = np.unique(np.concatenate([ids, own["page_id"]]), return_index=True)
            listed, first = listed[:MOST_PAGES], first[:MOST_PAGES]
            own_sites = np.array([*before], np.int64)[of_part]
            listed_sites = np.concatenate([page_sites, own_sites])[first]
        joined = joined_ids(own, listed)
        latest = joined["latest"].astype(np.int64)
        place = np.searchsorted(listed, ids)
        is_kept = place < len(listed)
        latest[place[is_kept]] = shown[is_kept]
        rows = state.rows(joined["page_id"].astype(np.int64))
        joined = read_before_visits(joined, rows, latest)
        _, gaps = gap_evidence(joined, rows)
        records = settled(joined, rows, state.estimation)
        if others != "unread":
            records = read_again(records, latest, at)
        else:
            is_read = np.isin(listed, ids)
            records[is_read] = read_again(records[is_read], latest[is_read], at)
        order = np.argsort(listed_sites, kind="stable")
        begins = np.searchsorted(listed_sites[order], wanted)
        parts = dict(zip(wanted, np.split(records[order], begins)[1:], strict=True))
        head = _HEARD.pack(_HEARD_VERSION, source_id(origin))
        changes = [
            Annotation(site, before.get(site, b""), head + part.tobytes() if len(part) else b"")
            for site, part in parts.items()
        ]
        if not state.store.annotate(_records(kind), changes):
            break
    else:
        return tuple(sites)  # other processes keep reading the same source

    likelihood, looked_for = open_evidence(records, rows, state.estimation)

    def learned(_: int, seen: bytes) -> bytes:
        evidence = _evidence_of(seen)
        add_gaps(evidence, np.zeros(len(gaps), np.int64), gaps)
        evidence["open"] = likelihood.sum(axis=0)
        evidence["signals"] = looked_for.sum()
        evidence["pages"] = np.count_nonzero(records["visit"])
        return evidence.tobytes()

    change_annotations(state.store, _worth(kind), [source_id(origin)], learned)
    if kind not in signal_kinds(state.store):
        _keep_priors(state.store, {kind: _usual(kind)})
    return tuple(site for site, part in parts.items() if len(part))


@dataclass(frozen=True, slots=True)
class SourceTrust:
    """How far a source is trusted, when it was read, and the evidence for the trust.

    `gaps` is the number of gaps used (`MOST_GAPS` at most, older ones fade), `pages` the number of its
    visited pages.
    """

    kind: str
    origin: str
    read: int
    gaps: float
    pages: int
    trust: Trust


def trusted_sources(store: Store, most: int) -> list[SourceTrust]:
    """Return the sources with most evidence, at most `most` of each kind; raises StateError."""
    sources_trusted = []
    for kind, prior in signal_kinds(store).items():
        ordered: list[tuple[float, int, int]] = []
        for batch in store.all_annotations(_worth(kind)):
            seen = ((_evidence_of(body)[0], key) for key, body in batch.items())
            ordered += [(float(one["gaps"]), int(one["pages"]), key) for one, key in seen]
            ordered = sorted(ordered, reverse=True)[:most]
        keys = [key for _, _, key in ordered]
        sources = store.annotations(source_kind(kind), keys)
        weights = _weights(store, kind, keys, prior)
        for (gaps, pages, key), own in zip(ordered, weights, strict=True):
            with suppress(msgspec.MsgspecError, RecursionError):
                source = msgspec.json.decode(sources.get(key, b""), type=_Source)
                trust = trust_of(own)
                sources_trusted.append(
                    SourceTrust(kind, source.origin, source.read, gaps, pages, trust)
                )
    return sources_trusted


def refit_signals(store: Store) -> None:
    """Fit the priors for a new source to the known sources, for the next run."""
    kinds = signal_kinds(store)
    if not kinds:
        return
    priors = {}
    for kind in kinds:
        bodies = (body for batch in store.all_annotations(_worth(kind)) for body in batch.values())
        seen = _joined([_evidence_of(body) for body in islice(bodies, MOST_SOURCES_TO_FIT)])
        priors[kind] = fit_prior_of_signals(evidence_likelihood(seen), _usual(kind))
    _keep_priors(store, priors)


def _keep_priors(store: Store, priors: Mapping[str, FloatArray]) -> None:
    new = {kind: [float(f"{p:.4g}") for p in prior.tolist()] for kind, prior in priors.items()}

    def joined(before: _Expected | None) -> Any:
        return {"priors": {**(before.priors if before else {}), **new}}

    change_note(store, NOTE, _Expected, joined)


def _usual(kind: str) -> FloatArray:
    return USUAL_PINGS if kind == "ping" else USUAL_SIGNALS


def _records(kind: str) -> str:
    return f"heard.{kind}"


def _worth(kind: str) -> str:
    return f"worth.{kind}"


def _decoded(body: bytes) -> tuple[int, Records]:
    """Return a source and its records; no records if they are damaged or of a later version."""
    rest = len(body) - _HEARD.size
    if rest < 0 or body[0] != _HEARD_VERSION or rest % RECORD.itemsize:
        return 0, np.zeros(0, RECORD)
    return _HEARD.unpack_from(body)[1], np.frombuffer(body, RECORD, offset=_HEARD.size)


def _evidence_of(body: bytes) -> Evidence:
    """Return the evidence on one source; empty if it is damaged, or of a later version."""
    if len(body) == EVIDENCE.itemsize and body[0] == _EVIDENCE_VERSION:
        evidence = np.frombuffer(body, EVIDENCE).copy()
        if all(np.isfinite(evidence[name]).all() for name in EVIDENCE.names or ()):
            return evidence
    evidence = np.zeros(1, EVIDENCE)
    evidence["version"] = _EVIDENCE_VERSION
    return evidence
