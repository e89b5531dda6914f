"""Errors of connecting to a broker, with their likely cause."""

import os
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kohort.client.config import UNIX, Address
from kohort.client.errors import AuthenticationError, BrokerUnreachableError
from kohort.client.net.tls_errors import (
    CONNECTION_ENDED,
    NO_TLS,
    certificate_hint,
    describe_tls_error,
)
from kohort.client.security import Security
from kohort.errors import KafkaError, fresh
from kohort.protocol.framing import MalformedError


def format_address(address: Address) -> str:
    """The address as HOST:PORT, or unix:/PATH."""
    host, port = address
    if host.startswith(UNIX):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def protocol_hint(security: Security) -> str:
    """Possible cause if a listener does not respond to the first request."""
    if security.is_tls:
        hint = "; is this a Kafka listener with that security protocol?"
        return hint + certificate_hint(security)
    return "; does this listener need TLS (security protocol SSL or SASL_SSL)?"


@contextmanager
def raises_unreachable(address: Address, security: Security) -> Iterator[None]:
    """Turn errors of connecting into KohortErrors. TimeoutError passes unchanged."""
    try:
        yield
    except TimeoutError:
        raise
    except (ConnectionResetError, *CONNECTION_ENDED) as error:
        hint = (
            f" during the TLS handshake; {NO_TLS}{certificate_hint(security)}"
            if security.is_tls
            else ""
        )
        raise BrokerUnreachableError(
            f"{format_address(address)} closed the connection{hint}"
        ) from error
    except ssl.SSLError as error:
        raise AuthenticationError(
            f"TLS with {format_address(address)} failed: {describe_tls_error(error)}"
        ) from error
    except OSError as error:
        unreachable = BrokerUnreachableError(f"{format_address(address)}: {_system_message(error)}")
        # Without a file there is no Unix socket.
        unreachable.is_refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
        raise fresh(unreachable) from error
    except (KafkaError, MalformedError) as error:
        raise BrokerUnreachableError(
            f"{format_address(address)} is no Kafka broker, or of an unsupported version: {error}"
        ) from error


def _system_message(error: OSError) -> str:
    """The operating system's message, which asyncio replaces with its own.

    After several addresses of a name were tried, asyncio has the error numbers in the text only.
    """
    if error.errno is None:
        numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
        return ", ".join(os.strerror(int(number)) for number in numbers) or str(error)
    has_errno = not isinstance(error, socket.gaierror)
    return os.strerror(error.errno) if has_errno else error.strerror or str(error)
