"""Exit codes besides 0; `options.REFUSED` (2) is for wrong options, 128 and more for signals."""

from typing import Final

FAILED: Final = 1
"""It went wrong, or a part of it did."""
FOUND: Final = 3
"""Refused because of the groups' state: members, moved offsets, or more lag than allowed."""
