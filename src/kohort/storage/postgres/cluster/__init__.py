"""What a node of a cluster on PostgreSQL has.

cluster           both of the following
shared_storage    the `ClusterStorage`: the metadata log and the table of nodes
shared_directory  the `SharedLogDirectory`: the logs that this node leads
places            the names and topic ids of logs
history           whether the database still has what was acknowledged
strays            logs whose topics were deleted while no node could mark them
trouble           the problem that nothing can be written
"""
