"""Fixtures of all tests: an empty Redis, users by role, an agent, signed-in clients, a stopped clock."""

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
from tests.factories_sessions import Place, make_place
from tests.template import ensure_template

# Deadlines are off because a busy machine is no fault of the code. In the suite the examples are
# the same each time; pytest alone uses random ones.
hypothesis.settings.register_profile(
    "search", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("suite", hypothesis.settings.get_profile("search"), derandomize=True)
hypothesis.settings.load_profile("search")


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Start each test in English: a request sets the language of its thread, which tests share."""
    translation.activate("en")
    yield
    translation.deactivate()


@dataclass(frozen=True, slots=True)
class People:
    """A domain with a project and one user of each role, and an admin of another domain."""

    domain: Domain
    project: Project
    superadmin: User
    domain_admin: User
    project_admin: User
    member: User
    outsider: User  # same domain, not in the project
    stranger: User  # admin of another domain


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
def place(db: None) -> Place:
    return make_place()


@pytest.fixture
def browser_of() -> Callable[[User], Client]:
    """Return a function that gives a Django client signed in as a user."""

    def sign_in(user: User) -> Client:
        client = Client(headers={"Host": "localhost:8080"})
        client.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
        return client

    return sign_in


@pytest.fixture
def standing_clock() -> Iterator[None]:
    """Stop the clock at the present time, for counts per minute or day
    that a test could outlive.
    """
    with clock.frozen_at(clock.now()):
        yield


@pytest.fixture
def empty_redis() -> Iterator[None]:
    """Delete all Redis keys of this run before and after the test (rate limits, live events)."""
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

    Django would truncate each table and recreate permissions, which takes longer than most of these
    tests.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT tests_forget_rows()")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Create the template database before the first test, so that no
    test's duration includes it.
    """
    if not hasattr(session.config, "workerinput"):
        ensure_template()


def pytest_collection_finish() -> None:
    """Exclude all imported and collected objects from garbage collection.

    They live until the end; scanning them again and again costs an eighth of the time of tests that
    make many objects.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Keep Django's check for missing migrations in the copied database."""
    connection.settings_dict["TEST"]["TEMPLATE"] = ensure_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Close the connections of asynchronous tests' threads, so that the database can be dropped.

    PostgreSQL's own workers (vacuum) leave by themselves; nobody may end them.
    """
    TransactionTestCase._fixture_teardown = forget_rows
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
