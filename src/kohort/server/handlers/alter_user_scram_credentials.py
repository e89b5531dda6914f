"""AlterUserScramCredentials (51) v0: sets and deletes credentials of users (KIP-554).

The client sends a salted password, never the password. A user is altered at most once in a request,
for one mechanism. v0 is flexible.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError
from kohort.security.scram import (
    MAX_ITERATIONS,
    MAX_NAME_CHARS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    ScramUsers,
    credential_of,
)
from kohort.server.handlers.chunked import Fields, collect_in_chunks, respond_large
from kohort.server.handlers.cluster_authorization import REFUSAL
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

MAX_SALT_BYTES: Final = 1_024
"""Kafka has no bound; a batch of records has to fit into a segment."""
PER_BATCH: Final = 50
"""Credentials that are appended together."""
KINDS: Final[dict[int, ScramMechanism]] = {
    mechanism.value: mechanism for mechanism in ScramMechanism
}


class Refusal(NamedTuple):
    """Error of an entry; one value for all entries with the same error."""

    code: ErrorCode
    message: str


Change: TypeAlias = tuple[ScramMechanism, ScramCredential | None]
"""The new credential for a mechanism; None: there is none."""
Judge: TypeAlias = Callable[[ScramUsers, Any], Change | Refusal]

_UNACCEPTABLE = ErrorCode.unacceptable_credential
NO_NAME: Final = Refusal(_UNACCEPTABLE, "Username must not be empty")
LONG_NAME: Final = Refusal(_UNACCEPTABLE, "Username is too long")
LONG_SALT: Final = Refusal(_UNACCEPTABLE, "Salt is too long")
NO_PASSWORD: Final = Refusal(_UNACCEPTABLE, "Salted password must not be empty")
TOO_FEW: Final = Refusal(_UNACCEPTABLE, "Too few iterations")
TOO_MANY: Final = Refusal(_UNACCEPTABLE, "Too many iterations")
UNKNOWN: Final = Refusal(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
MISSING: Final = Refusal(
    ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
)
TWICE: Final = Refusal(
    ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
)


async def handle(
    services: Services, exchange: Exchange, request: "AlterUserScramCredentialsRequest"
) -> None:
    if not services.access(exchange).cluster():
        names = (
            outcome.name for part in (request.deletions, request.upsertions) for outcome in part
        )
        refused = await collect_in_chunks(
            dict.fromkeys(names), lambda name: {"user": name, **REFUSAL}
        )
        await respond_large(services, exchange, {"results": refused}, len(refused))
        return
    await services.controller.writer.catch_up()
    outcomes = await in_slices(_validate_all(services.controller.image.scram_users, request))
    slices = TimeSlices()
    results: list[Fields] = []
    changes: list[tuple[int, str, Change]] = []
    for user, outcome in outcomes.items():
        if isinstance(outcome, Refusal):
            results.append(_result(user, *outcome))
        else:
            changes.append((len(results), user, outcome))
            results.append(_result(user))
        await slices.give_way()
    for start in range(0, len(changes), PER_BATCH):
        batch = changes[start : start + PER_BATCH]
        try:
            credentials = {(user, kind): credential for _, user, (kind, credential) in batch}
            await services.controller.writer.write(
                partial(services.controller.scram.alter_credentials, credentials)
            )
        except KafkaError as error:
            for index, user, _ in batch:
                results[index] = _result(user, error.code, error.message)
    await respond_large(services, exchange, {"results": results}, len(results))


def _validate_all(
    users: ScramUsers, request: "AlterUserScramCredentialsRequest"
) -> Generator[None, None, dict[str, Change | Refusal]]:
    outcomes: dict[str, Change | Refusal] = {}
    parts: tuple[tuple[Judge, Any], ...] = (
        (_deletion, request.deletions),
        (_upsertion, request.upsertions),
    )
    for judge, alterations in parts:
        for alteration in alterations:
            former = outcomes.get(alteration.name)
            if not isinstance(former, Refusal):
                outcomes[alteration.name] = judge(users, alteration) if former is None else TWICE
            yield
    return outcomes


def _deletion(users: ScramUsers, deletion: "ScramCredentialDeletion") -> Change | Refusal:
    kind = _mechanism(deletion)
    if isinstance(kind, Refusal):
        return kind
    return (kind, None) if kind in users.of(deletion.name) else MISSING


def _upsertion(_users: ScramUsers, upsertion: "ScramCredentialUpsertion") -> Change | Refusal:
    kind = _mechanism(upsertion)
    if isinstance(kind, Refusal):
        return kind
    salt, iterations = upsertion.salt, upsertion.iterations
    if iterations < MIN_ITERATIONS:
        return TOO_FEW
    if iterations > MAX_ITERATIONS:
        return TOO_MANY
    if len(upsertion.name) > MAX_NAME_CHARS:
        return LONG_NAME
    if len(salt) > MAX_SALT_BYTES:
        return LONG_SALT
    if not upsertion.salted_password:
        return NO_PASSWORD
    return kind, credential_of(kind, upsertion.salted_password, salt, iterations)


def _mechanism(alteration: Any) -> ScramMechanism | Refusal:
    if not alteration.name:
        return NO_NAME
    return KINDS.get(alteration.mechanism, UNKNOWN)


def _result(user: str, code: ErrorCode = ErrorCode.none, message: str | None = None) -> Fields:
    return {"user": user, "error_code": code, "error_message": message or None}
