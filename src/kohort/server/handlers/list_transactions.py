"""ListTransactions (66) v0-2: none, as there are no transactions (KIP-664).

States that do not exist are named in the response. v1 filters by duration (KIP-994), v2 by a
pattern (KIP-1152).
"""

from collections.abc import Coroutine
from typing import Any, Final

from kohort.server.handlers.in_steps import Steps, respond_in_steps
from kohort.server.net import Exchange
from kohort.server.services import Services

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    return respond_in_steps(services, exchange, _steps(request))


def _steps(request: Any) -> Steps:
    unknown: dict[str, None] = {}
    for state in request.state_filters:
        if state not in STATES:
            unknown[state] = None
        yield
    return {"unknown_state_filters": list(unknown), "transaction_states": ()}
