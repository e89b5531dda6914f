"""How records are written: formats, delimiters, JSON."""

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cli.message_format import NULL, delimited, formatter, json_envelope, unescape
from kohort.client.record import Record, TimestampType
from kohort.errors import ConfigError


def record(key: bytes | None = b"k", value: bytes | None = b"v", **fields: Any) -> Record:
    defaults = {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_769_860_800_000,
        "timestamp_type": TimestampType.CREATE_TIME,
        "headers": (),
        "leader_epoch": 0,
    }
    return Record(key=key, value=value, **{**defaults, **fields})


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (r"%t [%p] at %o: %k=%s\n", b"orders [3] at 42: k=v\n"),
        ("%K %S %T", b"1 1 1769860800000"),
        ("%R%s", b"\0\0\0\x01v"),
        ("100%%|", b"100%|"),
        (r"\t\r\n\\\q", b"\t\r\n\\q"),
        (r"\x41\x4a|\x4142|\x|", b"AJ|B|\0|"),
        (r"\065|\101|\0101|", b"5|e|A|"),
        ("", b""),
        ("é%s", "év".encode()),
    ],
)
def test_tokens_format_fields_of_the_record(template: str, written: bytes) -> None:
    assert formatter(template)(record()) == written


@pytest.mark.parametrize(
    ("key", "value", "plain", "with_null"),
    [
        (None, None, b"k= -1 s= -1", b"k=NULL -1 s=NULL -1"),
        (b"", b"", b"k= 0 s= 0", b"k=NULL 0 s=NULL 0"),  # the lengths tell null from empty
        (b"a", b"b", b"k=a 1 s=b 1", b"k=a 1 s=b 1"),
    ],
)
def test_null_and_empty(
    key: bytes | None, value: bytes | None, plain: bytes, with_null: bytes
) -> None:
    template = "k=%k %K s=%s %S"
    assert formatter(template)(record(key, value)) == plain
    assert formatter(template, null=NULL)(record(key, value)) == with_null


def test_headers_are_formatted_as_text_or_bytes() -> None:
    headers = (("a", b"1"), ("b", b""), ("c", None), ("a", b"2"))
    assert formatter("%h")(record(headers=headers)) == b"a=1,b=,c=NULL,a=2"
    assert formatter("%R")(record(value=None)) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("template", "told"), [("%x", "unknown token %x; there are %s %k %h"), ("50%", "%% is a")]
)
def test_unknown_tokens_are_refused(template: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        formatter(template)


def test_delimiters_separate_records_and_keys() -> None:
    assert delimited(b"\n", None, with_offset=False)(record()) == b"v\n"
    assert delimited(b"|", b": ", with_offset=False)(record()) == b"k: v|"
    assert delimited(b"\n", b"\t", with_offset=True)(record()) == b"42\tk\tv\n"
    assert delimited(b"\n", None, with_offset=False)(record(value=None)) == b"\n"
    assert (
        delimited(b"\n", b":", with_offset=False, null=NULL)(record(None, None)) == b"NULL:NULL\n"
    )


@given(st.binary())
def test_any_bytes_can_be_a_delimiter(data: bytes) -> None:
    assert unescape("".join(f"\\x{byte:02x}" for byte in data)) == data


def test_json_has_kcats_members_in_its_order() -> None:
    written = json_envelope(lambda _: 7)(
        record(None, b'x\0\x1f\x08\n"\\/\\u001f', headers=(("h", None), ("i", b"2")))
    )
    assert written == (
        b'{"topic":"orders","partition":3,"offset":42,"tstype":"create","ts":1769860800000,"broker":7,'
        b'"headers":["h",null,"i","2"],"key":null,"payload":"x\\u0000\\u001F\\b\\n\\"\\\\/\\\\u001f"}\n'
    )


@given(st.text(), st.none() | st.text())
def test_json_is_json(value: str, key: str | None) -> None:
    encoded = None if key is None else key.encode()
    envelope = json.loads(json_envelope(lambda _: 0)(record(encoded, value.encode())))
    assert (envelope["payload"], envelope["key"]) == (value, key)


def strict(line: bytes) -> dict[str, Any]:
    """The object of a line, which has to be JSON as RFC 8259 has it, in UTF-8."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line.decode(), parse_constant=refuse)
    return found


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())),
)
def test_any_bytes_are_json(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    found = strict(json_envelope(lambda _: 0)(record(key, value, headers=tuple(headers))))
    for name, data in (("key", key), ("payload", value)):
        if f"{name}_base64" in found:
            assert b64decode(found[f"{name}_base64"]) == data
            assert "\ufffd" in found[name]
        else:
            assert (None if found[name] is None else found[name].encode()) == data
    values = [data for _, data in headers]
    if "headers_base64" in found:
        exact = found["headers_base64"][1::2]
        assert [None if data is None else b64decode(data) for data in exact] == values
    elif headers:
        texts = found["headers"][1::2]
        assert [None if text is None else text.encode() for text in texts] == values


def test_bytes_that_are_no_text_have_a_member_of_their_own() -> None:
    found = strict(json_envelope(lambda _: 0)(record(value=b"a\xff", headers=(("h", b"\xfe"),))))
    assert found["payload"] == "a\ufffd"
    assert found["payload_base64"] == "Yf8="
    assert found["headers"] == ["h", "\ufffd"]
    assert found["headers_base64"] == ["aA==", "/g=="]
