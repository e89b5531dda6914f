"""Other processes and their children, from `/proc`."""

from pathlib import Path

STATE, PARENT = 0, 1
"""Fields that `fields` returns."""


def children(process: int) -> list[int]:
    """The processes that its main thread has started and that have not ended."""
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def is_alive(process: int) -> bool:
    """False for one that is gone, and for one that has ended and whose parent has not asked yet."""
    try:
        return fields(process)[STATE] != "Z"
    except OSError:
        return False


def fields(process: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name. Raises OSError if it is gone."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
