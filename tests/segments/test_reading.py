"""Reading ranges of segment files: whole ones, damaged ones, and such that change meanwhile."""

import os

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.columnar import record_schema
from kohort.errors import KafkaError, KohortError
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from kohort.segments import ReadSettings, find_replicas, read
from segments.files import NOW, Partition, batch, log_of

EVERYTHING = 2**62


@pytest.fixture
def partition(tmp_path):
    return Partition(tmp_path)


def replica_of(partition):
    ((replica,),) = find_replicas([str(partition.path)]).values()
    return replica


def rows(partition, start=0, end=None, **options):
    """The rows of a range; by default up to the end of the replica."""
    replica = replica_of(partition)
    end = replica.end() if end is None else end
    return [
        row
        for found in read(replica, start, end, ReadSettings(**options))
        for row in found.select(["offset", "value", "control"]).to_pylist()
    ]


def offsets(partition, start=0, end=None, **options):
    return [row["offset"] for row in rows(partition, start, end, **options)]


def reads(partition, start=0, end=None):
    """(offsets that are read, losses that are reported)"""
    losses = []
    found = offsets(partition, start, end, on_loss=losses.append)
    return found, losses


class TestWholeFiles:
    def test_records_of_all_segments_are_read_in_order(self, partition):
        partition.fill(0, 8, 20, 30)
        found = rows(partition)
        assert [(row["offset"], row["value"]) for row in found] == [
            (offset, b"v%d" % offset) for offset in range(30)
        ]

    @pytest.mark.parametrize(
        ("start", "end"), [(0, 1), (3, 9), (8, 20), (19, 21), (5, 5), (29, 30)]
    )
    def test_a_range_may_begin_and_end_anywhere(self, partition, start, end):
        assert offsets(partition.fill(0, 8, 20, 30), start, end) == list(range(start, end))

    @settings(
        max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.data())
    def test_the_pieces_of_a_range_are_the_range(self, tmp_path_factory, draw):
        cuts = sorted(draw.draw(st.sets(st.integers(1, 60), max_size=5)))
        partition = Partition(tmp_path_factory.mktemp("pieces"))
        partition.fill(0, *(2 * cut for cut in cuts), 122)
        partition.index(0, (1, 0))
        start, end = sorted((draw.draw(st.integers(0, 122)), draw.draw(st.integers(0, 122))))
        pieces = replica_of(partition).pieces(start, end, draw.draw(st.integers(1, 3_000)))
        assert [at for piece in pieces for at in offsets(partition, *piece)] == list(
            range(start, end)
        )
        assert all(first < last for first, last in pieces)

    def test_only_a_segment_with_an_index_is_divided(self, partition):
        replica = replica_of(partition.fill(0, 40))
        size = len(log_of(0, 40)) // 4
        assert replica.pieces(0, 40, size) == [(0, 40)]
        partition.index(0)
        assert replica.pieces(0, 40, size) == [(0, 40)], "it is empty"
        partition.index(0, (1, 0))
        assert replica.pieces(0, 40, size) == [(0, 10), (10, 20), (20, 30), (30, 40)]

    def test_headers_and_batch_fields_are_options(self, partition):
        replica = replica_of(partition.fill(0, 8))
        for wanted in ((False, False), (True, True)):
            chosen = ReadSettings(include_headers=wanted[0], include_batch_fields=wanted[1])
            (found,) = read(replica, 0, 8, chosen)
            assert found.schema.equals(
                record_schema(include_headers=wanted[0], include_batch_fields=wanted[1])
            )

    def test_holes_of_compaction_are_no_damage(self, partition):
        emptied = batches.read_header(batch(6))
        partition.segment(0, batch(0) + batches.replace_records(emptied, b"", 0, NOW))
        partition.segment(20, batch(24))
        assert reads(partition) == ([0, 1, 24, 25], [])

    def test_a_batch_larger_than_a_chunk_is_read(self, partition):
        large = batches.build([Record(None, bytes(9 << 20), (), NOW)], base_offset=2)
        partition.segment(0, batch(0) + large + batch(3))
        assert offsets(partition) == [0, 1, 2, 3, 4]

    def test_files_by_other_names_are_not_read(self, partition):
        partition.fill(0, 8)
        for suffix in (".log.deleted", ".log.cleaned", ".snapshot", ".txnindex", ".timeindex"):
            partition.segment(8, log_of(8, 12), suffix)
        (partition.path / f"{8:020}.log").mkdir()
        (partition.path / "8.log").write_bytes(log_of(8, 12))
        (partition.path / f"{8:020}.log~").write_bytes(log_of(8, 12))
        assert offsets(partition) == list(range(8))

    def test_a_uri_names_a_file_system(self, partition):
        partition.fill(0, 8)
        ((replica,),) = find_replicas([f"file://{partition.path}"]).values()
        (found,) = read(replica, 0, 8, ReadSettings())
        assert found.column("offset").to_pylist() == list(range(8))

    @pytest.mark.parametrize("uri", ["ftp://host/data", "s3:/x", "no-such://a/b"])
    def test_an_unknown_file_system_is_refused(self, uri):
        with pytest.raises(KohortError, match=r"cannot be opened|does not exist"):
            find_replicas([uri])


