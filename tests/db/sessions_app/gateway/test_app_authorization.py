"""The authorization query of apps decides as the other access rules do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import ProjectRole, Role
from accounts.core.sign_in_requirements import SecondFactor
from accounts.core.token_secrets import hash_secret, new_secret
from accounts.logins.impersonation import start_impersonation
from accounts.logins.service import Login, valid_logins
from accounts.models import BrowserLogin, Domain, KeyPair, Membership, Project, User
from accounts.tenancy.user_import import user_actor
from common import clock
from common.errors import BerthError
from common.token_scopes import TokenScope
from sessions_app.core.app_address import AppHost, AppPort
from sessions_app.gateway.auth.authorizer import find_access
from sessions_app.gateway.proxy.access_types import AppState
from sessions_app.models import AppLogin, AssignedPort, ComputeSession
from sessions_app.selectors import Action, access_session
from tests import factories
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db
HOME, AWAY = "192.0.2.7", "198.51.100.1"
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Scene:
    session: ComputeSession
    endpoint: AppHost

    @property
    def owner(self) -> User:
        return self.session.owner

    def enter(self, user: User, **origin: Any) -> str:
        """A secret for the app that came from a browser where `user` is signed in, or from `origin`."""
        origin = origin or {"login_key": browser_of(user)}
        secret = new_secret()
        AppLogin.objects.create(
            secret_hash=hash_secret(secret), user=user, session=self.session, app="lab", **origin
        )
        return secret

    def enter_by_token(self, user: User) -> str:
        token = factories.make_token(user)
        keypair = KeyPair.objects.get(access_key=token.partition(".")[0])
        return self.enter(user, keypair=keypair, keypair_secret=keypair.secret_hash)


@pytest.fixture
def scene() -> Scene:
    session = make_place().run()
    session.image.apps = [{"name": "lab", "title": "Lab", "port": 8888, "command": ["lab"]}]
    session.image.save()
    return Scene(session, AppHost("lab", session.host_label))


def browser_of(user: User) -> str:
    """The key of a new login."""
    client = Client()
    client.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def opens_by_the_rules(secret: str, ip: str) -> bool:
    """The same, asked of what everything else asks."""
    grant = AppLogin.objects.get(secret_hash=hash_secret(secret))
    if grant.expires_at is not None and grant.expires_at <= clock.now():
        return False
    login = Login(
        grant.user_id,
        grant.login_key,
        grant.keypair_id,
        grant.keypair_secret,
        TokenScope.SESSIONS if grant.keypair_id else "",
        ip,
    )
    user = valid_logins([login]).get(login)
    try:
        return user is not None and bool(access_session(user_actor(user), grant.session_id, Action.OPEN_APP))
    except BerthError:
        return False


def opens(scene: Scene, secret: str, ip: str = HOME) -> bool:
    """By one query, and as the rules say."""
    with CaptureQueriesContext(connection) as queries:
        admission = find_access(scene.endpoint, secret, ip)
    assert len(queries) == 1, [query["sql"] for query in queries.captured_queries]
    assert (admission is not None) == opens_by_the_rules(secret, ip)
    return admission is not None


def by_role(role: Role) -> Callable[[Scene], User]:
    return lambda scene: factories.make_user(domain=scene.session.domain, role=role)


def rise(role: Role) -> Callable[[Scene], None]:
    return lambda scene: changed(User, scene.owner.pk, role=role)


def changed(model: Any, pk: object, **fields: object) -> None:
    model.objects.filter(pk=pk).update(**fields)


OTHERS: dict[str, Callable[[Scene], User]] = {
    "stranger": lambda scene: factories.make_user(),
    "same domain": by_role(Role.USER),
    "member": lambda scene: factories.make_user(member_of=scene.session.project),
    "project admin": lambda scene: factories.make_user(admin_of=scene.session.project),
    "domain admin": by_role(Role.DOMAIN_ADMIN),
    "domain monitor": by_role(Role.DOMAIN_MONITOR),
    "monitor": by_role(Role.MONITOR),
    "superadmin": by_role(Role.SUPERADMIN),
}


@pytest.mark.parametrize("who", OTHERS)
def test_only_the_owner_opens_an_app(scene: Scene, who: str) -> None:
    other = OTHERS[who](scene)
    assert not opens(scene, scene.enter(other))
    assert not opens(scene, scene.enter_by_token(other))


def ask_all_for_a_second_factor(scene: Scene) -> None:
    changed(Domain, scene.session.domain_id, second_factor=SecondFactor.EVERYBODY)


def ask_and_give(scene: Scene) -> None:
    ask_all_for_a_second_factor(scene)
    factories.give_app(scene.owner)


def end_grant(scene: Scene) -> None:
    AppLogin.objects.update(expires_at=clock.now() - HOUR)


def new_password(scene: Scene) -> None:
    scene.owner.set_password("another quiet harbour")
    scene.owner.save(update_fields=["password"])


def other_home(scene: Scene) -> None:
    """The project is one of a domain that was closed; the owner's own is open."""
    changed(Project, scene.session.project_id, domain=Domain.objects.create(name="gone", is_active=False))


