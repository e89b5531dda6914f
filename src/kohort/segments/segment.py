"""A segment: a file that is named by its base offset."""

import re
from typing import Final, NamedTuple

BASE_OFFSET: Final = r"(0[0-8]\d{18})"
"""In names of files, 20 digits; offsets behind it fit into 64 bits."""
SEGMENT: Final = re.compile(rf"{BASE_OFFSET}\.log")
"""Names of segments; others such as `….log.deleted` are about to be removed or replaced."""


class Segment(NamedTuple):
    """A file of record batches with offsets from `base_offset` on."""

    base_offset: int
    name: str
    size: int
    """Bytes when it was listed: a broker may append to it."""
