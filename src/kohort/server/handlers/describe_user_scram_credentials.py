"""DescribeUserScramCredentials (50) v0: none, as there are no users with credentials (KIP-554).

A request without names is for all users. v0 is flexible.
"""

from collections import Counter
from collections.abc import Coroutine
from typing import Any

from kohort.errors import ErrorCode
from kohort.server.handlers.in_steps import Steps, respond_in_steps
from kohort.server.net import Exchange
from kohort.server.services import Services


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    return respond_in_steps(services, exchange, _steps(request))


def _steps(request: Any) -> Steps:
    named: Counter[str] = Counter()
    for user in request.users or ():
        named[user.name] += 1
        yield
    results = []
    for name, times in named.items():
        results.append({"user": name, **_refusal(name, repeated=times > 1)})
        yield
    return {"error_code": ErrorCode.none, "error_message": "", "results": results}


def _refusal(name: str, repeated: bool) -> dict[str, Any]:
    if repeated:
        code = ErrorCode.duplicate_resource
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    else:
        code = ErrorCode.resource_not_found
        message = "Attempt to describe a user credential that does not exist: "
    return {"error_code": code, "error_message": f"{message}{name}"}
