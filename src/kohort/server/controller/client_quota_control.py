"""Quotas of users, client ids and addresses (Kafka's ClientQuotaControlManager)."""

from collections.abc import Mapping, Sequence

from kohort.quotas import QuotaEntity
from kohort.server.metadata import ClientQuotaRecord, MetadataImage


class ClientQuotaControl:
    """Decides on changes of client quotas."""

    def __init__(self, image: MetadataImage) -> None:
        self._quotas = image.quotas

    def alter_quotas(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float]]
    ) -> Sequence[ClientQuotaRecord]:
        """Records that replace all quotas of these entities; the quotas were validated."""
        current = self._quotas.entities
        return [
            ClientQuotaRecord(entity, new)
            for entity, new in quotas.items()
            if new != current.get(entity, {})
        ]
