# %% [markdown]
# # Ten questions about groups
#
# `__consumer_offsets` records what every group did: commits, generations, members, departures.
# `kohort.spark.history` folds it into tables. Ten questions of operators are a few lines each.
#
# The tables here are of logs that Apache Kafka 4.4 wrote while Java, librdkafka, franz-go and
# Kohort clients worked, crashed and left. With a source of your own, change `SOURCE`:
# `"broker:9092"`, or a path of segment files.

# %%
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kohort.spark import history

SOURCE = "" if "ipykernel" in sys.modules else "".join(sys.argv[1:2])
HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
RECORDED = HERE.parents[1] / "tests" / "history" / "logs"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
work = Path(tempfile.mkdtemp(prefix="history-"))


def tables(recording: str) -> history.HistoryTables:
    """The tables of SOURCE, or of a recorded log."""
    out = str(work / recording)
    if SOURCE:
        history.build(spark, SOURCE, out)
        return history.read(spark, out)
    with tarfile.open(RECORDED / f"{recording}.tar.xz") as archive:
        archive.extractall(f"{out}-log", filter="data")
    # What no record has. Of a running broker, its configs are read.
    options = history.GroupOptions(retention_ms=60_000, consumer_session_timeout_ms=10_000)
    history.build(spark, f"{out}-log/whole", out, options=options)
    return history.read(spark, out)


def show(rows: DataFrame) -> None:
    rows.show(30, truncate=False)


members, transactions = tables("classic"), tables("offsets")

# %% [markdown]
# ## 1. How far back do the tables reach?
#
# Kafka compacts the log. From `complete_from` on everything is exact, absence too. Before that,
# every answer says how certain it is.

# %%
show(members.coverage.select("log_partition", "first", "end", "records", "holes", "complete_from"))

# %% [markdown]
# ## 2. Who owned partition 3 of `payments` at 08:53:55?

# %%
AT = "2026-11-29T08:53:55Z"
show(
    members.assignments.where("topic = 'payments' and partition = 3")
    .where(f"`from` <= timestamp '{AT}' and (`to` is null or `to` > timestamp '{AT}')")
    .select("group", "member_id", "client_host", "from", "to", "generation")
)

# %% [markdown]
# ## 3. What had each group committed at that time?

# %%
show(
    members.committed_offsets(AT)
    .groupBy("group", "topic")
    .agg(f.sum("committed").alias("committed"), f.max("commit_time").alias("last"))
    .orderBy("group")
)

# %% [markdown]
# ## 4. Why did members leave?
#
# The log has no reasons. They follow from how long a member had not committed when it was removed:
# *left* at once, *vanished* after its session, *out of the poll loop* after its rebalance timeout.

# %%
show(
    members.members.where("`to` is not null")
    .select("group", "client_id", "from", "to", "ended_by")
    .orderBy("to")
)

# %% [markdown]
# ## 5. Which member is restarted again and again?
#
# Static members keep their instance id, others their client id. Over days, `hour("from")` shows
# which one is restarted every night.

# %%
show(
    members.members.groupBy(
        "group",
        f.coalesce("instance_id", "client_id").alias("member"),
        f.hour("from").alias("hour"),
    )
    .agg(f.count("*").alias("starts"), f.sort_array(f.collect_list("from")).alias("at"))
    .where("starts > 1")
    .orderBy(f.desc("starts"))
)

# %% [markdown]
# ## 6. Which rebalances stopped partitions for longest?
#
# `standstill_ms`: of a partition that moved, from its last commit before to its first one after,
# less its usual gap.

# %%
show(
    members.rebalances.where("standstill_ms is not null")
    .select("group", "generation", "time", "joined", "left", "vanished", "moved", "standstill_ms")
    .orderBy(f.desc("standstill_ms"))
    .limit(5)
)

# %% [markdown]
# ## 7. Who reset `billing`'s offsets?
#
# A reset comes from outside: no member was there. All its commits have one time.

# %%
show(
    transactions.commits.where("`group` = 'billing' and origin = 'outside'")
    .groupBy("group", "topic", "commit_time", "kind")
    .agg(
        f.count("*").alias("partitions"),
        f.min("previous").alias("from_least"),
        f.max("previous").alias("from_most"),
        f.min("committed").alias("to_least"),
        f.max("committed").alias("to_most"),
    )
    .orderBy("commit_time")
)

# %% [markdown]
# ## 8. Which offsets were deleted, and why?

# %%
show(
    transactions.commits.where("kind = 'tombstone'")
    .groupBy("group", "topic", "cause")
    .agg(f.count("*").alias("partitions"), f.min("time").alias("at"))
    .orderBy("at", "group")
)

# %% [markdown]
# ## 9. Which transactions were aborted?

# %%
show(
    transactions.offsets.where("txn in ('aborted', 'open')")
    .groupBy("group", "producer_id", "txn")
    .agg(
        f.countDistinct("producer_epoch", "batch_offset").alias("batches"),
        f.min("time").alias("first"),
        f.max("time").alias("last"),
    )
    .orderBy("group", "producer_id")
)

# %% [markdown]
# ## 10. Where did commits pause for longest while a member owned the partition?

# %%
show(
    members.commits.where("origin = 'member' and previous_time is not null")
    .withColumn("gap_s", f.col("time").cast("double") - f.col("previous_time").cast("double"))
    .groupBy("group", "topic", "partition")
    .agg(f.max("gap_s").alias("gap_s"), f.max_by("time", "gap_s").alias("until"))
    .orderBy(f.desc("gap_s"))
    .limit(5)
)
