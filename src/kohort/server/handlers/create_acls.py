"""CreateAcls (30) v1-3: adds entries to the access control lists, each valid one.

An entry that exists already is no error. An entry with the code 0 (unknown) closes the connection,
as in Kafka. Entries are logged some hundred at a time, and the response follows when all are on the
disk. v2 is flexible, v3 has resources of the type user.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.security.acls import AclBinding
from kohort.server.handlers.acl_entries import read_binding, refusal
from kohort.server.handlers.in_steps import in_slices, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services

UNKNOWN: Final = 0
CODES: Final = ("resource_type", "resource_pattern_type", "operation", "permission_type")
BATCH_ENTRIES: Final = 500
BATCH_CHARS: Final = 128 * 1024
"""Characters of the entries that are logged together: far fewer than a segment has bytes."""


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    creations = request.creations
    read = await in_slices(_read(creations))
    if read is None:
        exchange.hang_up("CreateAcls with an unknown element")
        return
    error = refusal(services, exchange)
    if error is not None:
        results = [_result(error)] * len(creations)
    else:
        results = await _create(services, read)
    await respond_large(services, exchange, {"results": results}, len(results))


def _read(
    creations: Sequence[Any],
) -> Generator[None, None, list[AclBinding | KafkaError] | None]:
    """The entries, or why they are none; None if a code is unknown."""
    read: list[AclBinding | KafkaError] = []
    for each in creations:
        if any(getattr(each, field) == UNKNOWN for field in CODES):
            return None
        try:
            read.append(read_binding(each))
        except KafkaError as error:
            read.append(error)
        yield
    return read


async def _create(services: Services, read: list[AclBinding | KafkaError]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for some in _batches(read):
        created = _result(None)
        try:
            services.topics.create_acls(each for each in some if isinstance(each, AclBinding))
            await services.topics.durable(services.topics.last_change)
        except KafkaError as error:
            created = _result(error)
        results += (_result(each) if isinstance(each, KafkaError) else created for each in some)
    return results


def _batches(
    read: list[AclBinding | KafkaError],
) -> Iterator[list[AclBinding | KafkaError]]:
    some: list[AclBinding | KafkaError] = []
    chars = 0
    for each in read:
        if isinstance(each, AclBinding):
            chars += len(each.resource_name) + len(each.principal) + len(each.host)
        some.append(each)
        if len(some) >= BATCH_ENTRIES or chars >= BATCH_CHARS:
            yield some
            some, chars = [], 0
    yield some


def _result(error: KafkaError | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": ErrorCode.none, "error_message": ""}
    return {"error_code": error.code, "error_message": error.message or None}
