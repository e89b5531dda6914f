"""The name under which a client is known: that of its certificate, or of its login."""

from typing import Final, NamedTuple, Self

USER: Final = "User"
"""Type of the principals that certificates and logins name."""

LOCAL: Final = "Local"
"""Type of principals that came by the server's Unix socket, which nothing else can have.

The socket's file is for the user of the server only, so they may do everything.
"""


class KafkaPrincipal(NamedTuple):
    """A type and a name; as text `User:alice`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The principal in `TYPE:NAME`; the name may have colons. Raises ValueError."""
        principal_type, colon, name = text.partition(":")
        if not (principal_type and colon and name):
            raise ValueError(f"{text!r} is not TYPE:NAME, as in User:alice")
        return cls(principal_type, name)


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""Principal of a client that has not authenticated."""
