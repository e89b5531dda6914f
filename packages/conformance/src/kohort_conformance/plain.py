"""The values that transcripts consist of."""

from typing import TypeAlias

Plain: TypeAlias = "dict[str, Plain] | list[Plain] | str | int | float | bool | None"
"""JSON's values."""
