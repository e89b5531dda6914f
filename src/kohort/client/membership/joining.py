"""Joins the group: JoinGroup, SyncGroup, and retries after errors that are retriable."""

from kohort.client.group_errors import (
    CoordinatorUnavailableError,
    GroupError,
    advice,
    fatal,
    moves_coordinator,
)
from kohort.client.membership.ending import fail, lose_membership, rebalance
from kohort.client.membership.events import (
    Assign,
    End,
    ForgetCoordinator,
    Grant,
    JoinGroup,
    JoinGroupResponse,
    Start,
    SyncGroup,
    SyncGroupResponse,
)
from kohort.client.membership.state import MembershipState, Phase
from kohort.errors import ErrorCode
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import Assignment, decode_assignment


def send_join(member: MembershipState, now: int) -> None:
    """Send JoinGroup; a cooperative member keeps its partitions, and reports them."""
    member.phase = Phase.JOINING
    reason, member.rejoin_because, member.outdated_because = member.rejoin_because or "", None, None
    owned, generation = (member.held, member.generation) if member.held else ((), -1)
    if not member.held:
        member.session.pause()
    protocols = member.subscriber.protocols(owned, generation)
    request = JoinGroup(member_id=member.member_id, protocols=protocols, reason=reason)
    if not member.member_id or reason:
        member.tell("join", reason or "as a new member")
    member.session.join_sent(now)
    member.awaited = member.send(
        request, member.request_timeout_ms + member.config.rebalance_timeout_ms
    )


def handle_join_response(member: MembershipState, response: JoinGroupResponse, now: int) -> None:
    """Handle the response: the generation, and its members for the leader."""
    if response.error is ErrorCode.none:
        _joined(member, response, now)
    elif response.error is ErrorCode.member_id_required and not member.member_id:
        member.member_id = response.member_id
        send_join(member, now)
    elif response.error is ErrorCode.unknown_member_id:
        lose_membership(member, "the group does not know this member any more", forget=True)
        _retry(member, "JoinGroup failed with UNKNOWN_MEMBER_ID", now)
    else:
        _refused(member, response.error, "JoinGroup", now)


def _joined(member: MembershipState, response: JoinGroupResponse, now: int) -> None:
    member.member_id, member.generation, member.protocol = (
        response.member_id,
        response.generation,
        response.protocol,
    )
    member.leads = response.leader == response.member_id
    member.members = response.members
    member.session.begin(now, holds=bool(member.held))
    if member.leads and not response.skip_assignment:
        member.phase = Phase.ASSIGNING
        assign = Assign(
            generation=member.generation, protocol=member.protocol, members=response.members
        )
        member.actions.append(assign)
    else:
        send_sync(member, (), now)


def send_sync(
    member: MembershipState, assignments: tuple[tuple[str, bytes], ...], now: int
) -> None:
    """Send SyncGroup; the leader's has the assignment by member id."""
    member.phase = Phase.SYNCING
    member.sync_sent = now
    request = SyncGroup(
        generation=member.generation,
        member_id=member.member_id,
        protocol=member.protocol,
        assignments=assignments,
    )
    member.awaited = member.send(
        request, member.request_timeout_ms + member.config.session_timeout_ms
    )


def handle_sync_response(member: MembershipState, response: SyncGroupResponse, now: int) -> None:
    """Handle the response with this member's assignment."""
    if response.error is ErrorCode.none:
        _synced(member, response.assignment, now)
    elif response.error is ErrorCode.rebalance_in_progress:
        member.phase = Phase.OUT
        member.want_join("the group rebalances again")
    elif (
        response.error is ErrorCode.unknown_member_id
        or response.error is ErrorCode.illegal_generation
    ):
        forget = response.error is ErrorCode.unknown_member_id
        lose_membership(
            member, f"SyncGroup failed with {response.error.name.upper()}", forget=forget
        )
        _retry(member, f"SyncGroup failed with {response.error.name.upper()}", now)
    else:
        _refused(member, response.error, "SyncGroup", now)


def _synced(member: MembershipState, assignment: bytes, now: int) -> None:
    try:
        decoded = decode_assignment(assignment) if assignment else Assignment(partitions=())
    except MalformedError as error:
        told = f"the leader's assignment cannot be read: {error}; is it another kind of consumer?"
        fail(member, GroupError(told))
        return
    member.phase = Phase.STABLE
    member.session.synced(member.sync_sent, now)
    member.tries.succeeded()
    member.has_joined = True
    if member.leaving_because is not None:
        return  # the sync was only needed so that the last commits are accepted
    if not member.wanted:
        return  # the application failed meanwhile: `join` requests another generation
    if member.draining:
        member.want_join("what was lost while joining is drained")
        return  # the partition may be in the assignment again while its old task still runs
    grant = _granted(member, decoded)
    member.held, member.running, member.started_at = grant.assignment, True, now
    member.actions.append(Start(grant))
    if grant.revoked:
        member.end(End.REVOKED, grant.revoked, member.drain_ms(now), "assigned to others")
        member.want_join("need to revoke partitions and re-join")
    elif member.outdated_because is not None:
        rebalance(member, member.outdated_because, now)


def _granted(member: MembershipState, assignment: Assignment) -> Grant:
    had, has = set(member.held), set(assignment.partitions)
    return Grant(
        generation=member.generation,
        member_id=member.member_id,
        protocol=member.protocol,
        is_leader=member.leads,
        assignment=assignment.partitions,
        added=tuple(each for each in assignment.partitions if each not in had),
        revoked=tuple(each for each in member.held if each not in has),
        user_data=assignment.user_data,
        members=member.members,
    )


def request_failed(member: MembershipState, error: str, now: int, *, sent: bool) -> None:
    """JoinGroup or SyncGroup got no response. `sent`: the request was sent, and timed out."""
    if member.phase is Phase.JOINING and sent:
        # The coordinator waits for members whose rebalance timeout is longer than this one's.
        member.tell("waiting", f"the group's rebalance takes long: {error}")
        member.phase = Phase.OUT
        member.want_join("the response to JoinGroup did not come")
    else:
        if member.phase is Phase.JOINING:
            member.session.join_broke()
        member.actions.append(ForgetCoordinator())
        _retry(member, error, now)


def _refused(member: MembershipState, error: ErrorCode, asked: str, now: int) -> None:
    """Handle an error code that is no part of a rebalance."""
    if advice(error) is not None:
        fail(member, fatal(error, asked))
        return
    if moves_coordinator(error):
        member.actions.append(ForgetCoordinator())
    _retry(member, f"{asked} failed with {error.name.upper()}", now)


def _retry(member: MembershipState, error: str, now: int) -> None:
    """Join again after a pause, or give up after `retry_timeout_ms` of failures."""
    lasting = member.tries.failed(now)
    if lasting >= member.config.retry_timeout_ms * (member.tries.told + 1):
        if not member.has_joined:
            fail(member, CoordinatorUnavailableError(member.unavailable(error, lasting)))
            return
        member.tries.told += 1
        member.tell("unavailable", f"{member.unavailable(error, lasting)}; it goes on trying")
    member.phase = Phase.OUT
    member.want_join(error)
    if member.rejoin_because is not None:
        pause = member.backoff(member.tries.failures)
        told = f"{error}; attempt {member.tries.failures} failed, tried again in {pause} ms"
        member.tell("retry", told)
        member.retry_at = now + pause
