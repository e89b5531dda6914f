"""Print the records of a topic, or with -G of a group's topics, with kcat's options:

    kohort consume -b HOST:PORT orders -o -5 -e -f '%p %o %k %s\\n'
    kohort consume -b HOST:PORT -G billing orders payments [--protocol consumer]
    kohort consume -b HOST:PORT orders -s key=i -s value=avro -r http://localhost:8081
    kohort consume -b HOST:PORT -L [-t orders]                     the cluster's brokers and topics
    kohort consume -b HOST:PORT -Q -t orders:0:1767225600000       the offset for a timestamp

On SIGINT and SIGTERM, records that were read are written, and committed in a group. The exit code
is then 0, as in kcat.
"""

import argparse
from collections.abc import Mapping
from typing import Final

from kohort.cli.byte_streams import ByteOutput
from kohort.cli.client_options import (
    add_client_arguments,
    client_config,
    client_properties,
    run_to_exit_code,
)
from kohort.cli.consume_deserializers import opened_deserializers, parse_serdes
from kohort.cli.consume_group import PROPERTIES, GroupConsumer, group_options
from kohort.cli.consume_offsets import BEGINNING, STORED, Span, parse
from kohort.cli.consume_plain import consume
from kohort.cli.consume_queries import list_metadata, queries, query_offsets
from kohort.cli.consume_sink import Sink
from kohort.cli.message_format import (
    NULL,
    Message,
    Write,
    delimited,
    formatter,
    json_envelope,
    unescape,
)
from kohort.cli.opened_cluster import opened_cluster
from kohort.cli.options import RefusedError
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster, Isolation
from kohort.client.group import ConsumerGroup
from kohort.errors import ConfigError
from kohort.types import TopicPartition

