"""What must hold in the tables of a cluster, besides what its clients see."""

from collections.abc import Iterator

from peers.postgres import Postgres

_OUT_OF_ORDER = """
select topic, partition, base, next, epoch, before_next, before_epoch
from (
    select log, base, next, epoch,
        lag(next) over of_log as before_next, lag(epoch) over of_log as before_epoch
    from batches window of_log as (partition by log order by base)
) pairs join logs on logs.id = log
where (before_next <> base or before_epoch > epoch) and topic <> '__cluster_metadata'
limit 10
"""


def check_batches(database: Postgres) -> Iterator[str]:
    """Each batch begins where the one before ends, and is by the same leader or a later one.

    That holds for logs that are not compacted.
    """
    for row in database.execute(_OUT_OF_ORDER):
        yield f"batches out of order (topic|partition|base|next|epoch|before): {row}"
