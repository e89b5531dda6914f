"""Names as the report shows them: of groups, topics, members, and of everything that others chose.

Clients choose these names. Markup in them is escaped where the page is rendered; here they become
short, and lose what would change the direction or the height of a line. So a report shows each
name through `shown`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.util.printable import printable

LONGEST: Final = 60
"""Characters of a name that are shown; of a longer one the beginning, the end and the length."""
_MARKS: Final = 3
"""Combining characters in a row that a letter may have."""
_COMBINING: Final = ("Mn", "Me")
_NO_CHARACTERS: Final = ("Cn", "Co")
"""Unassigned and private ones, some of which XML forbids."""

Row = Mapping[str, Any]


def shown(name: str, longest: int = LONGEST) -> str:
    """A name on one line, at most some characters longer than `longest`."""
    if not name:
        return "(empty)"
    if len(name) > longest:
        head, tail = name[: longest * 2 // 3], name[-(longest // 4) :]
        return f"{_plain(head)}…{_plain(tail)} ({len(name):,} characters)"
    return _plain(name)


def _plain(text: str) -> str:
    text = printable(text)
    if text.isascii():
        return text
    found, marks = [], 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in _COMBINING else 0
        is_odd = marks > _MARKS or category in _NO_CHARACTERS
        found.append(f"\\u{ord(character):04x}" if is_odd else character)
    return "".join(found)


def listed(names: Sequence[str], most: int = 6) -> str:
    """The names in order, with commas; the first ones, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def member_names(rows: Iterable[Row]) -> dict[str, str]:
    """Member id → a name that a restarted member keeps, by rows of the table `members`.

    That is the instance id, or the client id. Members that have the same client id at the same
    time are told apart by host, and those of one host by the end of the member id.
    """
    names: dict[str, str] = {}
    dynamic: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["instance_id"]:
            names[row["member_id"]] = shown(row["instance_id"])
        else:
            dynamic[row["client_id"] or ""].append(row)
    for client_id, members in dynamic.items():
        names |= _dynamic_names(client_id, members)
    return names


def _dynamic_names(client_id: str, rows: Sequence[Row]) -> dict[str, str]:
    if client_id and not _overlap(rows):
        return {row["member_id"]: shown(client_id) for row in rows}
    by_host = defaultdict(list)
    for row in rows:
        by_host[row["client_host"] or ""].append(row)
    names: dict[str, str] = {}
    for host, members in by_host.items():
        if client_id and len(by_host) > 1 and not _overlap(members):
            name = f"{shown(client_id, 40)} at {shown(host.lstrip('/'), 40)}"
            names |= {row["member_id"]: name for row in members}
        else:
            names |= {row["member_id"]: _by_id(client_id, row["member_id"]) for row in members}
    return names


def _by_id(client_id: str, member_id: str) -> str:
    if not client_id or len(member_id) < 8:
        return shown(member_id)
    return f"{shown(client_id, 40)} …{_plain(member_id[-6:])}"


def _overlap(rows: Sequence[Row]) -> bool:
    """Whether two of these members were there at the same time."""
    stays = sorted(
        ((row["from"], row["to"]) for row in rows if row["from"] is not None),
        key=lambda stay: stay[0],
    )
    if len(stays) < len(rows) and len(rows) > 1:
        return True
    latest = None
    for index, (begin, end) in enumerate(stays):
        if index and (latest is None or begin < latest):
            return True
        latest = end if end is None or latest is None else max(latest, end)
    return False


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 member", "2,000 members"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_number(value: float) -> str:
    """A number of at most four characters and a unit of thousands: 950, 1.2 k, 31 M."""
    for unit, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.3g} {name}" if scaled < 1_000 else f"{scaled:,.0f} {name}"
    return f"{value:.3g}"
