"""Session templates: saved session requests with a name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.decoding import Record, decode
from berth.paging import Endpoint, find_nearest, iterate
from berth.sessions import Session, Sessions
from berth.transport import Transport, new_key, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Template(Record):
    """Session template. `body` is a session request with the fields of the REST API.

    `left_out` are the variables that were not saved; set only in the answer to `save`.
    """

    id: int
    name: str
    description: str = ""
    sharing: str = "own"
    project: str | None = None
    domain: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    changed_by: str = ""
    changed_at: datetime | None = None
    left_out: tuple[str, ...] = ()


class Templates(Endpoint):
    """Session templates, as `client.templates`."""

    def __init__(self, transport: Transport, sessions: Sessions) -> None:
        super().__init__(transport)
        self._sessions = sessions

    def list(self) -> Iterator[Template]:
        return iterate(self._transport, "session-templates/", Template)

    def find(self, text: str) -> Template:
        """Find a template by name or id. Raises NotFound, InvalidInput.

        Order: your own, those of a project, of the domain, for everybody.
        """
        return find_nearest(self.list(), text, "template")

    def save(
        self,
        name: str,
        body: Mapping[str, Any],
        *,
        description: str = "",
        sharing: str = "own",
        place: str = "",
    ) -> Template:
        """Save `body` as a template. Raises Refused if the name is taken, InvalidInput."""
        fields = {
            "name": name,
            "description": description,
            "sharing": sharing,
            "place": place,
            "body": dict(body),
        }
        return self._send(Template, "POST", "session-templates/", fields, is_new=True)

    def change(self, template_id: int, **changes: Any) -> Template:
        """Change `name`, `description` or `body`; others stay."""
        return self._send(Template, "PATCH", f"session-templates/{template_id}/", changes)

    def delete(self, template_id: int) -> None:
        self._transport.request("DELETE", f"session-templates/{template_id}/")

    def start(self, template_id: int, *, name: str = "", project: str = "") -> Session:
        """Start a session from the template. Raises the errors of `Sessions.start`."""
        fields = {key: value for key, value in (("name", name), ("project", project)) if value}
        path = f"session-templates/{template_id}/start/"
        answer = self._transport.request("POST", path, json=fields, headers=new_key())
        return decode(Session, parse_json(answer), sessions=self._sessions)
