"""Comparison of a server's responses with Apache Kafka's, over raw requests of every version.

A *scenario* is a conversation with a server: a function that opens connections, sends requests
(also ones that no client would send) and records what it hears. Its *transcript*, with everything
taken out in which two correct servers may differ (ids, ports, times), is compared with the
*reference*: the transcript of the same scenario on a real Apache Kafka, which is in the package.
`python -m kohort_conformance HOST:PORT` does so for any address, and so does `kohort conformance`.

    scenario.py      what a scenario is; the registry
    scenarios/       the scenarios, a module or package for each subject
    stage.py         what a scenario works with: names, connections, recording, waiting
    members.py       members of groups as scenarios play them
    consumers.py     members of consumer groups (KIP-848) as scenarios play them
    mixed_members.py members of the classic protocol in consumer groups
    acls.py          entries of access control lists
    producers.py     transactional producers as scenarios play them
    group_log.py     the records of a group in `__consumer_offsets`
    wire.py          a raw connection
    entities.py      plain values <-> kio's messages
    newer_messages.py  versions of messages that kio does not have yet
    batches.py       record batches
    transcript.py    steps, and what is taken out of them
    varying.py       values that differ from run to run on Kafka itself
    comparing.py     differences
    reference.py     the recorded responses
    recording.py     records them, and lists what changed
    runner.py        all scenarios
    report.py        the score, as a table or as JSON
    command.py       the command line

Nothing here imports `kohort`: what judges must not share mistakes with what is judged.
"""
