"""Create, change and assign resource policies, for administrators."""

from collections.abc import Iterator, Mapping
from typing import Any

from berth.decoding import Record, get_field
from berth.errors import InvalidInput, NotFound
from berth.models import Policy, PolicyImpact
from berth.paging import Endpoint, iterate
from berth.transport import Transport


class Policies(Endpoint):
    """Resource policies, as `client.policies`."""

    def list(self, *, name: str = "", domain: str = "") -> Iterator[Policy]:
        return iterate(self._transport, "policies/", Policy, name=name or None, domain=domain or None)

    def find(self, text: str) -> Policy:
        """Find a policy by name or id. Raises NotFound, and InvalidInput if several have the name."""
        named = list(self.list(name=text))
        if not named and text.isdecimal():
            return self._get(Policy, f"policies/{int(text)}/")
        if not named:
            raise NotFound(f"There is no policy “{text[:80]}”.", hint="Which there are: berth policy list.")
        if len(named) > 1:
            several = ", ".join(f"{one.id} of {one.domain or 'all domains'}" for one in named)
            raise InvalidInput(
                f"Several policies are called “{text[:80]}”: {several}.", hint="Say the number."
            )
        return named[0]

    def create(self, name: str, *, domain: str = "", limits: Mapping[str, Any] | None = None) -> Policy:
        """Create a policy; `limits` as in the API: {"max_sessions": 10, "max_slots": {"cpu": 16}}."""
        body = {"name": name, "domain": domain, **(limits or {})}
        return self._send(Policy, "POST", "policies/", body, is_new=True)

    def change(self, policy_id: int, changes: Mapping[str, Any]) -> Policy:
        return self._send(Policy, "PATCH", f"policies/{policy_id}/", dict(changes))

    def foresee(self, policy_id: int, changes: Mapping[str, Any]) -> PolicyImpact:
        """Return the effect that a change would have, without making it."""
        return self._send(PolicyImpact, "POST", f"policies/{policy_id}/impact/", dict(changes))

    def delete(self, policy_id: int) -> None:
        self._transport.request("DELETE", f"policies/{policy_id}/")

    def assign(self, policy: str, *, level: str, name: str) -> None:
        """Assign a policy (name or id; "" removes it) to a domain, project, user or token
        (`level`).

        `name` is the name of that object. Raises NotFound.
        """
        is_number = level == "keypair" and name.isdecimal()
        number = int(name) if is_number else scope_id(self._transport, level, name)
        body = {"policy": policy, "level": level, "id": number}
        self._transport.request("POST", "policies/assign/", json=body)


def scope_id(transport: Transport, level: str, name: str) -> int:
    """Return the id of the domain, project or user called `name`. Raises NotFound, InvalidInput."""
    path = {"domain": "domains/", "project": "projects/", "user": "users/"}.get(level)
    if path is None:
        raise InvalidInput(f"“{name[:80]}” is no number of a token.")
    attribute = "email" if level == "user" else "name"
    for one in iterate(transport, path, Record, q=name):
        if one.raw.get(attribute) == name:
            return get_field(one.raw, "id", int)
    raise NotFound(f"There is no {level} “{name[:80]}” among those that you may see.")
