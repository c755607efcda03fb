"""Take pictures of the pages from a portal of their own, with sessions of several users."""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from portal.ops.paths import CHECKOUT
from tests.e2e.conftest import BROWSER_OPTIONS, signed_in_state
from tests.e2e.every_page import OF_SUPERADMINS, PAGES, pages_of_folder, pages_of_session
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

IMAGES = CHECKOUT / "docs" / "images"
WINDOW: ViewportSize = {"width": 1280, "height": 800}
WIDTHS = (360, 768, 1440)
NEW_WITH_DEVICES = "/sessions/new/?resource_group=train&device=cuda%3ANVIDIA+H100+80GB+HBM3&device_count=2"
BELOW_THE_BAR = """element => {
  const top = element.getBoundingClientRect().top + window.scrollY - 80;
  window.scrollTo({top, behavior: "instant"});
}"""
THEMES = ("light", "dark")
DRAWN_S = 1.0
SAMPLES = 9  # enough points for charts
GROUP = "gpu"  # simulated agents, all full, so that a session is pending
MACHINES = 4
FILLS_IT_S = 180
ONE_MACHINE = {"cpu": 64, "mem": "400g"}
LARGE = "NVIDIA H100 80GB HBM3"
HOLDERS = (  # resource group, slot, and arrays of sessions: devices of each, how many sessions
    ("train", "cuda", ((8, 12), (4, 8), (1, 10), (0.25, 7))),
    ("research", "rocm", ((8, 4), (2, 6))),
    ("inference", "cuda", ((1, 20), (0.5, 7))),
    ("npu", "atom", ((2, 5),)),
)
WORK = """
for epoch in $(seq 1 400); do
  python -c 'sum(n * n for n in range(2_000_000)); open("/tmp/weights", "wb").write(bytes(2**24))'
  echo "epoch $epoch: loss $(python -c "print(round(2.3 / ($epoch ** 0.4), 4))")"
  sleep 1
done
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """Portal with a running notebook and command, a failed session, and folders with files."""

    user: Person
    superadmin: Person
    notebook: dict[str, Any]
    training: dict[str, Any]
    datasets: str


class Picture(NamedTuple):
    """Picture of a page: from its top, or from the first element `at`, or only the element `only`."""

    name: str
    address: str
    theme: str = "light"
    at: str = ""
    only: str = ""


@dataclass(frozen=True, slots=True)
class Gallery:
    """Groups of machines with accelerators: ids of a session on two devices, and of a machine and a free
    device of one of them.
    """

    session: str
    machine: int
    device: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """Full resource group with reserved agents, and the id of a session pending in it."""

    group_id: int
    waiting: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/screenshots", description=__doc__)
    parser.add_argument("--all", metavar="DIR", type=Path, help="every page, in both themes and three widths")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # removes the portal on SIGTERM too
    with people_at_work() as (portal, stage), chromium() as browser:
        if given.all:
            take_all(browser, portal, stage, given.all)
        else:
            take_for_documents(browser, portal, stage, IMAGES)
    return 0


@contextmanager
def people_at_work() -> Iterator[tuple[RunningPortal, Stage]]:
    with tempfile.TemporaryDirectory(prefix="berth-screenshots-") as directory:
        portal = RunningPortal(Path(directory) / "data")
        try:
            portal.start()
            yield portal, set_stage(portal)
        finally:
            portal.remove()


def set_stage(portal: RunningPortal) -> Stage:
    user = portal.person("user")
    folder = user.make_folder(
        "my-files",
        **{"notes.md": "# Notes\n", "train.py": "print('epoch 1')\n", "results.csv": "epoch,loss\n"},
    )
    datasets = user.make_folder("datasets", **{"README.md": "What is in here\n"})
    user.share_folder(datasets, friend=portal.person("domain_admin").email, file="README.md")
    failed = user.start_session(name="preprocess", type="batch", command="echo reading; exit 3")
    user.wait_for_status(failed, "TERMINATED", "ERROR")
    mounts = [{"folder": folder}]
    notebook = user.start_running_session(name="notebook", mounts=mounts)
    training = user.start_running_session(name="training", type="batch", command=WORK, mounts=mounts)
    wait_until(lambda: user.samples(training["id"]) >= SAMPLES, deadline_s=300, interval_s=1)
    return Stage(user, portal.person("superadmin"), notebook, training, datasets)


def gather(portal: RunningPortal, stage: Stage) -> Crowd:
    return Crowd(fill_group(portal, stage.superadmin), queue_up(portal))


def fill_group(portal: RunningPortal, superadmin: Person) -> int:
    """Create a resource group of simulated agents, some of them reserved. Returns its id."""
    shape = (
        "--agents",
        str(MACHINES),
        "--group",
        GROUP,
        "--run-seconds",
        "0",
        "--load-seconds",
        "1",
        "--keep",
    )
    command = [str(CHECKOUT / "bin" / "cluster"), "--data", str(portal.data), "simulate", *shape]
    subprocess.run(command, check=True, timeout=FILLS_IT_S, stdout=subprocess.DEVNULL)
    superadmin.change_resource_group(GROUP, description="Four machines with eight GPUs each")
    group_id: int = superadmin.resource_group(GROUP)["id"]
    day = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0)
    demo = next(each for each in superadmin.projects() if each["name"] == "demo")
    project = {"level": "project", "id": demo["id"]}
    for name, machines, begins, days, whose in (
        ("Deep learning course", (1, 2), 1, 2, project),
        ("Kernel upgrade", (3,), 2, 1, {}),
        ("Camera-ready deadline", (4,), 1, 4, project),
    ):
        superadmin.reserve(
            group_id,
            name=name,
            agents=[f"{GROUP}-{number:05}" for number in machines],
            starts_at=(day + timedelta(days=begins)).isoformat(),
            ends_at=(day + timedelta(days=begins + days)).isoformat(),
            **whose,
        )
    return group_id


def break_machines(portal: RunningPortal, superadmin: Person) -> str:
    """Lose a machine, drain one, and put one into maintenance. Returns the address of the draining one."""
    lost, draining, maintained = (f"{GROUP}-{number:05}" for number in (1, 2, 3))
    shell = (
        "from agents.models import Agent; "
        f"agent = Agent.objects.get(name='{lost}'); agent.address += '&lose=1'; agent.save(update_fields=['address'])"
    )
    command = [str(CHECKOUT / "bin" / "manage"), "shell", "-c", shell]
    environment = {**portal.environment, "BERTH_DATA": str(portal.data)}
    subprocess.run(command, check=True, timeout=FILLS_IT_S, stdout=subprocess.DEVNULL, env=environment)
    superadmin.change_agent_state(draining, "draining")
    evening = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=6)
    superadmin.change_agent_state(
        maintained, "maintenance", ends_at=evening.isoformat(), because="disk change"
    )
    wait_until(lambda: superadmin.agents()[lost]["state"] == "lost", deadline_s=60, interval_s=1)
    return f"/agents/{superadmin.agents()[draining]['id']}/"


def queue_up(portal: RunningPortal) -> str:
    """Fill the group with sessions of several users, so that more are pending. Returns one's id."""
    user, others = portal.person("user"), (portal.person("domain_admin"), portal.person("superadmin"))
    there = {"resource_group": GROUP, "type": "batch", "command": "python train.py", "timeout_s": 7200}
    for number in range(MACHINES):
        who = (user, *others)[number % 3]
        who.wait_for_status(
            who.start_session(name=f"pretrain-{number}", resources=ONE_MACHINE, **there), "RUNNING"
        )
    for name, person in zip(("segment", "distill"), others, strict=True):
        person.start_session(name=name, resources={"cpu": 48, "mem": "64g"}, **there)
    waiting = user.start_session(name="finetune", resources={"cpu": 16, "mem": "128g", "gpu": 2}, **there)
    user.start_session(name="evaluate", resources={"cpu": 8, "mem": "32g"}, **there)
    wait_until(lambda: user.session(waiting)["status_reason"] != "enqueued", deadline_s=60, interval_s=0.5)
    return waiting


