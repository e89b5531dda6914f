"""The file of a recording: whole, of a killed process, and damaged."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.recording import (
    Advanced,
    Closed,
    Event,
    Opened,
    RecordedRequest,
    RecordedResponse,
    RecordingError,
    RecordingReader,
    RecordingWriter,
)

AT = st.integers(0, 10**10).map(lambda microseconds: microseconds / 1e6)
NUMBER = st.integers(1, 9)
FRAME = st.none() | st.binary(max_size=40)
EVENTS = st.lists(
    st.one_of(
        st.builds(Opened, at=AT, connection=NUMBER, node=st.none() | NUMBER),
        st.builds(
            RecordedRequest,
            at=AT,
            connection=NUMBER,
            api_key=st.integers(-1, 99),
            version=NUMBER,
            client_id=st.text(max_size=9),
            frame=FRAME,
            has_response=st.booleans(),
            is_redacted=st.booleans(),
        ),
        st.builds(RecordedResponse, at=AT, connection=NUMBER, frame=FRAME),
        st.builds(Closed, at=AT, connection=NUMBER, by_server=st.booleans()),
        st.builds(Advanced, at=AT, seconds=AT),
    ),
    min_size=1,
    max_size=6,
)


def written(path: Path, events: list[Event]) -> Path:
    path.unlink(missing_ok=True)
    writer = RecordingWriter(path, redacts_values=False)
    for event in events:
        writer.add(event)
    writer.close()
    return path


def read(path: Path) -> tuple[list[Event], bool]:
    with RecordingReader(path) as reader:
        return list(reader), reader.is_truncated


@settings(max_examples=examples(60))
@given(events=EVENTS)
def test_a_file_has_the_events_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    path = tmp_path_factory.getbasetemp() / "whole.jsonl"
    assert read(written(path, events)) == (events, False)


@settings(max_examples=examples(30))
@given(events=EVENTS, data=st.data())
def test_a_file_of_a_killed_process_has_all_whole_events(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "cut.jsonl", events)
    whole = path.read_bytes()
    head = whole.index(b"\n") + 1
    size = data.draw(st.integers(head, len(whole)))
    path.write_bytes(whole[:size])
    lines = whole[:size].count(b"\n") - 1
    assert read(path) == (events[:lines], not whole[:size].endswith(b"\n"))


@settings(max_examples=examples(60))
@given(events=EVENTS, data=st.data())
def test_a_damaged_line_is_named_and_not_read(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], data: st.DataObject
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "damaged.jsonl", [*events, events[0]])
    whole = bytearray(path.read_bytes())
    last_line = whole.rindex(b"\n", 0, -1) + 1
    at = data.draw(st.integers(whole.index(b"\n") + 1, last_line - 2))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with RecordingReader(path) as reader, pytest.raises(RecordingError) as error:
        list(reader)
    assert f"line {whole[: at + 1].count(10) + (whole[at] != 10)} is damaged" in str(error.value)
    assert "head -n" in str(error.value)


def test_an_event_is_in_the_file_before_the_writer_is_closed(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "open.jsonl", redacts_values=False)
    writer.add(Opened(at=0.5, connection=1))
    assert read(tmp_path / "open.jsonl") == ([Opened(at=0.5, connection=1)], False)
    writer.close()


def test_a_recording_overwrites_no_file(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(RecordingError, match="exists: delete it, or record to another file"):
        RecordingWriter(tmp_path / "notes", redacts_values=False)
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\0" * 100, b"once upon a time\n"])
def test_other_files_are_no_recordings(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(RecordingError, match="is no recording: the first line of one"):
        RecordingReader(tmp_path / "other")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"absent\.jsonl cannot be read: No such file"):
        RecordingReader(tmp_path / "absent.jsonl")


def test_a_recording_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.recording.recording_file.VERSION", 2)
    path = written(tmp_path / "newer.jsonl", [Opened(at=0, connection=1)])
    monkeypatch.undo()
    with pytest.raises(RecordingError, match="has the format 2 of recordings"):
        RecordingReader(path)
