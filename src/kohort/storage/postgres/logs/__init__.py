"""Logs in PostgreSQL: the rules of `PartitionLog`, with the bytes of its segments in tables.

    session       all that writes in one session of a node
    open_logs     opens logs that a node leads from now on
    rows          the rows of logs and segments, and how they are read
    log           `PartitionLog` whose segments are rows
    backing       what `PartitionLog` stores beside its batches
    pages         bytes of segments that are in memory, or are loaded when they are read
    reading       reads rows: for the event loop, for threads, and for a standby
    lane          appends of many logs in one statement, one statement in flight
    writer        inserts rows, each once and in order
    operations    what logs store besides: sealed segments, checkpoints, compaction, retention
    delete_logs   deletes the logs of deleted partitions, for which nothing else waits
    source, copy  the tables as source and target of copies
    log_check     checks stored logs for operators

Appends are decided and readable by the server at once, as with files; they are durable, and
readable by consumers, when the transaction that inserts them has committed.
"""
