"""Resource policies over REST."""

import pytest

from accounts.core.roles import Role
from accounts.models import KeyPair
from tests.factories import api_client, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
POLICIES = "/api/v1/policies/"


def test_a_policy_is_made_foreseen_changed_assigned_and_deleted(place: Place) -> None:
    api = api_client(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    body = {"name": "small", "max_sessions": 3, "max_slots": {"cpu": 2, "mem": "4g", "cuda": 0}}
    made = api.post(POLICIES, body, format="json").json()
    assert made["domain"] == place.project.domain.name
    assert made["max_slots"] == {"cpu": 2000, "mem": 4 * 2**30, "cuda": 0}
    address = f"{POLICIES}{made['id']}/"

    token = KeyPair.objects.filter(user=place.owner).first() or make_keypair(place)
    for level, pk in (("user", place.owner.pk), ("project", place.project.pk), ("keypair", token.pk)):
        asked = {"level": level, "id": pk, "policy": "small"}
        answer = api.post(f"{POLICIES}assign/", asked, format="json")
        assert (answer.status_code, answer.json()["policy"]) == (200, "small"), answer.json()
    place.run()
    foreseen = api.post(f"{address}impact/", {"max_sessions": 0}, format="json").json()
    assert foreseen["counts"] == {"domain": 0, "project": 1, "user": 1, "keypair": 1}
    assert {(each["level"], each["used"], each["value"]) for each in foreseen["above"]} == {
        ("user", 1, 0),
        ("project", 1, 0),
    }
    ends = [({"max_idle_s": 60}, True), ({"min_cpu_percent": 5}, True), ({"max_sessions": 9}, False)]
    for change, may_end in ends:
        assert api.post(f"{address}impact/", change, format="json").json()["is_ending"] is may_end
    changed = api.patch(address, {"max_sessions": None, "name": "free"}, format="json").json()
    assert (changed["name"], changed["max_sessions"], changed["max_slots"]["cpu"]) == ("free", None, 2000)
    assert {each["level"] for each in api.get(f"{address}users/").json()} == {"project", "user", "keypair"}

    refused = api.delete(address)
    assert refused.status_code == 409
    assert place.owner.email in refused.json()["message"]
    for level, pk in (("user", place.owner.pk), ("project", place.project.pk), ("keypair", token.pk)):
        api.post(f"{POLICIES}assign/", {"level": level, "id": pk, "policy": ""}, format="json")
    assert api.delete(address).status_code == 204
    assert [each["name"] for each in api.get(POLICIES).json()["results"]] == ["default"]


def make_keypair(place: Place) -> KeyPair:
    api_client(place.owner)
    return KeyPair.objects.get(user=place.owner)


NO_LIMITS: tuple[tuple[dict[str, object], str], ...] = (
    ({"max_slots": {"cpu": "many"}}, "max_slots"),
    ({"max_slots": {"CPU": 1}}, "max_slots"),
    ({"max_slots": [1]}, "max_slots"),
    ({"max_sessions": -1}, "max_sessions"),
    ({"max_lifetime_s": 0}, "max_lifetime_s"),
    ({"max_priority": 101}, "max_priority"),
    ({"max_session": 1}, "max_session"),
    ({"min_cpu_percent": 0}, "min_cpu_percent"),
    ({"min_mem_percent": 101}, "min_mem_percent"),
    ({"min_device_percent": "much"}, "min_device_percent"),
    ({"min_device_mem_percent": -1}, "min_device_mem_percent"),
    ({"use_window_s": 599}, "use_window_s"),
    ({"use_window_s": 86401}, "use_window_s"),
    ({"use_grace_s": 599}, "use_grace_s"),
    ({"min_cpu_percent": 5, "max_lifetime_s": 3600, "use_grace_s": 3600}, "use_grace_s"),
)


def test_what_is_no_limit_is_refused_at_its_field(place: Place, subtests: pytest.Subtests) -> None:
    api = api_client(make_user(domain=place.project.domain, role=Role.SUPERADMIN))
    for body, field in NO_LIMITS:
        with subtests.test(str((body, field))):
            answer = api.post(POLICIES, {"name": "small", **body}, format="json")
            assert answer.status_code == 400
            assert field in answer.json()["fields"]


def test_how_much_sessions_have_to_use_is_set_told_and_cleared(place: Place) -> None:
    api = api_client(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    least = {
        "min_cpu_percent": 30, "min_mem_percent": 1, "min_device_percent": 100, "min_device_mem_percent": 5,
        "use_rule": "all", "use_window_s": 600, "use_grace_s": 86400,
    }  # fmt: skip
    made = api.post(POLICIES, {"name": "busy", **least}, format="json").json()
    assert {name: made[name] for name in least} == least
    cleared = api.patch(f"{POLICIES}{made['id']}/", {"min_cpu_percent": None}, format="json").json()
    assert (cleared["min_cpu_percent"], cleared["min_mem_percent"], cleared["use_rule"]) == (None, 1, "all")
    refused = api.patch(f"{POLICIES}{made['id']}/", {"use_rule": "luck"}, format="json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["use_rule"])

    asked = {"level": "project", "id": place.project.pk, "policy": "busy"}
    api.post(f"{POLICIES}assign/", asked, format="json")
    limit(place.owner, min_mem_percent=9)
    told = api_client(place.owner).get("/api/v1/limits/", {"project": place.project.name}).json()
    names = ("level", "value", "used", "left", "is_joint")
    found = [(each["limit"], *(each[name] for name in names)) for each in told["limits"]]
    for row in (
        ("min_mem_percent", "user", 9, 0, 0, False),  # nothing is left of a least
        ("min_mem_percent", "project", 1, 0, 0, True),
        ("min_device_percent", "project", 100, 0, 0, True),
        ("use_window_s", "project", 600, 0, 600, False),
    ):
        assert row in found


def test_what_cannot_be_assigned_says_why(place: Place) -> None:
    superadmin = api_client(make_user(role=Role.SUPERADMIN))
    superadmin.post(POLICIES, {"name": "own", "domain": place.project.domain.name}, format="json")

    def assign(level: str, pk: int, policy: str) -> int:
        asked = {"level": level, "id": pk, "policy": policy}
        return superadmin.post(f"{POLICIES}assign/", asked, format="json").status_code

    assert assign("domain", place.project.domain_id, "own") == 400
    assert assign("user", make_user().pk, "own") == 400
    assert assign("user", place.owner.pk, "absent") == 404
    assert assign("keypair", 10**9, "own") == 404
    assert assign("user", place.owner.pk, str(limit(make_user()).pk)) == 200
    given = superadmin.patch(f"{POLICIES}{place.owner.policy_id}/", {"is_default": True}, format="json")
    assert given.json()["is_default"] is True


def test_browser_limit_below_one_is_refused() -> None:
    client = api_client(make_user(role=Role.SUPERADMIN))
    for value in (0, -1):
        answer = client.post("/api/v1/policies/", {"name": "shut", "max_browsers": value}, format="json")
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["max_browsers"])
    made = client.post("/api/v1/policies/", {"name": "two", "max_browsers": 2}, format="json").json()
    assert made["max_browsers"] == 2
