"""The configuration of one worker, derived from that of the supervisor."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kohort.log.worker_directories import directory_of
from kohort.server.addresses import Address, local_socket_of
from kohort.server.config import SET, Config, ListenerConfig, RawSetting

_OF_ALL: Final = frozenset({"workers", "http.listen", "http.token", "broker.id"})
"""What a worker has not; `broker.id` is the old name of what each has its own of."""
_SOURCE: Final = "workers"


def worker_config(config: Config, index: int, ports: Mapping[str, int]) -> Config:
    """The configuration of worker `index`. `ports` has the port of worker 0 by listener."""
    listeners = [_listener(listener, index, ports[listener.name]) for listener in config.listeners]
    settings: dict[str, Any] = {
        "node.id": config["node.id"] + index,
        "listeners": [f"{listener.name}://{listener.address}" for listener in listeners],
        "advertised.listeners": [
            f"{listener.name}://{listener.advertised}" for listener in listeners
        ],
        "log.dir": str(directory_of(Path(config["log.dir"]), index)),
    }
    if config["local.socket"] is not None:
        settings["local.socket"] = local_socket_of(config["local.socket"], index)
    shared_settings = (setting for setting in config.static if setting.name not in _OF_ALL)
    return Config.of(
        (*shared_settings, *(RawSetting(name, settings[name], _SOURCE, SET) for name in settings))
    )


def _listener(listener: ListenerConfig, index: int, port: int) -> ListenerConfig:
    advertised = listener.advertised
    return replace(
        listener,
        address=Address(listener.address.host, port + index),
        advertised=Address(advertised.host, (advertised.port or port) + index),
    )
