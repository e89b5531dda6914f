"""A segment: a file that is named by its base offset."""

import re
from typing import Final, NamedTuple

SEGMENT: Final = re.compile(r"(\d{20})\.log")
"""Names of segments; others such as `….log.deleted` are about to be removed or replaced."""


class Segment(NamedTuple):
    """A file of record batches with offsets from `base_offset` on."""

    base_offset: int
    name: str
    size: int
    """Bytes when it was listed: a broker may append to it."""
