"""What a recorder keeps of frames, and what it removes."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from kohort.protocol.batches import Record, build, control_batch, decode_records, iterate
from kohort.protocol.compression import Codec
from kohort.protocol.message_classes import (
    API_NAMES,
    known_versions,
    load_request_schema,
    load_response_schema,
)
from kohort.recording import (
    Event,
    RecordedRequest,
    RecordedResponse,
    Recorder,
    RecordingReader,
)
from kohort.recording.frames import decode_request, decode_response, read_head
from kohort.recording.message_fields import fields_of
from kohort.recording.redaction import Redaction
from recording.messages import request_frame, response_frame

SECRET = b"open sesame, 40 thieves"


class Traffic:
    """One connection, recorded to a file."""

    def __init__(self, path: Path, *, redact_values: bool = False) -> None:
        self.path = path
        self._recorder = Recorder(path, lambda: 0.0, redact_values=redact_values)
        self._number = self._recorder.opened()

    def send(self, frame: bytes, response: bytes | None = None) -> None:
        self._recorder.request(self._number, frame)
        if response is not None:
            self._recorder.response(self._number, response)

    def events(self) -> list[Event]:
        self._recorder.close()
        with RecordingReader(self.path) as reader:
            return list(reader)

    def requests(self) -> list[RecordedRequest]:
        return [event for event in self.events() if isinstance(event, RecordedRequest)]

    def has(self, secret: bytes) -> bool:
        """Whether the file has these bytes, in any alignment of base64."""
        content = self.path.read_bytes()
        forms = [b64encode(b"\0" * shift + secret)[4:-4] for shift in range(3)]
        return any(form in content for form in (secret, *forms))


@pytest.fixture
def traffic(tmp_path: Path) -> Traffic:
    return Traffic(tmp_path / "recording.jsonl")


def test_a_frame_without_secrets_is_kept_byte_by_byte(traffic: Traffic) -> None:
    frame = request_frame("join_group", 9, group_id="billing", client_id="worker")
    answer = response_frame("join_group", 9, generation_id=3)
    traffic.send(frame, answer)
    _, recorded, response = traffic.events()
    assert isinstance(recorded, RecordedRequest)
    assert (recorded.frame, recorded.client_id, recorded.is_redacted) == (frame, "worker", False)
    assert isinstance(response, RecordedResponse)
    assert response.frame == answer


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        ("sasl_authenticate", 2, {"auth_bytes": SECRET}),
        ("renew_delegation_token", 2, {"hmac": SECRET}),
        ("expire_delegation_token", 2, {"hmac": SECRET}),
        (
            "alter_user_scram_credentials",
            0,
            {
                "upsertions": [
                    {"name": "u", "mechanism": 1, "salt": SECRET, "salted_password": SECRET}
                ]
            },
        ),
        (
            "incremental_alter_configs",
            1,
            {
                "resources": [
                    {
                        "resource_type": 4,
                        "resource_name": "1",
                        "configs": [{"name": "ssl.keystore.password", "value": SECRET.decode()}],
                    }
                ]
            },
        ),
        (
            "alter_configs",
            2,
            {
                "resources": [
                    {
                        "resource_type": 4,
                        "resource_name": "1",
                        "configs": [{"name": "sasl.jaas.config", "value": SECRET.decode()}],
                    }
                ]
            },
        ),
    ],
)
def test_secrets_of_requests_are_removed(
    traffic: Traffic, api: str, version: int, values: dict[str, Any]
) -> None:
    frame = request_frame(api, version, **values)
    assert SECRET in frame
    traffic.send(frame)
    (recorded,) = traffic.requests()
    assert recorded.is_redacted
    assert not traffic.has(SECRET)
    assert recorded.frame is not None
    decode_request(recorded.frame, read_head(recorded.frame))  # it stays a request


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        ("sasl_authenticate", 2, {"auth_bytes": SECRET}),
        ("create_delegation_token", 3, {"hmac": SECRET}),
        ("describe_delegation_token", 3, {"tokens": [{"hmac": SECRET}]}),
    ],
)
def test_secrets_of_responses_are_removed(
    traffic: Traffic, api: str, version: int, values: dict[str, Any]
) -> None:
    traffic.send(request_frame(api, version), response_frame(api, version, **values))
    assert not traffic.has(SECRET)


SECRET_FIELDS = {"auth_bytes", "salt", "salted_password", "hmac"}


def field_names(message_type: Any) -> set[str]:
    names = set()
    for name, field_shape in fields_of(message_type):
        names |= field_names(field_shape.inner) if field_shape.is_struct else {name}
    return names


@pytest.mark.parametrize("api_key", API_NAMES)
def test_every_api_with_a_secret_is_redacted(api_key: int) -> None:
    _, version = known_versions(api_key)
    schemas = (load_request_schema(api_key, version), load_response_schema(api_key, version))
    has_secrets = any(field_names(schema) & SECRET_FIELDS for schema in schemas)
    assert Redaction(values=False).concerns(api_key) >= has_secrets


def test_raw_tokens_behind_an_old_handshake_are_not_kept(traffic: Traffic) -> None:
    traffic.send(
        request_frame("sasl_handshake", 0, mechanism="PLAIN"), response_frame("sasl_handshake", 0)
    )
    traffic.send(b"\0user\0" + SECRET, b"")
    traffic.send(request_frame("metadata", 9), response_frame("metadata", 9))
    handshake, token, metadata = traffic.requests()
    assert (token.frame, token.api_key, token.is_redacted) == (None, 36, True)
    assert None not in (handshake.frame, metadata.frame)
    assert not traffic.has(SECRET)


@pytest.mark.parametrize("frame", [b"", b"\1", b"\3\xe7\0\0\0\0\0\1\0\1x" + SECRET])
def test_an_unknown_request_is_not_kept(traffic: Traffic, frame: bytes) -> None:
    traffic.send(frame, b"\0\0\0\1" + SECRET)
    _, request, response = traffic.events()
    assert isinstance(request, RecordedRequest)
    assert isinstance(response, RecordedResponse)
    assert (request.frame, response.frame) == (None, None)
    assert not traffic.has(SECRET)


def test_produce_without_acks_has_no_response(traffic: Traffic) -> None:
    traffic.send(request_frame("produce", 9, acks=0))
    answer = response_frame("metadata", 9)
    traffic.send(request_frame("metadata", 9), answer)
    _, produce, metadata, response = traffic.events()
    assert isinstance(produce, RecordedRequest)
    assert isinstance(metadata, RecordedRequest)
    assert (produce.has_response, metadata.has_response) == (False, True)
    assert isinstance(response, RecordedResponse)
    assert response.frame == answer


def produced(batch: bytes) -> bytes:
    partitions = [{"index": 0, "records": batch}]
    topics = [{"name": "orders", "partition_data": partitions}]
    return request_frame("produce", 9, acks=-1, topic_data=topics)


def batch_of(recorded: RecordedRequest) -> bytes:
    assert recorded.frame is not None
    message = decode_request(recorded.frame, read_head(recorded.frame))
    records: bytes = message.topic_data[0].partition_data[0].records
    return records


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_redacted_values_keep_length_equality_and_structure(tmp_path: Path, codec: Codec) -> None:
    traffic = Traffic(tmp_path / "redacted.jsonl", redact_values=True)
    batch = build(
        [
            Record(b"key of Ann", SECRET, (("trace", b"trace of Ann"), ("none", None)), 1_000),
            Record(b"key of Ann", None, (), 1_007),
            Record(None, SECRET, (), 1_003),
        ],
        codec=codec,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
    )
    traffic.send(produced(batch))
    (recorded,) = traffic.requests()
    assert not recorded.is_redacted  # it can be replayed
    kept = batch_of(recorded)
    ((_, header),) = iterate(kept)
    assert (header.codec, header.producer_id, header.base_sequence) == (codec, 5, 9)
    first, second, third = decode_records(kept)
    assert (first.timestamp, second.timestamp, third.timestamp) == (1_000, 1_007, 1_003)
    assert first.key == second.key != b"key of Ann"
    assert first.value == third.value != SECRET
    assert (second.value, third.key) == (None, None)
    assert [name for name, _ in first.headers] == ["trace", "none"]
    assert (len(first.key or b""), len(first.value or b"")) == (10, len(SECRET))
    assert first.headers[0][1] != b"trace of Ann"
    assert not any(map(traffic.has, (SECRET, b"key of Ann", b"trace of Ann")))


def test_redacted_values_are_equal_in_requests_and_responses(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path / "redacted.jsonl", redact_values=True)
    batch = build([Record(b"key", SECRET, (), 1_000)])
    traffic.send(produced(batch), response_frame("produce", 9))
    fetched = [{"partitions": [{"partition_index": 0, "records": batch}]}]
    traffic.send(request_frame("fetch", 12), response_frame("fetch", 12, responses=fetched))
    _, produce, _, _, response = traffic.events()
    assert isinstance(produce, RecordedRequest)
    assert isinstance(response, RecordedResponse)
    assert response.frame is not None
    message = decode_response(response.frame, 1, 12)
    assert message.responses[0].partitions[0].records == batch_of(produce)


def test_markers_of_transactions_are_no_values(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path / "redacted.jsonl", redact_values=True)
    marker = control_batch(5, 2, commit=True, coordinator_epoch=0, timestamp=1_000)
    fetched = [{"partitions": [{"partition_index": 0, "records": marker}]}]
    traffic.send(request_frame("fetch", 12), response_frame("fetch", 12, responses=fetched))
    *_, response = traffic.events()
    assert isinstance(response, RecordedResponse)
    assert marker in (response.frame or b"")


def test_records_of_an_old_format_are_left_out_if_values_are_redacted(tmp_path: Path) -> None:
    traffic = Traffic(tmp_path / "redacted.jsonl", redact_values=True)
    old = bytearray(build([Record(b"key", SECRET, (), 1_000)]))
    old[16] = 1  # the magic byte
    traffic.send(produced(bytes(old)))
    (recorded,) = traffic.requests()
    assert (recorded.frame, recorded.is_redacted) == (None, True)
