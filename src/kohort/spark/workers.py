"""Spark's Python processes, which run one task after the other, or plan one query after the other.

PySpark does two things between tasks that cost more than to read 100,000 records each:

- It collects garbage, and goes through everything that was ever imported: 60 ms with numba. What a module made when it
  was imported is never garbage; `settle` tells the collector so.
- It invalidates the caches of imports. Python before 3.13 then reads the directory of a zip archive once for each
  package in it that something was imported from: 20 times those of `pyspark.zip` and Spark's JAR, which never change,
  100 ms. `forget_finders` drops them; an import that needs one makes it anew, from a directory that is kept.
"""

import gc
import os
import sys
import zipimport
from pathlib import Path

import pyspark

_settled: int | None = None
"""The process that has: a worker is forked from one that may have as well."""


def settle() -> None:
    """To be called by each task as soon as everything that it needs is imported."""
    global _settled
    if _settled != os.getpid():
        _settled = os.getpid()
        gc.collect()
        gc.freeze()
    forget_finders()


def forget_finders() -> None:
    """To be called by whatever runs in such a process: the next task finds nothing to read again.

    Only of Spark's own archives: those of the application are looked at again, as PySpark means it.
    """
    spark = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter) and Path(finder.archive).is_relative_to(spark):
            del sys.path_importer_cache[path]
