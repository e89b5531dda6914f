"""The numbers of the rules, with the reason for each default. Times are in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Each rule is named in `catalogue`."""

    flapping_joins: int = 4
    """A restart, its retry and a second deploy are three joins of one client."""
    flapping_window_s: int = 600
    """Kubernetes waits up to five minutes before it restarts a crashing container again."""

    storm_rebalances: int = 5
    """Fewer are a restart and what follows it."""
    storm_window_s: int = 600
    """As for flapping members, which cause most storms."""
    storm_standstill: float = 0.2
    """Share of an hour. More than that is as if a fifth of the members were missing."""

    back_within_s: int = 60
    """A process that is restarted by hand takes longer."""
    vanished_a_day: int = 3
    """Crashes happen; so many are a pattern."""
    short_session_s: int = 15
    """Kafka's default was 10 s before 3.0, and is 45 s since."""

    collision_replacements: int = 3
    """A static member that moves to another host is one replacement."""
    collision_window_s: int = 600
    """Two processes with one instance id replace each other at each rejoin, within seconds."""

    stranger_s: int = 600
    """A look into a topic by a console consumer takes less."""
    stranger_group_age_s: int = 86_400
    """In a younger group everybody is new."""

    eager_rebalances: int = 10
    """A day. Two deploys of five members are as many."""
    eager_standstill_s: int = 10
    """Less is hardly seen in the lag."""
    mixed_assignors_s: int = 3_600
    """A rolling deploy that changes the assignor is done by then."""
    unsynced_generations: int = 5
    """Members that start one after the other leave one or two generations without a sync."""
    unsynced_window_s: int = 600
    """A rebalance takes at most the rebalance timeout, by default 5 minutes."""

    rewind_s: int = 90
    """Asynchronous commits overtake each other; they are passed again by the next ones."""
    zombie_commit_s: int = 60
    """Longer after a move the former owner has heard of it."""
    auto_commit_s: float = 5.0
    """auto.commit.interval.ms of all clients."""
    auto_commit_tolerance: float = 0.1
    """Share of the interval. Commits of programs are less regular."""
    often_rate: float = 1.0
    """Commits of one partition in a second. More are a commit by record or by poll."""
    often_s: int = 60
    """A burst of commits takes less."""
    often_records: int = 5
    """Records by commit. More are worth a commit."""
    rarely_s: int = 300
    """Records of so much time come twice after a crash."""
    rarely_records: int = 100
    """Fewer by commit are a topic with little data."""
    hanging_transaction_s: int = 900
    """transaction.max.timeout.ms of brokers: none is open for longer."""
    habit_window_s: int = 600
    """Habits of commits are those of the last minutes."""

    hot_ratio: float = 3.0
    """Times the median of the topic's partitions. Hashed keys differ by less."""
    hot_partitions: int = 4
    """With fewer partitions there is no telling which one is unusual."""
    hot_share: float = 0.25
    """Of the topic's records. Less does not decide what one member has to do."""
    hot_window_s: int = 3_600
    """Shorter bursts come and go."""
    hot_records: int = 1_000
    """Of the topic in the last hour. Fewer are no load."""
    uneven_ratio: float = 2.0
    """All assignors of Kafka stay within twice the least, but for members of unlike topics."""
    uneven_s: int = 600
    """Assignors that move partitions step by step have done so by then."""
    unassigned_s: int = 60
    """Partitions are without an owner while another member revokes them."""

    stall_samples: int = 3
    """Samples, half a minute apart. One may be a pause of the process."""
    sample_s: int = 300
    """Older samples say nothing about now."""
    stop_gaps: float = 5.0
    """Times the usual gap between commits."""
    stop_s: int = 60
    """The least, as the usual gap may be a second."""
    loss_s: int = 6 * 3_600
    """Time to act before retention passes the committed offset."""
    expiry_s: int = 24 * 3_600
    """Time to act before offsets expire."""
    never_commits_s: int = 600
    """Members that commit rarely have done so by then."""

    max_lag: int | None = None
    """Records. No lag is too much by itself."""
    max_lag_s: int | None = None
    """As before, by time."""
