"""The heap of timers: what is set, moved and cancelled, in the order of the deadlines."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.runtime.timers import SKIP_CHUNK, TimerHeap


def timers(**deadlines):
    heap = TimerHeap()
    for key, deadline in deadlines.items():
        heap.set(key, deadline)
    return heap


def test_timers_come_due_in_the_order_of_their_deadlines():
    heap = timers(late=30, early=10, middle=20)
    assert heap.next_deadline() == 10
    assert list(heap.due(20)) == ["early", "middle"]
    assert list(heap.due(20)) == []
    assert heap.next_deadline() == 30


def test_equal_deadlines_come_due_in_the_order_in_which_they_were_set():
    assert list(timers(b=1, a=1, c=1).due(1)) == ["b", "a", "c"]


def test_a_moved_timer_comes_due_at_its_new_deadline_only():
    heap = timers(a=10, b=20)
    heap.set("a", 30)
    assert list(heap.due(29)) == ["b"]
    assert list(heap.due(30)) == ["a"]
    heap.set("b", 50)
    heap.set("b", 40)
    assert heap.next_deadline() == 40


def test_a_cancelled_timer_never_comes_due_and_may_be_set_again():
    heap = timers(a=10)
    heap.cancel("a")
    heap.cancel("never set")
    assert (heap.next_deadline(), len(heap)) == (None, 0)
    heap.set("a", 20)
    assert list(heap.due(99)) == ["a"]


def test_timers_set_while_others_come_due_come_due_too():
    heap = timers(a=10)
    seen = []
    for key in heap.due(10):
        seen.append(key)
        if key == "a":
            heap.set("b", 5)
    assert seen == ["a", "b"]


def test_timers_cancelled_while_others_come_due_do_not():
    heap = timers(a=10, b=10)
    for key in heap.due(10):
        assert key == "a"
        heap.cancel("b")


def test_memory_follows_the_number_of_timers_that_are_set():
    heap = timers(a=1)
    for deadline in range(10_000):
        heap.set("a", deadline)
    assert len(heap) == 1
    assert heap.entries < 100


class Counting(int):
    """A deadline that counts how often deadlines are compared."""

    compared = 0

    def __lt__(self, other):
        Counting.compared += 1
        return int.__lt__(self, other)

    def __eq__(self, other):
        Counting.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_no_call_takes_long_however_many_timers_are_cancelled():
    heap, count, longest = TimerHeap(), 200_000, 0

    def counted(call, *arguments):
        nonlocal longest
        before = Counting.compared
        result = call(*arguments)
        longest = max(longest, Counting.compared - before)
        return result

    for at in range(count):
        heap.set(at, Counting(at * 7919 % count))
    for at in range(1, count):
        heap.cancel(at)
    heap.set(0, Counting(count))
    while counted(heap.next_deadline) < count // 4:
        assert counted(lambda: list(heap.due(count // 4))) == []
    for at in range(count // 4):
        counted(heap.set, -at, Counting(2 * count))
        counted(heap.cancel, -at - 5)
    assert len(heap) == count // 4
    assert heap.entries < 3 * len(heap)
    assert longest < 50 * SKIP_CHUNK


def test_a_timer_heap_iterates_over_its_keys():
    assert set(timers(a=1, b=2)) == {"a", "b"}


keys = st.sampled_from("abcd")
deadlines = st.integers(0, 20)
actions = st.one_of(
    st.tuples(st.just("set"), keys, deadlines),
    st.tuples(st.just("cancel"), keys),
    st.tuples(st.just("due"), deadlines),
)


@given(st.lists(actions, max_size=60))
def test_a_timer_heap_acts_as_a_dictionary_of_deadlines(script):
    heap, model = TimerHeap(), {}
    for what, *arguments in script:
        if what == "set":
            heap.set(*arguments)
            model[arguments[0]] = arguments[1]
        elif what == "cancel":
            heap.cancel(*arguments)
            model.pop(arguments[0], None)
        else:
            due = list(heap.due(*arguments))
            assert [model[key] for key in due] == sorted(
                d for d in model.values() if d <= arguments[0]
            )
            for key in due:
                del model[key]
        assert set(heap) == set(model)
        assert dict(heap.deadlines()) == model
        assert heap.next_deadline() == min(model.values(), default=None)
