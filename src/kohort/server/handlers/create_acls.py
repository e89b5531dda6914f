"""CreateAcls (30) v1-3: adds entries to the access control lists, each valid one.

An entry that exists already is no error. An entry with the code 0 (unknown) closes the connection,
as in Kafka. Entries are logged some hundred at a time, and the response follows when all are on the
disk. v2 is flexible, v3 has resources of the type user.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.security.acls import AclBinding
from kohort.server.handlers.acl_entries import read_binding, refusal
from kohort.server.handlers.chunked import respond_large
from kohort.server.metadata import in_batches
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import CreateAclsRequest

UNKNOWN: Final = 0
CODES: Final = ("resource_type", "resource_pattern_type", "operation", "permission_type")


async def handle(services: Services, exchange: Exchange, request: "CreateAclsRequest") -> None:
    creations = request.creations
    read = await in_slices(_read(creations))
    if read is None:
        exchange.close_with_reason("CreateAcls with an unknown element")
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
    for creation in creations:
        if any(getattr(creation, field) == UNKNOWN for field in CODES):
            return None
        try:
            read.append(read_binding(creation))
        except KafkaError as error:
            read.append(error.with_traceback(None))  # which refers to the list
        yield
    return read


async def _create(services: Services, read: list[AclBinding | KafkaError]) -> list[dict[str, Any]]:
    await services.controller.writer.catch_up()
    results: list[dict[str, Any]] = []
    for batch in in_batches(read, _chars):
        created = _result(None)
        try:
            bindings = [entry for entry in batch if isinstance(entry, AclBinding)]
            await services.controller.writer.write(
                partial(services.controller.acls.create_acls, bindings)
            )
        except KafkaError as error:
            created = _result(error)
        results += (_result(entry) if isinstance(entry, KafkaError) else created for entry in batch)
    return results


def _chars(entry: AclBinding | KafkaError) -> int:
    if isinstance(entry, KafkaError):
        return 0
    return len(entry.resource_name) + len(entry.principal) + len(entry.host)


def _result(error: KafkaError | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": ErrorCode.none, "error_message": ""}
    return {"error_code": error.code, "error_message": error.message or None}
