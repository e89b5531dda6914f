"""DescribeUserScramCredentials (50) v0: who has which credentials (KIP-554).

Only mechanisms and iterations are told. A request without names is for all users. v0 is flexible.
"""

from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode
from kohort.security.scram import ScramCredential, ScramMechanism, ScramUsers
from kohort.server.handlers.chunked import Fields, Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import REFUSAL
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeUserScramCredentialsRequest


def handle(
    services: Services, exchange: Exchange, request: "DescribeUserScramCredentialsRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        return respond_in_chunks(services, exchange, _refused(request))
    return respond_in_chunks(
        services, exchange, _steps(services.controller.image.scram_users, request)
    )


def _refused(request: "DescribeUserScramCredentialsRequest") -> Steps:
    refused = REFUSAL | {"error_message": None}
    results = []
    for _ in request.users or ():  # as Kafka does, without the names
        results.append({"user": "", **refused})
        yield
    return {**refused, "results": results}


def _steps(users: ScramUsers, request: "DescribeUserScramCredentialsRequest") -> Steps:
    named: Counter[str] = Counter()
    for user in request.users or ():
        named[user.name] += 1
        yield
    results = []
    users_by_name = users.snapshot()
    for name in named or users_by_name:
        described = _described(users_by_name.get(name, {}), name, repeated=named[name] > 1)
        results.append({"user": name} | described)
        yield
    return {"error_code": ErrorCode.none, "error_message": "", "results": results}


def _described(
    credentials: Mapping[ScramMechanism, ScramCredential], name: str, *, repeated: bool
) -> Fields:
    if repeated:
        code = ErrorCode.duplicate_resource
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    elif not credentials:
        code = ErrorCode.resource_not_found
        message = "Attempt to describe a user credential that does not exist: "
    else:
        infos = [
            {"mechanism": kind.value, "iterations": credential.iterations}
            for kind, credential in credentials.items()
        ]
        return {"error_code": ErrorCode.none, "error_message": "", "credential_infos": infos}
    return {"error_code": code, "error_message": f"{message}{name}"}
