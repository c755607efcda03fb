"""Array jobs: batch sessions created by one request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from berth.addresses import segment
from berth.decoding import Record
from berth.errors import InvalidInput, NotFound
from berth.paging import Endpoint, iterate
from berth.sessions import SHORTEST_PREFIX, Session, Sessions
from berth.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArray(Record):
    """An array: its request, and the number of elements per state.

    `held` counts the elements under the array throttle hold: they wait until others of the array
    end.
    """

    id: str
    name: str
    owner: str = ""
    project: str = ""
    domain: str = ""
    spec: str = ""
    count: int = 0
    most_at_once: int | None = None
    statuses: Mapping[str, int] = field(default_factory=dict)
    held: int = 0
    succeeded: int = 0
    created_at: datetime | None = None


class Arrays(Endpoint):
    """Array jobs, as `client.arrays`.

    Create one like a session: `client.sessions.start(…, array="1-100%10")`.
    """

    def __init__(self, transport: Transport, sessions: Sessions) -> None:
        super().__init__(transport)
        self._sessions = sessions

    def list(self) -> Iterator[SessionArray]:
        """Yield the arrays that the user may see, newest first."""
        return iterate(self._transport, "arrays/", SessionArray)

    def get(self, array_id: str) -> SessionArray:
        """Return the array of this id. Raises NotFound."""
        return self._get(SessionArray, f"arrays/{segment(array_id)}/")

    def find(self, text: str) -> SessionArray:
        """Find an array by id, by the beginning of its id or by name.

        Returns the newest of that name. Raises NotFound, InvalidInput.
        """
        begun: list[SessionArray] = []
        for one in self.list():
            if text in (one.name, one.id):
                return one
            if len(text) >= SHORTEST_PREFIX and one.id.startswith(text.lower()):
                begun.append(one)
        if not begun:
            raise NotFound(f"There is no array “{text[:80]}”.", hint="Which there are: berth array ls.")
        if len(begun) > 1:
            ids = ", ".join(one.id[:12] for one in begun)
            raise InvalidInput(f"Several arrays begin with “{text[:80]}”: {ids}.", hint="Use more of the id.")
        return begun[0]

    def elements(self, array_id: str) -> Iterator[Session]:
        """Yield the sessions of an array, highest index first."""
        given = {"sessions": self._sessions}
        return iterate(self._transport, "sessions/", Session, given=given, array=array_id)

    def stop(self, array_id: str) -> SessionArray:
        """Request termination of all elements. Idempotent."""
        return self._send(SessionArray, "DELETE", f"arrays/{segment(array_id)}/")
