"""Logs in PostgreSQL: the rules of `PartitionLog`, with the bytes of its segments in tables.

    cluster     what a node has: shared_storage, the metadata log and the table of nodes, and
                shared_directory, the logs that it leads
    fence       who may write: a row per lane that is locked by every write, a lease, a lock
    lane        appends of many logs in one statement, one statement in flight
    operations  what logs store besides: sealed segments, checkpoints, compaction, retention
    removing    removes deleted partitions, for which nothing else waits
    strays      logs whose topics were deleted while no node could mark them
    pages       bytes of segments that are in memory, or are loaded when they are read
    backing     what `PartitionLog` stores beside its batches
    loading     logs as they are in the tables
    taking      logs that a node is to lead from now on
    source copy the tables as source and target of copies; alone: no server serves meanwhile
    check       what an operator should know of a database
    control     the connection of what blocks its caller: start, end, logs that are taken

Appends are decided and readable by the server at once, as with files; they are durable, and
readable by consumers, when the transaction that inserts them has committed.
"""
