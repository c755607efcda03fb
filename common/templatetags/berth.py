"""Template tags and filters of every page: `{% load berth %}`."""

import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from django import template
from django.contrib.messages import constants
from django.contrib.messages.storage.base import Message
from django.core.serializers.json import DjangoJSONEncoder
from django.forms import BoundField
from django.template.loader_tags import BLOCK_CONTEXT_KEY
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from common import clock
from common.pages import navigation
from common.pages.render_cache import render_cached
from common.pages.status_styles import Tone, status_style
from common.pages.toasts import undo_toast
from common.rest.idempotency import FORM_FIELD
from common.values.durations import Count, format_ago, format_duration
from common.values.resources import format_amount, format_bytes, format_share, format_slots

register = template.Library()
ICONS_FILE = Path(__file__).parents[2] / "static" / "src" / "icons.json"
FULL_PERCENT = 100
NEARLY_FULL_PERCENT = 85
NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=[^\W\d])")
CONTROL_CLASSES = {
    "select": "form-select",
    "selectmultiple": "form-select",
    "restrictedselect": "form-select",
    "checkbox": "form-check-input",
    "radioselect": "form-check-input",
}


@register.simple_tag
@lru_cache(maxsize=1024)
def icon(name: str, css_class: str = "") -> SafeString:
    """Return an icon of static/src/icons.json; decorative, hidden from screen readers.

    Images have own names ("python"): their brand icon is used if available, else a box.
    """
    known = icon_names()
    shown = next((candidate for candidate in (name, f"brand-{name}") if candidate in known), "box")
    return format_html(
        '<svg class="icon{}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" '
        'stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><use href="{}#{}"></use></svg>',
        f" {css_class}" if css_class else "",
        static("berth/icons.svg"),
        shown,
    )


@cache
def icon_names() -> frozenset[str]:
    """Return the names of all icons in the sprite; "berth" is our own drawing."""
    return frozenset(json.loads(ICONS_FILE.read_text())) | {"berth"}


@register.simple_tag(takes_context=True)
def repeat_block(context: template.Context, name: str) -> SafeString:
    """Return the content of block `name` again: the title is used in the tab and in the header."""
    blocks = context.render_context.get(BLOCK_CONTEXT_KEY)
    block = blocks.get_block(name) if blocks else None
    return block.render(context) if block else SafeString("")


@register.inclusion_tag("includes/tabs.html", takes_context=True)
def settings_tabs(context: template.Context) -> dict[str, Any]:
    """Return the context of the tabs of account settings."""
    return {"tabs": navigation.settings_tabs(context["request"].path), "label": _("Settings")}


@register.inclusion_tag("includes/notice.html")
def notice(message: Message) -> dict[str, Any]:
    """Return the context of one of Django's messages."""
    looks = {
        constants.SUCCESS: (Tone.GOOD, "circle-check"),
        constants.WARNING: (Tone.WARN, "alert-triangle"),
        constants.ERROR: (Tone.BAD, "alert-circle"),
    }
    tone, icon_name = looks.get(message.level, (Tone.BUSY, "info-circle"))
    return {"tone": tone, "icon_name": icon_name, "text": message, "is_closable": True}


@register.filter
def as_toast(message: Message) -> dict[str, Any] | None:
    """Return the variables of includes/toast.html if this message can be undone, else None."""
    return undo_toast(message)


@register.simple_tag
def status_badge(status: str, note: str = "") -> SafeString:
    """Render a status badge: `{% status_badge session.status %}`; `note` follows it ("62 %")."""
    return render_cached("includes/status_badge.html", style=status_style(str(status)), note=note)


@register.simple_tag
def meter(
    label: str, used: int, limit: int | None, slot: str = "mem", own: int = 0, has: int | None = None
) -> SafeString:
    """Render a usage meter, amounts in base units: `{% meter "Memory" used=agent.used
    limit=agent.capacity slot="mem" own=mine %}`.

    `own` is the reader's part of `used`; `limit=None` means no limit; `has` is the physical amount
    if `limit` is overcommitted.
    """
    percent = min(FULL_PERCENT, round(FULL_PERCENT * used / limit)) if limit else 0
    own_percent = min(percent, round(FULL_PERCENT * own / limit)) if limit else 0
    tone = Tone.BAD if percent >= FULL_PERCENT else Tone.WARN if percent >= NEARLY_FULL_PERCENT else Tone.BUSY
    part, whole = (format_amount(slot, used), None) if limit is None else format_share(slot, used, limit)
    return render_cached(
        "includes/meter.html",
        label=label,
        used=unbroken(part),
        limit=whole and unbroken(whole),
        own=unbroken(format_amount(slot, own)) if own else "",
        percent=percent,
        own_percent=own_percent,
        overcommit=f"{limit / has:.2f}".rstrip("0").rstrip(".") if limit and has and limit > has else "",
        tone=tone,
    )


