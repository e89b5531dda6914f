"""PostgreSQL as the storage of a cluster: its nodes share the tables of one schema.

    logs            logs of partitions, with the bytes of their segments in tables
    cluster         the node table, the metadata log, and the logs that a node leads
    check           checks a database for operators
    control         a connection with a thread, for callers that block
    exclusive_lock  the lock that keeps copies and servers apart
    fence           who may write: a row per lane that is locked by every write, a lease, a lock
    commits         whether the database commits, and whether a commit is durable
    blocking        which process holds a lock that Kohort waits for
    pooler          whether connections have sessions of their own
    schema          the tables and their versions; privileges: what a role needs on them
    link            one connection, opened again when it was lost
    errors          what became of a statement that failed
    loop_task       a task of the event loop that is started by its first work

Connections, fence and locks lie below `logs`, and `logs` below `cluster`.
"""
