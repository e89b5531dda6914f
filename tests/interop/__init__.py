"""Clients that others wrote, against `kohort serve`: their view, and what must never happen.

    make interop                                        # or: pytest -m interop
    KOHORT_INTEROP_PEER=kafka pytest tests/interop      # against an Apache Kafka, to test the tests
    KOHORT_INTEROP_PEER=HOST:PORT pytest tests/interop  # against a running server; never restarted

Each client is a small program under `clients/` (kcat needs none) that runs as its own process, so
that it can be killed, and tells by JSON lines what it owns, processes and has committed
(`clients/lines.py`). `programs.py` knows how each is called and what is missing when it cannot run;
`trial.py` puts a topic, a group and such processes together; `timeline.py` is the judge. Java's
JARs come by Maven and our Java program is compiled, both into `.tools/`.
"""