def fill_gallery(portal: RunningPortal, stage: Stage) -> Gallery:
    """Add machines with accelerators in every state, and sessions that hold some; wait until these are
    measured.
    """
    command = [
        str(CHECKOUT / "bin" / "manage"),
        "shell",
        "-c",
        "from tests.device_gallery import fill; fill()",
    ]
    environment = {**portal.environment, "BERTH_DATA": str(portal.data)}
    subprocess.run(
        command, check=True, timeout=FILLS_IT_S, stdout=subprocess.DEVNULL, env=environment, cwd=CHECKOUT
    )
    there = {"resource_group": "train", "device_model": LARGE}
    wanted = {"cpu": 16, "mem": "128g", "cuda": 2}
    session = stage.user.start_running_session(name="fine-tuning", resources=wanted, **there)["id"]
    for group, slot, arrays in HOLDERS:
        for amount, count in arrays:
            stage.superadmin.start_session(
                name=f"{group}-{amount}",
                resource_group=group,
                type="batch",
                command="python train.py",
                array=f"1-{count}%{count}",
                resources={"cpu": 2, "mem": "8g", slot: amount},
            )
    wait_until(lambda: stage.user.device_samples(session) >= SAMPLES, deadline_s=300, interval_s=2)
    whole = next(
        each for each in stage.superadmin.devices() if each["model"] == LARGE and each["state"] == "free"
    )
    return Gallery(session, whole["agent_id"], whole["id"])


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Pictures need Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(BROWSER_OPTIONS))
        yield browser
        browser.close()


@contextmanager
def page_of(
    browser: Browser, portal: RunningPortal, person: Person, theme: str, window: ViewportSize
) -> Iterator[Page]:
    state = signed_in_state(browser, portal.url, person)
    context = browser.new_context(
        base_url=portal.url,
        storage_state=state,
        viewport=window,
        color_scheme="dark" if theme == "dark" else "light",
    )
    yield context.new_page()
    context.close()


