"""What commands end with, besides 0; `options.REFUSED` (2) is for wrong options, 128 and more for
signals.
"""

from typing import Final

FAILED: Final = 1
"""It went wrong, or a part of it did."""
FOUND: Final = 3
"""Refused, or told so, because of what was found: members in a group, offsets that moved, more lag
than allowed.
"""