class TestIndexes:
    """They only save work."""

    @pytest.mark.parametrize("allocated", [0, 1_000])
    def test_a_range_within_a_segment_is_found_by_the_index(self, partition, allocated):
        content = log_of(0, 400)
        each = len(batch(0))
        partition.segment(0, content)
        partition.index(0, (101, 50 * len(batch(0))), allocated=allocated)
        assert len(content) > 200 * each
        assert offsets(partition, 350, 360) == list(range(350, 360))
        assert offsets(partition, 10, 12) == [10, 11]
        assert replica_of(partition).end() == 400

    @pytest.mark.parametrize(
        "entries",
        [
            [(101, 17)],
            [(101, 10**9)],
            [(101, -5)],
            [(3, 399 * 40)],
            [(101, 50), (7, 3)],
            [(-9, 2), (0, 0)],
        ],
    )
    def test_a_wrong_index_changes_nothing(self, partition, entries):
        partition.segment(0, log_of(0, 400))
        partition.index(0, *entries)
        assert offsets(partition, 200, 210) == list(range(200, 210))
        assert replica_of(partition).end() == 400

    def test_an_index_of_another_file_loses_no_record(self, partition):
        """Compaction replaced both between the two reads."""
        whole = log_of(0, 400)
        at = whole.index(batch(300))
        partition.segment(0, whole)
        partition.index(0, (101, at))  # a batch is there, and not that one
        assert offsets(partition, 150, 160) == list(range(150, 160))


class TestEnds:
    """The last segment may end within a batch, or in zeros."""

    def test_a_cut_batch_at_the_end_is_no_damage(self, partition):
        whole, last = log_of(0, 8), batch(8)
        for cut in (1, 8, 16, 17, 60, 61, len(last) - 1):
            partition.segment(0, whole + last[:cut])
            assert reads(partition) == (list(range(8)), [])

    @pytest.mark.parametrize("zeros", [1, 61, 100, 9 << 20])
    def test_zeros_at_the_end_are_no_damage(self, partition, zeros):
        partition.segment(0, log_of(0, 8) + bytes(zeros))
        assert reads(partition) == (list(range(8)), [])

    def test_an_empty_last_segment_is_no_damage(self, partition):
        partition.fill(0, 8).segment(8, b"")
        assert reads(partition) == (list(range(8)), [])

    def test_zeros_that_something_follows_are_damage(self, partition):
        partition.segment(0, log_of(0, 8) + bytes(5 << 20) + b"x")
        found, (loss,) = reads(partition)
        assert found == list(range(8))
        assert "position" in loss
        assert "lost are offsets from 8 to below 9" in loss

    @pytest.mark.parametrize("rest", [batch(8)[:-1], bytes(100), b"\1" * 100])
    def test_a_cut_end_of_another_segment_is_damage(self, partition, rest):
        partition.segment(0, log_of(0, 8) + rest)
        partition.fill(12, 20)
        found, (loss,) = reads(partition)
        assert found == [*range(8), *range(12, 20)]
        assert f"{0:020}.log is damaged at position {len(log_of(0, 8))}" in loss
        assert "lost are offsets from 8 to below 12" in loss

    def test_a_log_that_was_cut_since_it_was_planned_is_a_loss(self, partition):
        partition.fill(0, 8)
        assert reads(partition, 4, 12) == (
            [4, 5, 6, 7],
            [
                f"{partition.path} ends at offset 8 now: its log was cut, and has no offsets from "
                "8 to below 12"
            ],
        )

    def test_records_that_retention_deleted_are_a_loss(self, partition):
        partition.fill(8, 12)
        found, (loss,) = reads(partition, 2, 10)
        assert found == [8, 9]
        assert "begins at offset 8 now: retention or a deletion took offsets from 2 to" in loss