def take_for_documents(browser: Browser, portal: RunningPortal, stage: Stage, directory: Path) -> None:
    """Take the pictures of the documents, under the names that the documents use."""
    directory.mkdir(exist_ok=True)
    training = f"/sessions/{stage.training['id']}/"
    pictures = (
        Picture("start", "/"),
        Picture("dashboard", "/dashboard/"),
        Picture("launcher", "/sessions/new/"),
        Picture("session", training),
        Picture("charts", f"{training}?tab=charts", "dark"),
        Picture("sessions", "/sessions/", "dark"),
        Picture("sharing", f"/data/{stage.datasets}/?open=sharing"),
    )
    take_named(browser, portal, stage.user, pictures, directory)
    crowd = gather(portal, stage)
    of_those_who_wait = (
        Picture("waiting", f"/sessions/{crowd.waiting}/"),
        Picture("queue", f"/queue/?group={GROUP}"),
    )
    take_named(browser, portal, stage.user, of_those_who_wait, directory)
    of_group = f"/resource-groups/{crowd.group_id}"
    of_superadmin = (
        Picture("scheduler", f"{of_group}/scheduler/"),
        Picture("reservations", f"{of_group}/reservations/"),
        Picture("storage-use", "/data/all/users/"),
    )
    take_named(browser, portal, stage.superadmin, of_superadmin, directory)
    take_of_devices(browser, portal, stage, fill_gallery(portal, stage), directory)


def take_of_devices(
    browser: Browser, portal: RunningPortal, stage: Stage, gallery: Gallery, directory: Path
) -> None:
    devices = (
        Picture("accelerators", "/accelerators/"),
        Picture("mig", f"/accelerators/{gallery.device}/", only=".card:has(#device-mig-title)"),
    )
    take_named(browser, portal, stage.superadmin, devices, directory)
    of_devices = (
        Picture("gpu-launcher", NEW_WITH_DEVICES, at=".launcher-devices"),
        Picture("gpu-session", f"/sessions/{gallery.session}/", at=".card:has(#devices-title)"),
    )
    take_named(browser, portal, stage.user, of_devices, directory)
    machine = break_machines(portal, stage.superadmin)
    of_machines = (Picture("agents", "/agents/"), Picture("machine", machine))
    take_named(browser, portal, stage.superadmin, of_machines, directory)


def take_named(
    browser: Browser,
    portal: RunningPortal,
    person: Person,
    pictures: Sequence[Picture],
    directory: Path,
) -> None:
    for picture in pictures:
        with page_of(browser, portal, person, picture.theme, WINDOW) as page:
            take(page, picture.address, directory / f"{picture.name}.png", at=picture.at, only=picture.only)


def take_all(browser: Browser, portal: RunningPortal, stage: Stage, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    crowd, gallery = gather(portal, stage), fill_gallery(portal, stage)
    waiting = tuple(f"/sessions/{crowd.waiting}/{rest}" for rest in ("", "why/"))
    queue = f"/queue/?group={GROUP}"
    of_user = (
        *PAGES,
        queue,
        *waiting,
        f"/sessions/{gallery.session}/",
        NEW_WITH_DEVICES,
        *pages_of_folder(stage.datasets, "README.md"),
        *pages_of_session(stage.notebook),
        *pages_of_session(stage.training),
    )
    pages = ("", "weights/", "limits/", "scheduler/", "reservations/", "reservations/?view=month")
    of_group = tuple(f"/resource-groups/{crowd.group_id}/{rest}" for rest in pages)
    of_devices = (f"/agents/{gallery.machine}/", f"/accelerators/{gallery.device}/")
    for theme in THEMES:
        for width in WIDTHS:
            window: ViewportSize = {"width": width, "height": 800}
            with page_of(browser, portal, stage.user, theme, window) as page:
                take_each(page, of_user, directory, f"{theme}-{width}")
            with page_of(browser, portal, stage.superadmin, theme, window) as page:
                addresses = (*OF_SUPERADMINS, *of_group, *of_devices)
                take_each(page, addresses, directory, f"{theme}-{width}-superadmin")


def take_each(page: Page, addresses: Sequence[str], directory: Path, suffix: str) -> None:
    for address in addresses:
        words = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+", "one", address)
        name = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "start"
        take(page, address, directory / f"{name}-{suffix}.png", is_whole=True)


def take(
    page: Page, address: str, file: Path, *, is_whole: bool = False, at: str = "", only: str = ""
) -> None:
    page.goto(address)
    page.wait_for_timeout(DRAWN_S * 1000)
    if only:
        page.locator(only).first.screenshot(path=file, animations="disabled")
    else:
        if at:
            page.locator(at).first.evaluate(BELOW_THE_BAR)
        page.screenshot(path=file, full_page=is_whole, animations="disabled")
    sys.stdout.write(f"{file}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
