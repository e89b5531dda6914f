"""All rules: what each finds, how severe that is, and what to do.

The texts of the rules name thresholds in braces. `docs/history.md` has this table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from kohort.findings.thresholds import Thresholds
from kohort.findings.wording import span


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    severity: str
    finds: str
    """When it finds something; thresholds in braces."""
    advice: str
    """What to do; the end of a finding's text."""
    needs_samples: bool = False

    def described(self, thresholds: Thresholds) -> str:
        """When it finds something, with numbers."""
        values = {name: _shown(name, value) for name, value in asdict(thresholds).items()}
        return self.finds.format_map(values)


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "off"
    if name.endswith("_s"):
        return span(value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def _by_id(rules: Iterable[Rule]) -> Mapping[str, Rule]:
    return {rule.id: rule for rule in rules}


RULES: Final = _by_id((
    # --- members
    Rule(
        "flapping-member", "warning",
        "one client (instance id, or client id and host) joins {flapping_joins} times within "
        "{flapping_window_s}",
        "Read the log of this client for restarts and timeouts: each join rebalances the group.",
    ),
    Rule(
        "out-of-poll-loop", "warning",
        "a member was removed because it did not poll for max.poll.interval.ms, while there were "
        "records",
        "Lower max.poll.records, or raise max.poll.interval.ms above the longest processing time.",
    ),
    Rule(
        "session-too-short", "warning",
        "a client vanishes and is back within {back_within_s}, {vanished_a_day} times a day, with "
        "a session timeout below {short_session_s}",
        "Raise session.timeout.ms to Kafka's default of 45 s, and look for pauses of the process: "
        "garbage collection, CPU limits.",
    ),
    Rule(
        "static-collision", "error",
        "an instance id is replaced {collision_replacements} times within {collision_window_s} by "
        "two clients in turn",
        "Give each process a group.instance.id of its own.",
    ),
    Rule(
        "stranger", "info",
        "a member with its library's default client id, from a new host, stays for less than "
        "{stranger_s} in a group of long-lived members",
        "Find out who read with this group: its partitions went to that client meanwhile. Ad hoc "
        "consumers need a group of their own.",
    ),
    # --- rebalances
    Rule(
        "rebalance-storm", "warning",
        "{storm_rebalances} rebalances within {storm_window_s}, and more than one restart of each "
        "client explains; or a standstill of {storm_standstill} of an hour",
        "Find the members that come and go, by kohort history show; static membership "
        "(group.instance.id) saves rebalances of restarts.",
    ),
    Rule(
        "eager-standstill", "warning",
        "{eager_rebalances} rebalances within a day of a group with an eager assignor, each with a "
        "standstill above {eager_standstill_s}",
        "Use CooperativeStickyAssignor or group.protocol=consumer, so that only moved partitions "
        "pause.",
    ),
    Rule(
        "mixed-assignors", "warning",
        "the assignor changes back and forth, or members name unlike assignors for "
        "{mixed_assignors_s}",
        "Give all members the same partition.assignment.strategy or group.remote.assignor.",
    ),
    Rule(
        "unsynced-generations", "warning",
        "{unsynced_generations} generations within {unsynced_window_s} that never were synced",
        "Look for a member that joins and does not sync: a leader that crashes in its assignor, or "
        "clients that restart in a loop.",
    ),
    # --- commits
    Rule(
        "rewind", "warning",
        "a member commits a lower offset, and the former one is not passed again within "
        "{rewind_s}",
        "Records are read twice: look for seek() and for a restart from an older position in the "
        "client.",
    ),
    Rule(
        "zombie-commit", "error",
        "within {zombie_commit_s} after a partition moved, a commit below that of its new owner",
        "A former owner commits still: let it stop in its rebalance listener, and commit with its "
        "member id and generation.",
    ),
    Rule(
        "manual-reset", "info",
        "offsets of half of a topic's partitions or more are set from outside at one time",
        "If nobody should have done so, find the client in the broker's request log; kohort groups "
        "restore sets them back.",
    ),
    Rule(
        "auto-commit", "info",
        "commits each {auto_commit_s}, within {auto_commit_tolerance} of that, with repeats",
        "enable.auto.commit commits records that may not be processed yet: commit after processing "
        "if none may be lost.",
    ),
    Rule(
        "too-often", "warning",
        "a partition is committed more than {often_rate} times per second for {often_s}, with "
        "fewer than {often_records} records each",
        "Commit by time or by batch: each commit is a write to __consumer_offsets.",
    ),
    Rule(
        "too-rarely", "warning",
        "usually {rarely_s} or more between commits, with {rarely_records} records or more each",
        "Commit more often: after a crash all records since the last commit are read again.",
    ),
    Rule(
        "topic-recreated", "warning",
        "commits of a topic have another topic id than before",
        "Offsets of the former topic do not apply to the new one: reset the partitions that nobody "
        "has committed since.",
    ),
    Rule(
        "hanging-transaction", "error",
        "a transaction with committed offsets is open for {hanging_transaction_s}",
        "read_committed consumers wait for it: abort it by kohort transactions, or by "
        "kafka-transactions.sh.",
    ),
    # --- assignments
    Rule(
        "hot-partition", "warning",
        "a partition has {hot_ratio} times the records of the median partition, of "
        "{hot_partitions} or more, and {hot_share} of the topic's",
        "Look at the keys of the records: one key has most of them, or the partitioner is uneven.",
    ),
    Rule(
        "uneven-assignment", "warning",
        "a member owns more than {uneven_ratio} times the partitions of another with the same "
        "topics, for {uneven_s}",
        "Use an assignor that balances all topics together: CooperativeStickyAssignor, or uniform "
        "with group.protocol=consumer.",
    ),
    Rule(
        "idle-member", "info",
        "a member owns no partition for {uneven_s}, while others do",
        "There are more members than partitions, or the assignor leaves it out: remove members, or "
        "add partitions.",
    ),
    Rule(
        "unassigned", "error",
        "a partition of a topic whose other partitions have owners has none for {unassigned_s}",
        "Nobody reads it: look at the assignor, and let the group rebalance by a restart of a "
        "member.",
    ),
    Rule(
        "split-group", "error",
        "a group has records in several partitions of __consumer_offsets",
        "The number of its partitions was changed, so former offsets are not found: commit them "
        "again, from kohort groups restore.",
    ),
    # --- lag
    Rule(
        "stuck-commit", "error",
        "in {stall_samples} samples a member commits the same offset, while the partition grows",
        "Look at the client for a record that it cannot process and reads again and again.",
        needs_samples=True,
    ),
    Rule(
        "stopped", "error",
        "in {stall_samples} samples no commit for {stop_gaps} usual gaps and {stop_s}, while the "
        "partition grows",
        "Look at the owner of the partition: it is in the group, and does not get on.",
        needs_samples=True,
    ),
    Rule(
        "zombie-member", "error",
        "all partitions of a member that grow are stopped, while other members commit",
        "Restart this member: it sends heartbeats and does not process.",
        needs_samples=True,
    ),
    Rule(
        "data-loss", "error",
        "retention has deleted records that the group had not read, or will within {loss_s}",
        "Raise retention.ms of the topic, and then the pace of the group.",
        needs_samples=True,
    ),
    Rule(
        "expires-soon", "warning",
        "a group without members has lag, and its offsets expire within {expiry_s}",
        "Start a member, or commit the offsets again by kohort groups reset; else "
        "auto.offset.reset decides where it begins.",
        needs_samples=True,
    ),
    Rule(
        "never-commits", "warning",
        "a member owns a partition that grows for {never_commits_s}, and does not commit it",
        "Enable auto-commit, or commit in the client: else all is read again after a restart.",
        needs_samples=True,
    ),
    Rule(
        "max-lag", "error",
        "the lag of a partition is above --max-lag ({max_lag}) or --max-lag-seconds ({max_lag_s})",
        "Add members up to the number of partitions, or look for slow ones.",
        needs_samples=True,
    ),
))  # fmt: skip
"""Id → rule, by families. `max-lag` is of the options of that name, and off without them."""
