"""The options of `Producer`, as type checkers and editors see them.

`ProducerConfig` and `ClientConfig` have their meanings and defaults.
"""

from kohort.client.config.client_options import ConnectionOptions
from kohort.client.config.producer_config import Acks, Partitioner, PartitionerName


class ProducerOptions(ConnectionOptions, total=False):
    """The fields of `ProducerConfig` and `ClientConfig`."""

    acks: Acks
    compression: str
    compression_level: int | None
    linger_ms: float
    batch_size: int
    enable_idempotence: bool | None
    max_in_flight_requests_per_connection: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    connections_per_broker: int
    partitioner: Partitioner | PartitionerName
