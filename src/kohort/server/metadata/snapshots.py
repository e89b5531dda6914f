"""A state of the cluster as the records that give it, and the records from one state to another."""

from collections.abc import Iterable, Iterator
from itertools import chain

from kohort.cluster import LeaderChanged, ReassignmentPlanned
from kohort.server.metadata.codec import decode, encode
from kohort.server.metadata.image import MetadataImage
from kohort.server.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)


def records_of(state: MetadataImage) -> Iterator[MetadataRecord]:
    """The records of which `state` is the fold: one of each key, as it is at the time of the call.

    Deleted topics have no record.
    """
    users = state.scram_users
    ends = state.producer_ids_end
    cluster = state.cluster
    return chain[MetadataRecord](
        [ClusterIdRecord(state.cluster_id)] if state.cluster_id else (),
        [ProducerIdsRecord(ends)] if ends else (),
        [ScramSecretRecord(users.secret)] if users.secret else (),
        tuple(state.topics.values()),
        (ConfigRecord(*resource, configs) for resource, configs in tuple(state.configs.items())),
        (
            ClientQuotaRecord(entity, quotas)
            for entity, quotas in tuple(state.quotas.entities.items())
        ),
        (AccessControlEntryRecord(*entry) for entry in state.acls.snapshot().items()),
        (
            UserScramCredentialRecord(user, kind, credential)
            for user, credentials in users.snapshot().items()
            for kind, credential in credentials.items()
        ),
        tuple(cluster.nodes.values()),
        (LeaderChanged(partition, leader) for partition, leader in tuple(cluster.leaders.items())),
        map(cluster.planned, tuple(cluster.moves)),
    )


def difference(
    state: Iterable[MetadataRecord], later: Iterable[MetadataRecord]
) -> list[MetadataRecord]:
    """The records by which one state becomes a later one: at most one of each key.

    Both are given as `records_of` them.
    """
    old = {encode(record)[0]: record for record in state}
    new = {encode(record)[0]: record for record in later}
    tombstones = [decode(key, None) for key in old if key not in new]
    changes, reassigned = [], set()
    for key, record in new.items():
        if old.get(key) != record:
            changes.append(record)
            if isinstance(record, LeaderChanged):
                reassigned.add(record.partition)
        elif isinstance(record, ReassignmentPlanned) and record.partition in reassigned:
            changes.append(record)  # a new leader ends an earlier plan
    ended = (
        record
        for record in tombstones
        if not isinstance(record, ReassignmentPlanned) or record.partition not in reassigned
    )
    return [*ended, *changes]
