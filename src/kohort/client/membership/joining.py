"""Joins the group: JoinGroup, SyncGroup, and retries after retriable errors."""

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
    """Send JoinGroup; a cooperative member keeps its partitions, and sends them as owned."""
    member.phase = Phase.JOINING
    reason, member.rejoin_because, member.outdated_because = member.rejoin_because or "", None, None
    owned, generation = (
        (member.current_assignment, member.generation) if member.current_assignment else ((), -1)
    )
    if not member.current_assignment:
        member.session.pause()
    protocols = member.subscriber.protocols(owned, generation)
    request = JoinGroup(member_id=member.member_id, protocols=protocols, reason=reason)
    if not member.member_id or reason:
        member.log_event("join", reason or "as a new member")
    member.session.join_sent(now)
    member.awaited_request = member.send(
        request, member.request_timeout_ms + member.config.rebalance_timeout_ms
    )


def handle_join_response(member: MembershipState, response: JoinGroupResponse, now: int) -> None:
    """Handle the response, which has the generation and, for the leader, the members."""
    if response.error is ErrorCode.none:
        _joined(member, response, now)
    elif response.error is ErrorCode.member_id_required and not member.member_id:
        member.member_id = response.member_id
        send_join(member, now)
    elif response.error is ErrorCode.unknown_member_id:
        lose_membership(member, "the group no longer has this member id", forget=True)
        _retry(member, "JoinGroup failed with UNKNOWN_MEMBER_ID", now)
    else:
        _handle_error(member, response.error, "JoinGroup", now)


def _joined(member: MembershipState, response: JoinGroupResponse, now: int) -> None:
    member.member_id, member.generation, member.protocol = (
        response.member_id,
        response.generation,
        response.protocol,
    )
    member.leads = response.leader == response.member_id
    member.members = response.members
    member.session.begin(now, owns_partitions=bool(member.current_assignment))
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
    """Send SyncGroup, as the leader with all assignments by member id."""
    member.phase = Phase.SYNCING
    member.sync_sent = now
    request = SyncGroup(
        generation=member.generation,
        member_id=member.member_id,
        protocol=member.protocol,
        assignments=assignments,
    )
    member.awaited_request = member.send(
        request, member.request_timeout_ms + member.config.session_timeout_ms
    )


def handle_sync_response(member: MembershipState, response: SyncGroupResponse, now: int) -> None:
    """Handle the response with this member's assignment."""
    if response.error is ErrorCode.none:
        _synced(member, response.assignment, now)
    elif response.error is ErrorCode.rebalance_in_progress:
        member.phase = Phase.OUT
        member.request_rejoin("the group rebalances again")
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
        _handle_error(member, response.error, "SyncGroup", now)


def _synced(member: MembershipState, assignment: bytes, now: int) -> None:
    try:
        decoded = decode_assignment(assignment) if assignment else Assignment(partitions=())
    except MalformedError as error:
        message = (
            f"the leader's assignment cannot be read: {error}; is it another kind of consumer?"
        )
        fail(member, GroupError(message))
        return
    member.phase = Phase.STABLE
    member.session.synced(member.sync_sent, now)
    member.tries.succeeded()
    member.has_joined = True
    if member.leaving_because is not None:
        return  # the SyncGroup was only needed so that the last commits are accepted
    if not member.active:
        return  # the application failed meanwhile: `join` requests another generation
    if member.draining:
        member.request_rejoin("partitions lost during the join are drained")
        return  # the assignment may have a partition whose former task still runs
    grant = _granted(member, decoded)
    member.current_assignment, member.running, member.started_at = grant.assignment, True, now
    member.actions.append(Start(grant))
    if grant.revoked:
        member.end(End.REVOKED, grant.revoked, member.drain_ms(now), "assigned to others")
        member.request_rejoin("need to revoke partitions and re-join")
    elif member.outdated_because is not None:
        rebalance(member, member.outdated_because, now)


def _granted(member: MembershipState, assignment: Assignment) -> Grant:
    owned, assigned = set(member.current_assignment), set(assignment.partitions)
    return Grant(
        generation=member.generation,
        member_id=member.member_id,
        protocol=member.protocol,
        is_leader=member.leads,
        assignment=assignment.partitions,
        added=tuple(tp for tp in assignment.partitions if tp not in owned),
        revoked=tuple(tp for tp in member.current_assignment if tp not in assigned),
        user_data=assignment.user_data,
        members=member.members,
    )


def request_failed(member: MembershipState, error: str, now: int, *, sent: bool) -> None:
    """JoinGroup or SyncGroup got no response. `sent`: the request was sent, and timed out."""
    if member.phase is Phase.JOINING and sent:
        # The coordinator waits for members with a longer rebalance timeout.
        member.log_event("waiting", f"the group's rebalance takes long: {error}")
        member.phase = Phase.OUT
        member.request_rejoin("no response to JoinGroup arrived")
    else:
        if member.phase is Phase.JOINING:
            member.session.join_failed()
        member.actions.append(ForgetCoordinator())
        _retry(member, error, now)


def _handle_error(member: MembershipState, error: ErrorCode, api: str, now: int) -> None:
    """Handle an error code that does not belong to a rebalance."""
    if advice(error) is not None:
        fail(member, fatal(error, api))
        return
    if moves_coordinator(error):
        member.actions.append(ForgetCoordinator())
    _retry(member, f"{api} failed with {error.name.upper()}", now)


def _retry(member: MembershipState, error: str, now: int) -> None:
    """Rejoin after a pause; fail after `retry_timeout_ms` of failures before the first
    generation."""
    lasting = member.tries.failed(now)
    if lasting >= member.config.retry_timeout_ms * (member.tries.reports + 1):
        if not member.has_joined:
            fail(member, CoordinatorUnavailableError(member.unavailable(error, lasting)))
            return
        member.tries.reports += 1
        member.log_event("unavailable", f"{member.unavailable(error, lasting)}; retrying")
    member.phase = Phase.OUT
    member.request_rejoin(error)
    if member.rejoin_because is not None:
        pause = member.backoff(member.tries.failures)
        message = f"{error}; attempt {member.tries.failures} failed, next attempt in {pause} ms"
        member.log_event("retry", message)
        member.retry_at = now + pause
