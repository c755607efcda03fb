"""Sample data for every component of the style guide."""

import math
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import QueryDict

from agents.core.states import AgentState
from common import clock
from common.pages.bulk_actions import Outcome
from common.pages.status_styles import Tone
from common.pages.tables import Column, Filter, Listing, Table, define_table
from common.values.resources import CPU, MEM, ResourceSlots
from portal.models import Announcement
from sessions_app.core.request import parse_request
from sessions_app.core.request_export import RequestExample, request_examples
from sessions_app.core.states import Status
from sessions_app.metrics.collector import SAMPLE_S, SERIES

GIB = 2**30
SAMPLES = 90
LOG_LINES = 40
TABLE = define_table(
    Table(
        name="samples",
        noun="sessions",
        columns=(
            Column("name", "Name", order=("name",), is_fixed=True),
            Column("status", "Status"),
            Column("age", "Age", is_number=True, is_usual=False),
        ),
        sort="name",
        search=lambda text: Q(name__icontains=text),
        search_label="Search by name",
        filters=(
            Filter("status", "Status", lambda value: Q(status=value)),
            Filter("owner", "Owner", lambda text: Q(owner=text), is_typed=True),
        ),
    )
)


class SampleForm(forms.Form):
    name = forms.CharField(help_text="Letters, digits and dashes.")
    memory = forms.CharField()
    kind = forms.ChoiceField(choices=[("interactive", "Interactive"), ("batch", "Batch")])
    network = forms.ChoiceField(
        choices=[("open", "The whole internet"), ("closed", "None but its folders")],
        widget=forms.RadioSelect(attrs={"class": "form-check-input"}),
    )
    note = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), required=False)
    is_readonly = forms.BooleanField(label="Mount read-only", required=False)

    def clean_memory(self) -> str:
        raise forms.ValidationError("“lots” is not an amount of memory. Write it like 512m or 4g.")


def sample_context(page_number: str) -> dict[str, Any]:
    return {
        "statuses": [*Status, *AgentState, "ready", "on_fire"],
        "tabs": [
            {"label": "Overview", "url": "#", "icon": "list-details", "is_active": True},
            {"name": "interactive", "label": "Interactive", "url": "#", "count": 3},
            {"name": "batch", "label": "Batch", "url": "#", "count": 0},
            {"label": "Logs", "url": "#", "icon": "file-text"},
        ],
        "chips": [
            {"label": "Running", "url": "#tables", "count": 4, "is_active": True},
            {"label": "Finished", "url": "#tables", "count": 20},
            {"label": "All projects", "url": "#tables"},
        ],
        "steps": _steps(),
        "failed_steps": _failed_steps(),
        "sample_announcements": [
            Announcement(
                text="Maintenance on Saturday: sessions go on, new ones wait.",
                tone=Tone.WARN,
                is_dismissible=False,
            )
        ],
        "history": _history(),
        "meters": [
            {"label": "CPU", "used": 6000, "limit": 16000, "slot": CPU, "own": 2000},
            {"label": "Memory", "used": 58 * GIB, "limit": 64 * GIB, "slot": MEM, "own": 0},
            {"label": "GPU", "used": 4000, "limit": 4000, "slot": "cuda", "own": 1000},
            {"label": "Folders", "used": 3 * GIB, "limit": None, "slot": MEM, "own": 0},
        ],
        "columns": [
            {"label": "Name", "url": "#tables", "direction": "ascending"},
            {"label": "Status", "url": "#tables"},
            {"label": "Resources"},
            {"label": "Age", "is_number": True},
            {"label": ""},
        ],
        "page": Paginator(_rows(), 8).get_page(page_number),
        "form": SampleForm({"name": "train", "memory": "lots", "kind": "batch", "network": "open"}),
        "examples": _examples(),
        "affected": ["12 files, 3.4 GiB", "1 session that mounts it: train"],
        "listing": _listing(),
        "outcomes": [
            Outcome("train-resnet-1", "It is stopped.", is_done=True, url="#outcomes"),
            Outcome("train-resnet-2", "It belongs to somebody else.", is_done=False, url="#outcomes"),
        ],
        "sample_address": "192.0.2.10",
        "sample_policy": {"policy": {"name": "students"}, "limits": "2 cores, 8 GiB, 1 session at once"},
        "sample_budget_card": {
            "rows": [_sample_budget(62, Tone.BUSY), _sample_budget(100, Tone.BAD)],
            "may_limit": False,
        },
        "sample_lists": [
            {
                "title": "Images",
                "entries": ("berth/*", "ghcr.io/lab/*"),
                "set_by": "The project “vision”",
                "policy": "lab",
            },
            {
                "title": "Storage hosts of new folders",
                "entries": (),
                "set_by": "Your account",
                "policy": "guests",
            },
        ],
        "sample_viewing": {
            "person": {"email": "ada@uni.example"},
            "ends_at": clock.now() + timedelta(minutes=29),
        },
        "sample_ways": [{"url": "#apps", "description": "Use your password"}],
    }


