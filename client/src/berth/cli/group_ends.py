"""Parse `--ends` of resource groups (lifetime, idle timeout, utilization) and format the result."""

from typing import Annotated, Any

import typer

from berth.cli.policies import NONE, SPANS_S
from berth.errors import InvalidInput
from berth.machine_models import ResourceGroup

SPANS = {"idle": "max_idle_s", "window": "use_window_s", "grace": "use_grace_s", "extension": "extension_s"}
PERCENTS = {
    "cpu": "min_cpu_percent",
    "mem": "min_mem_percent",
    "devices": "min_device_percent",
    "device-mem": "min_device_mem_percent",
}
WORDS = (*SPANS, *PERCENTS, "low", "batch", "extensions")
YES_OR_NO = {"yes": True, "no": False}
OPTIONAL = ("idle", *PERCENTS)

Ends = Annotated[
    str,
    typer.Option(
        "--ends",
        metavar="WHAT=LIMIT,…",
        help="Idle timeout and low utilization: idle=2h without user activity; below cpu=5, mem=5, devices=10, device-mem=10 percent of what is allocated to them (low=all "
        "or any of these; devices are not measured on machines over the network, nor where sessions share one) over window=1h and then grace=30m; batch=yes: batch sessions too; extensions=3 of extension=1h. idle=none, "
        "cpu=none … take a limit away.",
        show_default=False,
    ),
]


def parse_ends(text: str) -> dict[str, Any]:
    """Parse the text of `--ends` into fields of the API. Raises InvalidInput."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    return dict(_column(word.strip(), limit.strip()) for word, _equals, limit in pairs)


def _column(word: str, limit: str) -> tuple[str, Any]:
    if word not in WORDS:
        raise InvalidInput(f"--ends knows no “{word[:40]}”.", hint=f"One of {', '.join(WORDS)}.")
    if word in OPTIONAL and limit == NONE:
        return {**SPANS, **PERCENTS}[word], None
    if word in SPANS:
        return SPANS[word], parse_seconds(limit)
    if word in PERCENTS:
        return PERCENTS[word], _whole(word, limit.removesuffix("%"))
    if word == "extensions":
        return "max_extensions", 0 if limit == NONE else _whole(word, limit)
    if word == "low":
        return "use_rule", limit
    if limit not in YES_OR_NO:
        raise InvalidInput(f"batch={limit[:40]}: not understood.", hint="Write batch=yes or batch=no.")
    return "ends_idle_batch", YES_OR_NO[limit]


def parse_seconds(text: str) -> int:
    """Convert "90m", "12h", "7d" or a number of seconds to seconds. Raises InvalidInput."""
    factor = SPANS_S.get(text[-1:], 0)
    digits = text[:-1] if factor else text
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidInput(f"“{text[:40]}” is no length of time.", hint="Write it like 90m, 12h or 7d.")
    return int(digits) * (factor or 1)


def _whole(word: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInput(f"{word}={text[:40]}: not understood.", hint=f"Write it like {word}=5.")
    return int(text)


def end_facts(group: ResourceGroup) -> dict[str, object]:
    """Return the end rules of a group as facts for `berth group show`."""
    extensions = f"{group.max_extensions} of {group.extension_s} s" if group.max_extensions else "none"
    return {
        "lifetime": f"{group.max_lifetime_s} s" if group.max_lifetime_s else "",
        "idle timeout": f"{group.max_idle_s} s" if group.max_idle_s else "",
        **_least_use(group),
        "extensions": extensions,
    }


def _least_use(group: ResourceGroup) -> dict[str, object]:
    """Return the minimum-utilization rule of a group as facts.

    Window, grace period and the rule for batch sessions are always included: they also apply to
    minimums that only a policy sets.
    """
    percents = {word: getattr(group, column) for word, column in PERCENTS.items()}
    named = [f"{word} {percent} %" for word, percent in percents.items() if percent is not None]
    joint = " or " if group.use_rule == "any" else " and "
    return {
        "ends below": joint.join(named),
        "measured over": f"{group.use_window_s} s",
        "grace": f"{group.use_grace_s} s",
        "batch too": "yes" if group.ends_idle_batch else "",
    }
