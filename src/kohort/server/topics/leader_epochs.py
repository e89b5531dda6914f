"""Leader epochs (KIP-101, KIP-320): a partition's only leader is this server, in epoch 0 for good.

An epoch tells a client that the log it read from may have been replaced by another replica's. With
one replica that cannot be, over a restart neither, so the epoch never moves and a consumer never
looks for a divergence.
"""

from kohort.errors import ErrorCode
from kohort.log.base import LEADER_EPOCH

__all__ = ["LEADER_EPOCH", "judge"]


def judge(current_leader_epoch: int) -> ErrorCode:
    """The error for a client that knows `current_leader_epoch`; negative: it sends none."""
    if current_leader_epoch > LEADER_EPOCH:
        return ErrorCode.unknown_leader_epoch
    # FENCED_LEADER_EPOCH is for an epoch that has passed; none has.
    return ErrorCode.none
