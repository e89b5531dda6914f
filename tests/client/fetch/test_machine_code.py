"""When machine code is loaded."""

import threading

import pytest

from kohort.client.fetch.machine_code import MachineCode, load_decoder


class Loading:
    """Machine code to load, and the time."""

    def __init__(self, error: Exception | None = None) -> None:
        self.now = 100.0
        self.times = 0
        self.error = error
        self.code = MachineCode(self.load, lambda: self.now)

    def load(self):
        self.times += 1
        if self.error is not None:
            raise self.error
        return decoder_of_none

    def decode(self, records: int, seconds: float) -> None:
        """As many records, one batch every 100, in that time."""
        for _ in range(records // 100):
            self.now += seconds * 100 / records
            self.code.decoded(100)
        for thread in threading.enumerate():
            if thread.name == "kohort-machine-code":
                thread.join()


def decoder_of_none(*_):
    return iter(())


def test_many_records_within_a_second_load_machine_code():
    loading = Loading()
    loading.decode(60_000, seconds=1.0)
    assert loading.code.decoder is decoder_of_none
    loading.decode(200_000, seconds=1.0)
    assert loading.times == 1


def test_many_records_in_a_longer_time_load_nothing():
    loading = Loading()
    loading.decode(500_000, seconds=20.0)
    assert loading.times == 0


def test_many_records_after_a_pause_load_machine_code():
    loading = Loading()
    loading.decode(70_000, seconds=600.0)
    loading.decode(100_000, seconds=1.0)
    assert loading.times == 1


@pytest.mark.parametrize(
    ("error", "told"), [(ModuleNotFoundError("llvmlite"), False), (RuntimeError("broken"), True)]
)
def test_a_failed_load_is_not_retried(caplog, error, told):
    loading = Loading(error)
    for _ in range(3):
        loading.decode(100_000, seconds=0.5)
    assert loading.times == 1
    assert loading.code.decoder is None
    assert ("machine code cannot be loaded" in caplog.text) == told


def test_the_loading_thread_leaves_nothing_to_the_first_decoding(monkeypatch):
    """Which is on the event loop: kernels that changed take a minute to compile."""
    columnar = pytest.importorskip("kohort.columnar.machine_code")
    monkeypatch.setattr(columnar, "addresses", lambda: loaded.append(True))
    loaded = []
    load_decoder()
    assert loaded
