"""Large messages are freed in many steps, and only what nobody else holds."""

import threading
import weakref
from typing import Any

from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import request
from kohort.protocol.releasing import release

FETCH = BY_NAME["fetch"].key


class Element:
    """A value that tells when it is freed."""


def test_all_elements_of_a_message_are_freed() -> None:
    elements = [Element() for _ in range(5_000)]
    alive = weakref.WeakSet(elements)
    rows: list[Any] = [{"name": "t", "partitions": elements[:10]}, {"partitions": elements[10:]}]
    pairs: list[Any] = [("t", rows)]
    del elements, rows
    release(pairs)
    assert not pairs
    assert not alive


def test_elements_with_other_references_stay() -> None:
    topic = {"topic": "t", "partitions": [{"partition": 0}] * 3_000}
    message = request(FETCH, 12, topics=[topic, topic])
    values, kept = [message], message.topics[1]
    del message
    release(values)
    assert not values
    assert len(kept.partitions) == 3_000


def test_other_threads_run_meanwhile() -> None:
    """This thread gets many turns while another one frees a message."""
    topics = [{"topic": f"topic-{n}", "partitions": [{"partition": n}]} for n in range(100_000)]
    values = [request(FETCH, 12, topics=topics)]
    thread = threading.Thread(target=release, args=(values,))
    thread.start()
    turns = 0
    while thread.is_alive():
        thread.join(0.001)
        turns += 1
    assert not values
    assert turns >= 5