class TestDamage:
    def damaged(self, at):
        """Three batches, of which one byte is wrong."""
        content = bytearray(log_of(0, 6))
        content[len(batch(0)) + at] ^= 1
        return bytes(content)

    def test_a_loss_is_an_error_unless_it_is_handled(self, partition):
        partition.segment(0, self.damaged(70))
        with pytest.raises(
            KohortError, match=rf"{0:020}.log is damaged at position {len(batch(0))}"
        ):
            offsets(partition)

    def test_a_batch_with_a_wrong_crc_is_left_out(self, partition):
        partition.segment(0, self.damaged(70))
        found, (loss,) = reads(partition)
        assert found == [0, 1, 4, 5]
        assert "(CRC); lost are offsets from 2 to below 4" in loss

    def test_behind_what_is_no_batch_the_next_segment_is_read(self, partition):
        partition.segment(0, self.damaged(16))  # the magic
        partition.fill(6, 10)
        found, (loss,) = reads(partition)
        assert found == [0, 1, *range(6, 10)]
        assert "lost are offsets from 2 to below 6" in loss

    def test_damage_of_the_last_segment_counts_as_one_offset(self, partition):
        partition.segment(0, self.damaged(16))
        assert replica_of(partition).end() == 3
        found, (loss,) = reads(partition)
        assert (found, "from 2 to below 3" in loss) == ([0, 1], True)

    @pytest.mark.parametrize(
        ("last", "expected"),
        [
            (batch(4), (6, False, 6)),
            (batch(9), (11, False, 4)),  # may be a hole of compaction, or damage
            (batch(1 << 40), (5, True, 5)),
        ],
    )
    def test_a_last_batch_behind_a_hole_is_not_certain(self, partition, last, expected):
        path = partition.segment(0, log_of(0, 4) + last)
        assert replica_of(partition).log_end() == expected
        assert replica_of(partition).end() == expected[0]
        partition.segment(0, path.read_bytes() + batch(20))
        partition.segment(30, batch(40))
        assert replica_of(partition).log_end() == (42, False, 30)

    def test_a_last_batch_that_the_index_names_needs_no_other_one(self, partition):
        partition.segment(0, log_of(0, 4) + batch(9))
        partition.index(0, (10, len(log_of(0, 4))))
        assert replica_of(partition).log_end() == (11, False, 11)

    @pytest.mark.parametrize("at", [0, 16, 70])
    def test_damage_may_be_a_row(self, partition, at):
        partition.segment(0, self.damaged(at))
        partition.fill(6, 8)
        found = rows(partition, damaged_rows=True)
        (row,) = [row for row in found if row["control"] == "damaged"]
        assert row["offset"] == 2
        assert b"is damaged at position" in row["value"]
        whole = [row["offset"] for row in found if row["control"] is None]
        assert whole == [0, 1, *([4, 5] if at == 70 else []), 6, 7]

    @pytest.mark.parametrize("included", [True, False])
    def test_a_row_of_damage_has_the_columns_of_a_record(self, partition, included):
        partition.segment(0, self.damaged(70))
        chosen = ReadSettings(damaged_rows=True, include_headers=included)
        schema = record_schema(include_headers=included, include_batch_fields=True)
        found = list(read(replica_of(partition), 0, 6, chosen))
        assert [batch.num_rows for batch in found] == [2, 1, 2]
        for one in found:
            one.validate(full=True)
            assert one.schema.equals(schema)
        (row,) = found[1].drop_columns(["timestamp", "value"]).to_pylist()
        assert {name: value for name, value in row.items() if name != "headers"} == {
            "key": None, "topic": "orders", "partition": 0, "offset": 2, "timestampType": 0,
            "batchOffset": 2, "partitionLeaderEpoch": -1, "producerId": None,
            "producerEpoch": None, "transactional": False, "control": "damaged",
        }  # fmt: skip

    def test_offsets_that_do_not_rise_are_damage(self, partition):
        partition.segment(0, log_of(0, 4) + batch(2) + batch(6))
        partition.fill(10, 12)
        found, (loss,) = reads(partition)
        assert found == [0, 1, 2, 3, 10, 11]
        assert "offsets from 2 to 3 is out of order; lost are offsets from 4 to below 10" in loss

    def test_an_offset_that_is_too_high_is_damage_and_not_the_next_one(self, partition):
        partition.segment(0, log_of(0, 4) + batch(9) + batch(6))
        partition.segment(10, batch(1 << 40))
        partition.fill(12, 14)
        found, (first, second) = reads(partition)
        assert found == [0, 1, 2, 3, 12, 13]
        assert "offsets from 9 to 10 is out of order; lost are offsets from 4 to below 10" in first
        assert "lost are offsets from 10 to below 12" in second

    def test_a_segment_below_its_base_is_damage(self, partition):
        partition.fill(0, 4).segment(4, batch(2))
        found, losses = reads(partition, 0, 5)
        assert (found, len(losses)) == ([0, 1, 2, 3], 1)

    def test_messages_before_record_batches_are_named(self, partition):
        old = bytearray(batch(0))
        old[16] = 1
        partition.segment(0, bytes(old))
        partition.fill(4, 6)
        with pytest.raises(KohortError, match=r"message format v1, of brokers before 0\.11"):
            offsets(partition)

    def test_records_that_contradict_their_header_are_damage(self, partition):
        whole = bytearray(batch(2))
        whole[57:61] = (7).to_bytes(4, "big")  # the count
        whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
        partition.segment(0, batch(0) + bytes(whole) + batch(4))
        found, losses = reads(partition)
        assert (found, len(losses)) == ([0, 1, 4, 5], 1)

    def test_a_length_that_leads_behind_the_end_is_damage(self, partition):
        """The index knows of a batch behind it. A broker that was killed had written no other."""
        content = bytearray(log_of(0, 6))
        content[len(batch(0)) + 8] = 0x40
        partition.segment(0, bytes(content))
        partition.index(0, (5, len(log_of(0, 4))))
        found, (loss,) = reads(partition)
        assert found == [0, 1]
        assert "the file ends within a batch; lost are offsets from 2 to below 6" in loss

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_a_batch_of_an_unknown_compression_type_may_be_a_row(self, partition, codec):
        unknown = bytearray(batch(2))
        unknown[22] = codec
        unknown[17:21] = crc32c(bytes(unknown[21:])).to_bytes(4, "big")
        partition.segment(0, batch(0) + bytes(unknown) + batch(4))
        with pytest.raises(KafkaError, match="UNSUPPORTED_COMPRESSION_TYPE"):
            offsets(partition, on_loss=lambda _: None)
        found = rows(partition, damaged_rows=True)
        assert [row["offset"] for row in found] == [0, 1, 2, 4, 5]
        assert b"compression type" in found[2]["value"]

    def test_a_batch_above_the_limit_may_be_a_row(self, partition):
        large = batches.build([Record(None, bytes(4096), (), NOW)], base_offset=2, codec=Codec.GZIP)
        partition.segment(0, batch(0) + large + batch(3))
        found = rows(partition, damaged_rows=True, max_inflated=1_000)
        assert [(row["offset"], row["control"]) for row in found] == [
            (0, None), (1, None), (2, "damaged"), (3, None), (4, None),
        ]  # fmt: skip

    @pytest.mark.parametrize("count", [-1, -2, 0x7FFFFFFF, -0x80000000])
    @pytest.mark.parametrize("codec", list(Codec))
    def test_a_wrong_count_takes_no_records_of_other_batches(self, partition, codec, count):
        wrong = bytearray(batch(2, codec=codec))
        wrong[57:61] = count.to_bytes(4, "big", signed=True)
        wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
        partition.segment(0, batch(0, codec=codec) + bytes(wrong) + batch(4, codec=codec))
        found, losses = reads(partition)
        assert (found, len(losses)) == ([0, 1, 4, 5], 1)

    def test_damage_outside_the_range_does_not_matter(self, partition):
        partition.segment(0, self.damaged(70))
        assert reads(partition, 0, 2) == ([0, 1], [])
        assert reads(partition, 4, 6) == ([4, 5], [])

    def test_crcs_may_be_ignored(self, partition):
        partition.segment(0, self.damaged(76))
        assert len(offsets(partition, check_crcs=False)) == 6

    def test_a_batch_above_the_limit_is_an_error(self, partition):
        large = batches.build([Record(None, bytes(4096), (), NOW)], codec=Codec.GZIP)
        partition.segment(0, large)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            offsets(partition, max_inflated=1_000, on_loss=lambda _: None)

    @settings(
        max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.data())
    def test_no_changed_bytes_lead_to_wrong_records(self, tmp_path_factory, draw):
        partition = Partition(tmp_path_factory.mktemp("fuzz"))
        contents = {0: log_of(0, 6), 6: log_of(6, 12), 12: log_of(12, 18)}
        for base, content in contents.items():
            changed = bytearray(content)
            for _ in range(draw.draw(st.integers(0, 2))):
                changed[draw.draw(st.integers(0, len(changed) - 1))] ^= draw.draw(
                    st.integers(1, 255)
                )
            cut = draw.draw(st.integers(0, len(changed)) | st.just(len(changed)))
            partition.segment(base, bytes(changed[:cut]))
        losses = []
        found = rows(partition, 0, 18, on_loss=losses.append)
        at = [row["offset"] for row in found]
        assert at == sorted(set(at))
        # The base offset of a batch is outside its CRC: it may be wrong, its values cannot.
        assert {row["value"] for row in found} <= {b"v%d" % offset for offset in range(18)}


