"""Requests as JSON, for scrapy-redis's SCHEDULER_SERIALIZER: no pickle is ever written or loaded.

What JSON lacks is written as an object of one key: `{"$bytes": base64}`, `{"$tuple": […]}`,
`{"$set": […]}`, `{"$float": "inf"}`, and `{"$dict": [[key, value], …]}` for a dict whose keys are not
all texts or could be taken for one of these.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from collections.abc import Callable
from typing import Any, Final

from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from hacs_crawler.exceptions import HacsError

_DEEPEST: Final = 50
_PICKLE: Final = b"\x80"
"""How every pickle since protocol 2 begins."""


class SerializerError(HacsError):
    """A request cannot be written as JSON, or what was read is none; the message says what and where."""


def dumps(request: dict[str, Any]) -> bytes:
    """Return a request's dict (`Request.to_dict`) as JSON; raises SerializerError."""
    parts = {name: _written(value, name, 0) for name, value in request.items()}
    return json.dumps(parts, allow_nan=False, separators=(",", ":")).encode()


def loads(data: bytes | str) -> dict[str, Any]:
    """Return the request's dict that `dumps` wrote; raises SerializerError."""
    if isinstance(data, bytes) and data.startswith(_PICKLE):
        raise SerializerError("it is a pickle, which is never loaded")
    try:
        request = json.loads(data, object_hook=_read)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SerializerError(f"it is no JSON of a request: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("url"), str):
        raise SerializerError("it is no request: it has no URL")
    return request


def read_request(data: bytes | str, spider: Spider | None) -> Request:
    """Return the request that `dumps` wrote; raises SerializerError.

    Only a class that is loaded already is made use of: reading imports nothing.
    """
    facts = loads(data)
    path = facts.get("_class")
    if path is not None:
        module, _, name = str(path).rpartition(".")
        found = getattr(sys.modules.get(module), name, None)
        if not (isinstance(found, type) and issubclass(found, Request)):
            raise SerializerError(f"its class {path!r} is no request that this crawl knows")
    try:
        return request_from_dict(facts, spider=spider)
    except Exception as error:  # whatever a shared server holds
        raise SerializerError(f"it is no request: {error}") from error


def _written(value: Any, where: str, depth: int) -> Any:
    """Return what stands for a value in JSON; `where` names it in errors."""
    if depth > _DEEPEST:
        raise SerializerError(f"{where} is nested more than {_DEEPEST} deep")
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if kind in (list, tuple):
        items = [_written(item, f"{where}[{n}]", depth + 1) for n, item in enumerate(value)]
        return items if kind is list else {"$tuple": items}
    if kind in (set, frozenset):
        return {"$set": [_written(item, f"{where}{{…}}", depth + 1) for item in value]}
    if isinstance(value, dict):
        return _written_dict(value, where, depth)
    raise SerializerError(f"{where} is a {kind.__module__}.{kind.__qualname__}, not plain data")


def _written_dict(value: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
    pairs = [
        (
            _written(key, f"a key of {where}", depth + 1),
            _written(item, f"{where}[{key!r}]", depth + 1),
        )
        for key, item in value.items()
    ]
    is_plain = all(type(key) is str for key in value)
    if is_plain and not (len(value) == 1 and next(iter(value)).startswith("$")):
        return dict(pairs)
    return {"$dict": pairs}


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$tuple": tuple,
    "$set": set,
    "$float": float,
    "$dict": dict,
}


def _read(found: dict[str, Any]) -> Any:
    """Return what an object of JSON stands for."""
    if len(found) != 1:
        return found
    ((name, value),) = found.items()
    if name not in _READERS:
        return found
    try:
        return _READERS[name](value)
    except binascii.Error as error:
        raise ValueError(f"bad base64: {error}") from error
