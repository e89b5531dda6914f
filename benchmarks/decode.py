"""Measure how fast record batches are decoded: `python -m benchmarks.decode`

Every round decodes the same bytes with each decoder in turn, with CRC checks:

- kohort.columnar: Arrow record batches of 50,000 rows (kernels in machine code)
- aiokafka: its C extension, one object per record, with key and value read
- kohort.protocol: pure Python, one named tuple per record
- kafka-python: pure Python, one object per record

The bytes are 20,000 records of 100 B (key 8, value 92) or 1 KiB, in batches of 16 KiB, the default
of producers. The values are words of a small vocabulary, so that they can be compressed. Time is
CPU time on one core.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from aiokafka.record._crecords import DefaultRecordBatch as AiokafkaBatch  # type: ignore[import-untyped]
from kafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch as KafkaPythonBatch,
)

from benchmarks.report import Target, publish, table
from benchmarks.rounds import ENOUGH_ROUNDS, option_parser, significant
from kohort.columnar.decoding import decode_batches
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record

Decoder: TypeAlias = Callable[[bytes], int]
"""Decodes everything and returns the number of records."""

BATCH = 16 * 1024
SIZES = {"100 B": 92, "1 KiB": 1016}
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
LEAST_S = 0.15
NOW = 1_700_000_000_000


def with_columnar(data: bytes) -> int:
    return sum(found.num_rows for found in decode_batches(data, topic="benchmark", partition=0))


def with_protocol(data: bytes) -> int:
    view, found = memoryview(data), 0
    for position, header in batches.iterate(data):
        assert batches.crc_is_right(view[position : position + header.size], header)
        found += sum(1 for record in batches.decode_records(data, position) if record.value)
    return found


def with_objects(make: Callable[[Any], Any], data: bytes) -> int:
    found = 0
    for position, header in batches.iterate(data):
        batch = make(data[position : position + header.size])
        assert batch.validate_crc()
        found += sum(1 for record in batch if record.value and record.key)
    return found


DECODERS: dict[str, Decoder] = {
    "kohort.columnar (Arrow)": with_columnar,
    "aiokafka (C, objects)": partial(with_objects, AiokafkaBatch),
    "kohort.protocol (Python)": with_protocol,
    "kafka-python (Python)": partial(with_objects, KafkaPythonBatch),
}


def record_batches(size: int, count: int, codec: Codec) -> bytes:
    """Encode `count` records in batches of 16 KiB before compression; values have `size` bytes."""
    choose = random.Random(20)
    words = [choose.randbytes(4).hex().encode() for _ in range(500)]
    each = max(BATCH // (size + 20), 1)
    made = []
    for start in range(0, count, each):
        values = [
            b" ".join(choose.choices(words, k=size // 8 + 1))[:size]
            for _ in range(min(each, count - start))
        ]
        content = [
            Record(b"key-%04d" % (at % 1000), value, (), NOW + at)
            for at, value in enumerate(values)
        ]
        made.append(batches.build(content, base_offset=start, codec=codec))
    return b"".join(made)


def rate(decoder: Decoder, data: bytes, count: int) -> float:
    """Records per second of CPU time."""
    passes = 0
    began = time.process_time()
    while (spent := time.process_time() - began) < LEAST_S or not passes:
        found = decoder(data)
        if found != count:
            raise SystemExit(f"{found} of {count} records were read")
        passes += 1
    return passes * count / spent


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    parser = option_parser(__doc__)
    parser.add_argument(
        "--rounds",
        type=int,
        default=ENOUGH_ROUNDS,
        help=("of which medians are taken (%(default)s)"),
    )
    parser.add_argument(
        "--records", type=int, default=20_000, help="that are decoded at once (%(default)s)"
    )
    options, _others = parser.parse_known_args(argv)
    inputs = {
        (size, codec): record_batches(value_size, options.records, codec)
        for size, value_size in SIZES.items()
        for codec in CODECS
    }
    with_columnar(next(iter(inputs.values())))  # compiles
    taken: dict[tuple[str, Codec, str], list[float]] = {}
    for _ in range(options.rounds):
        for (size, codec), data in inputs.items():
            for name, decoder in DECODERS.items():
                taken.setdefault((size, codec, name), []).append(
                    rate(decoder, data, options.records)
                )
    medians = {key: statistics.median(rates) / 1e6 for key, rates in taken.items()}
    parts = [_table(medians), "\n".join(map(str, _targets(medians)))]
    write = options.rounds >= ENOUGH_ROUNDS and not options.dry
    publish("decode", "Decoding record batches, million records per CPU-second", parts, write=write)


def _table(medians: dict[tuple[str, Codec, str], float]) -> str:
    cases = [(size, codec) for size in SIZES for codec in CODECS]
    rows = [[name, *(significant(medians[(*case, name)]) for case in cases)] for name in DECODERS]
    return table(["decoder", *(f"{size} {codec.name.lower()}" for size, codec in cases)], rows)


def _targets(medians: dict[tuple[str, Codec, str], float]) -> list[Target]:
    own, aiokafka = list(DECODERS)[:2]
    plain = medians["100 B", Codec.NONE, own]
    return [
        Target("100 B records, uncompressed, M/s", plain, 8),
        Target("100 B records, lz4, M/s", medians["100 B", Codec.LZ4, own], 3),
        Target("100 B records, zstd, M/s", medians["100 B", Codec.ZSTD, own], 3),
        Target(
            "against aiokafka's objects, 100 B, times",
            plain / medians["100 B", Codec.NONE, aiokafka],
            2,
        ),
    ]


if __name__ == "__main__":
    main()
