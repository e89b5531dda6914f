"""The assignors of Kafka's own clients, by their protocol names."""

from collections.abc import Mapping
from types import MappingProxyType

from kohort.assignors.base import Assignor
from kohort.assignors.range import RangeAssignor
from kohort.assignors.roundrobin import RoundRobinAssignor
from kohort.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from kohort.errors import ConfigError
from kohort.util.text import closest

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            RangeAssignor(),
            RoundRobinAssignor(),
            StickyAssignor(),
            CooperativeStickyAssignor(),
        )
    }
)


def assignor(name: str) -> Assignor:
    """The assignor of this name. Raises `ConfigError` if there is none."""
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    match = closest(name, ASSIGNORS)
    hint = f"; {match!r} is one" if match else ""
    raise ConfigError(
        f"no assignor is called {name!r}{hint}: choose among {', '.join(ASSIGNORS)}, or pass "
        "your own"
    )
