"""Leader epochs (KIP-101, KIP-320) in requests of clients.

By the epoch, a client or a leader notices that its metadata is outdated. The epoch of a partition
whose leader never changes is constant.
"""

from kohort.errors import ErrorCode
from kohort.log.base import LogState


def validate_leader_epoch(current_leader_epoch: int, log: LogState) -> ErrorCode:
    """The error for a client that knows `current_leader_epoch`; negative: it sends none.

    A log that is not served has another error, whatever the client knows.
    """
    if current_leader_epoch < 0 or current_leader_epoch == log.leader_epoch:
        return ErrorCode.none
    if log.leader_epoch < 0:
        return ErrorCode.none
    if current_leader_epoch < log.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
