"""Resource groups over REST."""

import pytest
from rest_framework.test import APIClient

from accounts.core.roles import Role
from agents.models import ResourceGroup
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
GROUPS = "/api/v1/resource-groups/"


@pytest.fixture
def superadmin(place: Place) -> APIClient:
    return api_client(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def test_a_group_is_made_granted_filled_changed_and_deleted(place: Place, superadmin: APIClient) -> None:
    body = {
        "name": "gpu", "is_public": False, "scheduler": "drf", "session_types": ["batch"],
        "max_session_slots": {"cpu": 8, "mem": "64g", "cuda": 0}, "max_lifetime_s": 3600,
    }  # fmt: skip
    made = superadmin.post(GROUPS, body, format="json").json()
    assert made["max_session_slots"] == {"cpu": 8000, "mem": 64 * 2**30, "cuda": 0}
    assert (made["agents"], made["is_active"], made["session_types"]) == (0, True, ["batch"])
    address = f"{GROUPS}{made['id']}/"
    owner = api_client(place.owner)
    assert owner.get(address).status_code == 404

    asked = {"level": "project", "id": place.project.pk}
    grant = superadmin.post(f"{address}grants/", asked, format="json").json()
    assert (grant["level"], grant["of"], grant["name"]) == ("project", place.project.pk, place.project.name)
    assert owner.get(address).json()["name"] == "gpu"
    assert superadmin.get(f"{address}grants/").json()["count"] == 1
    assert superadmin.delete(f"{address}grants/{grant['id']}/").status_code == 204
    assert owner.get(address).status_code == 404

    moved = superadmin.post(f"{address}agents/", {"agent": place.agent.name}, format="json").json()
    assert moved["resource_group"] == "gpu"
    changes = {
        "is_active": False,
        "max_lifetime_s": None,
        "scheduler": "fair_share",
        "usage_half_life_s": 3600,
        "cpu_overcommit": "1.5",
        "mem_overcommit": 1.25,
        "allows_rdma": True,
        "sandbox": "gvisor",
    }
    changed = superadmin.patch(address, changes, format="json").json()
    assert (changed["is_active"], changed["max_lifetime_s"], changed["agents"]) == (False, None, 1)
    assert (changed["scheduler"], changed["usage_half_life_s"]) == ("fair_share", 3600)
    assert (changed["cpu_overcommit"], changed["mem_overcommit"]) == (1.5, 1.25)
    assert (changed["allows_rdma"], changed["allows_gpudirect_storage"]) == (True, False)
    assert changed["sandbox"] == "gvisor"
    [agent] = superadmin.get("/api/v1/agents/").json()["results"]
    assert agent["promised"]["cpu"] == 1.5 * agent["capacity"]["cpu"]
    refused = superadmin.delete(address)
    assert (refused.status_code, place.agent.name in refused.json()["message"]) == (409, True)
    back = f"{GROUPS}{place.group.pk}/agents/"
    superadmin.post(back, {"agent": place.agent.name}, format="json")
    assert superadmin.delete(address).status_code == 204
    assert superadmin.get(address).status_code == 404


WRONG_VALUES: tuple[tuple[dict[str, object], str], ...] = (
    ({"scheduler": "luck"}, "scheduler"),
    ({"usage_half_life_s": 0}, "usage_half_life_s"),
    ({"preemptible_priority": 101}, "preemptible_priority"),
    ({"preemption_grace_s": 3601}, "preemption_grace_s"),
    ({"session_types": []}, "session_types"),
    ({"max_session_slots": {"cpu": "many"}}, "max_session_slots"),
    ({"max_lifetime_s": 59}, "max_lifetime_s"),
    ({"max_idle_s": 59}, "max_idle_s"),
    ({"max_idle_s": 3600, "max_lifetime_s": 3600}, "max_idle_s"),
    ({"min_cpu_percent": 0}, "min_cpu_percent"),
    ({"min_device_mem_percent": 101}, "min_device_mem_percent"),
    ({"min_cpu_percent": 5, "max_lifetime_s": 7200}, "use_grace_s"),
    ({"use_rule": "most"}, "use_rule"),
    ({"use_window_s": 599}, "use_window_s"),
    ({"extension_s": 0}, "extension_s"),
    ({"ageing_s": -1}, "ageing_s"),
    ({"weight": 1}, "weight"),
    ({"cpu_overcommit": 0.99}, "cpu_overcommit"),
    ({"cpu_overcommit": 10.01}, "cpu_overcommit"),
    ({"mem_overcommit": "1.234"}, "mem_overcommit"),
    ({"mem_overcommit": "NaN"}, "mem_overcommit"),
    ({"mem_overcommit": None}, "mem_overcommit"),
)


def test_wrong_values_are_refused_at_their_field(
    place: Place, superadmin: APIClient, subtests: pytest.Subtests
) -> None:
    for body, field in WRONG_VALUES:
        with subtests.test(str((body, field))):
            for answer in (
                superadmin.patch(f"{GROUPS}{place.group.pk}/", body, format="json"),
                superadmin.post(GROUPS, {"name": "gpu", **body}, format="json"),
            ):
                assert answer.status_code == 400
                assert field in answer.json()["fields"]


def test_a_group_says_when_its_sessions_end(place: Place, superadmin: APIClient) -> None:
    address = f"{GROUPS}{place.group.pk}/"
    ends = {
        "max_lifetime_s": 43200, "max_idle_s": 7200, "min_cpu_percent": 5, "min_device_percent": 10, "use_rule": "any",
        "use_window_s": 600, "use_grace_s": 1800, "ends_idle_batch": True, "max_extensions": 1, "extension_s": 900,
    }  # fmt: skip
    changed = superadmin.patch(address, ends, format="json").json()
    assert {name: changed[name] for name in ends} == ends
    cleared = {"max_idle_s": None, "min_device_percent": None}
    changed = superadmin.patch(address, cleared, format="json").json()
    assert (changed["max_idle_s"], changed["min_cpu_percent"], changed["min_device_percent"]) == (
        None,
        5,
        None,
    )


def test_what_contradicted_itself_before_is_no_hindrance_to_other_changes(
    place: Place, superadmin: APIClient
) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(max_idle_s=7200, max_lifetime_s=3600)
    address = f"{GROUPS}{place.group.pk}/"
    assert superadmin.patch(address, {"is_active": False}, format="json").status_code == 200
    assert superadmin.patch(address, {"max_idle_s": 3600}, format="json").status_code == 400
    assert superadmin.patch(address, {"max_idle_s": 1800}, format="json").status_code == 200


def test_a_name_that_is_taken_is_refused(place: Place, superadmin: APIClient) -> None:
    answer = superadmin.post(GROUPS, {"name": place.group.name}, format="json")
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {"name"})


