"""The queue of a connection's requests: what is next, when to read, when to close. No sockets."""

import pytest

from kohort.protocol.apis import BY_NAME
from kohort.protocol.framing import MalformedError
from kohort.server.net import READ_AHEAD, Exchange, RequestQueue
from kohort.server.net.request_memory import UNMETERED, RequestMemory

HEARTBEAT, FETCH = BY_NAME["heartbeat"].key, BY_NAME["fetch"].key
LARGEST = 10 * UNMETERED
NO_LIMIT = 0


class Reader:
    """A connection that waits for memory."""

    is_open = True

    def __init__(self) -> None:
        self.granted: list[int] = []

    def memory_granted(self, size: int) -> None:
        self.granted.append(size)


def queue(memory: int = NO_LIMIT) -> RequestQueue:
    return RequestQueue(RequestMemory(memory), LARGEST)


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def serve(requests: RequestQueue, api_key: int = HEARTBEAT) -> None:
    """Begin a request."""
    requests.in_progress = Exchange(None, api_key, 4, 1, "")  # type: ignore[arg-type]


def test_a_new_queue_is_at_rest_and_reads() -> None:
    requests = queue()
    assert requests.is_idle_now()
    assert requests.wants_bytes(Reader())
    assert not requests.is_over


def test_frames_are_taken_in_order_and_then_bytes_are_needed() -> None:
    requests = queue()
    requests.feed(frame(b"a") + frame(b"b") + frame(b"c")[:3])
    assert requests.next_frame() == frame(b"a")
    assert not requests.needs_bytes
    assert requests.next_frame() == frame(b"b")
    assert requests.next_frame() is None
    assert requests.needs_bytes
    assert not requests.is_idle_now()  # three bytes wait
    requests.feed(frame(b"c")[3:])
    assert requests.next_frame() == frame(b"c")
    assert requests.next_frame() is None
    assert requests.is_idle_now()


def test_no_frame_is_taken_behind_a_request_in_progress() -> None:
    requests = queue()
    serve(requests)
    requests.feed(frame(b"a"))
    assert requests.next_frame() is None
    assert not requests.needs_bytes
    requests.in_progress = None
    assert not requests.rest()
    assert requests.next_frame() == frame(b"a")


@pytest.mark.parametrize("blocked", ["is_throttled", "is_draining"])
def test_no_frame_is_taken_while_blocked(blocked: str) -> None:
    requests = queue()
    requests.feed(frame(b"a"))
    setattr(requests, blocked, True)
    assert requests.next_frame() is None
    setattr(requests, blocked, False)
    assert requests.next_frame() == frame(b"a")


def test_no_frame_is_taken_while_the_client_does_not_read() -> None:
    requests = queue()
    requests.is_writable = False
    assert not requests.is_idle_now()
    requests.feed(frame(b"a"))
    assert requests.next_frame() is None
    requests.is_writable = True
    assert requests.next_frame() == frame(b"a")


def test_reading_pauses_when_the_read_ahead_is_full() -> None:
    requests, reader = queue(), Reader()
    serve(requests)
    requests.feed(frame(bytes(READ_AHEAD - 5)))
    assert requests.next_frame() is None
    assert requests.wants_bytes(reader)
    requests.feed(b"\0")
    assert not requests.wants_bytes(reader)
    requests.in_progress = None
    assert requests.next_frame() is not None
    assert requests.wants_bytes(reader)


def test_a_large_frame_waits_for_memory_and_gives_it_back() -> None:
    memory = RequestMemory(2 * UNMETERED)
    first, second = RequestQueue(memory, LARGEST), RequestQueue(memory, LARGEST)
    reader, waiting = Reader(), Reader()
    large = frame(bytes(UNMETERED + 1))
    first.feed(large[:8])
    second.feed(large[:8])
    assert first.next_frame() is second.next_frame() is None
    assert first.wants_bytes(reader)
    assert memory.used == len(large)
    assert not second.wants_bytes(waiting)
    assert not second.wants_bytes(waiting)  # it is in line once
    first.feed(large[8:])
    assert first.next_frame() == large
    first.release_memory()
    assert waiting.granted == [len(large)]
    second.memory_granted(len(large))
    assert second.wants_bytes(waiting)
    second.clear(Reader())
    assert memory.used == 0


