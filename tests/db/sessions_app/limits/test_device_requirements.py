"""Requests for accelerators by model, memory, version and links, and for a part of one."""

from typing import Any

import pytest

from agents.accelerators.description import shipped_vendors
from agents.models import Agent, AgentDevice, SharingMode, SharingRule
from agents.sharing.service import create_sharing_rule
from common.actors import SYSTEM
from common.errors import BerthError, InvalidInput
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from sessions_app.session_templates.presets import create_preset
from sessions_app.session_templates.quick_start import start_session_again
from sessions_app.session_templates.templates import create_template, start_from_template
from sessions_app.web.forms import LauncherForm
from tests.factories import actor_for, api_client
from tests.factories_devices import give_devices
from tests.factories_scheduler import Cluster
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100 40GB"


@pytest.fixture
def place() -> Place:
    """With a machine with four H100, two of which are linked, and one with two A100."""
    place = make_place()
    cluster = Cluster(place.group, place.project, place.owner, place.image)
    for model, count, mem_gib, version in ((H100, 4, 80, 12080), (A100, 2, 40, 12040)):
        agent = cluster.add_agent({"cpu": 8000, "mem": 64 * GIB})
        give_devices(agent, count, model, slot="cuda", mem_bytes=mem_gib * GIB, api_version=version)
    AgentDevice.objects.filter(model=H100, index__in=(2, 3)).update(link_group=None)
    AgentDevice.objects.filter(model=A100).update(link_group=None)
    return place


