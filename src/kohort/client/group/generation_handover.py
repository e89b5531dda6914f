"""Hands generations to the application, one at a time, and the errors that end them."""

import asyncio
from typing import Final

from kohort.client.group.context import MemberContext
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group_errors import GroupError, StuckError
from kohort.client.membership import End
from kohort.errors import KohortError, fresh
from kohort.util.text import join_names

_WARN_AFTER_S: Final = 1.0


class GenerationHandover:
    """Passes generations, errors of tasks, and the end of a member to the application."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self.failure: GroupError | None = None
        """Error that ended the membership; None while it lasts, and after a requested leave."""
        self.has_left = asyncio.Event()
        """Set when the membership is over."""
        self._errors: list[BaseException] = []
        self._ready: GenerationScope | None = None
        self._ready_since = 0.0
        self._handed: GenerationScope | None = None
        self._changed = asyncio.Event()

    # --- generations ---

    async def next(self) -> GenerationScope | None:
        """The next generation; None when the membership is over because `leave` was called.

        Raises GroupError when the membership ended otherwise, and errors that tasks raised between
        two generations.
        """
        if self._handed is not None and self._handed.is_entered:
            raise KohortError(
                "leave the generation (async with generation) before asking for the next one"
            )
        while True:
            if errors := self.take_errors():
                raise BaseExceptionGroup(f"errors in tasks of group {self._context.name}", errors)
            if self.failure is not None:
                raise fresh(self.failure)
            if self.has_left.is_set():
                return None
            if self._ready is not None:
                return self._hand_over(self._ready)
            self._context.member.dispatch(self._context.membership.join)
            self._changed.clear()
            await self._changed.wait()

    def offer(self, generation: GenerationScope) -> None:
        """The generation's start offsets are known: the application may have it."""
        self._ready = generation
        self._ready_since = asyncio.get_running_loop().time()
        self._changed.set()

    def withdraw(self) -> None:
        """The generation that is offered, if any, has ended before it was requested."""
        self._ready = None

    @property
    def unclaimed_for_s(self) -> float:
        """Seconds for which a generation has waited to be requested; 0 if none waits."""
        waits = self._ready is not None
        return asyncio.get_running_loop().time() - self._ready_since if waits else 0.0

    def _hand_over(self, generation: GenerationScope) -> GenerationScope:
        before = (
            self._handed.assignment
            if self._handed is not None and self._handed.end is not End.LOST
            else ()
        )
        generation.show(before)
        self._ready, self._handed = None, generation
        return generation

    # --- the end of the membership ---

    def give_up(self, error: GroupError) -> None:
        """Leave the group at once and raise `error` to the application."""
        if self.failure is None and not self.has_left.is_set():
            context = self._context
            self.failure = error
            kind = "stuck" if isinstance(error, StuckError) else "lost"
            context.events.emit_event(kind, str(error))
            context.member.dispatch(context.membership.leave, str(error), drain=False)
            self._changed.set()

    def end(self, error: GroupError | None = None) -> None:
        """The membership is over: with `error`, unless it was given up with another one before."""
        self.failure = self.failure or error
        self.has_left.set()
        self._changed.set()
        detail = "the membership is over" if self.failure is None else str(self.failure)
        self._context.events.emit_event("left", detail)

    # --- tasks of generations ---

    def task_failed(self, error: BaseException) -> None:
        """Keep the error of a task for the application, and end the generation."""
        self._errors.append(error)
        self.abort(f"a task failed: {error!r}")
        self._changed.set()

    def abort(self, cause: str) -> None:
        """End the generation: cancel all tasks, and stay out until the next one is requested."""
        self._context.member.dispatch(self._context.membership.abort, cause)

    def take_errors(self) -> list[BaseException]:
        """Errors that tasks raised since the last call."""
        errors, self._errors = self._errors, []
        return errors

    def task_returned(self) -> None:
        """A task returned, or the body was left: report partitions that stay without work."""
        idle = [] if self._handed is None or self._errors else self._handed.idle()
        if idle:
            self._context.events.emit_event(
                "idle",
                f"no task works on {join_names(map(str, idle))}, which this member keeps until the "
                "generation ends: a worker continues until generation.records ends; to finish, "
                "also by break or return, call group.stop() before",
            )

    # --- the application's block ---

    def block_left(self) -> None:
        """The application leaves the group's block, without an exception."""
        waited_s = 0.0 if self._handed is None else self._handed.waited_s
        if waited_s > _WARN_AFTER_S and self._context.membership.leaving_because is None:
            self._context.events.emit_event(
                "idle",
                f"the loop was left by break or return, {waited_s:.0f} s later than the body of the"
                " generation: a generation ends when the group rebalances, not at once. Call"
                " group.stop() before",
            )

    def validate_outside(self) -> None:
        """Raises KohortError in the scope or a task of a generation, which `close` waits for."""
        if self._handed is not None and self._handed.contains(asyncio.current_task()):
            raise KohortError(
                "close waits for the end of the generation, and so for its caller here: call "
                "group.stop() instead"
            )
