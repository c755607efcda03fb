"""Migrations convert the rows of an older installation, and back."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.db.migrations.state import ProjectState
from django.test import Client
from django.urls import reverse
from psycopg.errors import UniqueViolation
from structlog.testing import capture_logs

from accounts.models import BrowserLogin, LimitUse, MembershipRule, User
from agents.models import Agent, Reservation, ReservedAgent, ResourceGroup
from common import clock
from common.db.fields import _rename
from scheduler.models import SchedulerState
from sessions_app.models import KernelAllocation, SessionDependency, SessionIdle
from tests import factories
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import GIB, make_place
from tests.replaced_migrations import replaced_migrations
from vfolders.models import VFolder

Migrate = Callable[[str, str], None]
APART = "cafe\u0301"


@pytest.fixture
def migrate(db: None) -> Iterator[Migrate]:
    """To a migration of an app, forward or back, and at the end to the newest: all in the transaction of the test."""

    def to(app: str, name: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET CONSTRAINTS ALL IMMEDIATE"
            )  # no table changes while one is still to be looked at
        replaced_migrations(connection).migrate([(app, name)])

    yield to
    executor = replaced_migrations(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_deleted_groups_keep_no_machine(migrate: Migrate) -> None:
    deleted, present = make_place(), make_place()
    migrate("agents", "0017_words_of_least_use")
    now, hour = clock.now(), timedelta(hours=1)
    ResourceGroup.objects.filter(pk=deleted.group.pk).update(
        deleted_at=now, is_default=False, is_active=False
    )
    made = {}
    for name, place, starts_at in (
        ("over", deleted, now - 2 * hour), ("stranded", deleted, now), ("held", present, now),
    ):  # fmt: skip
        during = (starts_at, starts_at + hour)
        made[name] = Reservation.objects.create(
            group=place.group, name=name, starts_at=during[0], ends_at=during[1]
        )
        ReservedAgent.objects.create(reservation=made[name], agent=place.agent, during=during)
    migrate("agents", "0018_no_reservations_of_deleted_groups")
    assert set(Reservation.objects.all()) == {made["over"], made["held"]}
    assert ReservedAgent.objects.count() == 2


def test_what_a_session_lacked_counts_on_each_threshold_by_itself(migrate: Migrate) -> None:
    idle = SessionIdle.objects.create(session=make_place().run())
    migrate("sessions_app", "0053_least_use_of_policies")
    with connection.cursor() as cursor:
        cursor.execute("""UPDATE sessions_app_sessionidle SET least_use = '{"cpu": 5}'""")
    migrate("sessions_app", "0054_thresholds_of_each_policy")
    idle.refresh_from_db()
    assert idle.thresholds == [{"rule": "any", "least": {"cpu": 5}, "is_group": False}]


@pytest.mark.django_db
def test_ledgers_of_two_versions_count_the_same() -> None:
    """Its functions alone go back: sessions are launched by the present code, which knows no older columns."""
    [ledger] = import_module("sessions_app.migrations.0055_hold_once").Migration.operations
    state = ProjectState()
    place = make_place()
    counted = [place.run()]
    with connection.schema_editor() as editor:
        ledger.database_backwards("sessions_app", editor, state, state)
    counted.append(place.run())
    place.end(place.run())
    with connection.schema_editor() as editor:
        ledger.database_forwards("sessions_app", editor, state, state)
    assert place.occupied() == {"cpu": 2000, "mem": 2 * GIB}
    for session in counted:
        place.end(session)
    assert place.occupied() == {}
    assert not LimitUse.objects.exclude(used=0).exists()


def test_the_scheduler_goes_on_where_its_last_plan_left_it(migrate: Migrate) -> None:
    place, session_id = make_place(), uuid4()
    gathered = [{"agents": [place.agent.pk], "session": str(session_id)}]
    left = {"epoch": 7, "last_agent_id": place.agent.pk, "head_ids": [session_id], "gathered": gathered}
    SchedulerState.objects.create(group=place.group, **left)
    migrate("scheduler", "0005_small_use_is_none")
    with connection.cursor() as cursor:
        cursor.execute("SELECT epoch, last_agent_id, head_ids, gathered::text FROM agents_resourcegroup")
        assert cursor.fetchone() == (7, place.agent.pk, [session_id], json.dumps(gathered))
    migrate("agents", "0023_no_run_state")
    assert SchedulerState.objects.values(*left).get(group=place.group) == left


def test_a_session_keeps_its_cores(migrate: Migrate) -> None:
    place = make_place(cpu_milli=4000)
    Agent.objects.filter(pk=place.agent.pk).update(data={"cores": 4})
    place.run()
    kernel = place.run().kernels.get()
    migrate("sessions_app", "0058_after_arrays")
    with connection.cursor() as cursor:
        cursor.execute("SELECT cpuset FROM sessions_app_kernel WHERE id = %s", [kernel.pk])
        assert cursor.fetchone() == ("1",)
    migrate("sessions_app", "0059_cores_are_held")
    held = KernelAllocation.objects.filter(kernel=kernel)
    assert dict(held.values_list("slot_name", "cpuset")) == {"cpu": "1", "mem": ""}
    with pytest.raises(ProgrammingError, match="never updated"), transaction.atomic():
        held.update(cpuset="2")


def test_going_back_forgets_who_came_after_arrays(migrate: Migrate) -> None:
    place = make_place()
    place.enqueue(type="batch", command="true", name="sweep", array="1-2")
    place.enqueue(name="prepare")
    place.enqueue(dependencies=["sweep", "prepare"])
    migrate("sessions_app", "0057_terms_of_group_limits")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), count(after_id) FROM sessions_app_sessiondependency")
        assert cursor.fetchone() == (1, 1)
    migrate("sessions_app", "0063_drop_input_changes")
    assert list(SessionDependency.objects.values_list("after__name", flat=True)) == ["prepare"]


def test_names_that_look_alike_are_told_apart(migrate: Migrate, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    owner = factories.make_user()
    names = ("caf\u00e9", "cafe\u0301", "\u1112\u1161\u11ab", "u\u0308", "\u00fc")
    folders = [make_folder(owner, name=f"before-{number}") for number in range(len(names))]
    migrate("vfolders", "0003_sizes")
    for folder, name in zip(folders, names, strict=True):
        rename(folder, name)

    with capture_logs() as logged:
        migrate("vfolders", "0004_names_in_form_c")
    kept = [VFolder.objects.get(pk=folder.pk).name for folder in folders]
    assert kept == ["café", "café-2", "한", "ü-2", "ü"]
    told = {line["key"]: (line["was"], line["now"]) for line in logged}
    assert told[str(folders[3].pk)] == (r"'u\u0308'", r"'\xfc-2'")


def test_rules_and_groups_of_the_same_name_stay_together(migrate: Migrate) -> None:
    user, project = factories.make_user(), factories.make_project(factories.make_domain())
    known = SocialAccount.objects.create(
        user=user, provider="campus", uid=APART, extra_data={"groups": [APART]}
    )
    for number in range(2):
        MembershipRule.objects.create(project=project, kind="group", value=f"campus:{number}")
    migrate("accounts", "0031_purged_people_hold_nothing")
    values = (f"campus:{APART}", "campus:caf\u00e9")
    with connection.cursor() as cursor:
        for number, value in enumerate(values):
            cursor.execute(
                "UPDATE accounts_membershiprule SET value = %s WHERE value = %s", [value, f"campus:{number}"]
            )

    migrate("accounts", "0032_names_in_form_c")
    assert [rule.value for rule in MembershipRule.objects.all()] == ["campus:caf\u00e9"]
    known.refresh_from_db()
    assert (known.uid, known.extra_data) == (APART, {"groups": ["caf\u00e9"]})


def test_a_name_that_breaks_another_rule_than_being_unique_ends_the_upgrade(db: None) -> None:
    error = IntegrityError("check")
    with pytest.raises(IntegrityError, match="check"):
        _rename(FailingRow(error), "name", "café", most=1000)  # type: ignore[arg-type]
    error.__cause__ = UniqueViolation()
    row = FailingRow(error)
    with pytest.raises(IntegrityError, match="check"):
        _rename(row, "name", "café", most=3)  # type: ignore[arg-type]
    assert row.tried == ["café", "café-2", "café-3"]


class FailingRow:
    """Rows of folders that `error` keeps as they are."""

    model = VFolder

    def __init__(self, error: IntegrityError) -> None:
        self._error = error
        self.tried: list[str] = []

    def update(self, *, name: str) -> None:
        self.tried.append(name)
        raise self._error


def rename(folder: VFolder, name: str) -> None:
    """As the column of before kept it."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE vfolders_vfolder SET name = %s WHERE id = %s", [name, folder.pk])


def test_open_logins_stay_open(migrate: Migrate, browser_of: Callable[[User], Client]) -> None:
    browser = browser_of(factories.make_user())
    migrate("accounts", "0033_standard_labels")
    login = BrowserLogin.objects.get(session_key=browser.cookies[settings.SESSION_COOKIE_NAME].value)
    assert login.get_decoded()[BACKEND_SESSION_KEY] == "accounts.backends.SignInBackend"
    migrate("accounts", "0034_backend_path")
    assert browser.get(reverse("profile")).status_code == 200
