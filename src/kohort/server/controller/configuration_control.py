"""Configs of resources that are no topics (Kafka's ConfigurationControlManager)."""

from collections.abc import Iterable, Mapping, Sequence

from kohort.server.config import Config, ResourceType
from kohort.server.metadata import ConfigRecord, MetadataImage


class ConfigurationControl:
    """Decides on changes of configs."""

    def __init__(self, image: MetadataImage) -> None:
        self._configs = image.configs

    def configs_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """The configs that clients have set on a resource."""
        return self._configs.get((kind, name), {})

    def configured(self, kind: ResourceType) -> Iterable[str]:
        """The names of resources of this kind on which something is set."""
        return tuple(name for resource_type, name in self._configs if resource_type is kind)

    def apply_to(self, config: Config) -> None:
        """Put the configs of brokers in force in `config`, the configuration of this broker."""
        of_all_brokers, of_this_broker = (
            self.configs_of(ResourceType.BROKER, name) for name in ("", str(config["node.id"]))
        )
        config.set_dynamic(of_all_brokers, of_this_broker)

    def set_configs(
        self, kind: ResourceType, name: str, configs: Mapping[str, str]
    ) -> Sequence[ConfigRecord]:
        """Records that replace all configs of a resource; the configs were validated."""
        return [] if configs == self.configs_of(kind, name) else [ConfigRecord(kind, name, configs)]