BY_DAY = {
    "name": "By day", "session_types": ["batch"], "together": {"cuda": 8}, "each": {"cpu": 8, "mem": "64g", "cuda": 0.5},
    "days": [5, 1, 2], "begins": "8:00", "ends": "18:00", "time_zone": "Europe/Berlin",
}  # fmt: skip


def test_a_group_has_limits_of_its_own(place: Place, superadmin: APIClient) -> None:
    address = f"{GROUPS}{place.group.pk}/"
    assert superadmin.get(address).json()["limits"] == []
    always = {"name": "Fair", "each": {"cuda": 2}}
    kept = [
        {**BY_DAY, "together": {"cuda": 8000}, "each": {"cpu": 8000, "mem": 64 * 2**30, "cuda": 500},
         "days": [1, 2, 5], "begins": "08:00"},
        {"name": "Fair", "session_types": [], "together": {}, "each": {"cuda": 2000},
         "days": [], "begins": "", "ends": "", "time_zone": ""},
    ]  # fmt: skip
    assert superadmin.patch(address, {"limits": [BY_DAY, always]}, format="json").json()["limits"] == kept
    superadmin.patch(address, {"is_active": True}, format="json")
    assert superadmin.get(address).json()["limits"] == kept, "what is not named stays"
    assert superadmin.patch(address, {"limits": [always]}, format="json").json()["limits"] == kept[1:]
    assert superadmin.patch(address, {"limits": []}, format="json").json()["limits"] == []
    made = superadmin.post(GROUPS, {"name": "gpu", "limits": [BY_DAY]}, format="json").json()
    assert made["limits"] == kept[:1]


WRONG_LIMITS: tuple[tuple[object, str], ...] = (
    ([{**BY_DAY, "time_zone": "Europe/Atlantis"}], "limits"),
    ([{**BY_DAY, "days": [8]}], "limits.0.days.0"),
    ([{**BY_DAY, "days": []}], "limits"),
    ([{**BY_DAY, "begins": ""}], "limits"),
    ([{**BY_DAY, "ends": "25:00"}], "limits"),
    ([{**BY_DAY, "ends": "18:00:00"}], "limits.0.ends"),
    ([BY_DAY, {**BY_DAY, "name": " By day "}], "limits"),
    ([{"name": "None"}], "limits"),
    ([{"name": "", "each": {"cpu": 1}}], "limits.0.name"),
    ([{"each": {"cpu": 1}}], "limits.0.name"),
    ([{"name": "x", "each": {"CPU!": 1}}], "limits.0.each"),
    ([{"name": "x", "together": {"mem": "much"}}], "limits.0.together"),
    ([{**BY_DAY, "session_types": ["inference"]}], "limits.0.session_types.0"),
    ([{**BY_DAY, "hours": "day"}], "limits.0.hours"),
    ([{"name": f"{number}", "each": {"cpu": 1}} for number in range(11)], "limits"),
    (["By day"], "limits.0.non_field_errors"),
    ({}, "limits"),
    (None, "limits"),
)


def test_wrong_limits_are_refused_where_they_are_wrong(
    place: Place, superadmin: APIClient, subtests: pytest.Subtests
) -> None:
    for limits, field in WRONG_LIMITS:
        with subtests.test(str((limits, field))):
            answer = superadmin.patch(f"{GROUPS}{place.group.pk}/", {"limits": limits}, format="json")
            assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), answer.content
