"""The configuration of one server: a value for every setting, and its source.

Of two settings the one nearer to the user wins: `--set`, then the other flags, environment, TOML
file, the default. A configuration that exists is valid: whatever is wrong with names, values and
how they fit together is reported at once, in one `ConfigError`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kohort.errors import ConfigError
from kohort.security import SecurityProtocol
from kohort.server.addresses import Address, is_loopback, parse_http
from kohort.server.config.coordinator_configs import GROUP_BOUNDED
from kohort.server.config.definition import ConfigDef, Value, as_text
from kohort.server.config.inter_broker import (
    LISTENER,
    PROTOCOL,
    InterBroker,
    inter_broker_listener,
    node_login,
)
from kohort.server.config.kohort_configs import number_of_workers
from kohort.server.config.listeners import (
    HTTP,
    PREFIX,
    ListenerConfig,
    definition_of,
    exposure_problem,
    names_for,
    port_conflicts,
    read_listeners,
)
from kohort.server.config.socket_configs import connections_of_ip
from kohort.server.config.sources import ALL_BROKERS, DEFAULT, ONE_BROKER, SET, RawSetting
from kohort.server.config.storage_url import in_postgres
from kohort.server.config.table import TABLE
from kohort.server.logging import fields
from kohort.util.text import did_you_mean

__all__ = ["Config", "Setting"]

logger = logging.getLogger("kohort.config")

DEFAULT_SOURCE = "default"
_RETENTION = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", 3_600_000),
)
_ROLL = (("log.roll.ms", 1), ("log.roll.hours", 3_600_000))
_OF_THE_AUTHORIZER = ("super.users", "audit.log.file")
"""Settings that have no effect without an authorizer."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration with its effective values."""

    definition: ConfigDef
    value: Value
    source: str = DEFAULT_SOURCE
    rank: int = DEFAULT

    @property
    def is_default(self) -> bool:
        return self.rank == DEFAULT


