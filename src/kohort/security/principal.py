"""The principal of a client: the name of its certificate or its login."""

from typing import Final, NamedTuple, Self

USER: Final = "User"
"""Type of principals of certificates and logins."""

LOCAL: Final = "Local"
"""Type of principals of the server's Unix socket only.

Only the user of the server can access the socket's file, so these principals may do everything.
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
