"""Keys and values of records of the metadata log.

They are JSON, so that people can read the files. Clients cannot fetch the log, which has
credentials.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from kohort.cluster import (
    Endpoint,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.quotas import QuotaEntity, quota_entity
from kohort.security import acls
from kohort.security.acls import AclBinding, AclOperation, AclPermissionType, PatternType
from kohort.security.scram import BY_MECHANISM, ScramCredential, ScramMechanism
from kohort.server.config import ResourceType
from kohort.server.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    ScramSecretRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kohort.types import Timestamp, TopicIdPartition

_MAX_CHARS: Final = 80
_CREDENTIAL_FIELDS: Final = {"salt": str, "storedKey": str, "serverKey": str, "iterations": int}
_TOPIC_FIELDS: Final = {"name": str, "partitions": int, "configs": dict, "internal": bool}
_ENDPOINT_FIELDS: Final = {"listener": str, "host": str, "port": int}
_NODE_FIELDS: Final = {
    "session": int,
    "endpoints": list,
    "registeredAt": int,
    "rack": str,
    "draining": bool,
    "machine": str,
    "connects": bool,
}
_ACL_WORDS: Final[Mapping[str, Mapping[str, IntEnum]]] = {
    field: {code.name.lower(): code for code in codes if code > last_of_filters}
    for field, codes, last_of_filters in (
        ("resource_type", acls.ResourceType, acls.ResourceType.ANY),
        ("pattern_type", PatternType, PatternType.MATCH),
        ("operation", AclOperation, AclOperation.ANY),
        ("permission_type", AclPermissionType, AclPermissionType.ANY),
    )
}
"""The words of a record, without those that only filters have."""


class UndecodableError(ValueError):
    """A record that this version did not write; the text continues "the record …"."""


def encode(record: MetadataRecord) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    match record:
        case TopicRecord():
            value = {
                "name": record.name,
                "partitions": record.partitions,
                "configs": dict(record.configs),
                "internal": record.internal,
            }
            return _json({"topic": str(record.id)}), _json(value)
        case RemoveTopicRecord():
            return _json({"topic": str(record.id)}), None
        case ConfigRecord():
            resource = _json({"configs of": record.kind.name.lower(), "name": record.name})
            return resource, _json(dict(record.configs)) if record.configs else None
        case ClientQuotaRecord():
            entity = _json({"quotas of": dict(record.entity)})
            return entity, _json(dict(record.quotas)) if record.quotas else None
        case AccessControlEntryRecord():
            return _json({"acl": str(record.id)}), _json(_acl_fields(record.binding))
        case RemoveAccessControlEntryRecord():
            return _json({"acl": str(record.id)}), None
        case ProducerIdsRecord():
            return _json({"producer ids": "reserved"}), _json({"end": record.end})
        case ClusterIdRecord():
            return _json({"cluster": "id"}), _json({"id": record.cluster_id})
        case UserScramCredentialRecord(credential=credential):
            user = _json({"scram credential": record.kind.mechanism, "user": record.user})
            return user, None if credential is None else _encode_credential(credential)
        case ScramSecretRecord():
            return _json({"scram": "secret"}), _json({"secret": _base64(record.secret)})
        case NodeRegistered():
            return _json({"node": record.id}), _encode_node(record)
        case NodeFenced():
            return _json({"node": record.id}), None
        case LeaderChanged(leader=leader):
            leader_value = None if leader == Leader() else _json(leader._asdict())
            return _key_of("leader of", record.partition), leader_value
        case ReassignmentPlanned(to=to, is_ready=is_ready):
            move = None if to is None else _json({"to": to, "ready": is_ready})
            return _key_of("move of", record.partition), move


def _encode_node(node: NodeRegistered) -> bytes:
    return _json(
        {
            "session": node.session,
            "endpoints": [endpoint._asdict() for endpoint in node.endpoints],
            "registeredAt": node.registered_at,
            "draining": node.is_draining,
        }
        | ({} if node.rack is None else {"rack": node.rack})
        | ({} if node.machine is None else {"machine": node.machine})
        | ({} if node.can_connect else {"connects": False})
    )


def _key_of(kind: str, partition: TopicIdPartition) -> bytes:
    return _json({kind: str(partition.topic_id), "partition": partition.partition})


def _encode_credential(credential: ScramCredential) -> bytes:
    return _json(
        {
            "salt": _base64(credential.salt),
            "storedKey": _base64(credential.stored_key),
            "serverKey": _base64(credential.server_key),
            "iterations": credential.iterations,
        }
    )


def decode(key: bytes, value: bytes | None) -> MetadataRecord:
    """The record. Raises UndecodableError for what this version did not write."""
    name = _object(key, "key")
    fields = None if value is None else _object(value, "value")
    match name:
        case {"topic": str(text), **rest} if not rest:
            return _decode_topic(_id("topic", text), fields)
        case {"cluster": "id", **rest} if not rest and fields is not None:
            return ClusterIdRecord(_fields("cluster", fields, {"id": str})["id"])
        case {"configs of": str(kind), "name": str(resource), **rest} if not rest:
            return ConfigRecord(_kind(kind), resource, _configs(fields or {}))
        case {"quotas of": dict(entity), **rest} if not rest:
            return ClientQuotaRecord(_entity(entity), _quotas(fields or {}))
        case {"acl": str(text), **rest} if not rest:
            return _decode_acl(_id("binding", text), fields)
        case {"producer ids": "reserved", **rest} if not rest and fields is not None:
            return ProducerIdsRecord(_fields("producer ids", fields, {"end": int})["end"])
        case {"scram credential": str(mechanism), "user": str(user), **rest} if not rest:
            return UserScramCredentialRecord(user, _mechanism(mechanism), _credential(fields))
        case {"scram": "secret", **rest} if not rest and fields is not None:
            return ScramSecretRecord(_bytes(_fields("scram", fields, {"secret": str})["secret"]))
        case {"node": int(node), **rest} if not rest:
            return NodeFenced(node) if fields is None else _decode_node(node, fields)
        case {"leader of": str(text), "partition": int(partition), **rest} if not rest:
            topic_partition = TopicIdPartition(_id("leader", text), partition)
            return LeaderChanged(topic_partition, Leader() if fields is None else _leader(fields))
        case {"move of": str(text), "partition": int(partition), **rest} if not rest:
            topic_partition = TopicIdPartition(_id("move", text), partition)
            if fields is None:
                return ReassignmentPlanned(topic_partition, None)
            move = _fields("move", fields, {"to": int, "ready": bool})
            return ReassignmentPlanned(topic_partition, move["to"], move["ready"])
    raise UndecodableError(f"is of the unknown kind {_shorten(key)}")


def _decode_topic(
    topic_id: UUID, fields: Mapping[str, Any] | None
) -> TopicRecord | RemoveTopicRecord:
    if fields is None:
        return RemoveTopicRecord(topic_id)
    values = _fields("topic", fields, _TOPIC_FIELDS)
    _configs(values["configs"])
    if values["partitions"] < 1:
        raise UndecodableError(f"is a topic record with {values['partitions']} partitions")
    return TopicRecord(id=topic_id, **values)


def _decode_node(node_id: int, fields: Mapping[str, Any]) -> NodeRegistered:
    missing = {"rack", "machine", "connects"} - fields.keys()
    field_types = {
        name: field_type for name, field_type in _NODE_FIELDS.items() if name not in missing
    }
    values = _fields("node", fields, field_types)
    return NodeRegistered(
        node_id,
        values["session"],
        tuple(_endpoint(endpoint) for endpoint in values["endpoints"]),
        Timestamp(values["registeredAt"]),
        values.get("rack"),
        values["draining"],
        values.get("machine"),
        values.get("connects", True),
    )


def _endpoint(fields: object) -> Endpoint:
    if not isinstance(fields, dict):
        raise UndecodableError(f"is a node record with the endpoint {_shorten(fields)}")
    return Endpoint(**_fields("node", fields, _ENDPOINT_FIELDS))


def _leader(fields: Mapping[str, Any]) -> Leader:
    return Leader(**_fields("leader", fields, {"node": int, "epoch": int}))


def _acl_fields(binding: AclBinding) -> dict[str, str]:
    return {
        name: value.name.lower() if isinstance(value, IntEnum) else value
        for name, value in binding._asdict().items()
    }


def _decode_acl(
    acl_id: UUID, fields: Mapping[str, Any] | None
) -> AccessControlEntryRecord | RemoveAccessControlEntryRecord:
    if fields is None:
        return RemoveAccessControlEntryRecord(acl_id)
    names = _fields("binding", fields, dict.fromkeys(AclBinding._fields, str))
    try:
        values = {name: words[names[name]] for name, words in _ACL_WORDS.items()}
    except KeyError as error:
        raise UndecodableError(
            f"is a binding record with the word {_shorten(error.args[0])}"
        ) from None
    return AccessControlEntryRecord(acl_id, AclBinding(**names | values))


def _kind(text: str) -> ResourceType:
    try:
        return ResourceType[text.upper()]
    except KeyError:
        raise UndecodableError(f"has configs of the unknown kind {_shorten(text)}") from None


def _mechanism(name: str) -> ScramMechanism:
    try:
        return BY_MECHANISM[name]
    except KeyError:
        raise UndecodableError(f"is a credential of the unknown kind {_shorten(name)}") from None


def _credential(fields: Mapping[str, Any] | None) -> ScramCredential | None:
    if fields is None:
        return None
    values = _fields("scram credential", fields, _CREDENTIAL_FIELDS)
    return ScramCredential(
        salt=_bytes(values["salt"]),
        stored_key=_bytes(values["storedKey"]),
        server_key=_bytes(values["serverKey"]),
        iterations=values["iterations"],
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UndecodableError("has a field that is not base64") from None


def _configs(configs: Mapping[str, Any]) -> Mapping[str, str]:
    if not all(isinstance(value, str) for value in configs.values()):
        raise UndecodableError(f"is a record with the configs {_shorten(configs)}")
    return configs


def _entity(names: Mapping[str, Any]) -> QuotaEntity:
    if not all(name is None or isinstance(name, str) for name in names.values()):
        raise UndecodableError(f"has quotas of {_shorten(names)}")
    return quota_entity(names.items())


def _quotas(quotas: Mapping[str, Any]) -> Mapping[str, float]:
    if not all(isinstance(value, float) for value in quotas.values()):
        raise UndecodableError(f"is a record with the quotas {_shorten(quotas)}")
    return quotas


def _id(kind: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UndecodableError(f"is a {kind} record with the id {_shorten(text)}") from None


def _object(content: bytes, part: str) -> dict[str, Any]:
    try:
        decoded = json.loads(content.decode())
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise UndecodableError(f"has the {part} {_shorten(content)}, which is no JSON object")
    return decoded


def _fields(
    kind: str, fields: Mapping[str, Any], field_types: Mapping[str, type]
) -> dict[str, Any]:
    """`fields`, which are those of `field_types`, no more and no less. Raises UndecodableError."""
    if fields.keys() != field_types.keys():
        raise _other_fields(kind, fields, field_types)
    for name, field_type in field_types.items():
        if type(fields[name]) is not field_type:
            raise UndecodableError(
                f"is a {kind} record whose field {_shorten(name)} is {_shorten(fields[name])}"
            )
    return dict(fields)


def _other_fields(
    kind: str, fields: Mapping[str, Any], field_types: Mapping[str, type]
) -> UndecodableError:
    if unknown := sorted(fields.keys() - field_types.keys()):
        return UndecodableError(f"is a {kind} record with the unknown field {_shorten(unknown[0])}")
    missing = min(field_types.keys() - fields.keys())
    return UndecodableError(f"is a {kind} record without the field {_shorten(missing)}")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "…"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
