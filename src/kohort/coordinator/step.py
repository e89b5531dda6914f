"""The decision on one event: inputs and results of the core's functions."""

from kohort.coordinator.classic import Group, MemberSession
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.jobs import Job
from kohort.coordinator.journal import Rebalance
from kohort.coordinator.records import Record
from kohort.coordinator.responses import Response
from kohort.coordinator.result import Result, SessionExpires, TimerKey
from kohort.coordinator_common import Cancel, Timer
from kohort.types import Instant, OnResponse, Reply, Timestamp


class Step:
    """Collects a `Result`. Decisions depend only on the group, the times and `config`."""

    __slots__ = (
        "_continuation",
        "_jobs",
        "_journal",
        "_records",
        "_replies",
        "_timers",
        "classic_group",
        "config",
        "now",
        "timestamp",
    )  # fmt: skip

    def __init__(self, config: GroupCoordinatorConfig, now: Instant, timestamp: Timestamp) -> None:
        """`now` is the time for deadlines, `timestamp` the time for records."""
        self.config = config
        self.now = now
        self.timestamp = timestamp
        self._records: list[Record] = []
        self._replies: list[Reply[Response]] = []
        self._timers: list[Timer[TimerKey] | Cancel[TimerKey]] = []
        self._journal: list[Rebalance] = []
        self._continuation: object = None
        self._jobs: list[Job] = []
        self.classic_group: Group | None = None
        """The classic group, with its soft state, that replaces a consumer group."""

    def record(self, record: Record) -> None:
        self._records.append(record)

    def reply(self, on_response: OnResponse, response: Response) -> None:
        self._replies.append(Reply(on_response, response))

    def set_timer(self, key: TimerKey, after_ms: int) -> None:
        self._timers.append(Timer(key, Instant(self.now + after_ms)))

    def cancel_timer(self, key: TimerKey) -> None:
        self._timers.append(Cancel(key))

    def journal_rebalance(self, rebalance: Rebalance) -> None:
        self._journal.append(rebalance)

    def continue_with(self, event: object) -> None:
        """Handle `event` in a later turn, once the records are appended."""
        self._continuation = event

    def start(self, job: Job) -> None:
        """Start a job in the background."""
        self._jobs.append(job)

    def restart_session(
        self, group: Group, session: MemberSession, timeout_ms: int | None = None
    ) -> None:
        """Expire the member after `timeout_ms`, or its session timeout if None.

        An earlier timer stays and re-arms itself, so that a heartbeat sets no timer.
        """
        session.deadline = Instant(
            self.now + (session.session_timeout_ms if timeout_ms is None else timeout_ms)
        )
        if session.timer is None or session.timer > session.deadline:
            self.arm(group, session)

    def arm(self, group: Group, session: MemberSession) -> None:
        """Set the member's timer to its deadline."""
        session.timer = session.deadline
        self._timers.append(Timer(SessionExpires(group.id, session.member_id), session.deadline))

    def result(self) -> Result:
        return Result(
            tuple(self._records),
            tuple(self._replies),
            tuple(self._timers),
            tuple(self._journal),
            continuation=self._continuation,
            jobs=tuple(self._jobs),
        )
