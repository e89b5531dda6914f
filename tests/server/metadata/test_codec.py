"""Records that this version did not write."""

import json
import re

import pytest

from kohort import __version__
from kohort.errors import KohortError
from kohort.protocol import batches
from kohort.server.metadata import METADATA
from kohort.server.metadata_log.local import METADATA_LOG_CONFIG
from server.handlers.bench import START, HandlerBench

TOPIC = b'{"topic":"00000000-0000-0000-0000-000000000001"}'
ACL = b'{"acl":"00000000-0000-0000-0000-000000000001"}'
NODE = b'{"node":1}'
NODE_VALUE = b'{"draining":false,"endpoints":[],"registeredAt":5,"session":1}'
VALID = {
    "resource_type": "topic",
    "resource_name": "orders",
    "pattern_type": "literal",
    "principal": "User:alice",
    "host": "*",
    "operation": "read",
    "permission_type": "deny",
}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b'{"zone":"x"}', b'{"y":1}', """of the unknown kind b'{"zone":"x"}'"""),
        (b'{"cluster":"id"}', None, "of the unknown kind"),
        (b'{"cluster":"id","x":1}', b'{"id":"a"}', "of the unknown kind"),
        (b'{"cluster":"id"}', b"{}", "a cluster record without the field 'id'"),
        (b'{"cluster":"id"}', b'{"id":7}', "a cluster record whose field 'id' is 7"),
        (b'{"quotas of":{"user":1}}', b"{}", "has quotas of {'user': 1}"),
        (b'{"quotas of":{"user":"a"}}', b'{"x":"1"}', "a record with the quotas {'x': '1'}"),
        (b'{"producer ids":"reserved"}', b'{"end":true}', "whose field 'end' is True"),
        (b'{"scram credential":"MD5","user":"a"}', None, "of the unknown kind 'MD5'"),
        (
            b'{"scram credential":"SCRAM-SHA-256","user":"a"}',
            b'{"salt":"?","storedKey":"","serverKey":"","iterations":4096}',
            "has a field that is not base64",
        ),
        *(
            (ACL, json.dumps(VALID | {field: word}).encode(), f"with the word '{word}'")
            for field, word in (
                ("resource_type", "any"),
                ("resource_type", "share_group"),
                ("pattern_type", "match"),
                ("operation", "unknown"),
                ("permission_type", "any"),
            )
        ),
        (ACL, json.dumps(VALID | {"host": None}).encode(), "whose field 'host' is None"),
        (ACL, json.dumps(VALID | {"until": 1}).encode(), "with the unknown field 'until'"),
        (b'{"acl":"x"}', None, "a binding record with the id 'x'"),
        (b'{"leader of":"x","partition":0}', None, "a leader record with the id 'x'"),
        (NODE, NODE_VALUE.replace(b"[]", b"[1]"), "a node record with the endpoint 1"),
        (NODE, NODE_VALUE.replace(b"false", b"0"), "a node record whose field 'draining' is 0"),
        (b"\xff", b"{}", r"the key b'\xff', which is no JSON object"),
        (b"[" * 100_000, b"{}", "which is no JSON object"),
        (TOPIC, b"[]", "the value b'[]', which is no JSON object"),
        (TOPIC, b"{", "which is no JSON object"),
        (b'{"topic":"x"}', None, "a topic record with the id 'x'"),
        (
            TOPIC,
            b'{"name":"a","partitions":1,"configs":{},"internal":false,"racks":2}',
            "a topic record with the unknown field 'racks'",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":"1","configs":{},"internal":false}',
            "a topic record whose field 'partitions' is '1'",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":0,"configs":{},"internal":false}',
            "a topic record with 0 partitions",
        ),
        (
            TOPIC,
            b'{"name":"a","partitions":1,"configs":{"x":1},"internal":false}',
            "with the configs {'x': 1}",
        ),
    ],
)
def test_a_record_that_this_version_did_not_write_is_refused_by_name(
    bench: HandlerBench, key: bytes, value: bytes | None, why: str
) -> None:
    bench.controller.topics.create("orders", 1)
    log = bench.directory.open(METADATA, METADATA_LOG_CONFIG)
    offset = log.end_offset
    log.append(batches.pack([(key, value)], START), START)
    with pytest.raises(KohortError, match=re.escape(why)) as caught:
        bench.restart()
    assert f"__cluster_metadata-0: the record at offset {offset} " in str(caught.value)
    assert f"Kohort {__version__} was the last to serve from it" in str(caught.value)
