"""Settings, each declared once, as a field of a frozen dataclass: name, default, check, documentation.

    @dataclass(frozen=True)
    class Recording:
        flush_visits: Annotated[
            int, Meta(ge=1), Setting("HACS_FLUSH_VISITS", "Visits are written when this many wait.")
        ] = 100

The type defines the allowed values: msgspec checks and converts them, errors and docs/settings.md
describe them (`allowed`), and the command line completes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from hacs_crawler.exceptions import ConfigError

if TYPE_CHECKING:  # only a crawl needs Scrapy
    from scrapy.settings import BaseSettings

T = TypeVar("T")
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]


class NotAllowedError(ValueError):
    """A value is wrong; the message names the allowed values."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting that a field is read from, and its documentation in docs/settings.md, in Markdown.

    `read` converts a given value if a type cannot express the allowed values; it raises NotAllowedError
    that names them, or ConfigError. `default` and `kind` are given if the setting's default or type
    differs from the field's. `declared` fills in `field`, the field's name.
    """

    name: str
    text: str
    read: Callable[[Any], Any] | None = None
    default: Any = msgspec.UNSET
    field: str = ""
    kind: Any = None

    @property
    def summary(self) -> str:
        """The first sentence of `text`, on one line and without links."""
        sentence = " ".join(self.text.split()).partition(". ")[0]
        return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence)

    def value(self, settings: BaseSettings) -> Any:
        """Return the field's value; raises ConfigError that names setting, value and allowed values."""
        given = settings.get(self.name, self.default)
        if self.default is None and given in (None, ""):
            return None
        try:
            return converted(given, self.kind) if self.read is None else self.read(given)
        except NotAllowedError as error:
            raise ConfigError(f"{self.name} = {_shown(given)}: must be {error}") from error


@cache
def declared(group: type) -> tuple[Setting, ...]:
    """Return the settings that a dataclass declares, in the order of its fields."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        replace(
            setting,
            default=field.default if setting.default is msgspec.UNSET else setting.default,
            field=field.name,
            kind=setting.kind or hints[field.name],
        )
        for field in fields(group)
        for setting in getattr(hints[field.name], "__metadata__", ())
        if isinstance(setting, Setting)
    )


def read_group(group: type[T], settings: BaseSettings, **others: Any) -> T:
    """Return a dataclass with its settings read, and its other fields as given."""
    return group(**{item.field: item.value(settings) for item in declared(group)}, **others)  # type: ignore[arg-type]


def converted(given: Any, kind: Any) -> Any:
    """Return a value converted to a type; raises NotAllowedError that names the allowed values.

    Texts are converted to numbers and switches, as on the command line, and an empty text to None.
    """
    candidates = [given]
    if given == "":
        candidates = [None, given]
    elif isinstance(given, str):  # numbers in Python but not in JSON, such as .5
        for number in (int, float):
            with suppress(ValueError):
                candidates.append(number(given))
    for candidate in candidates:
        with suppress(msgspec.ValidationError):
            return msgspec.convert(candidate, kind, strict=False)
    raise NotAllowedError(allowed(kind))


def converted_object(given: Mapping[str, Any], kind: type[T]) -> T:
    """Return a JSON object as a struct; raises NotAllowedError that names the wrong key."""
    try:
        return msgspec.convert(given, kind, dec_hook=_path)
    except msgspec.ValidationError as error:
        key = re.search(r"\$\.(\w+)`$", str(error))
        hints = {item.encode_name: item.type for item in msgspec.structs.fields(kind)}  # type: ignore[arg-type]
        if key is None:
            raise NotAllowedError(
                f"an object with the keys {', '.join(hints)} ({error})"
            ) from error
        raise NotAllowedError(
            f"as {key[1]} {allowed(hints[key[1]])}, not {_shown(given[key[1]])}"
        ) from error


def parsed_json(given: Any) -> Any:
    """Return the value of a text if it begins like a JSON object; raises NotAllowedError."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(given)
        except msgspec.DecodeError as error:
            raise NotAllowedError(f"an object in JSON ({error})") from error
    return given


def listed(given: Any) -> Iterable[Any]:
    """Return the elements of a list, of a JSON list of texts, or of a text with commas."""
    if not isinstance(given, str) or not given:
        return given or ()
    try:
        return msgspec.json.decode(given, type=list[str])
    except msgspec.DecodeError:  # such as a character class of a regular expression
        return given.split(",")


def patterns(given: Any) -> tuple[re.Pattern[str], ...]:
    """Return regular expressions, see `listed`; raises NotAllowedError."""
    try:
        return tuple(map(re.compile, listed(given)))
    except (re.error, TypeError) as error:
        raise NotAllowedError(f"regular expressions ({error})") from error


def path_or_class(given: Any) -> str | type:
    """Return the dotted path of a class, or the class, as in Scrapy's own settings."""
    if isinstance(given, type) or (isinstance(given, str) and given):
        return given
    raise NotAllowedError("the dotted path of a class, or the class")


def loaded(path: str, what: str) -> Any:
    """Return the object at a dotted path; raises NotAllowedError that says `what` is allowed."""
    from scrapy.utils.misc import load_object  # noqa: PLC0415 - only a crawl needs Scrapy

    try:
        return load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise NotAllowedError(f"{what} ({error})") from error


def object_at(path: Any) -> object:
    """Return the object at a dotted path, None without one."""
    with suppress(NotAllowedError):
        return loaded(path, "")
    return None


def allowed(kind: Any) -> str:
    """Return the values that a type allows, in words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [limit for limit in kind.__metadata__ if isinstance(limit, Meta)]
        if any(limit.min_length for limit in limits):
            return "a non-empty text"
        return " ".join([allowed(arguments[0]), *filter(None, map(_limits, limits))])
    if origin in {Union, UnionType}:
        words = [allowed(argument) for argument in arguments if argument is not NoneType]
        return ", or ".join(words + ["nothing"] * (NoneType in arguments))
    if origin is Literal:
        return "one of " * (len(arguments) > 1) + ", ".join(map(str, arguments))
    names = {
        bool: "True or False",
        int: "a whole number",
        float: "a number",
        str: "a text",
        Path: "a file",
    }
    return names.get(kind, str(kind))


def _path(kind: type, given: object) -> Any:
    if kind is Path and isinstance(given, str) and given:
        return Path(given)
    raise ValueError(given)


def _shown(given: object) -> str:
    """Return the text of a value without any logins in URLs."""
    return re.sub(r"//[^\s'\"]*@", "//", repr(given))


def choices(kind: Any) -> list[str]:
    """Return the values of a type that can be listed, for completion."""
    if kind is bool:
        return ["True", "False"]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [choice for part in get_args(kind) for choice in choices(part)]


def _limits(meta: Meta) -> str:
    words = (("above", meta.gt), ("of at least", meta.ge), ("and at most", meta.le))
    return " ".join(f"{word} {limit:.15g}" for word, limit in words if limit is not None)