@register.filter
def number(value: int) -> Count:
    """Return a count formatted for people, 12800 → "12,800"; still a number for plural forms: {%
    blocktranslate count counter=n|number %}.
    """
    return Count(value)


@register.filter(name="bytes")
def bytes_for_people(amount: int) -> str:
    """Format bytes: 1610612736 → "1.5 GiB"."""
    return format_bytes(amount)


@register.filter
def amount(value: int, slot: str) -> str:
    """Format base units of one slot: {{ 1500|amount:"cpu" }} → "1.5 cores"."""
    return format_amount(slot, value)


@register.filter
def slots(value: Mapping[str, int]) -> str:
    """Format amounts of slots: {"cpu": 1000, "mem": 2**30} → "1 core, 1 GiB"."""
    return format_slots(value)


@register.filter
def unbroken(text: str) -> str:
    """Replace the space between a number and its unit by a no-break space."""
    return NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", text)


@register.filter
def duration(seconds: float) -> str:
    """Format a duration in seconds: 250 → "4 min 10 s"."""
    return format_duration(seconds)


@register.filter
def ago(instant: datetime | None) -> SafeString | str:
    """Return the time since `instant`, like "5 min ago", updated by the page; “—” for None."""
    return _time(instant, "data-ago", lambda past_s: format_ago(max(0.0, past_s)))


@register.filter
def left(instant: datetime | None) -> SafeString | str:
    """Return the time until `instant`, like "4 min 10 s", counted down by the page."""
    return _time(instant, "data-left", lambda past_s: format_duration(max(0.0, -past_s)))


@register.filter
def seconds_until(instant: datetime) -> int:
    """Return the whole seconds after which `instant` is past."""
    return max(0, int((instant - clock.now()).total_seconds()) + 1)


@register.filter
def elapsed(instant: datetime | None) -> SafeString | str:
    """Return the time since `instant`, like "4 min 10 s", counted by the page."""
    return _time(instant, "data-elapsed", lambda past_s: format_duration(max(0.0, past_s)))


def _time(instant: datetime | None, mark: str, words: Callable[[float], str]) -> SafeString | str:
    if instant is None:
        return "—"
    past_s = (clock.now() - instant).total_seconds()
    return format_html('<time datetime="{}" {}>{}</time>', instant.isoformat(), mark, words(past_s))


@register.filter
def moment(instant: datetime | None) -> SafeString | str:
    """Return the time in UTC, with the date if not today; the page converts it."""
    if instant is None:
        return "—"
    text = (
        f"{instant:%H:%M:%S} UTC" if instant.date() == clock.now().date() else f"{instant:%Y-%m-%d %H:%M} UTC"
    )
    return format_html('<time datetime="{}" data-moment>{}</time>', instant.isoformat(), text)


@register.filter
def initials(name: str) -> str:
    """Return initials: "ada.lovelace@example.org" → "AL", "Ada" → "A"."""
    words = [word for word in name.partition("@")[0].replace(".", " ").replace("-", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


@register.filter
def with_code(text: str) -> SafeString:
    """Return text with parts in backticks as <code>: "close it (`is_active` false)"."""
    parts = re.split(r"`([^`]+)`", text)
    return SafeString(
        "".join(format_html("<code>{}</code>" if n % 2 else "{}", part) for n, part in enumerate(parts))
    )


@register.filter
def as_pattern(word: str) -> str:
    """Return a value of the HTML attribute `pattern` that matches exactly this text."""
    return re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\1", word)


@register.simple_tag
def once() -> SafeString:
    """Return a hidden field that identifies a form, so that a repeated
    submission is detected (common.rest.idempotency.submit_once).
    """
    return format_html('<input type="hidden" name="{}" value="{}">', FORM_FIELD, uuid.uuid4().hex)


@register.simple_tag
def control(field: BoundField) -> SafeString:
    """Render the widget of a form field with its CSS classes, marked if invalid."""
    kind = type(field.field.widget).__name__.lower().removesuffix("input")
    css_class = CONTROL_CLASSES.get(kind, "form-control")
    given = field.field.widget.attrs.get("class", "")
    mark = "is-invalid" if field.errors else ""
    return field.as_widget(attrs={"class": " ".join(filter(None, [css_class, given, mark]))})


@register.filter
def as_json(value: Any) -> str:
    """Return JSON for a data attribute; escaped there like all text."""
    return json.dumps(value, cls=DjangoJSONEncoder)
