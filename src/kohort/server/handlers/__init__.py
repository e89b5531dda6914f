"""One module per API, named as in `protocol.apis`, imported when its first request comes.

Each has `handle(services, exchange, request)`: `request` is kio's class of the version that was asked
for. It answers through the exchange, now or later, and returns None; or it is an `async def` that
the connection runs. A module may have `REPEATED` too: functions, by version, that read a request
straight from its bytes, once, and give what answers it now and whenever it comes again; None for a
request that is to go the long way. Only for what comes so often that it is felt.

A handler translates between the wire's versions and the words of the core, and decides nothing
about groups.
"""

from datetime import timedelta
from typing import Final

_MS: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """A duration of the wire as the number that was sent."""
    return duration // _MS
