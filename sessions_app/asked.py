"""What a request names, read together: its project, image and resource group with the actor's rights to them, whether a machine that
could run it is large enough, what policies allow and have in use, and whether anybody has a budget. One statement, whose parts are the querysets of the
selectors: rights are written down there alone. What it does not find the selectors look for, and say why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

from django.db.models.expressions import RawSQL

from accounts.budget_selectors import ANY_BUDGET
from accounts.limits import SCOPES, read_scopes
from accounts.models import Project
from accounts.quota import Scope
from accounts.selectors import may_do_everything, usable_projects
from agents.image_places import WITHOUT
from agents.models import Agent, ResourceGroup
from agents.selectors import HAS_MACHINE, meant_group, usable_resource_groups
from common.actors import Actor, ActorKind
from common.prepared import columns_of, instance_of, parameter, prepared_cursor, said
from images.models import ContainerImage
from images.selectors import full_reference, is_id, visible_images
from sessions_app.dependencies import Dependency
from sessions_app.holds import Standing, standing_of_image
from sessions_app.requests import SessionRequest
from sessions_app.terms import SEEN
from vfolders.models import VFolder

_NAMED = (Project, ContainerImage, ResourceGroup)


@dataclass(frozen=True, slots=True)
class Asked:
    """None of the first three: it was not found so, and the others say nothing."""

    project: Project | None = None
    image: ContainerImage | None = None
    group: ResourceGroup | None = None
    has_machine: bool = False
    have_budgets: bool = True
    machines_without_image: int = 0
    scopes: Sequence[Scope] = ()
    seen: str = ""  # as `terms` has it

    @property
    def is_whole(self) -> bool:
        return None not in (self.project, self.image, self.group)

    @property
    def terms(self) -> Sequence[object]:
        """What it says of that by which a request is judged (`terms`)."""
        named = [
            row and [getattr(row, name) for name in columns_of(type(row))]
            for row in (self.project, self.image, self.group)
        ]
        scopes = sorted(self.scopes, key=lambda scope: scope.level)  # one of each, in any order
        return [*named, *(replace(scope, used={}) for scope in scopes)]


NOTHING = Asked()


@dataclass(frozen=True, slots=True)
class ResolvedMount:
    folder: VFolder
    path: str
    is_readonly: bool


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request whose names were found among what the actor may use."""

    request: SessionRequest
    project: Project
    image: ContainerImage
    group: ResourceGroup
    mounts: Sequence[ResolvedMount]
    dependencies: Sequence[Dependency] = ()
    agent: Agent | None = None
    asked: Asked = NOTHING

    @property
    def is_lone(self) -> bool:
        """Nothing but what each session has is held or written for it."""
        request = self.request
        return not (self.mounts or self.dependencies or request.array or request.callback_url)

    @property
    def writable_folders(self) -> list[VFolder]:
        return [mount.folder for mount in self.mounts if not mount.is_readonly]

    @property
    def standing_of_image(self) -> Standing | None:
        """Where it stands because of its image. No query where all was found at once."""
        count = self.asked.machines_without_image if self.asked.is_whole else None
        return standing_of_image(self.group, self.image, count)


def read_asked(actor: Actor, request: SessionRequest) -> Asked:
    """One query; none for whoever is nobody."""
    if actor.user_id is None:
        return NOTHING
    by_id = is_id(request.image)
    values = {
        "user": actor.user_id,
        "domain": actor.domain_id or 0,
        "keypair": actor.keypair_id or 0,
        "project": request.project,
        "image": int(request.image) if by_id else full_reference(request.image),
        "group": request.resource_group,
        "model": request.device_model,
        "slots": list(request.slots),
        "amounts": list(request.slots.values()),
    }
    with prepared_cursor() as cursor:
        cursor.execute(_statement(may_do_everything(actor), bool(request.resource_group), by_id), values)
        return _asked_of(cursor.fetchone())


def _asked_of(row: Sequence[Any]) -> Asked:
    values = iter(row)
    named: Any = [instance_of(model, list(islice(values, len(columns_of(model))))) for model in _NAMED]
    has_machine, have_budgets, without, said_scopes, seen = values
    project, image, group = named
    scopes = read_scopes(said_scopes)
    return Asked(project, image, group, has_machine, have_budgets, without, scopes, seen)


def some_actor(may_everything: bool) -> Actor:
    """Whose rights a statement asks for that is said once for all people: parameters `user` and `domain`."""
    return Actor(
        ActorKind.USER,
        user_id=parameter("user", "bigint"),
        label="",
        domain_id=parameter("domain", "bigint"),
        is_superadmin=may_everything,
    )


@cache
def _statement(may_everything: bool, names_group: bool, is_image_id: bool) -> str:
    actor = some_actor(may_everything)
    project: Any = Project(pk=RawSQL("SELECT id FROM its_project", ()))
    groups = usable_resource_groups(actor, project)
    image = {"pk": parameter("image", "bigint")} if is_image_id else {"reference": parameter("image", "text")}
    its_project, its_image, its_group = (
        said(rows[:1], columns_of(model))
        for model, rows in (
            (Project, usable_projects(actor).filter(name=parameter("project", "text")).order_by()),
            (ContainerImage, visible_images(actor).filter(**image).order_by()),
            (ResourceGroup, meant_group(groups, parameter("group", "text") if names_group else "")),
        )
    )
    scopes = SCOPES.format(
        domain="(SELECT domain_id FROM its_project)",
        project="(SELECT id FROM its_project)",
        user="%(user)s::bigint",
        keypair="%(keypair)s::bigint",
    )
    without = WITHOUT.format(
        group="its_group.id", architecture="its_image.architecture", reference="its_image.reference"
    )
    return f"""
        WITH its_project AS MATERIALIZED ({its_project}),
            its_image AS MATERIALIZED ({its_image}),
            its_group AS MATERIALIZED ({its_group})
        SELECT its_project.*, its_image.*, its_group.*,
            {HAS_MACHINE.format(group="its_group.id", architecture="its_image.architecture", model="%(model)s::text")},
            {ANY_BUDGET.format(project="its_project.id", user="%(user)s::bigint")},
            CASE WHEN its_image.registry_id IS NULL THEN ({without}) ELSE 0 END,
            (SELECT coalesce(json_agg(json_build_array(level, id, name, policy, used)), '[]') FROM ({scopes}) AS its_scopes),
            {SEEN}
        FROM (VALUES (true)) AS one
            LEFT JOIN its_project ON true LEFT JOIN its_image ON true LEFT JOIN its_group ON true
    """
