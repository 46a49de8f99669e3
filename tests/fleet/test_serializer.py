"""Requests as JSON: what they hold comes back, what JSON cannot hold is named."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.fleet.serializer import SerializerError, dumps, loads

plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters())
    | st.binary()
)
keys = st.text() | st.integers() | st.binary() | st.tuples(st.text(), st.integers())
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.dictionaries(st.sampled_from(["$bytes", "$dict", "$x", "a"]), inner)
        | st.sets(st.text() | st.binary())
    ),
    max_leaves=15,
)


def same(meta: dict[str, Any]) -> dict[str, Any]:
    return loads(dumps({"url": "http://a.example/", "meta": meta}))["meta"]


def kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [kinds(item) for item in value]
    return type(value)


@given(st.dictionaries(st.text(), values))
def test_plain_data_comes_back_as_it_was(meta: dict[str, Any]) -> None:
    found = same(meta)
    assert found == meta
    assert kinds(found) == kinds(meta)  # 1 is not True, (1,) is not [1]


def test_numbers_that_are_not_finite_come_back() -> None:
    found = same({"a": math.inf, "b": -math.inf, "c": math.nan})
    assert (found["a"], found["b"]) == (math.inf, -math.inf)
    assert math.isnan(found["c"])


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "meta['when'] is a datetime.datetime"),
        ({"a": [1, {"b": object()}]}, "meta['a'][1]['b'] is a builtins.object"),
        ({object(): 1}, "a key of meta is a builtins.object"),
        ({"a": print}, "meta['a'] is a builtins.builtin_function_or_method"),
    ],
)
def test_what_cannot_be_written_is_named(meta: dict[Any, Any], named: str) -> None:
    with pytest.raises(SerializerError) as caught:
        dumps({"url": "http://a.example/", "meta": meta})
    assert named in str(caught.value)


def test_data_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SerializerError, match="nested more than 50 deep"):
        same({"a": endless})


class LoadedError(Exception):
    """Raised when a pickle of `Trap` is loaded."""


class Trap:
    def __reduce__(self) -> Any:
        return _spring, ()


def _spring() -> None:
    raise LoadedError


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_loaded(protocol: int) -> None:
    data = pickle.dumps(Trap(), protocol)
    with pytest.raises(LoadedError):
        pickle.loads(data)
    with pytest.raises(SerializerError):
        loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"url": 1}',
        b'{"url": {"$bytes": "!"}}',
        b'{"url": "http://a.example/", "body": {"$bytes": 1}}',
        b'{"url": "http://a.example/", "meta": {"$dict": [1]}}',
        b'{"url": "http://a.example/", "meta": {"$set": [[1]]}}',
        b'{"url": "http://a.example/", "meta": {"$float": "x"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(SerializerError):
        loads(data)