GROUP_ID: Final = "group.id"
PROTOCOL: Final = "group.protocol"
ISOLATION: Final = "isolation.level"
_OWN: Final = (GROUP_ID, *PROPERTIES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    add(
        *("-t", "--topic"),
        dest="topic_option",
        metavar="TOPIC",
        action="append",
        default=[],
        help="topic to read",
    )
    add(
        "-L",
        dest="list",
        action="store_true",
        help=("list brokers and topics, or the topic of -t, instead of reading"),
    )
    add(
        "-Q",
        dest="query",
        action="store_true",
        help=("print the offset for each -t TOPIC:PARTITION:TIMESTAMP (ms) instead of reading"),
    )
    add("-p", dest="partition", metavar="N", type=int, help="read only this partition")
    add(
        *("-G", "--group"),
        dest="group",
        metavar="GROUP",
        help="join this group and commit offsets",
    )
    add(
        "--protocol",
        choices=("classic", "consumer", "auto"),
        help="group protocol of -G, as -X group.protocol: classic, consumer (KIP-848), or auto for "
        "the newest that the broker supports (default: classic)",
    )
    add(
        "topics",
        nargs="*",
        metavar="TOPIC",
        help="topic to read; with -G several, or ^ and a regular expression",
    )
    add(
        "-o",
        dest="offsets",
        metavar="OFFSET",
        action="append",
        default=[],
        help="start offset: beginning, end, stored, an offset, -N from the end, or a timestamp "
        "s@MS; e@MS is the timestamp to stop at",
    )
    add("-c", dest="count", metavar="N", type=int, help="exit after N records")
    add("-e", dest="exit_at_end", action="store_true", help="exit at the end of the partitions")
    add(
        "-f",
        dest="format",
        metavar="FORMAT",
        help=(r"%%t %%p %%o %%k %%s %%S %%K %%T %%h %%R %%%% \n \t \xNN"),
    )
    add("-J", dest="json", action="store_true", help="write one JSON object per line")
    add(
        "-D",
        dest="delimiter",
        metavar="DELIMITER",
        default=r"\n",
        help="delimiter after each record (default: newline)",
    )
    add(
        "-K",
        dest="key_delimiter",
        metavar="DELIMITER",
        help="write keys too, followed by this delimiter",
    )
    add(
        "-O",
        dest="with_offset",
        action="store_true",
        help="write offsets too, followed by the delimiter of -K",
    )
    add(
        "-Z", dest="null", action="store_true", help="write NULL for null and empty keys and values"
    )
    add(
        "-s",
        dest="serdes",
        metavar="SERDES",
        action="append",
        default=[],
        help="deserializer of keys and values, or with key= or value= of one of them: avro, or a "
        "pack-string: < little-endian, > big-endian, b B h H i I q Q integers of 1 to 8 bytes "
        "(upper case: unsigned), c character, s remaining bytes as text, $ end of the data",
    )
    add("-r", dest="registry", metavar="URL", help="schema registry of -s avro")
    add(
        "-E",
        dest="skip_undeserializable",
        action="store_true",
        help="skip records that cannot be deserialized, and report them",
    )
    add("-q", dest="quiet", action="store_true", help="print only errors to stderr")
    add(
        "-u",
        dest="unbuffered",
        action="store_true",
        help=("accepted for kcat; output is never buffered"),
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.group is None and not options.topic_option and len(options.topics) == 1:
        options.topic_option, options.topics = options.topics, []
    options.topic = options.topic_option[-1] if options.topic_option else None
    try:
        _check(options)
        span = parse(options.offsets)
        if span.start == STORED and not _group(options):
            raise ConfigError("-o stored: needs a group, by -G or -X group.id=GROUP")
        return run_to_exit_code(_consume(options, span))
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def _check(options: argparse.Namespace) -> None:
    if options.list and options.query:
        raise ConfigError("-L, -Q: choose one of the two")
    if options.query and not options.topic_option:
        raise ConfigError("-Q: needs -t TOPIC:PARTITION:TIMESTAMP")
    if options.query:
        queries(options.topic_option)
    if options.list or options.query:
        return
    if options.group is None and (options.topic is None or options.topics):
        raise ConfigError("a topic is missing: one TOPIC, or -G GROUP TOPIC…")
    if options.group is not None and not (options.topics or options.topic):
        raise ConfigError("-G: needs topics, after the options")
    if options.group is None and options.protocol is not None:
        raise ConfigError("--protocol: needs a group, by -G")
    if options.group is not None and options.partition is not None:
        raise ConfigError("-p: cannot be combined with -G, since a group assigns partitions")
    parse_serdes(options.serdes, options.registry)
    if options.count is not None and options.count < 1:
        raise ConfigError(f"-c {options.count}: is not a number of records")


def _group(options: argparse.Namespace) -> str:
    return str(options.group or client_properties(options, _OWN).get(GROUP_ID, ""))


async def _consume(options: argparse.Namespace, span: Span) -> int:
    properties = client_properties(options, _OWN)
    async with opened_cluster(options, client_config(options, properties)) as cluster:
        if options.list:
            await list_metadata(Admin(cluster), options.topic, as_json=options.json)
            return 0
        if options.query:
            await query_offsets(Admin(cluster), queries(options.topic_option), as_json=options.json)
            return 0
        serdes = parse_serdes(options.serdes, options.registry)
        async with opened_deserializers(serdes, options.registry) as deserializers:
            sink = Sink(
                ByteOutput(),
                _writer(options, cluster),
                limit=options.count,
                stop_ms=span.stop_ms,
                quiet=options.quiet,
                deserializers=deserializers,
                skips_undeserializable=options.skip_undeserializable,
            )
            if options.group is None:
                await _plain(options, properties, Admin(cluster), sink, span)
            else:
                await _in_group(options, properties, Admin(cluster), sink, span)
    return 0


async def _plain(
    options: argparse.Namespace, properties: Mapping[str, str], admin: Admin, sink: Sink, span: Span
) -> None:
    await consume(
        admin,
        sink,
        topic=options.topic,
        partition=options.partition,
        start=BEGINNING if span.start is None else span.start,
        group=properties.get(GROUP_ID, ""),
        isolation=_isolation(properties),
        exit_at_end=options.exit_at_end,
    )


def _isolation(properties: Mapping[str, str]) -> Isolation:
    """The isolation level; read_committed by default, as in librdkafka. Raises ConfigError."""
    match properties.get(ISOLATION, "read_committed"):
        case "read_committed":
            return "read_committed"
        case "read_uncommitted":
            return "read_uncommitted"
        case other:
            raise ConfigError(f"{ISOLATION}={other}: is not read_committed or read_uncommitted")


async def _in_group(
    options: argparse.Namespace, properties: Mapping[str, str], admin: Admin, sink: Sink, span: Span
) -> None:
    topics = [*options.topics, *([options.topic] if options.topic else [])]
    protocol = {} if options.protocol is None else {PROTOCOL: options.protocol}
    chosen = group_options({ISOLATION: "read_committed", **properties, **protocol}, topics)
    # A member would retry without a server, for as long as it lives.
    await admin.cluster.metadata(())
    try:
        async with ConsumerGroup(options.group, cluster=admin.cluster, **chosen) as group:
            await GroupConsumer(admin, group, sink, span.start, options.exit_at_end).run()
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors


def _first(error: BaseException) -> BaseException:
    """The first error of several tasks; they mostly have one cause, such as a closed output."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _writer(options: argparse.Namespace, cluster: Cluster) -> Write:
    """How records are written. Raises ConfigError."""
    null = NULL if options.null else b""
    if options.json:
        return json_envelope(lambda message: _broker(cluster, message))
    if options.format is not None:
        return formatter(options.format, null=null)
    key_delimiter = None if options.key_delimiter is None else unescape(options.key_delimiter)
    return delimited(
        unescape(options.delimiter), key_delimiter, with_offset=options.with_offset, null=null
    )


def _broker(cluster: Cluster, message: Message) -> int:
    leader = cluster.cached_leader(TopicPartition(message.topic, message.partition))
    return -1 if leader is None else leader.node_id
