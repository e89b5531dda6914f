"""Runs the tests here in virtual time: no time limit depends on the load of the machine."""

from collections.abc import Callable, Mapping

from client.virtual_sockets import SocketVirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], SocketVirtualLoop]]:
    return {"virtual": SocketVirtualLoop}
