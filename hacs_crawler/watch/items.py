"""Items as marks: canonical bytes of their fields, independent of the item's class."""

import math
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import singledispatch
from types import NoneType
from typing import Any, Final
from zlib import crc32

import msgspec
from itemadapter import ItemAdapter

from hacs_crawler.watch.rules import MarkRules, UnreadableMarksError, as_read

NOT_ARCHIVED: Final = (
    "HACS_WATCH = 'items': archives do not show what callbacks yield; they can be read where links, "
    "text, an expression or a function is watched"
)
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+").search
_AS_THEY_ARE: Final = frozenset({int, bool, NoneType})
_EXACT: Final = 2**53
# To be raised if the canonical form of items changes, so that pages get baselines.
_FORM: Final = 4
# Number of characters kept of a field, to show its old value.
LONGEST_FIELD: Final = 200
# Values of empty fields.
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
# Fields with the name of an item.
TITLES: Final = frozenset({"title", "name", "headline"})
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def item_rules(
    fields: Collection[str] = (), ignore: Collection[str] = (), key: str = ""
) -> MarkRules:
    """Return the rules for watching items: these fields, or all, without the ignored ones.

    `key` is the name of the field that identifies an item.
    """

    def is_watched(name: str) -> bool:
        return name not in ignore and (not fields or name in fields)

    only = is_watched if fields or ignore else None
    return MarkRules(
        "items",
        lambda *_: (),
        answers=(),
        options=repr((_FORM, sorted(fields), sorted(ignore), *filter(None, [key]))),
        canonical=lambda item, own: canonical_item(item, only, own),
        key_of=(lambda item: item_key(item, key)) if key else None,
        takes_items=True,
    )


def item_key(item: Any, key: str) -> int | None:
    """Return a signed 32-bit hash of the field that identifies an item; None if it lacks the field."""
    value = _mapping(item).get(key)
    return None if value is None else crc32(canonical_json(value, key)) - 2**31


def item_fields(item: Any) -> dict[str, Any]:
    """Return the fields of an item as JSON values; long ones are cut."""
    fields = {}
    for name, value in _mapping(item).items():
        plain = _as_json(value, name)
        text = plain if isinstance(plain, str) else _encode(plain).decode()
        fields[str(name)] = plain if len(text) <= LONGEST_FIELD else text[:LONGEST_FIELD]
    return fields


def fields_like(item: Any, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return `item_fields`, kept of an earlier item, with numbers in the types of the item's numbers.

    If the item now has an int, an earlier number with a fraction is a float.
    """
    fields = _mapping(item)
    return {name: _number_like(fields.get(name), was) for name, was in kept.items()}


def _number_like(value: Any, was: Any) -> Any:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    kind = float if isinstance(value, int) else type(value)
    with suppress(TypeError, ValueError, ArithmeticError):  # the field was not a number
        if is_number and not isinstance(was, bool | type(value)):
            return kind(was)
    return was


def canonical_json(value: Any, field: str = "") -> bytes:
    """Return the canonical JSON of a field's value."""
    return _encode(_as_json(value, field))


def item_texts(item: Any) -> dict[str, str]:
    """Return the texts and numbers of an item by field, for display; its title or name first."""
    fields = _mapping(item)
    return {
        str(name): str(_as_json(fields[name], name))
        for name in sorted(fields, key=lambda name: name not in TITLES)
        if isinstance(fields[name], str | int | float | Decimal)
        and not isinstance(fields[name], bool)
    }


def canonical_item(
    item: Any, is_watched: Callable[[str], bool] | None = None, own: Collection[str] = ()
) -> tuple[bytes, bool]:
    """Return the canonical JSON of an item, and whether it has an `own` address; itemadapter reads it.

    Fields with an address of the item's `own` page are emptied, those that are None are left out. The
    JSON of an item whose fields are all empty is b"": its source was missing from the page. Raises
    UnreadableMarksError that names a field whose value differs at each run.
    """
    fields = {
        str(name): _as_json(value, name)
        for name, value in _mapping(item).items()
        if is_watched is None or is_watched(name)
    }
    addresses = [name for name, value in fields.items() if value in own] if own else []
    fields.update(dict.fromkeys(addresses, ""))
    # an item of nothing but its page's address says that the page is there
    is_address = 0 < len(addresses) == len(fields)
    is_empty = not is_address and all(value in EMPTY for value in fields.values())
    if None in fields.values():
        fields = {name: value for name, value in fields.items() if value is not None}
    return b"" if is_empty else _encode(fields), bool(addresses)


def _mapping(item: Any) -> Mapping[str, Any]:
    # most items are dicts, and an adapter would take longer than everything else
    if isinstance(item, dict):
        return item
    if not ItemAdapter.is_item(item):
        raise UnreadableMarksError(f"{item!r:.100} is not an item")
    return ItemAdapter(item)


def _as_json(value: Any, field: str) -> Any:
    # most values are of these types, and the dispatch would take longer than everything else
    kind = value.__class__
    if kind is str:
        return as_read(value)
    return value if kind in _AS_THEY_ARE else _plain(value, field)


@singledispatch
def _plain(value: Any, field: str) -> Any:
    """Return a field's value as a JSON value, the same for equal values."""
    if isinstance(value, Mapping) or ItemAdapter.is_item(value):
        pairs = value.items() if isinstance(value, Mapping) else ItemAdapter(value).items()
        return {str(name): _as_json(value_of, f"{field}.{name}") for name, value_of in pairs}
    text = repr(value)
    if _ADDRESS(text) is not None:
        raise UnreadableMarksError(
            f"the field {field!r} of an item holds {text:.100}, which differs at each run: leave it "
            "out with HACS_WATCH_IGNORE, or give its class a __repr__"
        )
    return text


@_plain.register
def _(value: str, _field: str) -> Any:
    return as_read(value.value if isinstance(value, Enum) else value)


@_plain.register(bool | int | None)
def _(value: Any, _field: str) -> Any:
    return value.value if isinstance(value, Enum) else value


@_plain.register(float | Decimal)
def _(value: Any, _field: str) -> Any:
    """Return a number so that 5, 5.0 and Decimal("5.00") are the same, as are 0.3 and 0.1 + 0.2."""
    if math.isfinite(value) and abs(value) < _EXACT and value == int(value):
        return int(value)
    return str(value.normalize()) if isinstance(value, Decimal) else f"{value:.15g}"


@_plain.register(date | time)
def _(value: Any, _field: str) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return value.isoformat()


@_plain.register
def _(value: Enum, field: str) -> Any:
    return _plain(value.value, field)


@_plain.register(set | frozenset)
def _(value: Any, field: str) -> Any:
    return sorted((_as_json(element, field) for element in value), key=_encode)


@_plain.register(list | tuple)
def _(value: Any, field: str) -> Any:
    return [_as_json(element, field) for element in value]