def test_a_lost_connection_waits_for_no_memory() -> None:
    memory = RequestMemory(5 * UNMETERED)
    queues = [RequestQueue(memory, LARGEST) for _ in range(3)]
    readers = [Reader() for _ in queues]
    for requests, reader, parts in zip(queues, readers, (6, 6, 3), strict=True):
        requests.feed(frame(bytes(parts * UNMETERED // 2))[:8])
        assert requests.next_frame() is None
        requests.wants_bytes(reader)
    assert [reader.granted for reader in readers] == [[], [], []]
    readers[1].is_open = False
    queues[1].clear(readers[1])
    assert [reader.granted for reader in readers] == [[], [], [3 * UNMETERED // 2 + 4]]
    queues[2].memory_granted(3 * UNMETERED // 2 + 4)
    for requests, reader in zip(queues, readers, strict=True):
        requests.clear(reader)
    assert memory.used == 0


def test_a_frame_beyond_the_limit_is_malformed() -> None:
    requests = queue()
    requests.feed(frame(bytes(20)))
    requests.limit(19)
    assert not requests.is_one_frame(frame(bytes(20)))
    with pytest.raises(MalformedError):
        requests.next_frame()


def test_a_throttled_client_is_read_up_to_the_read_ahead() -> None:
    requests, reader = queue(), Reader()
    requests.throttle()
    assert not requests.is_idle_now()
    assert requests.wants_bytes(reader)
    requests.feed(frame(bytes(READ_AHEAD)))
    assert not requests.wants_bytes(reader)


class TestEndOfInput:
    """The client sends no more."""

    def test_an_empty_queue_has_no_requests_left_at_the_end_of_input(self) -> None:
        assert not queue().end()

    def test_the_request_in_progress_is_served(self) -> None:
        requests = queue()
        serve(requests)
        assert requests.end()
        assert not requests.is_over
        requests.in_progress = None
        assert not requests.rest()
        assert requests.next_frame() is None
        assert requests.is_over

    def test_a_parked_request_is_not_awaited(self) -> None:
        requests = queue()
        serve(requests, FETCH)
        assert not requests.end()

    def test_a_request_that_parks_later_is_not_awaited(self) -> None:
        requests = queue()
        requests.feed(frame(b"a"))
        requests.is_throttled = True
        assert requests.next_frame() is None
        assert requests.end()
        serve(requests, FETCH)
        assert requests.is_over

    def test_responses_are_left_to_read(self) -> None:
        requests = queue()
        requests.is_writable = False
        assert requests.end()

    def test_a_throttled_empty_queue_has_no_requests_left_at_the_end_of_input(self) -> None:
        requests = queue()
        requests.throttle()
        assert not requests.end()

    def test_a_response_that_throttles_is_the_last_one(self) -> None:
        requests = queue()
        serve(requests)
        assert requests.end()
        requests.in_progress = None
        requests.throttle()
        assert requests.is_over

    def test_the_requests_of_a_throttled_client_are_served(self) -> None:
        requests = queue()
        requests.throttle()
        requests.feed(frame(b"a"))
        assert requests.end()
        assert not requests.is_over


class TestDrain:
    """The server takes no further request."""

    def test_an_idle_connection_is_closed_at_once(self) -> None:
        requests = queue()
        assert requests.drain()
        assert requests.is_over

    def test_a_parked_request_is_not_awaited(self) -> None:
        requests = queue()
        serve(requests, FETCH)
        assert requests.drain()

    def test_the_request_in_progress_is_awaited(self) -> None:
        requests = queue()
        serve(requests)
        assert not requests.drain()
        assert not requests.is_over
        requests.in_progress = None
        assert requests.is_over
