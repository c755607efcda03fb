"""One domain with everybody who may have a say in a session, and what they may have it in."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from http.cookies import SimpleCookie
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.core.roles import Role
from accounts.core.token_secrets import hash_secret, new_secret
from accounts.credentials.ssh_keys import add_ssh_key
from accounts.models import (
    Budget,
    Invitation,
    KeyPair,
    PeopleImport,
    Price,
    Project,
    ResourcePolicy,
    SshKey,
    User,
)
from accounts.policies.service import create_policy
from accounts.tenancy.user_import import check_import
from agents.accelerators.device_files import DeviceFileVendor
from agents.models import AgentDevice, GroupGrant, Reservation, SharingRule, VendorFile
from agents.reservations.service import reserve_agents
from agents.resource_groups.service import save_limit
from agents.sharing.service import create_sharing_rule
from agents.vendors.service import create_vendor_file
from common import clock
from common.actors import SYSTEM
from common.audit import audit_log
from common.models import AuditEntry
from portal.models import Notification
from portal.notifications.catalogue import Code
from scheduler.models import KeptTick
from sessions_app.callbacks.signing_secret import make_callback_secret
from sessions_app.dotfiles.service import put_dotfile, set_startup_script
from sessions_app.models import ComputeSession, ResourcePreset, SessionArray, SessionTemplate
from sessions_app.session_templates.presets import create_preset
from sessions_app.session_templates.templates import create_template
from tests import factories
from tests.factories_devices import give_devices
from tests.factories_entrance import make_invitation
from tests.factories_folders import make_folder, make_share, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.core.paths import TRASH
from vfolders.core.uploads import IfExists
from vfolders.models import FileOperation, FolderLink, FolderShare, Upload, VFolder
from vfolders.selectors import files_of
from vfolders.storage.base import EntryMissing
from vfolders.trash import trash_folder

FILE, LIMIT, LINK_CODE = "a.txt", "By day", "open-link"
BATCH = "1700000000-0123456789ab"  # of the trash of the folder
# They want the folder that is in the trash.
OF_TRASH = {"folder-restore", "folder-purge", "api-folder-restore", "api-folder-purge"}
PEOPLE_FILE = b"email,name\nfrom-a-file@berth.example,Ada\n"
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class World:
    """`people` by column; a session, a folder, another in the trash and a token that belong to the owner; how each person is
    signed in."""

    place: Place
    people: dict[str, User]
    session: ComputeSession
    device: AgentDevice
    array: SessionArray
    folder: VFolder
    trashed: VFolder
    file_operation: FileOperation
    upload: Upload
    share: FolderShare
    link: FolderLink
    keypair: KeyPair
    ssh_key: SshKey
    notification: Notification
    entry: AuditEntry
    policy: ResourcePolicy
    grant: GroupGrant
    reservation: Reservation
    sharing_rule: SharingRule
    vendor_file: VendorFile
    tick: KeptTick
    budget: Budget
    price: Price
    template: SessionTemplate
    preset: ResourcePreset
    invitation: Invitation
    people_import: PeopleImport
    cookies: dict[str, str]
    tokens: dict[str, str]
    client: Client = field(default_factory=lambda: Client(headers={"host": "localhost:8080"}))
    api: APIClient = field(default_factory=APIClient)

    def browser(self, column: str) -> Client:
        """A browser in which this person, if any, is signed in."""
        signed_in = {settings.SESSION_COOKIE_NAME: self.cookies[column]} if column in self.cookies else {}
        self.client.cookies = SimpleCookie(signed_in)
        return self.client

    def program(self, column: str) -> APIClient:
        """A program with a token of this person, if any."""
        header = {"HTTP_AUTHORIZATION": f"Bearer {self.tokens[column]}"} if column in self.tokens else {}
        self.api.credentials(**header)
        return self.api

    def address(
        self, route: str, parameters: frozenset[str], *, absent: Collection[str] = frozenset()
    ) -> str:
        """The route's address, of what is there but for the parameters in `absent`."""
        there, not_there = (self._values(route, is_absent=is_absent) for is_absent in (False, True))
        values = {name: (not_there if name in absent else there)[name] for name in parameters}
        return reverse(route, kwargs=values)

    def _values(self, route: str, *, is_absent: bool) -> dict[str, Any]:
        folder = self.trashed if route in OF_TRASH else self.folder
        return {
            "session_id": uuid4() if is_absent else self.session.pk,
            "array_id": uuid4() if is_absent else self.array.pk,
            "folder_id": uuid4() if is_absent else folder.pk,
            "upload_id": uuid4() if is_absent else self.upload.pk,
            "agent_id": 10**9 if is_absent else self.place.agent.pk,
            "image_id": 10**9 if is_absent else self.place.image.pk,
            "device_id": 10**9 if is_absent else self.device.pk,
            "keypair_id": 10**9 if is_absent else self.keypair.pk,
            "ssh_key_id": 10**9 if is_absent else self.ssh_key.pk,
            "notification_id": 10**9 if is_absent else self.notification.pk,
            "entry_id": 10**9 if is_absent else self.entry.pk,
            "user_id": 10**9 if is_absent else self.place.owner.pk,
            "project_id": 10**9 if is_absent else self.place.project.pk,
            "budget_id": 10**9 if is_absent else self.budget.pk,
            "price_id": 10**9 if is_absent else self.price.pk,
            "policy_id": 10**9 if is_absent else self.policy.pk,
            "group_id": 10**9 if is_absent else self.place.group.pk,
            "grant_id": 10**9 if is_absent else self.grant.pk,
            "reservation_id": 10**9 if is_absent else self.reservation.pk,
            "rule_id": 10**9 if is_absent else self.sharing_rule.pk,
            "storage_kind": "absent" if is_absent else "local",
            "vendor_id": 10**9 if is_absent else self.vendor_file.pk,
            "vendor": "nvidia",
            "rule": "throttle",
            "storage_host_id": 10**9 if is_absent else self.folder.host_id,
            "tick_id": 10**9 if is_absent else self.tick.pk,
            "scope_id": 10**9 if is_absent else self.place.owner.pk,
            "level": "user",
            "domain_id": 10**9 if is_absent else self.place.project.domain_id,
            "invitation_id": 10**9 if is_absent else self.invitation.pk,
            "template_id": 10**9 if is_absent else self.template.pk,
            "preset_id": 10**9 if is_absent else self.preset.pk,
            "announcement_id": 10**9,
            "import_id": 10**9 if is_absent else self.people_import.pk,
            "object_id": self.place.agent.pk,
            "id": self.place.owner.pk,
            "content_type_id": 1,
            "app_label": "accounts",
            "path": FILE,
            "operation_id": uuid4() if is_absent else self.file_operation.pk,
            "batch": "absent" if is_absent else BATCH,
            "place": f"{'absent' if is_absent else self.folder.name}/{FILE}",
            "app": "p8000",
            "provider": "absent",
            "code": "absent",
            "share_id": uuid4() if is_absent else self.share.pk,
            "link_id": uuid4() if is_absent else self.link.pk,
            "link_code": "absent" if is_absent else LINK_CODE,
            "machine": "absent",
            "login_id": "absent",
            "machine_invitation_id": 10**9,
            "pk": 10**9,
            "key": "absent",
            "uidb36": "a",
        }

    def admin_address(self, model: str, kind: str) -> str:
        """A page of Django admin; of the first object of that model where it is about one."""
        first = apps.get_model(*model.split("_", 1))._base_manager.order_by("pk").first()
        needs_object = kind in {"history", "delete", "change"}
        arguments = [str(first.pk) if first else "0"] if needs_object else []
        return reverse(f"admin:{model}_{kind}", args=arguments)

    def query(self, kind: str) -> dict[str, str]:
        host = f"jupyter-{self.session.host_label}"
        queries = {
            "file": {"path": FILE},
            "words": {"q": "a"},
            "app": {"host": host, "state": hash_secret(new_secret())},
            "home": {"path": "/home/work"},
            "profile": {"path": "/home/work/.profile"},
            "dotfile": {"path": ".bashrc"},
            "session": {"session": str(self.session.pk)},
            "limit": {"limit": LIMIT},
        }
        return queries.get(kind, {})

    def body(self, kind: str) -> dict[str, Any]:
        """What a form or a program sends that wants to succeed."""
        asked = self.place.request()
        dotfile = {"path": ".bashrc", "content": "", "mode": "0644"}
        bodies: dict[str, dict[str, Any]] = {
            "session": asked,
            "launcher": {**asked, "cpu": "1", "mem": "1g", "type": "interactive"},
            "template": {"name": f"new-{next(_numbers)}", "body": asked},
            "preset": {
                "name": f"new-{next(_numbers)}",
                "place": self.place.project.name,
                "resources": {"cpu": 1, "mem": "1g"},
            },
            "preset-form": {
                "name": f"new-{next(_numbers)}",
                "place": f"project:{self.place.project.domain.name}/{self.place.project.name}",
                "cpu": "1",
                "mem": "1g",
            },
            "preset-change-form": {"name": f"new-{next(_numbers)}", "cpu": "1", "mem": "1g"},
            "template-form": {"name": f"new-{next(_numbers)}", "place": "own", "body": json.dumps(asked)},
            "image": {"image": self.place.image.reference},
            "name": {"name": f"new-{next(_numbers)}"},
            "title": {"title": "New"},
            "token": {"name": "x", "scopes": ["read"], "life": "7"},
            "ssh-key": {"public_key": factories.make_public_key()},
            "dotfile": dotfile,
            "script": {"content": "date\n"},
            "person": {"email": f"new-{next(_numbers)}@berth.example"},
            "person-form": {
                "email": f"new-{next(_numbers)}@berth.example",
                "role": "user",
                "domain": self.place.project.domain.name,
            },
            "person-change": {
                "email": self.place.owner.email,
                "role": "user",
                "domain": self.place.project.domain.name,
            },
            "invitation": {"role": "user", "days": 7, "uses": 1},
            "sign-up": {"sign_up": "invitation"},
            "people-file": {"file": SimpleUploadedFile("people.csv", PEOPLE_FILE)},
            "people-text": {"content": PEOPLE_FILE.decode()},
            "rules": {"rules": [{"kind": "mail", "value": "uni.example"}]},
            "reason": {"reason": "A question"},
            "people": {"person": [str(self.place.owner.pk)]},
            "closing": {"folders": "keep", "confirm": self.place.owner.email},
            "budget": {
                "level": "user",
                "id": self.place.owner.pk,
                "unit": "money",
                "amount": "10",
                "period": "month",
            },
            "budget-form": {
                "owner": self.place.owner.email,
                "unit": "money",
                "amount": "10",
                "period": "month",
                "warn_percent": 80,
            },
            "change": {"amount": "20"},
            "price": {"slot_name": "cpu", "since": "2999-01-01", "per_hour": "0.05"},
            "assignment": {"level": "user", "id": self.place.owner.pk, "policy": "small"},
            "group-form": {
                "name": f"new-{next(_numbers)}",
                "is_public": "yes",
                "is_default": "on",
                "scheduler": "fifo",
                "strategy": "concentrated",
                "takes_batch": "on",
            },
            "group-state": {"to": "paused"},
            "description": {"description": "New"},
            "reservation": {
                "name": "Course",
                "agents": [self.place.agent.name],
                "ends_at": (clock.now() + timedelta(hours=1)).isoformat(),
            },
            "reservation-form": {
                "name": "Course",
                "level": "nobody",
                "agents": [self.place.agent.name],
                "ends_at": f"{clock.now() + timedelta(hours=1):%Y-%m-%dT%H:%M}",
            },
            "reservation-change": {"name": "Course"},
            "reservation-change-form": {
                "name": "Course",
                "agents": [self.place.agent.name],
                "starts_at": f"{self.reservation.starts_at:%Y-%m-%dT%H:%M}",
                "ends_at": f"{self.reservation.ends_at:%Y-%m-%dT%H:%M}",
            },
            "layout": {"layout": {"1g.10gb": 2}},
            "model-layout": {"model": "H100", "layout": {"1g.10gb": 2}},
            "sharing-rule": {"model": "H100", "mode": "slice"},
            "sharing-rule-change": {"smallest_share": 250},
            "vendor": {
                "name": f"board{next(_numbers)}",
                "title": "B",
                "model": "B",
                "device": "/dev/board{n}",
            },
            "new-storage-host-form": {"name": f"disk-{uuid4().hex[:8]}", "root": f"disk-{uuid4().hex[:8]}"},
            "storage-settings-form": {
                "root": self.folder.host.config["root"],
                "is_active": "on",
                "is_default": "on",
            },
            "storage-rights-form": {"grants-TOTAL_FORMS": "0", "grants-INITIAL_FORMS": "0"},
            "new-storage-host": {
                "name": f"disk-{uuid4().hex[:8]}",
                "kind": "local",
                "settings": {"root": "disk"},
            },
            "storage-rights": {"is_restricted": False},
            "storage-reach": {"reach": "path", "agent_path": "/srv/folders"},
            "storage-reach-form": {"reach": "path", "agent_path": "/srv/folders"},
            "vendor-change": {"title": "Boards"},
            "health-rule": {"action": "quarantine"},
            "health-rules-form": {"vendor": "graphcore", "lost": "warn"},
            "limit-form": {"name": f"new-{next(_numbers)}", "each_cpu": "8"},
            "grant": {"level": "user", "id": self.place.owner.pk},
            "grant-form": {"level": "user", "grantee": self.place.owner.email},
            "weight": {"level": "user", "id": self.place.owner.pk, "weight": 2},
            "weight-form": {"level": "user", "holder": self.place.owner.email, "weight": 2},
            "agent": {"agent": self.place.agent.name},
            "bring": {"agents": [self.place.agent.name]},
            "target": {"target": "everywhere"},
            "because": {"because": "noisy fan"},
            "sharing-form": {
                "group": str(self.place.group.pk),
                "model": "Big One",
                "mode": "slice",
                "smallest_share": "0.1",
            },
            "new-project": {"name": f"new-{next(_numbers)}", "domain": self.place.project.domain.name},
            "new-member": {"email": self.people["outsider"].email, "role": "member"},
            "share": {"person": self.people["outsider"].email, "right": "read"},
            "share-right": {"right": "write"},
            "link": {"path": FILE, "days": 3},
            "mounting": {"session": [str(self.session.pk)]},
            "mounting-api": {"sessions": [str(self.session.pk)]},
            "own-folder": {"name": f"new-{next(_numbers)}", "project": "-"},
            "quota-form": {"quota_bytes": "5g"},
            "host-limits-form": {"max_bytes": "5t"},
            "admin-folders": {"folder": [str(self.folder.pk)]},
            "quota": {"quota_bytes": 10**9},
            "host-limits": {"max_bytes": None, "max_user_bytes": 10**12, "max_project_bytes": None},
            "directory": {"path": f"new-{next(_numbers)}"},
            "upload": {"chosen": SimpleUploadedFile("b.txt", b"x")},
            "language": {"language": "ko", "back": "/sessions/"},
            "columns": {"table": "sessions", "column": ["status"], "back": "/sessions/"},
            "sessions": {"session": [str(self.session.pk)]},
            "rename-file": {"kind": "move", "paths": [FILE], "name": "renamed", "taken": "replace"},
            "batch": {"batch": BATCH},
            "file-paths": {"paths": [FILE]},
            "text": {"text": "new", "etag": "of another time"},
            "folders": {"folder": [str(self.folder.pk)], "confirm": "delete 1"},
            "priority": {"priority": -1},
            "drain": {"to": "draining"},
            "confirm": {"confirm": self.folder.name},
            "confirm-trashed": {"confirm": self.trashed.name},
            "another-name": {"name": f"new-{next(_numbers)}"},
            "mode": {"mode": "data"},
            "trashed-name": {"name": self.trashed.name},
        }
        return bodies.get(kind, {})


