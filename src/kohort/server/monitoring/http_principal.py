"""The client of the HTTP port, as the authorizer knows it."""

from collections.abc import Callable, Iterable

from kohort.protocol.apis import BY_NAME
from kohort.security import Endpoint, KafkaPrincipal, Peer, SecurityProtocol
from kohort.security.acls import AclOperation, ResourceType
from kohort.server.authorization import EVERYTHING, Access, FindAccess
from kohort.util.time_slice import TimeSlices


class HttpPrincipal:
    """One principal, `http.principal`, for all clients of the port.

    Entries for single addresses have no effect on it.
    """

    api_key = BY_NAME["offset_fetch"].key
    """The API that needs DESCRIBE on groups and on topics."""

    def __init__(self, principal: str, find_access: FindAccess) -> None:
        self._find_access = find_access
        endpoint = Endpoint(
            listener="HTTP", security_protocol=SecurityProtocol.PLAINTEXT, host="", port=0
        )
        self.peer = Peer(principal=KafkaPrincipal.parse(principal), host="", endpoint=endpoint)

    def access(self) -> Access:
        """Permissions by the current ACLs."""
        return self._find_access(self).quietly()

    def sees_cluster(self) -> bool:
        """Whether problems of the server may be shown, which name topics."""
        return self.access().may(AclOperation.DESCRIBE, ResourceType.CLUSTER)

    async def topics(self, names: Iterable[str]) -> Callable[[str], bool]:
        """Whether a topic of `names`, read in one turn, may be shown; a function for any thread."""
        access, slices, shown = self.access(), TimeSlices(), set()
        if access is EVERYTHING:
            return lambda _: True
        for name in frozenset(names):
            if access.topic(name):
                shown.add(name)
            await slices.give_way()
        return shown.__contains__
