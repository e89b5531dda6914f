"""The bytes of a segment, in pages of whole batches that are in memory or in the database.

A page ends with the first batch that fills 64 KiB. The table of a segment's pages, 16 bytes for
each, is always in memory. A page itself is until it is durable and others are used more: all logs
together keep 64 MB of such pages. The last page of each log stays besides.
"""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple, Protocol

from kohort.log.damage import CorruptLogError, Damage
from kohort.log.leader_epochs import MAX_LEADER_EPOCH
from kohort.log.stores import MemoryStore, Records, Store
from kohort.protocol.batches import Buffer, read_header
from kohort.types import TopicPartition

PAGE_BYTES: Final = 64 * 1024
LOAD_CHUNK_BYTES: Final = 1 << 20
"""Bytes that one statement loads, unless the first page is larger."""
MAX_CACHED_BYTES: Final = 64 << 20
PAGE: Final = Struct(">qq")
"""Position and base offset of a page."""


class Row(NamedTuple):
    """A row of the table of batches."""

    log: int
    base: int
    """First offset."""
    next: int
    """Offset after the last one."""
    epoch: int
    max_timestamp: int
    data: bytes
    store: "PagedStore"
    end: int
    """Position behind it in its segment."""


class Range(NamedTuple):
    """The rows with base offsets in [first, end) of a log."""

    log: int
    first: int
    end: int


class NotInMemoryError(OSError):
    """What is read is in the database only; it can be read once `load` was awaited or called."""

    def __init__(self, store: "PagedStore", page: int) -> None:
        super().__init__("the records are not in memory")
        self.store = store
        self.page = page


class Reader(Protocol):
    """Reads rows."""

    def read_blocking(self, rows: Range) -> list[bytes]:
        """The data of rows in order, blocking; not in the thread of the event loop.

        Raises OSError.
        """
        ...


@dataclass(slots=True)
class _Page:
    rows: list[bytes]
    starts: list[int]
    """Position of each row in the segment."""
    end: int


