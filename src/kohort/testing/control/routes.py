"""The routes of the control API: paths of the verbs, which have their arguments and texts.

A route takes the arguments that its function has: those in its path, and the others as one JSON
object. Each further verb needs one row of `ROUTES`. Predicates are the only arguments that HTTP
does not have.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, get_args, get_origin, get_type_hints

from kohort.errors import KohortError
from kohort.testing.control import waits
from kohort.testing.control.brokers import Brokers
from kohort.testing.control.values import InvalidValueError, decode
from kohort.testing.embedded import verbs
from kohort.testing.embedded.running_server import ControlledServer, RunningServer
from kohort.util.text import did_you_mean, join_names

BROKER: Final = "/brokers/{broker}"
"""Path of one broker, which the paths of its verbs begin with."""


@dataclass(frozen=True)
class Parameter:
    """An argument of a verb."""

    name: str
    kind: Any
    """Its type."""
    default: Any = inspect.Parameter.empty

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Route:
    """One verb at its path."""

    method: str
    path: str
    function: Callable[..., Any]
    """A verb of an embedded server, a function of a controlled one, or a method of `Brokers`."""

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function)

    @property
    def result(self) -> Any:
        """Type of the result."""
        return self._hints["return"]

    @cached_property
    def _subject(self) -> Any:
        """What the function is called with: a method has `self`, which has no type."""
        first = next(iter(inspect.signature(self.function).parameters))
        return self._hints.get(first, Brokers)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The arguments, without the subject, and with the keys of `**which`."""
        _, *named = inspect.signature(self.function).parameters.values()
        found: dict[str, Parameter] = {}
        for each in named:
            hint = self._hints[each.name]
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                (keys,) = get_args(hint)
                found |= {
                    name: Parameter(name, kind, None)
                    for name, kind in get_type_hints(keys).items()
                    if not _is_predicate(kind)
                }
            else:
                found[each.name] = Parameter(each.name, hint, each.default)
        return found

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """Names of the arguments in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @property
    def in_body(self) -> dict[str, Parameter]:
        """The arguments in the JSON object."""
        return {name: each for name, each in self.parameters.items() if name not in self.in_path}

    def match(self, path: list[str]) -> dict[str, str] | None:
        """The arguments in the parts of a path; None if it is another one."""
        own = self.path.split("/")
        if len(own) != len(path):
            return None
        pairs = list(zip(own, path, strict=True))
        if any(not mine.startswith("{") and mine != given for mine, given in pairs):
            return None
        return {mine[1:-1]: given for mine, given in pairs if mine.startswith("{")}

    def call(self, brokers: Brokers, in_path: Mapping[str, str], body: object) -> Any:
        """The result of the verb. Raises InvalidValueError, and what the verb raises."""
        arguments = {**in_path, **self._decoded(body)}
        if self._subject is Brokers:
            return self.function(brokers, **arguments)
        server = brokers.server(arguments.pop("broker"))
        if self._subject is ControlledServer:
            return self.function(server, **arguments)
        return call_verb(server, self.function, **arguments)

    def _decoded(self, body: object) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise InvalidValueError(f"the body is one JSON object with arguments, not {body!r}")
        known = self.in_body
        for name in body.keys() - known.keys():
            raise InvalidValueError(
                f"no argument {name!r}{did_you_mean(name, known)}; there are: "
                f"{join_names(known, 99) or 'none'}"
            )
        missing = [name for name, each in known.items() if each.is_required and name not in body]
        if missing:
            raise InvalidValueError(f"the body needs: {', '.join(missing)}")
        return {name: decode(known[name].kind, value, name) for name, value in body.items()}


def call_verb(server: RunningServer, verb: Callable[..., Any], **arguments: Any) -> Any:
    """The result of a verb that waits or does not."""
    return (server.run if inspect.iscoroutinefunction(verb) else server.call)(verb, **arguments)


def _is_predicate(kind: Any) -> bool:
    return any(get_origin(each) is Callable for each in get_args(kind))


ROUTES: Final = (
    Route("GET", "/brokers", Brokers.list_brokers),
    Route("POST", "/brokers", Brokers.start_broker),
    Route("DELETE", BROKER, Brokers.stop_broker),
    Route("POST", f"{BROKER}/reset", Brokers.reset_broker),
    Route("GET", f"{BROKER}/bootstrap", verbs.bootstrap),
    Route("GET", f"{BROKER}/timeline", verbs.timeline),
    Route("GET", f"{BROKER}/exchanges", verbs.exchanges),
    Route("GET", f"{BROKER}/timers", verbs.timers),
    Route("GET", f"{BROKER}/transactions", verbs.transactions),
    Route("POST", f"{BROKER}/topics", verbs.topic),
    Route("POST", f"{BROKER}/topics/{{topic}}/records", verbs.produce),
    Route("GET", f"{BROKER}/topics/{{topic}}/records", verbs.records),
    Route("GET", f"{BROKER}/groups/{{group}}", verbs.read_group),
    Route("POST", f"{BROKER}/groups/{{group}}/wait", waits.wait),
    Route("POST", f"{BROKER}/groups/{{group}}/commit", verbs.commit),
    Route("POST", f"{BROKER}/groups/{{group}}/start", verbs.start_group),
    Route("POST", f"{BROKER}/groups/{{group}}/evict", verbs.evict),
    Route("POST", f"{BROKER}/groups/{{group}}/move_coordinator", verbs.move_coordinator),
    Route("POST", f"{BROKER}/groups/{{group}}/advance_until", waits.advance_until),
    Route("POST", f"{BROKER}/load", verbs.load),
    Route("POST", f"{BROKER}/transactions/{{transactional_id}}/open", verbs.open_transaction),
    Route("POST", f"{BROKER}/recordings/start", verbs.start_recording),
    Route("POST", f"{BROKER}/recordings/stop", verbs.stop_recording),
    Route("GET", f"{BROKER}/request_count", verbs.request_count),
    Route("POST", f"{BROKER}/kill", verbs.kill),
    Route("POST", f"{BROKER}/revive", verbs.revive),
    Route("POST", f"{BROKER}/let_killed_leave", verbs.let_killed_leave),
    Route("GET", f"{BROKER}/time", verbs.time),
    Route("POST", f"{BROKER}/advance", verbs.advance),
    Route("POST", f"{BROKER}/advance_to_next_timer", verbs.advance_to_next_timer),
    Route("GET", f"{BROKER}/is_frozen", verbs.is_frozen),
    Route("POST", f"{BROKER}/pass_time", verbs.pass_time),
    Route("POST", f"{BROKER}/freeze", verbs.freeze),
    Route("POST", f"{BROKER}/resume", verbs.resume),
    Route("POST", f"{BROKER}/restart", verbs.restart),
    Route("GET", f"{BROKER}/faults", verbs.faults),
    Route("DELETE", f"{BROKER}/faults", verbs.clear_faults),
    Route("POST", f"{BROKER}/faults/verify", verbs.verify_faults),
    Route("POST", f"{BROKER}/faults/fail", verbs.fail),
    Route("POST", f"{BROKER}/faults/delay", verbs.delay),
    Route("POST", f"{BROKER}/faults/drop", verbs.drop),
    Route("POST", f"{BROKER}/faults/truncate", verbs.truncate),
    Route("POST", f"{BROKER}/faults/throttle", verbs.throttle),
)


_OF_FUNCTIONS: Final = {route.function: route for route in ROUTES}


def route_of(function: Callable[..., Any]) -> Route:
    """The route of a function. Raises KohortError if it has none."""
    if function not in _OF_FUNCTIONS:
        raise KohortError(f"a server in another process does not have {function.__name__}")
    return _OF_FUNCTIONS[function]
