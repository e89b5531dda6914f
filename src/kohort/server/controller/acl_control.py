"""Access control lists (Kafka's AclControlManager)."""

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from kohort.security.acls import AclBinding
from kohort.server.metadata import (
    AccessControlEntryRecord,
    MetadataImage,
    RemoveAccessControlEntryRecord,
)


class AclControl:
    """Decides on changes of the access control lists."""

    def __init__(self, image: MetadataImage, new_id: Callable[[], UUID]) -> None:
        """`new_id` returns the id of a new entry."""
        self._acls = image.acls
        self._new_id = new_id

    def create_acls(self, bindings: Iterable[AclBinding]) -> Sequence[AccessControlEntryRecord]:
        """Records of those entries that do not exist."""
        new = (binding for binding in dict.fromkeys(bindings) if self._acls.id_of(binding) is None)
        return [AccessControlEntryRecord(self._new_id(), binding) for binding in new]

    def delete_acls(self, ids: Iterable[UUID]) -> Sequence[RemoveAccessControlEntryRecord]:
        """Records that remove those of the entries that exist."""
        return [
            RemoveAccessControlEntryRecord(acl_id)
            for acl_id in dict.fromkeys(ids)
            if self._acls.get(acl_id) is not None
        ]
