"""Tasks of a member: none outlives its group."""

import asyncio

from kohort.client.group.member_tasks import MemberTasks
from kohort.client.group_errors import GroupError


async def test_tasks_spawned_while_others_end_do_not_outlive_the_group() -> None:
    tasks, spawned = member_tasks(), list[asyncio.Task[None]]()

    async def spawn_at_the_end() -> None:
        try:
            await for_ever()
        finally:
            spawned.append(tasks.spawn(for_ever(), "follows"))

    tasks.spawn(spawn_at_the_end(), "precedes")
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await tasks.close()
    assert [task.cancelled() for task in spawned] == [True]


async def test_a_task_of_a_closed_group_does_not_begin() -> None:
    tasks, began = member_tasks(), asyncio.Event()

    async def begin() -> None:
        began.set()

    await tasks.close()
    task = tasks.spawn(begin(), "late")
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert not began.is_set()


async def test_an_error_at_the_end_is_reported_and_closing_goes_on() -> None:
    errors: list[GroupError] = []
    tasks = MemberTasks("orders", errors.append)

    async def fail_at_the_end() -> None:
        try:
            await for_ever()
        finally:
            raise OSError("no route")

    tasks.spawn(fail_at_the_end(), "fails")
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await tasks.close()
        await tasks.close()
    assert [str(error) for error in errors] == ["orders fails: OSError('no route')"]


def member_tasks() -> MemberTasks:
    """Tasks of which none fails."""

    def unexpected(error: GroupError) -> None:
        raise error

    return MemberTasks("orders", unexpected)


async def for_ever() -> None:
    """Wait until it is cancelled."""
    await asyncio.Event().wait()
