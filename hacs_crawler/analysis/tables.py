"""Tables: named columns of one length, as numpy arrays, frames and CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import replacing

Column = NDArray[Any]

_SHOWN_ROWS: Final = 10


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, as numpy arrays of equal length.

    Texts are arrays of objects, times `datetime64[us]` in UTC, durations in days, rates per day. A
    missing text is None, a missing time NaT, a missing number nan.
    """

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        """Return a column; raises KeyError."""
        return self.columns[name]

    def __repr__(self) -> str:
        lines = [", ".join(self.columns)]
        for row, _ in zip(self.rows(), range(_SHOWN_ROWS), strict=False):
            lines.append(", ".join("" if value is None else str(value) for value in row))
        return "\n".join([f"Table of {len(self)} rows", *lines])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as Python values: None if missing, times in ISO 8601."""
        columns = map(_values, self.columns.values())
        return zip(*columns, strict=True)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`; raises HacsError if pandas is not installed."""
        return _needed("pandas").DataFrame(dict(self.columns))

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame`; raises HacsError if Polars is not installed."""
        polars = _needed("polars")
        return polars.DataFrame(
            [
                polars.Series(name, column.tolist(), dtype=polars.String)
                if column.dtype == object
                else polars.Series(name, column, nan_to_null=True)
                for name, column in self.columns.items()
            ]
        )

    def to_csv(self, target: Path | str) -> None:
        """Write CSV to a file, atomically, gzipped if named .gz; missing values are empty.

        Raises HacsError if the file cannot be written.
        """
        with replacing(Path(target)) as file:
            file.write(self.csv_text().encode())

    def csv_text(self) -> str:
        """Return the table as CSV, with a header."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows())
        return text.getvalue()


def table(columns: Mapping[str, Iterable[Any]], texts: Iterable[str] = ()) -> Table:
    """Return a table of columns: those in `texts` as objects, others as numbers with nan for None."""
    names = set(texts)
    return Table(
        {
            name: np.array(list(values), object) if name in names else _numbers(values)
            for name, values in columns.items()
        }
    )


def table_of_rows(rows: Sequence[Mapping[str, Any]], texts: Iterable[str] = ()) -> Table:
    """Return a table of rows with the same names."""
    return table({name: [row[name] for row in rows] for name in (rows[0] if rows else ())}, texts)


def _numbers(values: Iterable[Any]) -> Column:
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype == object else array


def times(seconds: Iterable[float | None]) -> Column:
    """Return seconds since 1970 UTC as `datetime64[us]`, NaT for None and 0."""
    whole = np.array([int(second or 0) for second in seconds], np.int64)
    microseconds = whole.astype("datetime64[s]").astype("datetime64[us]")
    microseconds[whole == 0] = np.datetime64("NaT", "us")
    return microseconds


def _values(column: Column) -> list[Any]:
    if column.dtype.kind == "M":
        texts = np.datetime_as_string(column, unit="s", timezone="UTC").tolist()
        return [None if text == "NaT" else text for text in texts]
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        return [None if value != value else value for value in values]  # noqa: PLR0124 - nan
    return values


def _needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise HacsError(f"{name} is not installed: pip install {name}") from error
