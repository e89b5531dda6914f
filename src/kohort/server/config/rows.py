"""Constructors of rows of the tables of settings, by type: name, default, further fields."""

from collections.abc import Callable
from typing import Any

from kohort.server.config.definition import ConfigDef, Kind, Value

MEBI = 1024 * 1024
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def _of(kind: Kind) -> Callable[..., ConfigDef]:
    """A constructor of rows of one type, of a name, a default and further fields by keyword."""

    def row(name: str, default: Value, **further: Any) -> ConfigDef:
        return ConfigDef(name=name, kind=kind, default=default, **further)

    return row


boolean_row, int_row, long_row, double_row = _of("boolean"), _of("int"), _of("long"), _of("double")
string_row, list_row, password_row = _of("string"), _of("list"), _of("password")