def make_world(root: Path) -> World:
    place = make_place()
    make_storage_host(root)
    people = make_people(place.project, place.owner)
    tokens = {column: factories.make_token(user) for column, user in people.items()}
    make_callback_secret(actor=factories.actor_for(place.owner))
    put_dotfile(actor=factories.actor_for(place.owner), path=".bashrc", content="")
    set_startup_script(actor=factories.actor_for(place.owner), content="date\n")
    session = place.run()
    save_limit(actor=SYSTEM, group_id=place.group.pk, limit={"name": LIMIT, "each": {"cpu": 10**9}})
    folder, tomorrow = make_folder(place.owner, name="data"), clock.now() + timedelta(days=1)
    return World(
        place=place,
        people=people,
        session=session,
        device=give_devices(place.agent, 1, "Big One")[0],
        array=make_array(place),
        folder=folder,
        trashed=trash_folder(
            actor=factories.actor_for(place.owner), folder_id=make_folder(place.owner, name="old").pk
        ),
        share=make_share(
            folder, people["project_admin"], accepted_at=None, answer_by=tomorrow, inviter=place.owner
        ),
        link=FolderLink.objects.create(
            folder=folder,
            path=FILE,
            code_hash=hash_secret(LINK_CODE),
            creator=place.owner,
            expires_at=tomorrow,
        ),
        file_operation=FileOperation.objects.create(
            kind="copy", source=folder, folder=folder, user=place.owner, request={}, ended_at=clock.now()
        ),
        upload=Upload.objects.create(
            if_exists=IfExists.REPLACE,
            folder=folder,
            user=place.owner,
            path="b",
            length_bytes=3,
            expires_at=clock.now() + timedelta(days=1),
        ),
        keypair=KeyPair.objects.get(user=place.owner, name="test"),
        ssh_key=add_ssh_key(actor=factories.actor_for(place.owner), public_key=factories.make_public_key()),
        notification=make_notification(place.owner),
        entry=make_entry(place.owner, session),
        budget=Budget.objects.create(user=place.owner, unit="money", amount=10, period="month"),
        price=Price.objects.create(slot_name="cpu", since=date(2998, 1, 1), per_hour=1),
        policy=create_policy(actor=SYSTEM, name="small", domain=place.project.domain),
        grant=GroupGrant.objects.create(group=place.group, domain=place.project.domain),
        reservation=reserve_agents(
            actor=SYSTEM,
            group_id=place.group.pk,
            name="Maintenance",
            agents=[place.agent.name],
            starts_at=clock.now() + timedelta(days=100),
            ends_at=clock.now() + timedelta(days=101),
        ),
        sharing_rule=create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, mode="slice"),
        vendor_file=create_vendor_file(
            actor=SYSTEM,
            form=DeviceFileVendor(name="board", title="Board", model="Board", device="/dev/board{n}"),
        ),
        tick=KeptTick.objects.earliest("pk"),
        template=create_template(
            actor=factories.actor_for(place.owner), name="usual", sharing="own", body=place.request()
        )[0],
        preset=create_preset(
            actor=SYSTEM,
            name="usual",
            sharing="project",
            place=place.project.name,
            resources={"cpu": 1, "mem": "1g"},
        ),
        invitation=make_invitation(place.project.domain, people["domain_admin"])[0],
        people_import=check_import(
            actor=factories.actor_for(people["domain_admin"]), name="people.csv", content=PEOPLE_FILE
        ),
        cookies={column: sign_in(user) for column, user in people.items()},
        tokens={**tokens, **make_owners_tokens(place.owner)},
    )


