"""The history of groups: folds `__consumer_offsets` into tables.

    rows, state = fold(state, records)

A group lives in one log partition, so each log partition is folded by itself, in offset order.
Log positions order everything; times are what records say. Pure: no I/O and no clock.
`kohort.spark.history` folds with Spark, as a batch or as a stream.

`schema` has the tables. pyarrow is required, so nothing is imported before it is used.
"""
