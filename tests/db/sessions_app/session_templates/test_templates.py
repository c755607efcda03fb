"""Session templates: visibility, permissions, and fields that are not stored."""

import json
from collections.abc import Callable

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from accounts.tenancy.archiving import update_project
from accounts.tenancy.service import add_member, create_project
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from sessions_app.core.template_rules import is_secret_name
from sessions_app.models import ComputeSession, SessionTemplate
from sessions_app.session_templates import sharing
from sessions_app.session_templates.templates import (
    change_template,
    create_template,
    delete_template,
    start_from_template,
    visible_body,
    visible_templates,
)
from sessions_app.web.templates import TemplateForm
from tests.factories import actor_for, make_domain, make_project, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db


def keep(place: Place, by: User | None = None, sharing: str = "own", **changes: object) -> SessionTemplate:
    body = place.request(type="batch", command="make", **changes)
    name = str(changes.pop("called", "nightly"))
    body.pop("called", None)
    actor = actor_for(by or place.owner)
    return create_template(actor=actor, name=name, sharing=sharing, body=body)[0]


def names_for(user: User) -> list[str]:
    return [each.sharing for each in visible_templates(actor_for(user))]


def test_it_keeps_choices_and_nothing_of_one_session_and_no_secret(place: Place) -> None:
    body = place.request(
        name="one",
        start_at="2999-01-01T00:00Z",
        dependencies=["other"],
        callback_url="https://a.example/",
        environment={"EPOCHS": "3", "API_TOKEN": "x", "db_password": "y", "AWS_SECRET_ACCESS_KEY": "z"},
    )
    template, left_out = create_template(
        actor=actor_for(place.owner), name=" usual ", sharing="own", body=body
    )
    assert template.name == "usual"
    assert template.body["environment"] == {"EPOCHS": "3"}
    assert left_out == ["API_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password"]
    assert not {"name", "start_at", "dependencies", "callback_url"} & template.body.keys()


def test_it_names_no_project_where_none_was_said(place: Place) -> None:
    body = place.request()
    del body["project"]
    template, _ = create_template(actor=actor_for(place.owner), name="any", sharing="own", body=body)
    assert "project" not in template.body


@pytest.mark.parametrize(
    "name",
    ["PGPASSWORD", "SSHPASS", "DBPASS", "GITHUB_PAT", "accessToken", "dbPassword", "HF_TOKENS", "APIKEY"],
)
def test_secrets_sound_in_many_ways(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "PATTERN", "PASSES", "MONKEY", "AUTHOR", "KEYBOARD", "PATH"]
)
def test_other_variables_are_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_visibility_of_templates(place: Place) -> None:
    admin = make_user(admin_of=place.project)
    domain_admin = make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN)
    root = make_user(role=Role.SUPERADMIN)
    keep(place)
    keep(place, admin, "project")
    keep(place, domain_admin, "domain")
    keep(place, root, "everybody")
    assert sorted(names_for(place.owner)) == ["domain", "everybody", "own", "project"]
    assert sorted(names_for(make_user(member_of=place.project))) == ["domain", "everybody", "project"]
    assert sorted(names_for(make_user(domain=place.project.domain))) == ["domain", "everybody"]
    assert names_for(make_user()) == ["everybody"]


@pytest.mark.parametrize("sharing", ["project", "domain", "everybody"])
def test_members_share_nothing_with_others(place: Place, sharing: str) -> None:
    with pytest.raises(PermissionDenied):
        keep(place, sharing=sharing)
    assert not SessionTemplate.objects.exists()


def test_an_admin_of_one_project_writes_none_of_another(place: Place) -> None:
    other = make_project(domain=place.project.domain)
    template = keep(place, make_user(admin_of=place.project), "project")
    stranger = actor_for(make_user(admin_of=other))
    with pytest.raises(NotFound):
        change_template(actor=stranger, template_id=template.pk, changes={"name": "x"})
    for actor in (actor_for(place.owner),):
        with pytest.raises(PermissionDenied):
            change_template(actor=actor, template_id=template.pk, changes={"name": "x"})
        with pytest.raises(PermissionDenied):
            delete_template(actor=actor, template_id=template.pk)


