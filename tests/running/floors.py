"""Check the lower limits of branch coverage, in percent."""

import sys
from typing import Any

import coverage

WHOLE = 90.0
PURE = 98.0
# Rules without I/O, the engine of the scheduler, and the modules that alone change a status.
# Patterns relative to the checkout.
PURE_MODULES = (
    "accounts/core/allow_lists.py",
    "accounts/core/throttle.py",
    "accounts/core/authorization.py",
    "accounts/core/sign_up.py",
    "accounts/core/utilization.py",
    "accounts/core/membership_rules.py",
    "accounts/core/identity_providers.py",
    "accounts/core/limits.py",
    "accounts/core/roles.py",
    "accounts/core/sign_in_requirements.py",
    "accounts/core/budget_arithmetic.py",
    "accounts/core/ssh_key_format.py",
    "accounts/core/token_secrets.py",
    "agents/core/group_limits.py",
    "agents/machines/lifecycle.py",
    "agents/runtime/profiles/seccomp.py",
    "agents/runtime/usage.py",
    "agents/runtime/docker/encoding.py",
    "agents/core/states.py",
    "common/actors.py",
    "common/http/cookies.py",
    "common/http/user_agent.py",
    "common/http/ports.py",
    "transport/proxy/websocket_frames.py",
    "transport/server/forwarded.py",
    "transport/server/head_parser.py",
    "common/token_scopes.py",
    "common/values/resources.py",
    "common/values/text.py",
    "common/values/time_zones.py",
    "images/core/labels.py",
    "images/core/references.py",
    "scheduler/engine/*",
    "scheduler/explain/messages.py",
    "scheduler/explain/messages.py",
    "sessions_app/container_io/tar_stream.py",
    "sessions_app/core/callbacks.py",
    "sessions_app/core/container_paths.py",
    "sessions_app/core/request_export.py",
    "scheduler/commit/cpu_pinning.py",
    "sessions_app/metrics/accelerators.py",
    "sessions_app/core/dotfile_rules.py",
    "sessions_app/gateway/processes/exec_protocol.py",
    "sessions_app/gateway/auth/cookies.py",
    "sessions_app/gateway/auth/origin_rules.py",
    "sessions_app/core/idle_rules.py",
    "sessions_app/lifecycle/transitions.py",
    "sessions_app/core/placement.py",
    "sessions_app/core/queue_options.py",
    "sessions_app/core/request.py",
    "sessions_app/core/request_fields.py",
    "sessions_app/gateway/activity/polling_detection.py",
    "sessions_app/core/home_setup.py",
    "sessions_app/core/sizes.py",
    "sessions_app/core/container_spec.py",
    "sessions_app/core/states.py",
    "sessions_app/core/app_address.py",
    "sessions_app/web/environment_text.py",
    "vfolders/lifecycle.py",
    "vfolders/core/paths.py",
    "vfolders/core/http_range.py",
    "vfolders/core/permissions.py",
    "vfolders/core/states.py",
)


def keeps_floor_of_all() -> bool:
    """Report total coverage; return True if it is high enough."""
    return _keeps("whole", WHOLE)


def keeps_floor_of_pure_modules() -> bool:
    """Report uncovered lines of pure modules; return True if they are few enough."""
    return _keeps("pure modules and life cycles", PURE, include=list(PURE_MODULES), show_missing=True)


def _keeps(name: str, floor: float, **options: Any) -> bool:
    data = coverage.Coverage()
    data.load()
    found = data.report(file=sys.stdout, skip_covered=True, precision=2, **options)
    print(f"coverage | {name} {found:.2f} % (floor {floor:.0f})", flush=True)
    return found >= floor