def make_owners_tokens(owner: User) -> dict[str, str]:
    """By the columns of tokens: one that may only read, and one that has expired."""
    found = {"reader": factories.make_token(owner, "reader", scopes=["read"])}
    found["expired"] = factories.make_token(owner, "expired")
    KeyPair.objects.filter(user=owner, name="expired").update(expires_at=clock.now() - timedelta(seconds=1))
    return found


def make_array(place: Place) -> SessionArray:
    """Of which no element is there any more, so that no page has more rows."""
    return SessionArray.objects.create(
        name="sweep",
        owner=place.owner,
        project=place.project,
        domain_id=place.project.domain_id,
        spec="1-2",
        count=2,
    )


def make_entry(owner: User, session: ComputeSession) -> AuditEntry:
    """A line of the audit log that tells of the owner."""
    audit_log.record(actor=factories.actor_for(owner), action="sessions.open_app", target=session)
    return AuditEntry.objects.latest("pk")


def make_notification(owner: User) -> Notification:
    return Notification.objects.create(person=owner, code=Code.NOT_STARTED, arguments={"name": "a"})


def make_people(project: Project, owner: User) -> dict[str, User]:
    """Everybody who can sign in, by column."""
    return {
        "stranger": factories.make_user(role=Role.DOMAIN_ADMIN),
        "outsider": factories.make_user(domain=project.domain),
        "member": factories.make_user(member_of=project),
        "owner": owner,
        "project_admin": factories.make_user(admin_of=project),
        "domain_admin": factories.make_user(domain=project.domain, role=Role.DOMAIN_ADMIN),
        "superadmin": factories.make_user(domain=project.domain, role=Role.SUPERADMIN),
        "domain_monitor": factories.make_user(domain=project.domain, role=Role.DOMAIN_MONITOR),
        "monitor": factories.make_user(domain=project.domain, role=Role.MONITOR),
    }


def sign_in(user: User) -> str:
    client = Client()
    client.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


@contextmanager
def undone(world: World, *, needs_file: bool = False) -> Iterator[None]:
    """What happens inside did not happen: rows are rolled back, and the folder's file is there each time."""
    if needs_file:
        files = files_of(world.folder)
        files.write_file((FILE,), [b"x"])
        with suppress(EntryMissing):
            files.delete_entry((TRASH,))
        files.write_file(("thrown",), [b"x"])
        files.throw_away(("thrown",), batch=BATCH)
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
