"""DeleteAcls (31) v1-3: removes the entries of the access control lists that filters are for.

The response has what each filter matched, removed or not, so an entry may be in the results of
several filters. A filter with the code 0 (unknown) closes the connection, as in Kafka. v2 is
flexible, v3 has resources of the type user.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.security.acl_search import Found, TooManyMatchesError, find
from kohort.security.acls import AclBinding, AclBindingFilter, Acls
from kohort.server.handlers.acl_entries import drain, read_filter, refusal
from kohort.server.handlers.chunked import Fields, collect_in_chunks, respond_large
from kohort.server.handlers.describe_acls import UNKNOWN, has_unknown
from kohort.server.metadata import BATCH_RECORDS
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import DeleteAclsFilter, DeleteAclsRequest

TOO_MANY: Final = KafkaError(ErrorCode.invalid_request, "The filters match too many ACLs together.")

FilterOrError: TypeAlias = AclBindingFilter | KafkaError
"""A filter, or why it is none."""
Outcome: TypeAlias = Found | KafkaError
"""The ACLs that a filter matches, or its error."""


async def handle(services: Services, exchange: Exchange, request: "DeleteAclsRequest") -> None:
    if await collect_in_chunks(request.filters, lambda requested: has_unknown(requested) or None):
        exchange.close_with_reason("DeleteAcls with an unknown element")
        return
    error = refusal(services, exchange)
    failures: Mapping[UUID, KafkaError] = {}
    if error is not None:
        outcomes: list[Outcome] = [error] * len(request.filters)
    else:
        filters: list[FilterOrError] = await collect_in_chunks(request.filters, _read)
        await services.controller.writer.catch_up()
        outcomes = await _find(services.controller.image.acls, filters)
        failures = await _remove(services, outcomes)
    elements = sum(
        1 if isinstance(outcome, KafkaError) else 1 + len(outcome) for outcome in outcomes
    )
    await respond_large(services, exchange, partial(_fields, outcomes, failures), elements)


def _read(requested: "DeleteAclsFilter") -> FilterOrError:
    acl_filter = read_filter(requested)
    if UNKNOWN in (acl_filter.resource_type, acl_filter.pattern_type):
        return KafkaError(ErrorCode.invalid_request, "Unknown patternFilter.")
    if UNKNOWN in (acl_filter.operation, acl_filter.permission_type):
        return KafkaError(ErrorCode.invalid_request, "Unknown entryFilter.")
    return acl_filter


async def _find(acls: Acls, filters: Sequence[FilterOrError]) -> list[Outcome]:
    valid = (acl_filter for acl_filter in filters if isinstance(acl_filter, AclBindingFilter))
    try:
        matches = iter(await in_slices(find(acls, valid)))
    except TooManyMatchesError:
        return [
            acl_filter if isinstance(acl_filter, KafkaError) else TOO_MANY for acl_filter in filters
        ]
    return [
        acl_filter if isinstance(acl_filter, KafkaError) else next(matches)
        for acl_filter in filters
    ]


async def _remove(services: Services, outcomes: Sequence[Outcome]) -> dict[UUID, KafkaError]:
    """Remove what was found; the entries that the storage kept, and why."""
    controller = services.controller
    pairs = chain.from_iterable(
        outcome for outcome in outcomes if not isinstance(outcome, KafkaError)
    )
    failures: dict[UUID, KafkaError] = {}
    while ids := [acl_id for acl_id, _ in islice(pairs, BATCH_RECORDS)]:
        try:
            await controller.writer.write(partial(controller.acls.delete_acls, ids))
        except KafkaError as error:
            failures |= dict.fromkeys(
                (acl_id for acl_id in ids if controller.image.acls.get(acl_id)), error
            )
    return failures


def _refused(error: KafkaError) -> Fields:
    return {"error_code": error.code, "error_message": error.message or None, "matching_acls": ()}


def _fields(outcomes: Sequence[Outcome], failures: Mapping[UUID, KafkaError]) -> Fields:
    return {"filter_results": [_result(outcome, failures) for outcome in outcomes]}


def _result(outcome: Outcome, failures: Mapping[UUID, KafkaError]) -> Fields:
    if isinstance(outcome, KafkaError):
        return _refused(outcome)
    matching = [_match(binding, failures.get(acl_id)) for acl_id, binding in drain(outcome)]
    return {"error_code": ErrorCode.none, "error_message": None, "matching_acls": matching}


def _match(binding: AclBinding, error: KafkaError | None) -> Fields:
    code, message = (ErrorCode.none, None) if error is None else (error.code, error.message)
    return {"error_code": code, "error_message": message, **binding._asdict()}
