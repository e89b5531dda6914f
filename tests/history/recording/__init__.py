"""Records logs of `__consumer_offsets` that Apache Kafka writes while real clients work:

    PYTHONPATH=tests:packages/conformance/src python -m history.recording [SCENARIO…]

Scenarios are `classic`, `consumer`, `offsets` and `others`; together they take some ten minutes.

Each scenario starts a broker with a short offset retention and short segments, runs members of
several clients, and writes `tests/history/logs/SCENARIO.tar.xz`:

    events.json        what clients said and what was done to them (`stage.Event`), by wall clock
    snapshots.json     what kafka-consumer-groups showed, each with the end of each log partition
    topics.json        topic ids → names
    dump-whole.txt     DumpLogSegments of `whole`, with --offsets-decoder
    whole/             the segments as they were appended
    compacted/         the same log after the cleaner ran, with `cleaner-offset-checkpoint`

Tests read these files without a broker (`history.recorded`).
"""
