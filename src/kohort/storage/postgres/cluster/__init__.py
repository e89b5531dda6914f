"""What a node of a cluster on PostgreSQL has.

    node              both of the following
    shared_storage    the `SharedStorage`: the metadata log and the table of nodes
    shared_directory  the `SharedLogDirectory`: the logs that this node leads
    log_registry      the cluster's id, and which version served from the tables
    timeline          whether the database still has what was acknowledged
    strays            logs whose topics were deleted while no node could mark them
    write_health      the problem that the database cannot be written

`PostgresStorage` begins the sessions of a node; `SharedPostgresDirectory` writes in them.
"""
