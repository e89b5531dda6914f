"""The data set as the package ships it, and what a member makes of its lines."""

import zipfile
from pathlib import Path

import pytest

from kohort_demo import flights
from kohort_demo.errors import DemoError
from kohort_demo.flights import Flight, departure_delay
from kohort_demo.main import address
from kohort_demo.work import Job, Pace, count

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)
LATE = b"2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
NEVER_LEFT = (
    b"2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z"
)


def test_a_line_becomes_a_keyed_record_with_its_hour(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("flights.csv", "\n".join([HEADER, LATE.decode(), NEVER_LEFT.decode(), ""]))
    assert list(flights.read(path)) == [
        Flight(b"UA", LATE, 1_357_034_400_000),
        Flight(b"EV", NEVER_LEFT, 1_357_074_000_000),
    ]


def test_the_installed_package_has_the_flights() -> None:
    first = next(flights.read(flights.archive()))
    assert first == Flight(b"UA", LATE, 1_357_034_400_000)


def test_delays_are_counted_by_carrier() -> None:
    assert departure_delay(LATE) == (b"UA", 2)
    assert departure_delay(NEVER_LEFT) == (b"EV", None)
    assert departure_delay(b"hello") == (b"other", None)
    assert count([LATE, LATE, NEVER_LEFT, None]) == {"UA": (2, 2, 4), "EV": (1, 0, 0)}


def test_a_member_is_told_its_job_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("127.0.0.1:9092", "counters-1", "flights", "member-1", Pace(Path("data/pace")))
    monkeypatch.setattr("sys.argv", ["member.py", *job.arguments()])
    assert Job.told() == job


@pytest.mark.parametrize(
    ("text", "wanted"), [("127.0.0.1:9092", ("127.0.0.1", 9092)), ("[::1]:1", ("::1", 1))]
)
def test_an_address_is_split_into_host_and_port(text: str, wanted: tuple[str, int]) -> None:
    assert address(text) == wanted


@pytest.mark.parametrize("text", ["9092", ":9092", "localhost:", "localhost:99999", "localhost:x"])
def test_an_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DemoError, match=r"such as 127\.0\.0\.1:9092"):
        address(text)
