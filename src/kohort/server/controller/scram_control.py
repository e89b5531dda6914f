"""SCRAM credentials of users (Kafka's ScramControlManager)."""

from collections.abc import Callable, Mapping, Sequence

from kohort.security.scram import ScramCredential, ScramMechanism
from kohort.server.metadata import (
    MetadataImage,
    MetadataRecord,
    ScramSecretRecord,
    UserScramCredentialRecord,
)


class ScramControl:
    """Decides on changes of SCRAM credentials."""

    def __init__(self, image: MetadataImage, new_secret: Callable[[], bytes]) -> None:
        """`new_secret` returns random bytes, by which credentials of unknown users are invented."""
        self._users = image.scram_users
        self._new_secret = new_secret

    def alter_credentials(
        self, credentials: Mapping[tuple[str, ScramMechanism], ScramCredential | None]
    ) -> Sequence[MetadataRecord]:
        """Records that set credentials of users; None removes one."""
        records: list[MetadataRecord] = [
            UserScramCredentialRecord(user, mechanism, credential)
            for (user, mechanism), credential in credentials.items()
        ]
        if not self._users.secret:
            records.append(ScramSecretRecord(self._new_secret()))
        return records