class TestChanges:
    """A broker that compacts, retains and rolls meanwhile."""

    def test_a_segment_that_is_replaced_is_complete_as_a_swap_file(self, partition):
        partition.fill(0, 8).segment(8, log_of(8, 20), ".log.swap")
        partition.fill(20, 24)
        assert offsets(partition) == list(range(24))
        partition.segment(8, batch(10))  # it has its name, and another one comes
        assert offsets(partition) == [*range(8), 10, 11, *range(20, 24)]

    def test_a_swap_file_of_kohort_is_one_too(self, partition):
        partition.fill(0, 8)
        (partition.path / f"{8:020}-{20:020}.swap").write_bytes(log_of(8, 20))
        assert offsets(partition) == list(range(20))

    def test_segments_that_are_merged_while_they_are_read_are_read_once(self, partition):
        partition.fill(0, 8, 20, 30, 40)
        reading = read(replica_of(partition), 0, 40, ReadSettings())
        found = next(reading).column("offset").to_pylist()
        merged = b"".join(batch(offset) for offset in (2, 12, 14, 24))
        partition.segment(0, merged, ".log.swap")
        for base in (0, 8, 20):
            path = partition.path / f"{base:020}.log"
            path.rename(f"{path}.deleted")
        (partition.path / f"{0:020}.log.swap").rename(partition.path / f"{0:020}.log")
        for later in reading:
            found += later.column("offset").to_pylist()
        assert found == [*range(8), 12, 13, 14, 15, 24, 25, *range(30, 40)]

    def test_a_file_that_goes_when_it_is_opened_is_looked_for_again(self, partition, monkeypatch):
        partition.fill(0, 8, 20)
        replica = replica_of(partition)
        listed = replica.segments()
        os.remove(partition.path / f"{8:020}.log")
        partition.segment(8, batch(10), ".log.swap")
        answers = iter([listed, listed])
        kind = type(replica)
        original = kind.segments
        monkeypatch.setattr(kind, "segments", lambda self: next(answers, None) or original(self))
        (found,) = read(replica, 8, 20, ReadSettings(on_loss=lambda _: None))
        assert found.column("offset").to_pylist() == [10, 11]

    def test_a_last_segment_that_rolls_is_read_on(self, partition):
        partition.fill(0, 8)
        reading = read(replica_of(partition), 0, 12, ReadSettings())
        found = next(reading).column("offset").to_pylist()
        partition.fill(8, 12)
        for later in reading:
            found += later.column("offset").to_pylist()
        assert found == list(range(12))

    def test_a_partition_that_is_deleted_is_an_error(self, partition):
        partition.fill(0, 8, 12)
        replica = replica_of(partition)
        reading = read(replica, 0, 12, ReadSettings())
        next(reading)
        partition.path.rename(f"{partition.path}.0123-delete")
        with pytest.raises(KohortError, match="is gone: the partition was moved or deleted"):
            list(reading)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_a_file_that_cannot_be_read_is_an_error(self, partition):
        partition.fill(0, 8).segment(8, b"").chmod(0)
        with pytest.raises(KohortError, match="cannot be read"):
            offsets(partition)
