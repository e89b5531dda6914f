"""A state of the cluster as the records that give it, and the records from one state to another."""

from collections.abc import Iterable, Iterator
from itertools import chain

from kohort.cluster import LeaderChanged, ReassignmentPlanned
from kohort.server.metadata.codec import decode, encode
from kohort.server.metadata.image import MetadataImage
from kohort.server.metadata.records import (
    AclRecord,
    ClusterIdRecord,
    ConfigsRecord,
    MetadataRecord,
    ProducerIdsReserved,
    QuotasRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)


def records_of(state: MetadataImage) -> Iterator[MetadataRecord]:
    """The records of which `state` is the fold: one of each key, as it is at the time of the call.

    Topics that were deleted are not told of.
    """
    users = state.scram_users
    ends = state.producer_ids_end
    cluster = state.cluster
    return chain[MetadataRecord](
        [ClusterIdRecord(state.cluster_id)] if state.cluster_id else (),
        [ProducerIdsReserved(ends)] if ends else (),
        [ScramSecretRecord(users.secret)] if users.secret else (),
        tuple(state.topics.values()),
        (ConfigsRecord(*name, configs) for name, configs in tuple(state.configs.items())),
        (QuotasRecord(entity, quotas) for entity, quotas in tuple(state.quotas.entities.items())),
        (AclRecord(*each) for each in state.acls.snapshot().items()),
        (
            UserScramCredentialRecord(user, kind, credential)
            for user, credentials in users.snapshot().items()
            for kind, credential in credentials.items()
        ),
        tuple(cluster.nodes.values()),
        (LeaderChanged(place, leader) for place, leader in tuple(cluster.leaders.items())),
        map(cluster.planned, tuple(cluster.moves)),
    )


def difference(
    state: Iterable[MetadataRecord], later: Iterable[MetadataRecord]
) -> list[MetadataRecord]:
    """The records by which one state becomes a later one: at most one of each key.

    Both are given as `records_of` them.
    """
    known = {encode(record)[0]: record for record in state}
    wanted = {encode(record)[0]: record for record in later}
    tombstones = [decode(key, None) for key in known if key not in wanted]
    changes, led = [], set()
    for key, record in wanted.items():
        if known.get(key) != record:
            changes.append(record)
            if isinstance(record, LeaderChanged):
                led.add(record.partition)
        elif isinstance(record, ReassignmentPlanned) and record.partition in led:
            changes.append(record)  # a new leader ends the plan that there was
    ended = (
        each
        for each in tombstones
        if not isinstance(each, ReassignmentPlanned) or each.partition not in led
    )
    return [*ended, *changes]
