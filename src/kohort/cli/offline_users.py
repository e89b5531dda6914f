"""Users of a data directory whose server is stopped."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from kohort.cli.options import RefusedError
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import directory_format
from kohort.log.directory_errors import unusable_directory
from kohort.runtime.clock import SystemClock
from kohort.security.scram import (
    BY_MECHANISM,
    MAX_ITERATIONS,
    MAX_NAME_CHARS,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    credential_of,
    salted_password,
)
from kohort.server.cluster import open_directory, worker_index_of
from kohort.server.config import Config
from kohort.server.controller import Controller, open_controller
from kohort.server.replicas import Placement


class OfflineUsers:
    """The users in the metadata log of a stopped server, for `kohort users`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """The users of a data directory, which is created if it is missing.

        Raises RefusedError if a server uses it, or it cannot be used.
        """
        config = Config({"log.dir": str(path)})
        with ExitStack() as closing:
            try:
                contents = directory_format.examine(path)
                workers = 1 if contents is None else contents.workers or 1
                logs = open_directory(config, workers=workers)
                closing.callback(logs.close)
                controller = open_controller(
                    logs, config, SystemClock().timestamp, _first_of(workers)
                )
                closing.callback(controller.close)
            except KohortError as error:
                raise RefusedError(f"--data-dir {path}: {error}") from error
            except OSError as error:
                raise RefusedError(unusable_directory(path, error)) from error
            yield cls(controller)

    async def describe_scram_users(self) -> Mapping[str, Mapping[str, int]]:
        return {
            name: {
                kind.mechanism: credential.iterations for kind, credential in credentials.items()
            }
            for name, credentials in self._controller.image.scram_users.snapshot().items()
        }

    async def set_scram_password(
        self, user: str, password: str, *, mechanism: str, iterations: int
    ) -> None:
        """As AlterUserScramCredentials of a server.

        Raises KafkaError for a name, RefusedError for iterations, that a server would refuse.
        """
        _validate_name(user)
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise RefusedError(
                f"--iterations {iterations}: is not between {MIN_ITERATIONS} and {MAX_ITERATIONS}"
            )
        kind, salt = BY_MECHANISM[mechanism], secrets.token_bytes(SALT_BYTES)
        salted = salted_password(kind, password, salt, iterations)
        self._put(user, mechanism, credential_of(kind, salted, salt, iterations))

    async def delete_scram_credential(self, user: str, *, mechanism: str) -> None:
        self._put(user, mechanism, None)

    def _put(self, user: str, mechanism: str, credential: ScramCredential | None) -> None:
        controller, credentials = self._controller, {(user, BY_MECHANISM[mechanism]): credential}
        controller.writer.commit(*controller.scram.alter_credentials(credentials))
        controller.writer.flush()


def _first_of(workers: int) -> Placement:
    """The logs of the first worker, which has the metadata log."""
    worker_of = worker_index_of(workers)
    return lambda partition: worker_of(partition) == 0


def _validate_name(user: str) -> None:
    """Raise KafkaError for a name that a server would refuse."""
    why = "must not be empty" if not user else "is too long" if len(user) > MAX_NAME_CHARS else None
    if why is not None:
        raise KafkaError(ErrorCode.unacceptable_credential, f"Username {why}")
