"""Assignors: who of a group's members gets which partitions. Pure functions of members and partitions."""