# What is done to an owner who is inside → (the browser's cookie opens, the program's token opens).
CHANGES: dict[str, tuple[Callable[[Scene], object], bool, bool]] = {
    "nothing": (lambda scene: None, True, True),
    "project admin": (lambda scene: Membership.objects.update(role=ProjectRole.ADMIN), True, True),
    "becomes domain admin": (rise(Role.DOMAIN_ADMIN), True, True),
    "becomes domain monitor": (rise(Role.DOMAIN_MONITOR), True, True),
    "becomes monitor": (rise(Role.MONITOR), True, True),
    "becomes superadmin": (rise(Role.SUPERADMIN), True, True),
    "deactivated": (lambda scene: changed(User, scene.owner.pk, is_active=False), False, False),
    "domain closed": (
        lambda scene: changed(Domain, scene.session.domain_id, is_active=False),
        False,
        False,
    ),
    "project closed": (
        lambda scene: changed(Project, scene.session.project_id, is_active=False),
        False,
        False,
    ),
    "project of a closed domain": (other_home, False, False),
    "left the project": (lambda scene: Membership.objects.all().delete(), False, False),
    "moved to another domain": (
        lambda scene: changed(User, scene.owner.pk, domain=factories.make_domain()),
        True,
        True,
    ),
    "grant expired": (end_grant, False, False),
    "signed out": (lambda scene: BrowserLogin.objects.all().delete(), False, True),
    "login expired": (
        lambda scene: BrowserLogin.objects.update(expire_date=clock.now() - HOUR),
        False,
        True,
    ),
    "new password": (new_password, False, True),
    "token expired": (lambda scene: KeyPair.objects.update(expires_at=clock.now() - HOUR), True, False),
    "token lives on": (lambda scene: KeyPair.objects.update(expires_at=clock.now() + HOUR), True, True),
    "token switched off": (lambda scene: KeyPair.objects.update(is_active=False), True, False),
    "token lost its scope": (lambda scene: KeyPair.objects.update(scopes=["read"]), True, False),
    "token rotated": (lambda scene: KeyPair.objects.update(secret_hash="0" * 64), True, False),
    "elsewhere than allowed": (
        lambda scene: changed(User, scene.owner.pk, allowed_networks=["198.51.100.0/24"]),
        False,
        False,
    ),
    "where it is allowed": (
        lambda scene: changed(User, scene.owner.pk, allowed_networks=["192.0.2.0/24"]),
        True,
        True,
    ),
    "password to be changed": (
        lambda scene: changed(User, scene.owner.pk, must_change_password=True),
        False,
        False,
    ),
    "second factor demanded": (ask_all_for_a_second_factor, False, True),
    "second factor demanded and there": (ask_and_give, True, True),
    "second factor demanded of admins": (
        lambda scene: changed(Domain, scene.session.domain_id, second_factor=SecondFactor.ADMINS),
        True,
        True,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_query_decides_as_the_rules_do(scene: Scene, change: str) -> None:
    cookie, token = scene.enter(scene.owner), scene.enter_by_token(scene.owner)
    assert opens(scene, cookie)
    assert opens(scene, token)
    do, cookie_opens, token_opens = CHANGES[change]
    do(scene)
    assert (opens(scene, cookie), opens(scene, token)) == (cookie_opens, token_opens)


def test_impersonator_is_authorized_as_themselves(scene: Scene) -> None:
    viewer = factories.make_user(domain=scene.session.domain, role=Role.DOMAIN_ADMIN)
    key = browser_of(viewer)
    secret = scene.enter(scene.owner, login_key=key)
    assert not opens(scene, secret)
    viewing = start_impersonation(
        actor=factories.actor_for(viewer), login_key=key, user_id=scene.owner.pk, reason="help"
    )
    assert opens(scene, secret)
    changed(Domain, scene.session.domain_id, second_factor=SecondFactor.EVERYBODY)
    assert not opens(scene, secret)
    factories.give_app(viewer)
    assert opens(scene, secret)
    for end in (
        {"is_active": False},
        {"role": Role.USER},
        {"must_change_password": True},
        {"allowed_networks": ["198.51.100.0/24"]},
    ):
        changed(User, viewer.pk, **end)
        assert not opens(scene, secret), end
        changed(User, viewer.pk, is_active=True, role=Role.DOMAIN_ADMIN, must_change_password=False, allowed_networks=[])  # fmt: skip
        assert opens(scene, secret)
    viewing.delete()
    assert not opens(scene, secret)


def test_an_address_is_asked_of_each_client(scene: Scene) -> None:
    changed(User, scene.owner.pk, allowed_networks=["192.0.2.0/24"])
    secret = scene.enter(scene.owner)
    assert (opens(scene, secret, HOME), opens(scene, secret, AWAY)) == (True, False)


def test_a_port_opens_for_the_app_that_it_is_lent_to(scene: Scene) -> None:
    AssignedPort.objects.create(port=40001, session=scene.session, app="lab")
    secret = scene.enter(scene.owner, login_key=browser_of(scene.owner), app_port=40001)
    with CaptureQueriesContext(connection) as queries:
        admission = find_access(AppPort(40001), secret, HOME)
    assert (len(queries), admission and admission.app) == (1, "lab")
    AssignedPort.objects.update(app="other")
    assert find_access(AppPort(40001), secret, HOME) is None


def test_an_admission_leads_to_the_main_container(scene: Scene) -> None:
    kernel = scene.session.kernels.get()
    scene.session.kernels.create(role="sub", index=1, address="192.0.2.99")
    admission = find_access(scene.endpoint, scene.enter(scene.owner), HOME)
    assert admission is not None
    assert admission.target is not None
    assert (admission.target.host, admission.target.port) == (kernel.address, 8888)
    assert (admission.state, admission.target.owner) == (AppState.OPEN, kernel.container_name)
    assert find_access(scene.endpoint, new_secret(), HOME) is None
