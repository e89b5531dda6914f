"""Has PySpark find `.format("kohort")` by itself.

A session's first use of a Python data source imports all packages called `pyspark_…` and registers
their `DefaultSource`.
"""

from kohort.spark import KohortDataSource as DefaultSource

__all__ = ["DefaultSource"]
