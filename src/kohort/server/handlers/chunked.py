"""Requests with many elements: handled in chunks, and their responses encoded in a thread.

A handler of such an API is a generator. It yields after each element of the request, and returns
the fields of the response. A small request runs to its end at once, without a task.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from kohort.coordinator.requests import Request
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode_in_pieces, response
from kohort.protocol.releasing import release
from kohort.server.net import Exchange
from kohort.server.responses import ResponseCollector
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices, in_slices

CHUNK: Final = 500
"""Elements that are handled and encoded in one turn; each takes up to 20 µs."""

T = TypeVar("T")
U = TypeVar("U")
NewRequest: TypeAlias = Callable[[Callable[[Any], None]], Request]
"""(function that receives the response) -> request to the shard of a group."""
Fields: TypeAlias = dict[str, Any]
"""Fields of a response, as `messages.response` takes them."""
NewFields: TypeAlias = Callable[[], Fields]
"""Fields that take long to build: the thread calls it."""
Steps: TypeAlias = Generator[None, None, Fields]


def respond_in_chunks(
    services: Services, exchange: Exchange, steps: Steps
) -> Coroutine[Any, Any, None] | None:
    """Respond with the fields that `steps` returns: at once, or later beyond `CHUNK` steps."""
    try:
        for _ in range(CHUNK):
            next(steps)
    except StopIteration as end:
        exchange.respond(response(exchange.api_key, exchange.version, **end.value))
        return None
    return _respond_later(services, exchange, steps)


async def _respond_later(services: Services, exchange: Exchange, steps: Steps) -> None:
    await respond_in_thread(services, exchange, await in_slices(steps))


def deadline_of(request: Any) -> float:
    """Deadline of a request, by the clock of the event loop."""
    seconds: float = request.timeout.total_seconds()
    return asyncio.get_running_loop().time() + seconds


async def count_in_chunks(items: Iterable[T]) -> "Counter[T]":
    """Count how often each of the items occurs."""
    times: Counter[T] = Counter()
    slices, following = TimeSlices(), iter(items)
    while chunk := tuple(islice(following, CHUNK)):
        times.update(chunk)
        await slices.give_way()
    return times


async def collect_in_chunks(items: Iterable[T], function: Callable[[T], U | None]) -> list[U]:
    """Collect the results of the function for the items, without None."""
    results: list[U] = []
    slices, following = TimeSlices(), iter(items)
    while chunk := tuple(islice(following, CHUNK)):
        results += [result for item in chunk if (result := function(item)) is not None]
        await slices.give_way()
    return results


async def split_in_chunks(
    items: Iterable[T], is_first: Callable[[T], bool]
) -> tuple[list[T], list[T]]:
    """Split into the items that the function is true for, and the others."""
    parts: tuple[list[T], list[T]] = ([], [])
    slices, following = TimeSlices(), iter(items)
    while chunk := tuple(islice(following, CHUNK)):
        for item in chunk:
            parts[0 if is_first(item) else 1].append(item)
        await slices.give_way()
    return parts


async def submit_chunked(services: Services, requests: Iterable[NewRequest]) -> list[Any]:
    """Submit requests to the groups' shards, and return the responses in the same order."""
    finished: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def finish(responses: Sequence[Any]) -> None:
        if not finished.done():  # it is cancelled when the connection is lost
            finished.set_result(responses)

    collector, slices = ResponseCollector(finish), TimeSlices()
    for new_request in requests:
        services.groups.submit(new_request(collector.callback()))
        await slices.give_way()
    collector.seal()
    return list(await finished)


async def submit_and_wait(services: Services, new_request: NewRequest) -> Any:
    """Submit one request to its group's shard, and return the response."""
    (response,) = await submit_chunked(services, (new_request,))
    return response


async def respond_large(
    services: Services, exchange: Exchange, fields: Fields | NewFields, elements: int
) -> None:
    """Respond at once, or, with more than `CHUNK` elements, encoded in the heavy-work thread."""
    if elements > CHUNK:
        await respond_in_thread(services, exchange, fields)
    else:
        exchange.respond(_entity(exchange.api_key, exchange.version, fields))


async def respond_in_thread(
    services: Services, exchange: Exchange, fields: Fields | NewFields
) -> None:
    """Build and encode the response in the heavy-work thread, and send it.

    Lists among the fields are emptied.
    """
    encode = partial(_encoded, exchange.api_key, exchange.version, fields)
    body, errors = await services.heavy_work.run(encode)
    exchange.respond_encoded(body, errors)


def _encoded(
    api_key: int, version: int, fields: Fields | NewFields
) -> tuple[list[bytes], set[int]]:
    fields = fields if isinstance(fields, dict) else fields()
    entities = [response(api_key, version, **fields)]
    for value in fields.values():
        if isinstance(value, list):
            release(value)
    encoded = encode_in_pieces(entities[0]), errors_in(entities[0])
    release(entities)
    return encoded


def _entity(api_key: int, version: int, fields: Fields | NewFields) -> Any:
    return response(api_key, version, **(fields if isinstance(fields, dict) else fields()))


class Pieces:
    """Bytes of a response in the making: many small pieces become few large ones."""

    def __init__(self, *pieces: bytes) -> None:
        self.size = 0
        self._few: list[bytes] = []
        self._many: list[bytes] = []
        for piece in pieces:
            self.append(piece)

    def append(self, piece: bytes) -> None:
        """Add bytes at the end."""
        self.size += len(piece)
        self._many.append(piece)
        if len(self._many) >= CHUNK:
            self._few.append(b"".join(self._many))
            self._many = []

    def __iter__(self) -> Iterator[bytes]:
        yield from self._few
        yield b"".join(self._many)
