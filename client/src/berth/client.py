"""Entry point of the library: `Client()`."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx

from berth.arrays import Arrays
from berth.budgets import Budgets, Prices
from berth.callbacks import Callbacks
from berth.decoding import decode, get_field
from berth.errors import InvalidInput, NotFound, NotSignedIn
from berth.events import follow_events
from berth.folders import Folders
from berth.machine_models import Agent, Device, ImageOnMachine, ImageTransfer, QueuePlace, ResourceGroup
from berth.models import Event, Image, KeyPair, Limits, Person, Project
from berth.paging import PAGE_SIZE, iterate
from berth.people import AuditLine, Browsers, Domains, Projects, Tokens, Users
from berth.people_imports import UserImports
from berth.personal import Dotfiles, OwnPreferences, SshKeys, StartupScript
from berth.policies import Policies
from berth.presets import Presets
from berth.profiles import SIGN_IN_HINT, Profile, choose_profile
from berth.resource_groups import ResourceGroups
from berth.sessions import Sessions
from berth.storage_hosts import StorageHosts
from berth.storage_use import Storage
from berth.templates import Templates
from berth.transport import ANSWER_S, Transport


class Client:
    """Connection to one portal with one token.

        with Client() as client:
            image = client.find_image("python")
            session = client.sessions.start(image, project="demo", cpu=2, mem="4g").wait_running()

    Without arguments, uses the profile saved by `berth login`, or BERTH_URL and BERTH_TOKEN. Raises
    NotSignedIn if there is neither. Sends nothing before the first call. Thread-safe.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        profile: str = "",
        ca_file: str = "",
        timeout_s: float = ANSWER_S,
        wire: httpx.BaseTransport | None = None,
    ) -> None:
        chosen = _chosen(url, token, profile)
        self.transport = Transport(
            chosen.url, chosen.token, ca_file=ca_file or chosen.ca_file, timeout_s=timeout_s, wire=wire
        )
        self.sessions = Sessions(self.transport)
        self.callbacks = Callbacks(self.transport)
        self.templates = Templates(self.transport, self.sessions)
        self.presets = Presets(self.transport)
        self.arrays = Arrays(self.transport, self.sessions)
        self.folders = Folders(self.transport)
        self.policies = Policies(self.transport)
        self.budgets = Budgets(self.transport)
        self.prices = Prices(self.transport)
        self.tokens = Tokens(self.transport)
        self.preferences = OwnPreferences(self.transport)
        self.ssh_keys = SshKeys(self.transport)
        self.browsers = Browsers(self.transport)
        self.dotfiles = Dotfiles(self.transport)
        self.startup_script = StartupScript(self.transport)
        self.users = Users(self.transport)
        self.user_imports = UserImports(self.transport)
        self.managed_projects = Projects(self.transport)
        self.domains = Domains(self.transport)
        self.managed_groups = ResourceGroups(self.transport)
        self.storage_hosts = StorageHosts(self.transport)
        self.storage = Storage(self.transport)

    @property
    def url(self) -> str:
        return self.transport.url

    def whoami(self) -> Person:
        """Return the user that the token belongs to. Raises NotSignedIn."""
        return decode(Person, self.transport.get_json("me/"))

    def limits(self, *, project: str = "", user: str = "") -> Limits:
        """Return the resource limits that apply in `project`, or in all projects if none is given.

        `user` is the e-mail address of a user whom you administer. Raises NotFound.
        """
        found = self.transport.get_json("limits/", project=project or None, user=user or None)
        return decode(Limits, found)

    def projects(self) -> Iterator[Project]:
        return iterate(self.transport, "projects/", Project)

    def images(self, *, reference: str = "", project: str = "") -> Iterator[Image]:
        """Yield the images, each with whether policies allow it in `project` (or in any)."""
        return iterate(self.transport, "images/", Image, reference=reference or None, project=project or None)

    def find_image(self, text: str) -> Image:
        """Find an image by reference or id, or by a unique beginning: "berth/python", "python".

        Raises NotFound, and InvalidInput if several images match.
        """
        images = list(self.images())
        begins = tuple(f"{text}{end}" for end in (":", "-", "@"))
        exact = [one for one in images if text in (one.reference, str(one.id))]
        fitting = exact or [
            one
            for one in images
            if one.reference.startswith(begins) or one.reference.rpartition("/")[2].startswith(begins)
        ]
        if not fitting:
            raise NotFound(f"There is no image “{text[:80]}”.", hint="Which there are: berth image ls.")
        if len(fitting) > 1:
            several = ", ".join(one.reference for one in fitting[:10])
            raise InvalidInput(f"Several images fit “{text[:80]}”: {several}.", hint="Say which.")
        return fitting[0]

    def image_machines(self, image: Image) -> Iterator[ImageOnMachine]:
        """Yield the machines that could run the image, each with whether it has it."""
        return iterate(self.transport, f"images/{image.id}/machines/", ImageOnMachine)

    def bring_image(
        self, image: Image, *, agents: Sequence[str] = (), group: str = ""
    ) -> list[ImageTransfer]:
        """Have the image brought to these machines and those of the group. For superadmins."""
        body = {"agents": list(agents)} | ({"resource_group": group} if group else {})
        answer = self.transport.request("POST", f"images/{image.id}/machines/", json=body)
        return [decode(ImageTransfer, row) for row in answer.json()]

    def agents(self) -> Iterator[Agent]:
        return iterate(self.transport, "agents/", Agent)

    def find_agent(self, name: str) -> Agent:
        """Find an agent by its name. Raises NotFound."""
        for agent in self.agents():
            if agent.name == name:
                return agent
        raise NotFound(f"There is no agent “{name[:80]}”.", hint="Which there are: berth agent ls.")

    def add_agent(self, values: Mapping[str, Any]) -> Agent:
        """Add a machine whose engine answers; values as in REST. For superadmins."""
        return decode(Agent, self.transport.request("POST", "agents/", json=values).json())

    def invite_machine(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Have certificates issued for a machine; the answer has `script_url`. For superadmins."""
        answer = self.transport.request("POST", "agents/invitations/", json=values).json()
        assert isinstance(answer, dict)
        return answer

    def agent_ssh_key(self) -> str:
        """Return the public key with which Berth signs in on machines. For superadmins."""
        return str(self.transport.request("GET", "agents/ssh-key/").json()["public_key"])

    def change_agent_state(self, agent: Agent, state: str, *, ends_at: str = "", because: str = "") -> Agent:
        """Bring an agent into “draining”, “maintenance”, “retired” or “connected”. A maintenance may have an
        end (ISO 8601) and a reason. For superadmins.
        """
        more = {name: value for name, value in (("ends_at", ends_at), ("because", because)) if value}
        body = {"state": state, **more}
        answer = self.transport.request("POST", f"agents/{agent.id}/state/", json=body)
        return decode(Agent, answer.json())

    def revoke_agent(self, agent: Agent) -> None:
        """Retire an agent; the portal forgets how it was reached. For superadmins."""
        self.transport.request("DELETE", f"agents/{agent.id}/certificate/")

    def devices(self) -> Iterator[Device]:
        """Yield all accelerators as they are now. For superadmins and monitors."""
        return iterate(self.transport, "devices/", Device)

    def withhold_device(self, device: Device, because: str) -> None:
        """Give the device to no new session until it is released. For superadmins."""
        path = f"agents/{device.agent_id}/devices/{device.id}/withhold/"
        self.transport.request("POST", path, json={"because": because})

    def release_device(self, device: Device) -> None:
        """Give a withheld device to sessions again. For superadmins."""
        self.transport.request("POST", f"agents/{device.agent_id}/devices/{device.id}/release/")

    def resource_groups(self) -> Iterator[ResourceGroup]:
        return iterate(self.transport, "resource-groups/", ResourceGroup)

    def queue(self, group: str = "") -> Iterator[QueuePlace]:
        """Yield the pending sessions of a resource group in queue order; default: your usual group."""
        return iterate(self.transport, "queue/", QueuePlace, resource_group=group or None)

    def keypairs(self) -> Iterator[KeyPair]:
        """Yield your API tokens, without their text."""
        return iterate(self.transport, "keypairs/", KeyPair)

    def audit(self, **filters: Any) -> Iterator[AuditLine]:
        """Yield the audit log entries that you may read, newest first; filters as in the REST API."""
        path: str | None = "audit/"
        params = {name: value for name, value in filters.items() if value}
        while path is not None:
            page = self.transport.get_json(path, **params, page_size=PAGE_SIZE)
            yield from (decode(AuditLine, row) for row in get_field(page, "results", list))
            cursor = parse_qs(urlsplit(str(page.get("next") or "")).query).get("cursor")
            path, params = ("audit/", {**params, "cursor": cursor[0]}) if cursor else (None, {})

    def events(self) -> Iterator[Event]:
        """Yield live events without end; see `berth.events.follow_events`."""
        return follow_events(self.transport)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call any endpoint of the REST API; `path` is relative to /api/v1/.

        Raises BerthError if the portal refuses.
        """
        return self.transport.request(method.upper(), path, **options)

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _chosen(url: str, token: str, profile: str) -> Profile:
    if not url:
        if token:
            raise InvalidInput("A token needs the address of its portal.", hint="Client(url=…, token=…)")
        return choose_profile(profile)
    if not token:
        raise NotSignedIn(f"There is no token for {url}.", hint=SIGN_IN_HINT)
    return Profile("", url, token)
