"""Each manager returns the records of a change, and none where nothing changes."""

from uuid import UUID

from kohort.quotas import quota_entity
from kohort.security.acls import AclBinding, AclOperation, AclPermissionType, PatternType
from kohort.security.acls import ResourceType as AclResourceType
from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.config import ResourceType
from kohort.server.controller.acl_control import AclControl
from kohort.server.controller.client_quota_control import ClientQuotaControl
from kohort.server.controller.configuration_control import ConfigurationControl
from kohort.server.controller.scram_control import ScramControl
from kohort.server.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    MetadataImage,
    RemoveAccessControlEntryRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)

ID = UUID(int=1)
READS = AclBinding(
    AclResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
CREDENTIAL = ScramCredential(salt=b"s", stored_key=b"k", server_key=b"v", iterations=4_096)


def test_an_acl_is_created_once() -> None:
    image = MetadataImage()
    control = AclControl(image, lambda: ID)
    (record,) = control.create_acls([READS, READS])
    assert record == AccessControlEntryRecord(ID, READS)
    image.replay(record)
    assert not control.create_acls([READS])


def test_acls_that_exist_are_deleted() -> None:
    image = MetadataImage()
    image.replay(AccessControlEntryRecord(ID, READS))
    control = AclControl(image, lambda: ID)
    assert control.delete_acls([ID, UUID(int=2), ID]) == [RemoveAccessControlEntryRecord(ID)]


def test_quotas_that_stay_have_no_record() -> None:
    image = MetadataImage()
    control = ClientQuotaControl(image)
    alice, bob = (quota_entity([("user", name)]) for name in ("alice", "bob"))
    image.replay(ClientQuotaRecord(alice, {"producer_byte_rate": 1.0}))
    altered = control.alter_quotas(
        {alice: {"producer_byte_rate": 1.0}, bob: {"producer_byte_rate": 2.0}}
    )
    assert altered == [ClientQuotaRecord(bob, {"producer_byte_rate": 2.0})]
    assert not control.alter_quotas({bob: {}})


def test_configs_that_stay_have_no_record() -> None:
    image = MetadataImage()
    control = ConfigurationControl(image)
    (record,) = control.set_configs(ResourceType.GROUP, "g", {"a": "1"})
    assert record == ConfigRecord(ResourceType.GROUP, "g", {"a": "1"})
    image.replay(record)
    assert not control.set_configs(ResourceType.GROUP, "g", {"a": "1"})
    assert control.configs_of(ResourceType.GROUP, "g") == {"a": "1"}
    assert control.configs_of(ResourceType.BROKER, "g") == {}
    assert control.configured(ResourceType.GROUP) == ("g",)


def test_the_first_credential_comes_with_a_secret() -> None:
    image = MetadataImage()
    control = ScramControl(image, lambda: b"secret")
    user = "alice", ScramMechanism.SHA_256
    credential, secret = control.alter_credentials({user: CREDENTIAL})
    assert credential == UserScramCredentialRecord(*user, CREDENTIAL)
    assert secret == ScramSecretRecord(b"secret")
    image.replay(secret)
    assert control.alter_credentials({user: None}) == [UserScramCredentialRecord(*user, None)]
