"""Every API between SaslHandshake and SaslAuthenticate: refused, and the connection is closed.

The requests are those of `acl_matrix` and `acl_cluster`, with several names in each.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from kohort_conformance.logins import Login
from kohort_conformance.scenario import SECURED, scenario
from kohort_conformance.scenarios.acl_cluster import APIS
from kohort_conformance.scenarios.acl_matrix import MATRIX, Fields, Scene, in_order
from kohort_conformance.stage import Stage

Requests = Callable[[Stage], Iterable[Fields]]

OTHERS: Final[dict[str, tuple[str, tuple[int, ...], Fields]]] = {
    "list_groups": ("ListGroups", (0, 5), {}),
    "list_transactions": ("ListTransactions", (0, 2), {}),
    "describe_log_dirs": ("DescribeLogDirs", (1, 5), {"topics": None}),
    "all_topics": ("Metadata", (1, 13), {"topics": None}),
    "alter_user_scram_credentials_of_nobody": ("AlterUserScramCredentials", (0,), {}),
}


async def _play(stage: Stage, api: str, versions: Iterable[int], requests: Requests) -> None:
    for version in versions:
        for values in requests(stage):
            a = await stage.stranger()
            await Login(a).handshake()
            await a.send(api, version, **values).response_as(in_order)
            await a.is_hung_up()


def _register(name: str, api: str, versions: tuple[int, ...], requests: Requests) -> None:
    async def play(stage: Stage) -> None:
        await _play(stage, api, versions, requests)

    play.__name__ = name
    play.__doc__ = f"{api} between handshake and message."
    play.__module__ = __name__
    scenario(profile=SECURED)(play)


def _first_of(requests: Callable[[Scene], Iterable[Fields]]) -> Requests:
    def first(stage: Stage) -> Iterable[Fields]:
        scene = Scene(
            stage, {name: uuid.UUID(int=at) for at, name in ((5, "topic"), (6, "secret"))}
        )
        return [next(iter(requests(scene)))]

    return first


def _alone(values: Callable[[Stage], Fields]) -> Requests:
    return lambda stage: [values(stage)]


def _always(values: dict[str, Any]) -> Requests:
    return lambda _: [values]


for each_name, (each_api, each_versions, each_requests) in MATRIX.items():
    _register(each_name, each_api, each_versions, _first_of(each_requests))
for each_name, (each_api, each_versions, _, each_values) in APIS.items():
    if each_name not in MATRIX:
        _register(each_name, each_api, each_versions, _alone(each_values))
for each_name, (each_api, each_versions, each_fields) in OTHERS.items():
    _register(each_name, each_api, each_versions, _always(each_fields))