def test_a_project_whose_name_several_domains_have_is_named_with_its_domain(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    first, second = (make_project(name="vision") for _ in range(2))
    root = make_user(domain=second.domain, role=Role.SUPERADMIN)
    body = place.request()

    def saved_in(project: str) -> SessionTemplate:
        return create_template(actor=actor_for(root), name="x", sharing="project", place=project, body=body)[
            0
        ]

    with pytest.raises(Conflict, match="Several projects are called “vision”"):
        saved_in("vision")
    assert saved_in(f"{second.domain.name}/vision").project == second
    assert saved_in(place.project.name).project == place.project

    browser = browser_of(root)
    form = TemplateForm(actor=actor_for(root))
    offered = dict(form.fields["place"].choices)  # type: ignore[attr-defined]
    choice = f"project:{first.domain.name}/vision"
    assert offered[choice] == f"Project vision ({first.domain})"
    sent = {"name": "y", "place": choice, "body": json.dumps(body)}
    assert browser.post("/sessions/templates/new/", sent).status_code == 302
    assert SessionTemplate.objects.get(name="y").project == first


def test_a_domain_is_the_named_one_or_the_own_one(place: Place) -> None:
    project = make_project(name="physics")
    namesake = make_domain("physics")
    root = make_user(domain=project.domain, role=Role.SUPERADMIN)
    body = place.request(project="physics")
    with pytest.raises(NotFound, match="There is no domain “no-such-domain”") as refused:
        create_template(actor=actor_for(root), name="x", sharing="domain", place="no-such-domain", body=body)
    assert list(refused.value.fields) == ["place"]
    own, _ = create_template(actor=actor_for(root), name="x", sharing="domain", body=body)
    assert own.domain == project.domain
    other, _ = create_template(
        actor=actor_for(root), name="x", sharing="domain", place=namesake.name, body=body
    )
    assert other.domain == namesake


def test_it_is_changed_and_deleted(place: Place) -> None:
    actor = actor_for(place.owner)
    template = keep(place)
    body = {**template.body, "resources": {"cpu": 2, "mem": "2g"}}
    changed, _none = change_template(
        actor=actor, template_id=template.pk, changes={"description": "each night", "body": body}
    )
    assert (changed.name, changed.description, changed.body["resources"]["cpu"]) == (
        "nightly",
        "each night",
        2,
    )
    delete_template(actor=actor, template_id=template.pk)
    assert not SessionTemplate.objects.exists()


def test_what_is_wrong_is_refused_at_its_field(place: Place) -> None:
    keep(place)
    actor = actor_for(place.owner)
    with pytest.raises(Conflict, match="called “nightly” there already"):
        keep(place)
    with pytest.raises(InvalidInput) as refused:
        create_template(actor=actor, name=" ", sharing="own", body=place.request())
    assert set(refused.value.fields) == {"name"}
    with pytest.raises(InvalidInput, match="cpu"):
        create_template(actor=actor, name="x", sharing="own", body=place.request(resources={"cpu": "many"}))
    with pytest.raises(InvalidInput, match="no way to share"):
        create_template(actor=actor, name="x", sharing="all", body=place.request())
    with pytest.raises(NotFound):
        create_template(actor=actor, name="x", sharing="project", place="absent", body=place.request())


def test_a_template_has_one_place(place: Place) -> None:
    template = keep(place)
    with pytest.raises(IntegrityError), transaction.atomic():
        SessionTemplate.objects.filter(pk=template.pk).update(sharing="everybody")


def test_a_place_has_so_many_at_most(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MAX_PER_SCOPE", 1)
    keep(place)
    with pytest.raises(LimitExceeded):
        keep(place, called="another")


def test_a_session_is_started_from_it(place: Place) -> None:
    template = keep(place, called="Nightly build!")
    actor = actor_for(place.owner)
    first = start_from_template(actor=actor, template=template)
    second = start_from_template(actor=actor, template=template, name="mine")
    assert (first.name, second.name, first.command) == ("Nightly-build-1", "mine", "make")


def test_template_grants_no_access(place: Place) -> None:
    admin = make_user(admin_of=place.project)
    template = keep(place, admin, "project")
    outsider = make_user(domain=place.project.domain)
    with pytest.raises((NotFound, PermissionDenied)):
        start_from_template(actor=actor_for(outsider), template=template)
    limit(place.project, max_slots={"cpu": 500})
    with pytest.raises(LimitExceeded):
        start_from_template(actor=actor_for(place.owner), template=template)
    assert not ComputeSession.objects.exists()


def test_shared_template_starts_in_a_project_of_its_user(place: Place) -> None:
    template = keep(place, make_user(role=Role.SUPERADMIN), "everybody")
    template.body["project"] = "gone"
    template.save()
    assert start_from_template(actor=actor_for(place.owner), template=template).project == place.project


@pytest.mark.parametrize("is_taken", [False, True])
def test_one_of_a_project_stays_with_it_whatever_it_is_called(place: Place, *, is_taken: bool) -> None:
    template = keep(place, make_user(admin_of=place.project), "project")
    boss, name = actor_for(make_user(role=Role.SUPERADMIN)), place.project.name
    update_project(actor=boss, project_id=place.project.pk, name="renamed")
    if is_taken:
        another = create_project(actor=boss, domain=place.project.domain, name=name)
        add_member(actor=boss, project=another, user=place.owner)
    template.refresh_from_db()
    assert visible_body(actor_for(place.owner), template)["project"] == "renamed"
    assert start_from_template(actor=actor_for(place.owner), template=template).project == place.project


def test_an_own_one_never_starts_in_another_project_than_it_names(place: Place) -> None:
    template = keep(place, place.owner, "own")
    update_project(
        actor=actor_for(make_user(role=Role.SUPERADMIN)), project_id=place.project.pk, name="renamed"
    )
    with pytest.raises(NotFound, match="There is no project"):
        start_from_template(actor=actor_for(place.owner), template=template)


def test_from_a_session_over_the_page_to_a_session(
    place: Place, browser_of: Callable[[User], Client]
) -> None:
    browser = browser_of(place.owner)
    session = place.run(type="batch", command="make", environment={"EPOCHS": "3", "TOKEN": "geheim"})
    form = browser.get("/sessions/templates/new/", {"session": session.pk}).context["form"]
    sent = {"name": "nightly", "place": "own", "body": form["body"].value()}
    shown = browser.post("/sessions/templates/new/", sent, follow=True).content.decode()
    assert "nightly" in shown
    assert "sound like secrets: TOKEN" in shown

    template = SessionTemplate.objects.get()
    launcher = browser.get("/sessions/new/", {"template": template.pk}).context["form"]
    assert (launcher["command"].value(), launcher["environment"].value()) == ("make", "EPOCHS=3")
    assert launcher["name"].value() == "nightly-1"
    answer = browser.post(f"/sessions/templates/{template.pk}/start/")
    assert answer.status_code == 302
    assert ComputeSession.objects.filter(name="nightly-1").exists()
    browser.post(f"/sessions/templates/{template.pk}/delete/")
    assert "No templates yet" in browser.get("/sessions/templates/").content.decode()


def test_from_the_launcher_without_scripts(place: Place, browser_of: Callable[[User], Client]) -> None:
    browser = browser_of(place.owner)
    typed = {**place.request(), "cpu": "1", "mem": "1g", "type": "interactive", "size": "custom"}
    page = browser.post("/sessions/templates/new/", typed)
    body = page.context["form"]["body"].value()
    assert (
        browser.post("/sessions/templates/new/", {"name": "x", "place": "own", "body": body}).status_code
        == 302
    )
    wrong = browser.post("/sessions/templates/new/", {**typed, "cpu": "many"})
    assert wrong.status_code == 302
    for body in ("{", "[]", '{"image": 1}'):
        refused = browser.post("/sessions/templates/new/", {"name": "y", "place": "own", "body": body})
        assert refused.status_code == 422
    assert browser.get("/sessions/new/", {"template": "x"}).status_code == 200
    assert browser.get("/sessions/new/", {"template": 10**9}).status_code == 200
