"""The index of aborted transactions against a plain search."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.log.aborted_index import AbortedIndex, AbortedTransaction, IndexState
from kohort.log.stores import MemoryStore


def index_of(transactions):
    index = AbortedIndex(MemoryStore())
    for transaction in transactions:
        index.add(transaction)
    return index


def history(lengths, held):
    """Transactions of those lengths, one in `held` of which stays open for long."""
    found, waiting, offset = [], [], 0
    for number, length in enumerate(lengths):
        if held and number % held == 0:
            waiting.append(AbortedTransaction(number, offset, -1, -1))
            offset += 1
            continue
        if len(waiting) > 3:
            oldest, *waiting = waiting
            stable = min([each.first_offset for each in waiting], default=offset + 1)
            found.append(oldest._replace(marker_offset=offset, last_stable_offset=stable))
            offset += 1
        marker = offset + length
        stable = min([each.first_offset for each in waiting], default=marker + 1)
        found.append(AbortedTransaction(number, offset, marker, stable))
        offset = marker + 1
    return found


def test_an_entry_of_the_aborted_index_has_the_bytes_of_kafka():
    index = index_of([AbortedTransaction(7, 2**33, 2**34, 9)])
    content = index.store.read(0, 100)
    assert content == struct.pack(">hqqqq", 0, 7, 2**33, 2**34, 9)
    assert len(content) == 34


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.integers(1, 9), max_size=1_500),
    st.sampled_from([0, 3, 400]),
    st.data(),
)
def test_a_reader_learns_of_all(lengths, held, choices):
    transactions = history(lengths, held)
    index = index_of(transactions)
    last = transactions[-1].marker_offset + 2 if transactions else 2
    for _ in range(5):
        start = choices.draw(st.integers(0, last))
        end = choices.draw(st.integers(start, last))
        wanted = [
            transaction
            for transaction in transactions
            if transaction.marker_offset >= start and transaction.first_offset < end
        ]
        found = [each for each in index.between(start, end) if each.first_offset < end]
        assert found == wanted
    assert list(index.entries()) == list(index.copy().entries()) == transactions


class CountedStore(MemoryStore):
    reads = 0

    def read(self, position, size):
        self.reads += 1
        return super().read(position, size)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_the_first_reader_of_very_many_reads_no_more_than_a_later_one(is_loaded):
    # one transaction was open all the time, so that no entry tells that later ones are of no use
    transactions = [AbortedTransaction(n, 2 * n + 1, 2 * n + 2, 0) for n in range(20_000)]
    store = CountedStore()
    index = AbortedIndex(store)
    for transaction in transactions:
        index.add(transaction)
    if is_loaded:
        state = index.state()
        index = AbortedIndex(store)
        assert index.begins_with(state)
    first, again = [], []
    for found in (first, again):
        before = store.reads
        list(index.between(30_000, 30_100))
        found.append(store.reads - before)
    assert first == again


@pytest.mark.parametrize("size", [0, 1, 512, 513])
def test_state_cut_and_replacement(size):
    transactions = history([1] * 600, 0)
    index = index_of(transactions[:size])
    before = index.state()
    assert before.size == 34 * size
    assert index.begins_with(IndexState())
    for transaction in transactions[size:]:
        index.add(transaction)
    assert index.begins_with(before)
    index.replace_from(before, transactions[size : size + 3])
    assert list(index.entries()) == transactions[: size + 3]
    index.cut(transactions[size].marker_offset)
    assert index.state() == before
    assert not index.begins_with(index_of(transactions).state())
