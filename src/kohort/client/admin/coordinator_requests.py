"""Sends requests about many groups, or transactional ids: one per coordinator, with retries.

A coordinator that moves or loads its groups responds COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or
COORDINATOR_LOAD_IN_PROGRESS; a connection may break. Such errors are retried for `timeout_ms`. Any
other error is the group's result. The error of one group does not affect another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from kohort.client.admin.changes import repeated
from kohort.client.cluster import GROUP, Cluster
from kohort.client.errors import BrokerUnreachableError, GaveUpError, is_retriable
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import GroupId
from kohort.util.text import join_names

T = TypeVar("T")


class Coordinator(NamedTuple):
    """The coordinator that gets a request."""

    node_id: int
    connection: Connection


Responses: TypeAlias = Mapping[GroupId, T | KohortError]
CoordinatorRequest: TypeAlias = Callable[[Coordinator, list[GroupId]], Awaitable[Responses[T]]]
"""One request to one coordinator about some of its groups."""


async def send_to_coordinators(
    cluster: Cluster,
    groups: Iterable[GroupId],
    send: CoordinatorRequest[T],
    *,
    timeout_ms: int,
    key_type: int = GROUP,
    remedy: str | None = None,
) -> dict[GroupId, T | KohortError]:
    """The result of every group, or its last error.

    With `key_type` TRANSACTION, `groups` are transactional ids. `remedy` is for changes: the advice
    in errors of changes that were sent without response (`changes.py`).
    """
    deadline = _now() + timeout_ms / 1000
    responses: dict[GroupId, T | KohortError] = {}
    pending = list(dict.fromkeys(groups))
    backoff = cluster.backoff()
    unanswered: set[GroupId] = set()
    """Groups of requests without response."""

    async def send_noting(coordinator: Coordinator, requested: list[GroupId]) -> Responses[T]:
        try:
            return await send(coordinator, requested)
        except (BrokerUnreachableError, asyncio.CancelledError):
            unanswered.update(requested)
            raise

    while pending:
        outcomes = await _attempt(cluster, pending, send_noting, deadline, key_type)
        # An attempt that the deadline cut off does not replace the error of the one before.
        responses |= {
            group: outcomes[group]
            for group in pending
            if not isinstance(outcomes[group], _TimeUpError) or group not in responses
        }
        failed = {
            group: error
            for group in pending
            if isinstance(error := outcomes[group], KohortError) and _is_retriable(error)
        }
        pending = list(failed)
        if not pending:
            break
        task = f"a request to the coordinator of {join_names(pending, 1)}"
        pause = backoff.after(failed[pending[0]], task)
        if _now() + pause > deadline:
            break
        await asyncio.sleep(pause)
    kind = "group" if key_type == GROUP else "transactional id"
    responses |= {
        group: _gave_up_error(f"{kind} {group}", responses[group], timeout_ms) for group in pending
    }
    if remedy is not None:
        responses |= {group: repeated(responses[group], remedy) for group in unanswered}
    return responses


async def _attempt(
    cluster: Cluster,
    groups: list[GroupId],
    send: CoordinatorRequest[T],
    deadline: float,
    key_type: int,
) -> dict[GroupId, T | KohortError]:
    responses: dict[GroupId, T | KohortError] = {}
    by_node: dict[int, list[GroupId]] = {}
    find = partial(cluster.coordinators, groups, key_type)
    (coordinators,) = await _results_until([find], deadline)
    for group in groups:
        node = coordinators if isinstance(coordinators, KohortError) else coordinators[group]
        if isinstance(node, KohortError):
            responses[group] = node
        else:
            by_node.setdefault(node, []).append(group)
    outcomes = await _results_until(
        [
            partial(_send_to_node, cluster, node, node_groups, send)
            for node, node_groups in by_node.items()
        ],
        deadline,
    )
    for requested, response in zip(by_node.values(), outcomes, strict=True):
        responses |= (
            dict.fromkeys(requested, response) if isinstance(response, KohortError) else response
        )
    return responses


async def _send_to_node(
    cluster: Cluster, node: int, groups: list[GroupId], send: CoordinatorRequest[T]
) -> Responses[T]:
    responses = await send(Coordinator(node, await cluster.connection(node)), groups)
    missing = KafkaError(
        ErrorCode.unknown_server_error, (f"the group is missing in the response of broker {node}")
    )
    return {group: responses.get(group, missing) for group in groups}


async def _results_until(
    requests: Iterable[Callable[[], Awaitable[T]]], deadline: float
) -> list[T | KohortError]:
    """The result or KohortError of each request; `_TimeUpError` at the deadline."""

    # Functions, as a coroutine would never be awaited if its task is cancelled before it begins.
    async def result_of(request: Callable[[], Awaitable[T]]) -> T | KohortError:
        try:
            async with asyncio.timeout(max(deadline - _now(), 0.001)):
                return await request()
        except TimeoutError:
            return _TimeUpError("no response at all")
        except KohortError as error:
            return error.with_traceback(None)

    return await asyncio.gather(*map(result_of, requests))


def _now() -> float:
    return asyncio.get_running_loop().time()


class _TimeUpError(KohortError):
    """The deadline passed during an attempt."""


def _is_retriable(error: KohortError) -> bool:
    if isinstance(error, KafkaError) and error.code is ErrorCode.rebalance_in_progress:
        return False  # it lasts, so the caller gets it
    return is_retriable(error) or isinstance(error, _TimeUpError)


def _gave_up_error(key: str, response: T | KohortError, timeout_ms: int) -> GaveUpError:
    last = response if isinstance(response, KohortError) else None
    return GaveUpError(
        f"the coordinator of {key} sent no response within {timeout_ms} ms; last: {response}",
        last,
    )


def refusal(error: ErrorCode, message: str | None = "") -> KafkaError | None:
    """The exception for an error code, None for `none`."""
    return None if error is ErrorCode.none else KafkaError(error, message or "")


async def broker_connection(cluster: Cluster, node_id: int | None = None) -> Connection:
    """A connection to this broker, or to any. Raises KohortError."""
    await cluster.metadata(())  # retried; the single attempt below needs the brokers
    return await (cluster.any_connection() if node_id is None else cluster.connection(node_id))
