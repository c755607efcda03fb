"""What all tests share: a clean Redis, and people by role."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import hypothesis
import pytest
from django.db import connection, transaction
from django.test import Client, TransactionTestCase
from django.utils import translation
from pytest_django.plugin import DjangoDbBlocker

from accounts.core.roles import Role
from accounts.models import Domain, Project, User
from common import clock
from common.messaging.redis import client as redis_client
from tests import factories
from tests.template import ensure_template

# A busy machine is no fault of the code. The suite decides what lands, so there the examples are the same each time;
# whoever runs pytest alone searches further.
hypothesis.settings.register_profile(
    "search", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("suite", hypothesis.settings.get_profile("search"), derandomize=True)
hypothesis.settings.load_profile("search")


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Each test begins in English: a request leaves its language to the thread, which tests share."""
    translation.activate("en")
    yield
    translation.deactivate()


@dataclass(frozen=True, slots=True)
class People:
    """One domain with a project, everybody who may have a say in it, and a stranger from another domain."""

    domain: Domain
    project: Project
    superadmin: User
    domain_admin: User
    project_admin: User
    member: User
    outsider: User  # same domain, not in the project
    stranger: User  # another domain, admin there


@pytest.fixture
def people(db: None) -> People:
    domain = factories.make_domain()
    project = factories.make_project(domain)
    return People(
        domain=domain,
        project=project,
        superadmin=factories.make_user(domain=domain, role=Role.SUPERADMIN),
        domain_admin=factories.make_user(domain=domain, role=Role.DOMAIN_ADMIN),
        project_admin=factories.make_user(admin_of=project),
        member=factories.make_user(member_of=project),
        outsider=factories.make_user(domain=domain),
        stranger=factories.make_user(role=Role.DOMAIN_ADMIN),
    )


@pytest.fixture
def browser_of() -> Callable[[User], Client]:
    """A Django client that is signed in as the given user."""

    def sign_in(user: User) -> Client:
        client = Client(headers={"Host": "localhost:8080"})
        client.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
        return client

    return sign_in


@pytest.fixture
def standing_clock() -> Iterator[None]:
    """For what counts by the minute or by the day, which may end during a test."""
    with clock.frozen_at(clock.now()):
        yield


@pytest.fixture
def empty_redis() -> Iterator[None]:
    """No key of this run is left from another test (throttling counts, news)."""
    _forget_keys()
    yield
    _forget_keys()


def _forget_keys() -> None:
    from django.conf import settings

    redis = redis_client()
    for key in redis.scan_iter(match=f"*{settings.BERTH_INSTALLATION}*"):
        redis.delete(key)


def forget_rows(_test: TransactionTestCase) -> None:
    """Delete the rows that a test with real commits left, by the function of tests/template.py.

    Emptying each table by TRUNCATE and writing permissions anew, as Django does, takes longer than most of these tests.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT tests_forget_rows()")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before the first test, whose time it would take."""
    if not hasattr(session.config, "workerinput"):
        ensure_template()


def pytest_collection_finish() -> None:
    """Whatever is imported and collected stays until the end. Python would look for garbage among all of that again and again:
    an eighth of the time of tests that make many objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Django still asks whether a migration is missing in the copy."""
    connection.settings_dict["TEST"]["TEMPLATE"] = ensure_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Threads of asynchronous tests keep their connections; without this the database could not be dropped. The server's own
    workers, which vacuum, make way by themselves, and may be ended by nobody."""
    TransactionTestCase._fixture_teardown = forget_rows
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
