"""Allow-lists of policies at each level: submit, forecast, and the writing transaction."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accounts.credentials.keypairs import create_keypair
from accounts.models import KeyPair, ResourcePolicy
from accounts.policies.service import LimitedObject, create_policy, update_policy
from common.actors import SYSTEM, Actor, ActorKind
from common.errors import InvalidInput, LimitExceeded
from common.models import AuditEntry
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from tests.factories import actor_for
from tests.factories_folders import make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place
from vfolders import services as folder_services
from vfolders.models import StorageHost, VFolder
from vfolders.services import create_folder

pytestmark = pytest.mark.django_db
LEVELS = ("domain", "project", "user", "keypair")


@pytest.fixture
def program(place: Place) -> Actor:
    """The owner, by a token."""
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    return replace(actor_for(place.owner), kind=ActorKind.TOKEN, keypair_id=keypair.pk)


def target_of(place: Place, program: Actor, level: str) -> LimitedObject:
    return {
        "domain": lambda: place.project.domain,
        "project": lambda: place.project,
        "user": lambda: place.owner,
        "keypair": lambda: KeyPair.objects.get(pk=program.keypair_id),
    }[level]()


def refused(asking: Callable[[], object]) -> list[tuple[Any, ...]]:
    with pytest.raises(LimitExceeded) as told:
        asking()
    return [
        (each["list"], each["level"], tuple(each["entries"]), each["asked"])  # type: ignore[arg-type]
        for each in told.value.allow_lists
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_an_image_has_to_be_allowed_at_each_level_and_what_runs_goes_on(
    place: Place, program: Actor, level: str
) -> None:
    running = place.run()
    request = parse_request(place.request())
    policy = limit(
        target_of(place, program, level), allowed_images=["python"], allowed_registries=["ghcr.io"]
    )
    reference = place.image.reference
    expected = [
        ("registries", level, ("ghcr.io",), f"local/{reference.partition(':')[0]}"),
        ("images", level, ("python",), reference),
    ]
    assert refused(lambda: enqueue_session(actor=program, request=request)) == expected
    assert refused(lambda: forecast_session(program, request)) == expected
    assert place.fresh(running).status == Status.RUNNING

    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"allowed_registries": ["local"]})
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"allowed_images": ["berth/*"]})
    enqueue_session(actor=program, request=request)


def test_lists_are_checked_kept_tidy_and_audited(place: Place) -> None:
    with pytest.raises(InvalidInput) as wrong:
        create_policy(actor=SYSTEM, name="lab", limits={"allowed_registries": ["https://ghcr.io"]})
    assert list(wrong.value.fields) == ["allowed_registries"]
    policy = create_policy(actor=SYSTEM, name="lab", limits={"allowed_registries": ["GHCR.io", "ghcr.io"]})
    assert ResourcePolicy.objects.get(pk=policy.pk).allowed_registries == ["ghcr.io"]
    update_policy(actor=SYSTEM, policy_id=policy.pk, limits={"allowed_registries": []})
    line = AuditEntry.objects.filter(action="accounts.update_policy").latest("pk")
    assert line.changes == {"allowed_registries": [["ghcr.io"], []]}


@pytest.fixture
def hosts(place: Place, tmp_path: Path) -> list[StorageHost]:
    usual = make_storage_host(tmp_path / "usual")
    (tmp_path / "fast").mkdir()
    config = {"root": str(tmp_path / "fast")}
    return [usual, StorageHost.objects.create(name="fast", config=config)]


@pytest.mark.parametrize("level", LEVELS)
def test_folders_are_made_on_allowed_hosts_alone(
    place: Place, program: Actor, hosts: list[StorageHost], level: str
) -> None:
    usual, fast = hosts
    before = create_folder(actor=program, name="before", project=place.project.name)
    limit(target_of(place, program, level), allowed_storage_hosts=["fast"])

    def make(host: str = "") -> VFolder:
        return create_folder(actor=program, name="data", project=place.project.name, host=host)

    assert refused(lambda: make(usual.name)) == [("storage_hosts", level, ("fast",), usual.name)]
    assert make().host == fast, "the usual one that is allowed"
    assert place.run(mounts=[{"folder": str(before.pk)}]).status == Status.RUNNING, "what is there stays"


def test_without_any_host_the_refusal_says_so(place: Place, hosts: list[StorageHost]) -> None:
    limit(place.owner, allowed_storage_hosts=[])
    with pytest.raises(LimitExceeded, match="may create folders on no storage host") as told:
        create_folder(actor=actor_for(place.owner), name="data")
    assert list(told.value.fields) == ["host"]


def test_a_list_that_is_set_while_a_folder_is_made_holds(
    place: Place, hosts: list[StorageHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage_of = folder_services.storage_of

    def slowly(folder: VFolder) -> Any:
        limit(place.owner, allowed_storage_hosts=[])
        return storage_of(folder)

    monkeypatch.setattr(folder_services, "storage_of", slowly)
    with pytest.raises(LimitExceeded):
        create_folder(actor=actor_for(place.owner), name="data")
    assert not VFolder.objects.exists()
    assert not list((Path(hosts[0].config["root"])).rglob("*/*"))
