"""A Kafka of another process, with the controls of an `EmbeddedKafka`.

    with RemoteKafka("127.0.0.1:9099") as kafka:
        kafka.topic("orders", partitions=4)

The other process is `kohort serve --dev --control`, on this machine or in a container.
"""

from collections.abc import Mapping

from kohort.errors import KohortError
from kohort.server.addresses import parse_address
from kohort.testing.control.http_client import ControlClient
from kohort.testing.control.remote_server import RemoteServer
from kohort.testing.embedded.embedded_kafka import EmbeddedKafka


class RemoteKafka(EmbeddedKafka):
    """A broker of a control API, from `start` to `close` or in a `with` block.

    Faults with a predicate (`when`) are refused with KohortError.
    """

    def __init__(
        self,
        control: str,
        settings: Mapping[str, object] | None = None,
        *,
        broker: str | None = None,
    ) -> None:
        """`control` is HOST:PORT of the API. Raises KohortError if it is not.

        A further broker with these settings is started, and stopped at the end. `broker` is the
        number of one that exists: it is reset at the start, keeps its port, and is not stopped.
        """
        super().__init__(settings)
        if broker is not None and settings:
            raise KohortError("a broker that exists has its settings: leave out settings or broker")
        try:
            address = parse_address(control)
        except ValueError as error:
            raise KohortError(f"control: {error}") from error
        self._client = ControlClient(address.host, address.port)
        self._broker = broker

    def _open(self) -> None:
        if self._broker is None:
            self._running = RemoteServer.started(self._client, self._settings)
        else:
            self._running = RemoteServer.reset(self._client, self._broker)
