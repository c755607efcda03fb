"""Sample data for every component: the context of the style guide."""

from datetime import timedelta
from typing import Any

from django import forms
from django.core.paginator import Paginator

from agents.states import AgentState
from common import clock
from common.looks import Tone
from common.slots import CPU, MEM, ResourceSlots
from portal.models import Announcement
from sessions_app.states import Status

GIB = 2**30


class SampleForm(forms.Form):
    name = forms.CharField(help_text="Letters, digits and dashes.")
    memory = forms.CharField()
    kind = forms.ChoiceField(choices=[("interactive", "Interactive"), ("batch", "Batch")])
    note = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), required=False)
    is_readonly = forms.BooleanField(label="Mount read-only", required=False)

    def clean_memory(self) -> str:
        raise forms.ValidationError("“lots” is not an amount of memory. Write it like 512m or 4g.")


def sample_context(page_number: str) -> dict[str, Any]:
    return {
        "statuses": [*Status, *AgentState, "ready", "on_fire"],
        "tabs": [
            {"label": "Overview", "url": "#", "icon": "list-details", "is_active": True},
            {"label": "Interactive", "url": "#", "count": 3},
            {"label": "Batch", "url": "#", "count": 0},
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
        "form": SampleForm({"name": "train", "memory": "lots", "kind": "batch"}),
        "affected": ["12 files, 3.4 GiB", "1 session that mounts it: train"],
    }


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