def _sample_budget(percent: int, tone: Tone) -> dict[str, Any]:
    return {
        "title": "GPU-hours", "owner": "The project “vision”", "used": str(percent * 2), "amount": "200",
        "left": str(200 - percent * 2), "percent": percent, "tone": tone, "is_hard": True,
        "is_used_up": tone is Tone.BAD, "is_nearly_used_up": False, "last_day": clock.now(),
    }  # fmt: skip


def sample_log() -> str:
    """Return a sample session log: one line per second of training."""
    return "".join(f"epoch {n}: loss {2.3 / n**0.4:.4f}\n" for n in range(1, LOG_LINES + 1))


def sample_metrics() -> dict[str, Any]:
    """Return a quarter of an hour of one kernel's metrics,
    in the format of `sessions_app.metrics.history.session_metrics`.
    """
    until = int(clock.now().timestamp())
    until -= until % SAMPLE_S
    waves = [math.sin(index / 7) for index in range(SAMPLES)]
    traffic = [round((1 + wave) * 2**20) for wave in waves]
    series = {
        "cpu_milli": [round(900 + 700 * wave) for wave in waves],
        "mem_bytes": [round(GIB + index * 2**23) for index in range(SAMPLES)],
        **dict.fromkeys(SERIES[2:], traffic),
    }
    kernel = {
        "name": "main1",
        "limits": {"cpu_milli": 2000, "mem_bytes": 2 * GIB},
        "at": [until - SAMPLE_S * (SAMPLES - 1 - index) for index in range(SAMPLES)],
        **series,
        **{f"{name}_max": values for name, values in series.items()},
    }
    return {"window": "15m", "step_s": SAMPLE_S, "kernels": [kernel]}


def _examples() -> tuple[RequestExample, ...]:
    asked = {
        "name": "train",
        "project": "vision",
        "image": "berth/python:1.0",
        "type": "batch",
        "resources": {"cpu": 2, "mem": "4g"},
        "environment": {"WANDB_KEY": "never shown"},
        "command": "python train.py",
    }
    return request_examples(parse_request(asked), settings.BERTH_URL)


def _listing() -> Listing:
    listing = Listing(TABLE, QueryDict("q=train&status=running"))
    listing.choices["status"] = [(str(status), str(status).capitalize()) for status in Status]
    return listing


def _steps() -> list[dict[str, Any]]:
    return [
        {"label": "Queued", "state": "past", "note": "12 s"},
        {"label": "Scheduled", "state": "past", "note": "on agent gpu-a100-1"},
        {"label": "Pulling", "state": "now", "since": _before(72), "note": "62 % of 1.4 GiB"},
        {"label": "Starting", "state": "ahead"},
        {"label": "Ready", "state": "ahead"},
    ]


def _failed_steps() -> list[dict[str, Any]]:
    return [
        {"label": "Queued", "state": "past", "at": _before(500)},
        {"label": "Scheduled", "state": "past", "at": _before(400)},
        {
            "label": "Pulling",
            "state": "failed",
            "at": _before(300),
            "note": "The registry does not know this image.",
        },
        {"label": "Starting", "state": "ahead"},
        {"label": "Ready", "state": "ahead"},
    ]


def _history() -> list[dict[str, Any]]:
    return [
        {"at": _before(60), "status": Status.RUNNING, "title": "All containers are up."},
        {"at": _before(72), "status": Status.PREPARING, "title": "Pulling the image.", "text": "1.4 GiB"},
        {"at": _before(90), "status": Status.PENDING, "title": "Enqueued.", "actor": "ada@example.org"},
    ]


def _rows() -> list[dict[str, Any]]:
    statuses = list(Status)
    return [
        {
            "name": f"train-resnet-{index}",
            "status": statuses[index % len(statuses)],
            "slots": ResourceSlots({CPU: 1000 * (index + 1), MEM: GIB * (index + 1)}),
            "created_at": _before(100 * (index**3 + 1)),
        }
        for index in range(24)
    ]


def _before(seconds: int) -> Any:
    return clock.now() - timedelta(seconds=seconds)
