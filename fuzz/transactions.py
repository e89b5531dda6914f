"""Invariant: records of `__transaction_state` and files `.txnindex` are read, or refused by name.

    python fuzz/transactions.py [inputs]

The first byte is the kind, the second the length of the key. A record that is read can be replayed,
resumed, written again, and read as the same. Of a file every search ends, and finds the entries
that are in it.
"""

import _engine

with _engine.instrumented():
    from kohort.coordinator_common import CorruptRecordError
    from kohort.log.aborted_index import AbortedIndex, AbortedTransaction
    from kohort.log.stores import MemoryStore
    from kohort.transactions.config import TransactionCoordinatorConfig
    from kohort.transactions.records import (
        TransactionMetadata,
        TransactionRecord,
        TransactionState,
        decode,
        encode,
    )
    from kohort.transactions.shard import Shard
    from kohort.types import Instant, Timestamp


def check(data: bytes) -> None:
    kind, rest = data[:1], data[2:]
    if kind < b"\x80":
        size = (data[1:2] or b"\x00")[0]
        check_record(rest[:size], rest[size:] or None)
    else:
        check_index(rest)


def check_record(key: bytes, value: bytes | None) -> None:
    try:
        record = decode(key, value)
    except CorruptRecordError:
        return
    if record is None:
        return
    shard = Shard(TransactionCoordinatorConfig(), lambda: 7)
    shard.replay(record)
    shard.resume(tuple(shard.transactions.items()), Instant(0), Timestamp(0))
    assert decode(*encode(record)) == record


def check_index(content: bytes) -> None:
    index = AbortedIndex(MemoryStore(bytearray(content)))
    entries = list(index.entries())
    assert len(entries) == len(content) // 34
    state = index.state()
    assert index.begins_with(state)
    for offset, end in ((0, 1), (5, 2**62), (2**62, 2**63 - 1)):
        assert set(index.between(offset, end)) <= set(entries)
    index.replace_from(None, entries)
    assert list(index.entries()) == entries
    index.cut(10)
    assert list(index.entries()) == entries[: index.state().size // 34]


def seeds() -> list[bytes]:
    partitions = {"orders": frozenset({0, 1, 7}), "é": frozenset({3})}
    known = TransactionMetadata(5, 1, 60_000, TransactionState.EMPTY, {}, 9, -1, 5)
    values = [
        None,
        known,
        *(
            known._replace(state=state, partitions=partitions, start=8, client_version=2)
            for state in TransactionState
        ),
        known._replace(next_producer_id=6, producer_epoch=32_767),
    ]
    records = [encode(TransactionRecord("shop", value)) for value in values]
    index = AbortedIndex(MemoryStore())
    files = []
    for number in range(4):
        offset = 3 * number
        index.add(AbortedTransaction(number, offset, offset + 2, offset + 3))
        files.append(bytes(index.store.read(0, index.state().size)))
    return [
        *(b"\x00" + bytes([len(key)]) + key + (value or b"") for key, value in records),
        *(b"\x90\x00" + each for each in files),
        b"\x90\x00" + files[-1] * 20,
    ]


if __name__ == "__main__":
    _engine.main(check, seeds())
