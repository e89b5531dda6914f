"""The request of each API that costs a server most for its size, by API and kind."""

from collections.abc import Mapping
from typing import Final

from live.server.worst_requests import cluster, groups, records, security, topics, transactions
from live.server.worst_requests.build import Build, renamed

__all__ = ["WORST", "renamed"]

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    **records.WORST,
    **groups.WORST,
    **transactions.WORST,
    **topics.WORST,
    **cluster.WORST,
    **security.WORST,
}
