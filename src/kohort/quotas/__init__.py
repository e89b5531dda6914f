"""Quotas of clients (KIP-13, KIP-124, KIP-257, KIP-546, KIP-599, KIP-612), without I/O or a clock.

`entities` defines entities and their quotas, `rates` measures, `QuotaTable` finds the quota of a
client, and `ClientQuotas` computes throttle times. Times are arguments, in milliseconds of a
monotonic clock.
"""

from kohort.quotas.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    MutationQuota,
    QuotaTable,
)
from kohort.quotas.entities import EMPTY, QuotaEntity, QuotaFilter, altered_quotas, quota_entity
from kohort.quotas.rates import Rate, TokenBucket, Windows

__all__ = [
    "CONSUMER_BYTE_RATE",
    "EMPTY",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "ClientQuotas",
    "MutationQuota",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaTable",
    "Rate",
    "TokenBucket",
    "Windows",
    "altered_quotas",
    "quota_entity",
]
