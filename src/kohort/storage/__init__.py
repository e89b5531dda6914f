"""Storages that nodes share, each with the logs of partitions and the state of the cluster."""
