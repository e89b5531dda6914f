"""What a check of a place has found."""

from enum import Enum
from typing import NamedTuple


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    """No server can use the place as it is."""


class Finding(NamedTuple):
    """One line of a check."""

    level: Level
    what: str
    """What was looked at, in a word."""
    text: str
