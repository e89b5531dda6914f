"""Machine code that decodes records, loaded by processes that read many of them.

With it a record takes a third of the time. Loading it takes 0.15 s of a processor and 90 MB (LLVM
and pyarrow), so a thread loads it once this process has decoded 50,000 records within a second. It
needs `pip install 'kohort[arrow]'`; without it no code is loaded.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from kohort.protocol.compression import Buffer

if TYPE_CHECKING:
    from kohort.columnar.fields import Fields, Scanned

logger = logging.getLogger("kohort.client")


class Decoder(Protocol):
    """`kohort.columnar.fields`."""

    def read_fields(
        self,
        data: Buffer,
        from_offset: int,
        to_offset: int,
        aborted: Collection[tuple[int, int]],
        /,
    ) -> "Iterator[Fields]": ...

    def scan_batches(self, data: Buffer, /, *, check_crcs: bool) -> "Scanned | None": ...


_MIN_RECORDS: Final = 50_000
_INTERVAL_S: Final = 1.0


class MachineCode:
    """The decoder in machine code, which is loaded when the process decodes many records."""

    def __init__(
        self, load: Callable[[], Decoder], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`load` is called in a thread, once, and may raise; `clock` is in seconds."""
        self._load = load
        self._clock = clock
        self._count = 0
        self._since = clock()
        self._loading: threading.Thread | None = None
        self.decoder: Decoder | None = None
        """None until it is loaded."""
        self.min_bytes = 4096
        """Size from which it is faster than Python: a call of machine code takes 20 µs."""

    def decoded(self, records: int) -> None:
        """Count records that Python decoded."""
        self._count += records
        if self._count < _MIN_RECORDS or self._loading is not None:
            return
        now = self._clock()
        if now - self._since < _INTERVAL_S:
            # No daemon: the interpreter must not end within LLVM.
            self._loading = threading.Thread(target=self._run, name="kohort-machine-code")
            self._loading.start()
        self._count, self._since = 0, now

    def _run(self) -> None:
        try:
            self.decoder = self._load()
        except ModuleNotFoundError as error:
            logger.debug("decoding records in Python: %s", error)
        except Exception:
            logger.warning(
                "decoding records in Python: the machine code cannot be loaded", exc_info=True
            )


def load_decoder() -> Decoder:
    """Import it and load its kernels. Raises ModuleNotFoundError, KohortError."""
    from kohort.columnar import fields
    from kohort.columnar.machine_code import addresses

    addresses()  # else the event loop would load them, with the first response that it decodes
    return fields


machine_code: Final = MachineCode(load_decoder)