class PageCache:
    """The pages of all logs that may be dropped, the least recently used first."""

    def __init__(self, limit: int = MAX_CACHED_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self._pages: OrderedDict[tuple[PagedStore, int], int] = OrderedDict()
        self._lock = Lock()
        """Logs are opened in other threads."""

    def add(self, store: "PagedStore", page: int, size: int) -> None:
        with self._lock:
            self._pages[store, page] = size
            self.size += size
        self.trim()

    def trim(self) -> None:
        """Drop pages beyond the limit, but the last that was used, and what is only in memory."""
        if self.size <= self.limit:
            return
        with self._lock:
            for store, page in tuple(self._pages)[:-1]:
                if self.size <= self.limit:
                    break
                if store.drop(page):
                    self.size -= self._pages.pop((store, page))

    def use(self, store: "PagedStore", page: int) -> None:
        with self._lock:
            if (store, page) in self._pages:
                self._pages.move_to_end((store, page))

    def forget(self, store: "PagedStore", pages: Iterable[int]) -> None:
        with self._lock:
            for page in pages:
                self.size -= self._pages.pop((store, page), 0)


class PagedStore:
    """The `Store` of one segment. Appended rows go to `added`, which brings them to the table."""

    __slots__ = (
        "_bases", "_cache", "_loaded", "_positions", "_reader", "_restored", "aborted", "added",
        "durable", "end_offset", "is_current", "log", "name", "size",
    )  # fmt: skip

    latest_epoch = MAX_LEADER_EPOCH

    def __init__(
        self,
        log: int,
        name: TopicPartition,
        cache: PageCache,
        reader: Reader,
        added: Callable[[Row], None],
        base_offset: int,
    ) -> None:
        self.size = 0
        self.durable = 0
        """Position up to which everything is in the database."""
        self.log = log
        self.name = name
        self.added = added
        self.end_offset = base_offset
        """Offset after its last row."""
        self.aborted = b""
        """The index of aborted transactions, as it was stored."""
        self.is_current = True
        """Whether the rows in the database are those of this segment: not once it is replaced."""
        self._cache = cache
        self._reader = reader
        self._positions = array("q")
        self._bases = array("q")
        """Position and base offset of each page."""
        self._loaded: dict[int, _Page] = {}
        self._restored = 0
        """Pages that are complete, because rows that are appended later go into others."""

    # Writing

    def append(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(parts)
        header = read_header(data)
        start = self.size
        end = start + len(data)
        last = len(self._positions) - 1
        if last < self._restored or start - self._positions[last] > PAGE_BYTES:
            self._begin_page(start, header.base_offset)
            last += 1
        page = self._loaded[last]
        page.rows.append(data)
        page.starts.append(start)
        page.end = self.size = end
        self.end_offset = header.last_offset + 1
        self.added(
            Row(
                self.log, header.base_offset, self.end_offset, header.partition_leader_epoch,
                header.max_timestamp, data, self, end,
            )
        )  # fmt: skip

    def _begin_page(self, position: int, base: int) -> None:
        self._close_page()
        self._loaded[len(self._positions)] = _Page([], [], position)
        self._positions.append(position)
        self._bases.append(base)

    def _close_page(self) -> None:
        last = len(self._positions) - 1
        if last >= self._restored and last in self._loaded:
            self._cache.add(self, last, self.size - self._positions[last])

    def complete(self) -> None:
        """Nothing more is appended."""
        self._close_page()
        self._restored = len(self._positions)

    def create(self) -> None:
        pass

    def truncate(self, size: int) -> bool:
        """Forget rows that are not durable; returns whether there were any."""
        if size >= self.size:
            return False
        assert size >= self.durable, "rows in the database are removed by operations"
        while self._positions and self._positions[-1] >= size:
            number = len(self._positions) - 1
            self._cache.forget(self, (number,))
            self._loaded.pop(number, None)
            self._positions.pop()
            self._bases.pop()
        if self._positions and (page := self._loaded.get(len(self._positions) - 1)) is not None:
            kept = bisect_right(page.starts, size - 1)
            del page.rows[kept:], page.starts[kept:]
            page.end = size
        self._restored = min(self._restored, len(self._positions))
        self.size = size
        return True

    # Reading

    def read(self, position: int, count: int) -> bytes:
        end = min(position + count, self.size)
        pages = self._pages_of(position, end)
        return b"".join(
            _of_page(page, max(position, page.starts[0]), min(end, page.end)) for page in pages
        )

    def reach(self, position: int, count: int) -> int:
        end = min(position + count, self.size)
        pages = self._pages_of(position, end)
        return min(end, pages[-1].end) - position if pages else 0

    def take(self, position: int, count: int) -> Records:
        return self.read(position, count)

    def _pages_of(self, position: int, end: int) -> list[_Page]:
        """The pages that hold the bytes up to `end`, or fewer, but whole batches all the same."""
        if position >= end:
            return []
        number = bisect_right(self._positions, position) - 1
        page = self._loaded.get(number)
        if page is None:
            page = self._load_blocking(number)
        if number < self._restored:
            self._cache.use(self, number)
        pages = [page]
        while page.end < end:
            number += 1
            page = self._loaded.get(number)
            if page is None:
                break
            pages.append(page)
        return pages

    def _load_blocking(self, number: int) -> _Page:
        """Load a page, or raise NotInMemoryError where the event loop would wait for it."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.loaded(number, self._reader.read_blocking(self.rows_of(number)))
            return self._loaded[number]
        raise NotInMemoryError(self, number)

    def rows_of(self, page: int) -> Range:
        """The rows of a page and of those that follow, up to what is loaded at once."""
        end = page + 1
        start = self._positions[page]
        while end < len(self._positions) and end not in self._loaded:
            if self._end_of(end) - start > LOAD_CHUNK_BYTES:
                break
            end += 1
        after = self._bases[end] if end < len(self._bases) else self.end_offset
        return Range(self.log, self._bases[page], after)

    def _end_of(self, page: int) -> int:
        return self._positions[page + 1] if page + 1 < len(self._positions) else self.size

    def loaded(self, page: int, rows: Sequence[bytes]) -> None:
        """Take rows that were read, from a page on. Raises CorruptLogError if some are missing."""
        number, position = page, self._positions[page]
        page_rows: list[bytes] = []
        starts: list[int] = []
        pages: list[_Page] = []
        for row in rows:
            page_rows.append(row)
            starts.append(position)
            position += len(row)
            if position == self._end_of(number):
                pages.append(_Page(page_rows, starts, position))
                number, page_rows, starts = number + 1, [], []
        if page_rows or not pages:
            raise self._damaged(self._positions[page])
        for number, loaded in reversed(tuple(enumerate(pages, page))):  # the first is wanted most
            self._keep(number, loaded)

    def _keep(self, number: int, page: _Page) -> None:
        if number not in self._loaded:
            self._loaded[number] = page
            self._cache.add(self, number, page.end - page.starts[0])

    def _damaged(self, position: int) -> CorruptLogError:
        return CorruptLogError(
            Damage(
                file=f"table batches, log {self.log} ({self.name})",
                position=position,
                offset=self._bases[bisect_right(self._positions, position) - 1],
                what="rows are missing or have another size",
            )
        )

    def has(self, page: int) -> bool:
        """Whether a page is in memory."""
        return page in self._loaded

    def drop(self, page: int) -> bool:
        """Keep a page in memory no more; False if it is not in the database yet."""
        if self._end_of(page) > self.durable:
            return False
        self._loaded.pop(page, None)
        return True

    # Storing the pages

    def table(self) -> bytes:
        """The table of pages, to be stored."""
        return b"".join(map(PAGE.pack, self._positions, self._bases))

    def restore(self, pages: bytes, size: int, end_offset: int) -> None:
        """Have the rows that are in the database, by the table of their pages."""
        for position, base in PAGE.iter_unpack(pages):
            self._positions.append(position)
            self._bases.append(base)
        self.size = self.durable = size
        self.end_offset = end_offset
        self._restored = len(self._positions)

    def restore_row(self, base: int, following: int, size: int) -> None:
        """Have one more row that is in the database. Raises CorruptLogError if it does not follow.

        `complete` comes after the last one.
        """
        if not self._positions or self.size - self._positions[-1] > PAGE_BYTES:
            self._positions.append(self.size)
            self._bases.append(base)
        if base < self.end_offset:
            raise self._damaged(self.size)
        self.size += size
        self.durable = self.size
        self.end_offset = following

    def file(self) -> str | None:
        return None

    def beside(self, suffix: str) -> Store:  # noqa: ARG002
        return MemoryStore(bytearray(self.aborted))

    def reader(self) -> "SequentialReader":
        return SequentialReader(self)

    def close(self) -> None:
        """Have nothing in memory; what is still to be written has its bytes."""
        self.is_current = False
        self._cache.forget(self, tuple(self._loaded))
        self._loaded.clear()

    def content(self, page: int) -> tuple[bytes, int]:
        """The bytes of a page, and maybe of the next ones, and the page after; blocking.

        Raises OSError, FileNotFoundError if the segment was removed, CorruptLogError.
        """
        loaded = self._loaded.get(page)
        if loaded is not None:
            return b"".join(loaded.rows), page + 1
        content = b"".join(self._reader.read_blocking(self.rows_of(page)))
        if not self.is_current:
            raise FileNotFoundError(f"the segment of {self.name} was removed or replaced")
        position = self._positions[page] + len(content)
        after = bisect_left(self._positions, position)
        if position != self._end_of(after - 1):
            raise self._damaged(self._positions[page])
        return content, after

    def page_at(self, position: int) -> int:
        """The page that has the byte at `position`."""
        return bisect_right(self._positions, position) - 1

    def position_of(self, page: int) -> int:
        return self._positions[page]


class SequentialReader:
    """The bytes of a segment for another thread, which reads them in order; it blocks."""

    latest_epoch = MAX_LEADER_EPOCH

    def __init__(self, store: PagedStore) -> None:
        self.size = store.size
        self._store = store
        self._start = 0
        self._content = b""
        self._following = 0
        """The page behind the content."""

    def read(self, position: int, count: int) -> bytes:
        end = min(position + count, self.size)
        if position < self._start or position > self._start + len(self._content):
            self._following = self._store.page_at(position)
            self._start, self._content = self._store.position_of(self._following), b""
        while self._start + len(self._content) < end:
            more, self._following = self._store.content(self._following)
            self._content = self._content[max(position - self._start, 0) :] + more
            self._start = max(position, self._start)
        return self._content[position - self._start : max(end, position) - self._start]

    def close(self) -> None:
        self._content = b""


def _of_page(page: _Page, start: int, end: int) -> bytes:
    """The bytes of a page between two positions of the segment."""
    first = bisect_right(page.starts, start) - 1
    last = bisect_left(page.starts, end) - 1
    row_start = page.starts[first]
    content = page.rows[first] if first == last else b"".join(page.rows[first : last + 1])
    return (
        content
        if start == row_start and end - row_start == len(content)
        else content[start - row_start : end - row_start]
    )