def asked(place: Place, devices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return place.request(resources={"cpu": 1, "mem": "1g", **devices}, **fields)


def enqueue(place: Place, devices: dict[str, Any], **fields: Any) -> ComputeSession:
    return place.enqueue(resources={"cpu": 1, "mem": "1g", **devices}, **fields)


def refusal(place: Place, devices: dict[str, Any], **fields: Any) -> tuple[str, str, list[str]]:
    with pytest.raises(BerthError) as refused:
        forecast_session(actor_for(place.owner), parse_request(asked(place, devices, **fields)))
    return refused.value.message, refused.value.hint, list(refused.value.fields)


@pytest.mark.parametrize(
    ("devices", "fields", "share", "least_gib"),
    [
        ({"cuda.mem": "20g"}, {}, 500, 40),  # of the smallest device that it could get
        ({"cuda.mem": "20g", "cuda.cores": 30}, {}, 500, 40),
        ({"cuda.mem": "20g", "cuda.cores": 60}, {}, 600, 40),
        ({"cuda.mem": "20g"}, {"device_model": "h100"}, 250, 80),
        ({"cuda.mem": "20g"}, {"device_mem": "50g"}, 250, 80),
        ({"cuda.mem": "60g"}, {}, 750, 80),  # smaller devices are no candidates
        ({"cuda.mem": "1m"}, {}, 1, 40),  # rounded up
        ({"cuda.mem": "80g"}, {}, 1000, 80),
        ({"cuda.cores": 30}, {}, 300, 0),
        ({"gpu.mem": "20g"}, {}, 500, 40),
    ],
)
def test_a_part_fits_every_device_that_could_be_chosen(
    place: Place, devices: dict[str, Any], fields: dict[str, Any], share: int, least_gib: int
) -> None:
    session = enqueue(place, devices, **fields)

    assert session.requested_slots["cuda"] == share
    assert session.device_mem_bytes == least_gib * GIB
    assert session.device_part is not None
    assert session.device_part.cores == devices.get("cuda.cores", 0)


def test_a_check_answers_with_the_share_that_a_session_would_get(place: Place) -> None:
    answer = api_client(place.owner).post("/api/v1/sessions/check/", asked(place, {"cuda.mem": "20g"}))

    assert answer.status_code == 200
    assert (answer.json()["starts_now"], answer.json()["resources"]["cuda"]) == (True, 500)
    assert not ComputeSession.objects.exists()


def test_parts_of_a_device_never_exceed_its_memory(place: Place) -> None:
    AgentDevice.objects.filter(model=H100).exclude(index=0).update(is_present=False)

    for _ in range(4):
        place.place(resources={"cpu": 1, "mem": "1g", "cuda.mem": "30g"}, device_model="H100")

    statuses = list(ComputeSession.objects.order_by("created_at").values_list("status", flat=True))
    assert statuses == ["SCHEDULED", "SCHEDULED", "PENDING", "PENDING"]
    assert AgentDevice.objects.get(model=H100, index=0).occupied == 750


def test_a_copy_a_template_and_a_preset_ask_for_the_same_part(place: Place) -> None:
    actor = actor_for(place.owner)
    part = {"cuda.mem": "20g", "cuda.cores": 30}
    first = enqueue(place, part, isolation="none", device_api="12.4")

    again = start_session_again(actor=actor, session_id=first.pk)
    body = {**asked(place, part), "name": ""}
    template, _left_out = create_template(actor=actor, name="part", body=body, sharing="own")
    templated = start_from_template(actor=actor, template=template)
    preset = create_preset(actor=actor, name="part", sharing="own", resources={"cpu": 1, "mem": "1g", **part})

    for session in (again, templated):
        assert session.requested_slots == first.requested_slots
        assert session.device_part == first.device_part
    assert again.device_api_version == 12040
    assert preset.amounts["cuda.mem"] == 20 * GIB
    assert preset.amounts["cuda.cores"] == 30_000


@pytest.mark.parametrize(
    ("devices", "fields", "says", "hint", "field"),
    [
        ({"cuda": 9}, {}, "has 1 core, 1 GiB, 9 × NVIDIA GPU", "The largest that fits is 8 cores, 64 GiB, 4 ×", "resources"),
        ({"cuda": 3}, {"device_model": "A100"}, "with NVIDIA A100 40GB has", "The largest that fits is 8 cores, 64 GiB, 2 ×", "device_model"),
        ({"cuda.mem": "90g"}, {}, "has 90 GiB of memory", "The largest that fits is 80 GiB.", "resources"),
        ({"cuda.mem": "41g"}, {"device_model": "A100"}, "has 41 GiB of memory", "The largest that fits is 40 GiB.", "resources"),
        ({"cuda": 1}, {"device_mem": "200g"}, "has 200 GiB of memory", "The largest that fits is 80 GiB.", "device_mem"),
        ({"cuda": 1}, {"device_api": "13.0"}, "supports version 13.0", "The newest is 12.8.", "device_api"),
        ({"cuda": 3}, {"linked_devices": True}, "has 3 × NVIDIA GPU that are linked", "The largest that fits is 2 × NVIDIA GPU.", "linked_devices"),
        ({"cuda": 2}, {"linked_devices": True, "device_model": "A100"}, "has 2 × NVIDIA GPU that are linked", "It has no linked accelerators.", "linked_devices"),
        ({"mig": "1g.10gb"}, {}, "has slices MIG 1g.10gb", "It has no MIG slices.", "resources"),
        ({"cuda": 1}, {"device_model": "NVIDIA"}, "fits several models", "Write more of the name.", "device_model"),
        ({"cuda": 1}, {"device_model": "B200"}, "has the accelerators “B200”", f"It has {A100}, {H100}.", "device_model"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_largest_that_fits(
    place: Place, devices: dict[str, Any], fields: dict[str, Any], says: str, hint: str, field: str
) -> None:
    sentence, advice, names = refusal(place, devices, **fields)

    assert says in sentence
    assert advice.startswith(hint)
    assert names == [field]


def test_a_slice_that_no_machine_has_is_refused_with_those_that_exist(place: Place) -> None:
    give_devices(place.agent, 7, H100, slot="mig-1g-10gb", mem_bytes=10 * GIB)

    assert refusal(place, {"mig": "2g.20gb"})[:2] == (
        f"No machine of “{place.group.name}” has slices MIG 2g.20gb.",
        "It has MIG 1g.10gb.",
    )
    assert place.place(resources={"cpu": 1, "mem": "1g", "mig": {"1g.10gb": 2}}).status == "SCHEDULED"


def test_rules_of_sharing_decide_what_part_may_be_asked_for(place: Place) -> None:
    SharingRule.objects.create(group=place.group, model=H100, mode=SharingMode.FORBIDDEN)
    SharingRule.objects.create(
        group=place.group, mode=SharingMode.HOOK, smallest_share=250, hook_image="hook:1"
    )

    sentence, hint, _names = refusal(place, {"cuda": 0.5})
    assert (
        sentence
        == f"{H100} in “{place.group.name}”: A device is not shared here, so no part of one can be asked for."
    )
    assert hint == f"Name a model that allows it: {A100}."
    assert refusal(place, {"cuda": 0.3}, device_model="H100")[1] == "Ask for a whole device."
    assert "smallest part of a device is 0.25" in refusal(place, {"cuda": 0.2}, device_model="A100")[0]
    assert (
        "at the level “cooperative”, below “driver”"
        in refusal(place, {"cuda": 0.5}, device_model="A100", isolation="driver")[0]
    )
    admitted = enqueue(place, {"cuda": 0.5}, device_model="A100", isolation="cooperative")
    assert admitted.isolation == "cooperative"
    assert enqueue(place, {"cuda": 1}, isolation="driver").requested_slots["cuda"] == 1000


def test_limit_of_the_driver_needs_a_driver_that_has_it(place: Place) -> None:
    SharingRule.objects.create(group=place.group, mode=SharingMode.MEMORY)
    assert "below “driver”" in refusal(place, {"cuda": 0.5}, isolation="driver")[0]

    Agent.objects.filter(device_model=A100).update(device_api_version=13040)
    AgentDevice.objects.filter(model=A100).update(api_version=13040)
    session = enqueue(place, {"cuda": 0.5}, device_model="A100", isolation="driver")
    run_tick(place.group.pk)
    assert place.fresh(session).status == Status.SCHEDULED
    other = enqueue(place, {"cuda": 0.5}, device_model="A100", isolation="driver")
    Agent.objects.filter(device_model=A100).update(device_api_version=12040)
    run_tick(place.group.pk)
    assert place.fresh(other).status == Status.PENDING


def test_gpu_means_the_only_kind_of_accelerators(place: Place) -> None:
    assert enqueue(place, {"gpu": 2}).requested_slots["cuda"] == 2000
    other = Cluster(place.group, place.project, place.owner, place.image).add_agent(
        {"cpu": 8000, "mem": 8 * GIB}
    )
    give_devices(other, 1, "AMD MI210", slot="rocm")

    sentence, hint, _names = refusal(place, {"gpu": 1})
    assert sentence == f"“{place.group.name}” has several kinds of accelerators: cuda, rocm."
    assert hint.startswith("Name one of them: in a command --resource cuda=1 instead of --gpu")
    assert enqueue(place, {"gpu": 1}, device_model="mi210").requested_slots["rocm"] == 1000


def test_all_elements_of_an_array_get_the_part(place: Place) -> None:
    enqueue(place, {"cuda.mem": "20g"}, type="batch", command="true", array="1-3")

    shares = {session.requested_slots["cuda"] for session in ComputeSession.objects.all()}
    assert (ComputeSession.objects.count(), shares) == (3, {500})


def test_the_image_says_which_accelerators_and_which_cuda_it_needs(place: Place) -> None:
    image = place.image
    image.accelerators, image.min_cuda = ["cuda"], 12060
    image.save()
    other = Cluster(place.group, place.project, place.owner, image).add_agent({"cpu": 8000, "mem": 8 * GIB})
    give_devices(other, 1, "AMD MI210", slot="rocm")

    assert refusal(place, {"rocm": 1})[:2] == (
        f"The image {image} cannot use AMD GPU.",
        "It can use NVIDIA GPU.",
    )
    assert enqueue(place, {"cuda": 1}).device_api_version == 12060
    sentence, hint, names = refusal(place, {"cuda": 1}, device_model="A100")
    assert (
        sentence == f"The image {image} needs CUDA 12.6, and no machine of “{place.group.name}” supports it."
    )
    assert (hint, names) == ("The newest is 12.4.", ["image"])
    assert enqueue(place, {}).device_api_version == 0


def test_a_machine_that_is_named_has_enough_memory(place: Place) -> None:
    small = AgentDevice.objects.filter(model=A100).values_list("agent__name", flat=True)[0]
    sentence, _hint, names = refusal(place, {"cuda": 1}, device_mem="80g", designated_agent=small)
    assert sentence.startswith(f"The accelerators of the machine “{small}” have too little memory")
    assert names == ["designated_agent"]


def test_a_preset_with_a_part_can_be_chosen_in_the_launcher(place: Place) -> None:
    actor = actor_for(place.owner)
    for name, devices in (("part", {"cuda.mem": "20g"}), ("any", {"gpu": 1}), ("many", {"cuda": 9})):
        create_preset(actor=actor, name=name, sharing="own", resources={"cpu": 1, "mem": "1g", **devices})
    form = LauncherForm(None, actor=actor, initial={"resource_group": place.group.name})
    objections = {size.title: form.objection_to(size.slots) for size in form.sizes if size.is_preset}

    assert {title: bool(text) for title, text in objections.items()} == {
        "part": False, "any": False, "many": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("vendor", "may_be_shared"),
    [(vendor.name, vendor.name in ("nvidia", "amd", "intel-gpu", "mock")) for vendor in shipped_vendors()]
    + [("of-an-administrator", False), ("", True)],
)
def test_a_part_is_given_only_of_devices_whose_driver_admits_several_programs(
    place: Place, vendor: str, may_be_shared: bool
) -> None:
    AgentDevice.objects.filter(model=A100).update(vendor=vendor)
    cards = {card.title: card for card in LauncherForm(None, actor=actor_for(place.owner)).device_cards}
    assert bool(cards[A100].part_words) == may_be_shared
    if may_be_shared:
        assert enqueue(place, {"cuda": 0.5}, device_model="A100").requested_slots["cuda"] == 500
        return
    sentence, hint, names = refusal(place, {"cuda": 0.5})
    assert sentence.startswith(f"{A100} in “{place.group.name}”: A device takes one program at a time")
    assert (hint, names) == (f"Name a model that allows it: {H100}.", ["resources"])
    assert refusal(place, {"cuda.mem": "20g"}, device_model="A100")[1] == "Ask for a whole device."
    with pytest.raises(InvalidInput) as refused:
        create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, model=A100, mode="slice")
    assert refused.value.hint == "Choose one of these: Whole devices only."
