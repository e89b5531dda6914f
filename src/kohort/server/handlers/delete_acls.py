"""DeleteAcls (31) v1-3: removes the entries of the access control lists that filters are for.

The response has what each filter matched, removed or not, so an entry may be in the results of
several filters. A filter with the code 0 (unknown) closes the connection, as in Kafka. v2 is
flexible, v3 has resources of the type user.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.runtime.time_slice import TimeSlices
from kohort.security.acls import AclBinding, AclBindingFilter
from kohort.server.handlers.acl_entries import matching, read_filter, refusal
from kohort.server.handlers.describe_acls import UNKNOWN, has_unknown
from kohort.server.handlers.in_steps import collected, in_slices, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services

BATCH_ENTRIES: Final = 500
MAX_MATCHES: Final = 100_000
"""Entries in a response after which further filters get INVALID_REQUEST."""

Found = list[tuple[UUID, AclBinding]]


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    if await collected(request.filters, lambda each: has_unknown(each) or None):
        exchange.hang_up("DeleteAcls with an unknown element")
        return
    error = refusal(services, exchange)
    if error is not None:
        results = [_refused(error)] * len(request.filters)
        await respond_large(services, exchange, {"filter_results": results}, len(results))
        return
    found = await _find(services, await collected(request.filters, read_filter))
    failure = await _delete(services, found)
    matches = sum(len(each) for each in found if not isinstance(each, KafkaError))
    await respond_large(
        services,
        exchange,
        lambda: {"filter_results": [_result(each, failure) for each in found]},
        len(found) + matches,
    )


async def _find(
    services: Services, filters: Sequence[AclBindingFilter]
) -> list[Found | KafkaError]:
    found: list[Found | KafkaError] = []
    matches = 0
    slices = TimeSlices()
    for wanted in filters:
        await slices.give_way()
        try:
            _validate(wanted, matches)
        except KafkaError as error:
            found.append(error)
            continue
        of_one = await in_slices(matching(services.topics.acls, wanted))
        matches += len(of_one)
        found.append(of_one)
    return found


def _validate(wanted: AclBindingFilter, matches: int) -> None:
    if UNKNOWN in (wanted.resource_type, wanted.pattern_type):
        raise KafkaError(ErrorCode.invalid_request, "Unknown patternFilter.")
    if UNKNOWN in (wanted.operation, wanted.permission_type):
        raise KafkaError(ErrorCode.invalid_request, "Unknown entryFilter.")
    if matches > MAX_MATCHES:
        raise KafkaError(ErrorCode.invalid_request, "The filters before match too many ACLs.")


async def _delete(services: Services, found: list[Found | KafkaError]) -> KafkaError | None:
    """Remove what was found; the error of the storage, if it failed."""
    ids = list(
        dict.fromkeys(
            acl_id for each in found if not isinstance(each, KafkaError) for acl_id, _ in each
        )
    )
    try:
        for start in range(0, len(ids), BATCH_ENTRIES):
            services.topics.delete_acls(ids[start : start + BATCH_ENTRIES])
            await services.topics.durable(services.topics.last_change)
    except KafkaError as error:
        return error
    return None


def _refused(error: KafkaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.message or None, "matching_acls": ()}


def _result(found: Found | KafkaError, failure: KafkaError | None) -> dict[str, Any]:
    if isinstance(found, KafkaError):
        return _refused(found)
    if failure is not None:
        return _refused(failure)
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "matching_acls": [
            {"error_code": ErrorCode.none, "error_message": None, **binding._asdict()}
            for _, binding in found
        ],
    }
