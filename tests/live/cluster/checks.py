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

_OUT_OF_SEQUENCE = """
select topic, partition, base, producer_id, producer_epoch, sequence, wanted
from (
    select *, coalesce(lag(sequence + next - base) over of_producer, 0) as wanted
    from (
        select log, base, next,
            ('x' || encode(substring(data from 44 for 8), 'hex'))::bit(64)::bigint as producer_id,
            ('x' || encode(substring(data from 52 for 2), 'hex'))::bit(16)::int as producer_epoch,
            ('x' || encode(substring(data from 54 for 4), 'hex'))::bit(32)::int as sequence
        from batches
    ) headers
    where producer_id >= 0 and sequence >= 0
    window of_producer as (partition by log, producer_id, producer_epoch order by base)
) pairs join logs on logs.id = log
where sequence <> wanted
limit 10
"""


def check_batches(database: Postgres) -> Iterator[str]:
    """Each batch begins where the one before ends, and is by the same leader or a later one.

    Those of a producer begin with its next sequence, from 0 on in each of its epochs. That holds
    for logs that are not compacted.
    """
    for row in database.execute(_OUT_OF_ORDER):
        yield f"batches out of order (topic|partition|base|next|epoch|before): {row}"
    for row in database.execute(_OUT_OF_SEQUENCE):
        yield (
            "batches out of sequence (topic|partition|base|producer id|epoch|sequence|wanted): "
            f"{row}"
        )
