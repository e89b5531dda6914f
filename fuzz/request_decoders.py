"""Invariant: bytes become requests of any API and version, or raise MalformedError or KafkaError.

    python fuzz/request_decoders.py [inputs]

The first two bytes choose API and version, the rest is the frame's content. The frame is also read
in pieces: the reader gives the same frames, and holds no more than it was fed.
"""

import _engine

with _engine.instrumented():
    from kohort.errors import KafkaError
    from kohort.protocol.apis import APIS
    from kohort.protocol.framing import FrameReader, MalformedError
    from kohort.protocol.messages import decode_request, read_header

VERSIONS = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]
LIMIT = 1_000


def check(data: bytes) -> None:
    api_key, version = VERSIONS[int.from_bytes(data[:2], "big") % len(VERSIONS)]
    content = data[2:]
    for attempt in (
        lambda: read_header(content),
        lambda: decode_request(api_key, version, content),
    ):
        try:
            attempt()
        except (MalformedError, KafkaError):
            pass
    assert frames(content, len(content) or 1) == frames(content, 3)


def frames(stream: bytes, step: int) -> tuple[list[bytes], bool]:
    """The frames that a reader gives, and whether it refused the stream then."""
    reader, found, fed = FrameReader(LIMIT), [], 0
    try:
        for at in range(0, len(stream), step):
            reader.feed(stream[at : at + step])
            fed += step
            assert reader.buffered <= fed
            while (frame := reader.next_frame()) is not None:
                found.append(bytes(frame))
    except MalformedError:
        return found, True
    return found, False


def seeds() -> list[bytes]:
    """For each API and version: nothing, zeros, small numbers, and short strings."""
    bodies = (
        b"",
        bytes(64),
        b"\x00\x01" * 32,
        b"\x02a" * 24,
        b"\x00\x01g\x00\x00\x00\x01\x00\x01t" * 4,
    )
    framed = b"\x00\x00\x00\x04\x00\x12\x00\x03" * 3
    return [
        number.to_bytes(2, "big") + body
        for number in range(len(VERSIONS))
        for body in (*bodies, framed)
    ]


if __name__ == "__main__":
    _engine.main(check, seeds())
