"""Ragged batches: values of many pages in one flat array, page i in [offsets[i]:offsets[i+1]]."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.int64]


def offsets_of(counts: IndexArray) -> IndexArray:
    """Offsets of pages that hold `counts` values each; one longer than `counts`."""
    out = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def page_of_value(offsets: IndexArray) -> IndexArray:
    """Index of the page that each value belongs to."""
    return np.repeat(np.arange(offsets.size - 1), offsets[1:] - offsets[:-1])


def sum_by_page(values: FloatArray, offsets: IndexArray) -> FloatArray:
    """Sum over each page along the first axis; 0 for a page without values.

    `np.add.reduceat` alone would return a neighbour's value for an empty page.
    """
    starts, ends = offsets[:-1], offsets[1:]
    filled = ends > starts
    if filled.all() and filled.size:
        return values if len(values) == len(starts) else np.add.reduceat(values, starts, axis=0)
    out = np.zeros((starts.size, *values.shape[1:]))
    if filled.any():
        out[filled] = np.add.reduceat(values, starts[filled], axis=0)
    return out


def blocks(offsets: IndexArray, max_values: int) -> Iterator[tuple[int, int]]:
    """Cut the pages into runs [first, last) of about max_values values each, to stay in cache.

    Each page counts as one value more than it has, so that runs of empty pages end, too; a page with
    more values than max_values is a run by itself.
    """
    n_pages = offsets.size - 1
    if n_pages + offsets[-1] <= max_values:
        if n_pages:
            yield 0, n_pages
        return
    load = offsets + np.arange(n_pages + 1)
    first = 0
    while first < n_pages:
        last = int(np.searchsorted(load, load[first] + max_values, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last