class Config(Mapping[str, Any]):
    """The typed values of all settings: `config["group.min.session.timeout.ms"]` is 6000, an int.

    A name that the table lacks is a KeyError.

    Synonyms are resolved: `log.retention.ms`, `log.roll.ms` and `node.id` hold what acts, whichever
    of their names it was set by.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        """Configuration of an embedded server. Raises ConfigError."""
        self._start(
            [RawSetting(name, value, "code", SET) for name, value in (settings or {}).items()]
        )

    @classmethod
    def of(cls, raw_settings: Iterable[RawSetting], problems: Iterable[str] = ()) -> "Config":
        """Configuration of these settings. Raises ConfigError with all that is wrong with them."""
        config = cls.__new__(cls)
        config._start(raw_settings, problems)
        return config

    def _start(self, raw_settings: Iterable[RawSetting], problems: Iterable[str] = ()) -> None:
        self._static = tuple(raw_settings)
        self._dynamic: tuple[RawSetting, ...] = ()
        self._settings = _resolve(self._static, list(problems))
        self.on_change: list[Callable[[], None]] = []
        """Called after `set_dynamic` has changed a value."""

    def copy(self) -> "Config":
        """The same configuration without dynamic configs."""
        return Config.of(self._static)

    def set_dynamic(
        self, of_all_brokers: Mapping[str, str], of_this_broker: Mapping[str, str]
    ) -> None:
        """Set the dynamic configs of all brokers and of this one, which override all other sources.

        They were validated when they were set. Those that this version does not accept are ignored,
        and all of them if they conflict.
        """
        problems: list[str] = []
        raw_settings = (
            *_dynamic(of_all_brokers, ALL_BROKERS),
            *_dynamic(of_this_broker, ONE_BROKER),
        )
        dynamic = tuple(raw for raw in raw_settings if _parse(raw, problems) is not None)
        if problems:
            logger.warning(
                "some dynamic broker configs are invalid and were ignored",
                extra=fields(why=_report(problems)),
            )
        if dynamic == self._dynamic:
            return
        try:
            self._settings = _resolve((*self._static, *dynamic), [])
        except ConfigError as error:
            logger.warning(
                "dynamic broker configs are invalid and were ignored", extra=fields(why=error)
            )
            return
        self._dynamic = dynamic
        for callback in self.on_change:
            callback()

    def with_dynamic(self, values: Mapping[str, str], *, of_all: bool) -> "Config":
        """A configuration with `values` set on all brokers, or on this one. Raises ConfigError."""
        rank = ALL_BROKERS if of_all else ONE_BROKER
        other_dynamic = (raw for raw in self._dynamic if raw.rank != rank)
        return Config.of((*self._static, *other_dynamic, *_dynamic(values, rank)))

    def values_by_source(self, name: str) -> Iterator[Setting]:
        """The values of a setting by the sources of DescribeConfigs, in order of precedence.

        Of the static sources, only the one that takes precedence is included.
        """
        static = [raw for raw in self._static if raw.name == name]
        strongest = sorted(static, key=lambda raw: raw.rank)[-1:]
        dynamic = [raw for raw in self._dynamic if raw.name == name]
        for raw in reversed((*strongest, *dynamic)):
            definition = self._settings[name].definition
            yield Setting(definition, definition.parse(raw.value), raw.source, raw.rank)

    def own_value(self, name: str) -> Value:
        """The value that was set by this name and not by a synonym, or the default."""
        setting = self._settings[name]
        if setting.definition.default is None:  # may stand for a synonym
            return next((setting.value for setting in self.values_by_source(name)), None)
        return setting.value

    def __getitem__(self, name: str) -> Any:
        return self._settings[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        changed = (
            f"{name}={as_text(setting.value)}"
            for name, setting in self._settings.items()
            if setting.rank
        )
        return f"<Config {' '.join(changed) or 'all defaults'}>"

    def setting(self, name: str) -> Setting:
        """The value with its definition and source."""
        return self._settings[name]

    def of_listener(self, listener: str, name: str, mechanism: str | None = None) -> Any:
        """The value of `name` for a listener and a SASL mechanism: its own, or that of all."""
        return _of_listener(self._settings, listener, name, mechanism)

    def own_of_listener(self, listener: str, name: str) -> Any:
        """The value that a listener has for itself, None if there is none."""
        own = next(names_for(listener, name))
        return self[own] if own in self._settings else None

    @property
    def connections_per_ip(self) -> dict[str, int]:
        """`max.connections.per.ip.overrides` by address."""
        return dict(connections_of_ip(entry) for entry in self["max.connections.per.ip.overrides"])

    @property
    def listeners(self) -> tuple[ListenerConfig, ...]:
        """In the order in which they are configured."""
        return read_listeners(self.__getitem__, [])

    @property
    def inter_broker(self) -> InterBroker | None:
        """Connection of this node to others; None if it shares no storage, or cannot connect."""
        if not in_postgres(self["storage"]):
            return None
        try:
            return _inter_broker(self._settings, self.listeners)
        except ValueError:
            return None

    @property
    def no_inter_broker(self) -> str | None:
        """Why this node could not connect to others; None if it could."""
        try:
            _inter_broker(self._settings, self.listeners)
        except ValueError as error:
            return str(error)
        return None

    @property
    def workers(self) -> int:
        """The number of processes of `kohort serve`."""
        return number_of_workers(self["workers"])

    @property
    def has_reloadable_files(self) -> bool:
        """Whether a listener or the HTTP port has TLS, or there is an audit log."""
        has_tls = any(listener.security_protocol.has_tls for listener in self.listeners)
        return has_tls or self.https is not None or self["audit.log.file"] is not None

    @property
    def static(self) -> tuple[RawSetting, ...]:
        """Settings of the static sources, which were read at the start."""
        return self._static

    @property
    def http_listen(self) -> Address | None:
        text = self["http.listen"]
        return None if text is None else parse_http(text)[1]

    @property
    def https(self) -> ListenerConfig | None:
        """The HTTP port as a listener with TLS; None if it has none."""
        text = self["http.listen"]
        if text is None or not parse_http(text)[0]:
            return None
        address = parse_http(text)[1]
        return ListenerConfig(
            name=HTTP, security_protocol=SecurityProtocol.SSL, address=address, advertised=address
        )


def _dynamic(settings: Mapping[str, str], rank: int) -> Iterator[RawSetting]:
    return (RawSetting(name, value, "a client", rank) for name, value in settings.items())


def _resolve(raw_settings: Iterable[RawSetting], problems: list[str]) -> dict[str, Setting]:
    settings = {name: Setting(definition, definition.default) for name, definition in TABLE.items()}
    for raw in sorted(raw_settings, key=lambda raw: raw.rank):
        setting = _parse(raw, problems)
        if setting is not None:
            settings[raw.name] = setting
    _resolve_synonyms(settings)
    problems += _conflicts(settings)
    if problems:
        raise ConfigError(_report(problems))
    return settings


def _parse(raw: RawSetting, problems: list[str]) -> Setting | None:
    label = raw.name if raw.name == raw.source else f"{raw.source}: {raw.name}"
    definition = definition_of(raw.name)
    if definition is None:
        problems.append(f"{label}: unknown name{did_you_mean(raw.name, TABLE)}")
        return None
    try:
        return Setting(definition, definition.parse(raw.value), raw.source, raw.rank)
    except ValueError as error:
        problems.append(f"{label}: {error}")
        return None


def _resolve_synonyms(settings: dict[str, Setting]) -> None:
    for names in (_RETENTION, _ROLL):
        _resolve_unit(settings, names)
    old, new = settings["broker.id"], settings["node.id"]
    if old.value is not None and new.is_default:
        settings["node.id"] = Setting(
            new.definition, old.value, f"{old.source}: broker.id", old.rank
        )


def _resolve_unit(settings: dict[str, Setting], names: tuple[tuple[str, int], ...]) -> None:
    """Let the strongest source win, and in it the finest unit, which comes first in `names`."""
    set_by = [(name, unit) for name, unit in names if settings[name].value is not None]
    name, unit = max(set_by, key=lambda name_and_unit: settings[name_and_unit[0]].rank)
    chosen, target = settings[name], names[0][0]
    if name != target and isinstance(chosen.value, int):
        value = chosen.value * unit if chosen.value > 0 else chosen.value
        source = DEFAULT_SOURCE if chosen.is_default else f"{chosen.source}: {name}"
        settings[target] = Setting(settings[target].definition, value, source, chosen.rank)


def _out_of_bounds(name: str, value: Callable[[str], Any]) -> str | None:
    """Error of a config of consumer groups whose default or bounds do not fit."""
    low, high = (value(f"group.consumer.{bound}.{name}") for bound in ("min", "max"))
    default = value(f"group.consumer.{name}")
    if low <= default <= high:
        return None
    return f"group.consumer.{name}: {default} is not between its bounds ({low} to {high})"


def _conflicts(settings: Mapping[str, Setting]) -> list[str]:
    """Errors of values that are valid one by one, and conflict."""

    def value(name: str) -> Any:
        return settings[name].value

    conflicts = []
    shortest, longest = value("group.min.session.timeout.ms"), value("group.max.session.timeout.ms")
    if shortest > longest:
        conflicts.append(
            f"group.min.session.timeout.ms: {shortest} is more than "
            f"group.max.session.timeout.ms ({longest})"
        )
    conflicts += [
        problem for name in GROUP_BOUNDED if (problem := _out_of_bounds(name, value)) is not None
    ]
    heartbeat, session = (
        value(f"group.consumer.{name}") for name in ("heartbeat.interval.ms", "session.timeout.ms")
    )
    if heartbeat >= session:
        conflicts.append(
            f"group.consumer.heartbeat.interval.ms: {heartbeat} is not less than "
            f"group.consumer.session.timeout.ms ({session})"
        )
    if not value("group.consumer.assignors"):
        conflicts.append("group.consumer.assignors: an assignor is needed")
    if value("log.retention.ms") == 0:
        conflicts.append(
            "log.retention.ms: 0 is out of range: -1 (never) or at least 1; the nearest is 1"
        )
    if value("broker.id") is not None and value("broker.id") != value("node.id"):
        conflicts.append(
            f"broker.id: {value('broker.id')} differs from node.id ({value('node.id')}); set "
            "only node.id"
        )
    if value("authorizer.class.name") is None:
        conflicts += [
            f"{name}: has no effect without authorizer.class.name, as all clients may do "
            "everything; set that, or leave this out"
            for name in _OF_THE_AUTHORIZER
            if value(name)
        ]
    if value("cluster.enabled") and not in_postgres(value("storage")):
        conflicts.append("cluster.enabled: nodes share a database; set storage=postgresql://…")
    return conflicts + _listener_conflicts(settings)


def _listener_conflicts(settings: Mapping[str, Setting]) -> list[str]:
    conflicts: list[str] = []

    def value(name: str) -> Any:
        return settings[name].value

    listeners = read_listeners(value, conflicts)
    names = {listener.name.lower() for listener in listeners} | {HTTP.lower()}
    for name in settings:
        listener_name = name.removeprefix(PREFIX).partition(".")[0]
        if name.startswith(PREFIX) and listener_name not in names:
            conflicts.append(
                f"{name}: there is no listener {listener_name}{did_you_mean(listener_name, names)}"
            )
    conflicts += _node_conflicts(settings, listeners)
    http = value("http.listen")
    conflicts += port_conflicts(
        listeners,
        None if http is None else parse_http(http)[1],
        number_of_workers(str(value("workers"))),
    )
    return conflicts if value("insecure") else conflicts + _exposure_problems(listeners, settings)


def _node_conflicts(
    settings: Mapping[str, Setting], listeners: Sequence[ListenerConfig]
) -> list[str]:
    """Errors of the settings by which nodes connect to each other, if there may be several."""
    is_node = in_postgres(str(settings["storage"].value))
    is_one_of_several = is_node and number_of_workers(str(settings["workers"].value)) > 1
    if not (is_one_of_several or settings[LISTENER].value or settings[PROTOCOL].rank):
        return []
    try:
        if is_node:
            _inter_broker(settings, listeners)
        else:
            _inter_broker_listener(settings, listeners)
    except ValueError as error:
        return [str(error)]
    return []


def _inter_broker(
    settings: Mapping[str, Setting], listeners: Sequence[ListenerConfig]
) -> InterBroker:
    """Connection of a node to others. Raises ValueError."""
    listener = _inter_broker_listener(settings, listeners)
    value_of = partial(_of_listener, settings, listener.name)
    algorithm = value_of("ssl.endpoint.identification.algorithm")
    return InterBroker(listener, node_login(value_of, listener), bool(algorithm))


def _inter_broker_listener(
    settings: Mapping[str, Setting], listeners: Sequence[ListenerConfig]
) -> ListenerConfig:
    return inter_broker_listener(
        lambda name: settings[name].value, listeners, protocol_is_set=settings[PROTOCOL].rank > 0
    )


def _of_listener(
    settings: Mapping[str, Setting], listener: str, name: str, mechanism: str | None = None
) -> Any:
    names = names_for(listener, name, mechanism)
    return next(settings[full_name].value for full_name in names if full_name in settings)


def _exposure_problems(
    listeners: Iterable[ListenerConfig], settings: Mapping[str, Setting]
) -> list[str]:
    """Errors of listeners that other machines could use without authentication."""
    problems = []
    for listener in listeners:
        client_auth = _of_listener(settings, listener.name, "ssl.client.auth")
        if problem := exposure_problem(listener, str(client_auth)):
            problems.append(problem)
    text = settings["http.listen"].value
    if text is None:
        return problems
    encrypted, address = parse_http(str(text))
    if not (encrypted and settings["http.token"].value) and not is_loopback(address.host):
        problems.append(
            f"http.listen: {text} can be reached by other machines without a token or "
            "encryption; listen on 127.0.0.1, or set http.token and https://, or say --insecure "
            "if the network is trusted"
        )
    return problems


def _report(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n".join(
        [
            f"{len(problems)} errors in the configuration:",
            *(f"  {problem}" for problem in problems),
        ]
    )
