"""Reads and writes dotfiles and the start-up script of a user. Nobody else has access."""

from typing import Any

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.utils.translation import gettext as _

from accounts.credentials.keypairs import full_token_filter, require_full_token
from accounts.models import User
from accounts.selectors import get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from common.values.text import quoted
from sessions_app.core.dotfile_rules import (
    DEFAULT_MODE,
    MAX_DOTFILES,
    check_content,
    check_dotfile_path,
    check_file_mode,
    conflicting_file,
)
from sessions_app.models import Dotfile, StartupScript, Written


def visible_dotfiles(actor: Actor) -> QuerySet[Dotfile]:
    return _with_use(Dotfile).filter(user_id=actor.user_id or 0)


def access_dotfile(actor: Actor, path: str) -> Dotfile:
    """Return the actor's dotfile at `path`, which may be any text. Raises NotFound."""
    found = next((file for file in visible_dotfiles(actor) if file.path == path), None)
    if found is None:
        raise NotFound(_("You have no dotfile {path}.").format(path=quoted(path)))
    return found


def startup_script(actor: Actor) -> StartupScript | None:
    return _with_use(StartupScript).filter(user_id=actor.user_id or 0).first()


def active_files(user_id: int) -> tuple[list[Dotfile], str | None]:
    """Return the dotfiles and script (or None) that a new session of this user gets. 2 queries."""
    files = _with_use(Dotfile).filter(user_id=user_id, is_used=True)
    script = _with_use(StartupScript).filter(user_id=user_id, is_used=True).first()
    return list(files), script.content if script else None


def _with_use(model: type[Written]) -> QuerySet[Any]:
    """Return the rows annotated with `is_used`.

    A row written with a token is used while that token could still write it; others always.
    """
    is_used = Q(token_name="") | full_token_filter("keypair")
    return model._default_manager.annotate(is_used=ExpressionWrapper(is_used, BooleanField()))


@transaction.atomic
def put_dotfile(*, actor: Actor, path: str, content: str, mode: str = DEFAULT_MODE) -> tuple[Dotfile, bool]:
    """Create or replace a dotfile for later sessions; return it and whether it is new.

    Raises InvalidInput, Conflict (another dotfile is where it needs a directory), LimitExceeded,
    PermissionDenied (`_writer`).
    """
    writer = _writer(actor)
    values = _checked(path=path, content=content, mode=mode)
    user = User.objects.select_for_update().get(pk=get_acting_user(actor).pk)
    others = set(Dotfile.objects.filter(user=user).exclude(path=path).values_list("path", flat=True))
    if other := conflicting_file(path, others):
        raise Conflict(
            _("{path} and {other} cannot both be files.").format(path=quoted(path), other=quoted(other)),
            hint=_("Remove one of them first."),
        )
    if len(others) >= MAX_DOTFILES:
        raise LimitExceeded(
            _("You have {most} dotfiles, as many as one may.").format(most=MAX_DOTFILES),
            hint=_("Remove one of them, or keep more in a folder."),
        )

    file, is_new = Dotfile.objects.update_or_create(
        user=user,
        path=path,
        defaults={"content": values["content"], "mode": values["mode"], "changed_at": clock.now(), **writer},
    )
    changes = {"path": path, "mode": file.mode, "size_bytes": file.size_bytes}
    audit_log.record(actor=actor, action="sessions.put_dotfile", target=file, changes=changes)
    return visible_dotfiles(actor).get(pk=file.pk), is_new


@transaction.atomic
def remove_dotfile(*, actor: Actor, path: str) -> None:
    """Delete a dotfile; running sessions keep their copies. Raises NotFound."""
    file = access_dotfile(actor, path)
    audit_log.record(actor=actor, action="sessions.remove_dotfile", target=file)
    file.delete()


@transaction.atomic
def set_startup_script(*, actor: Actor, content: str) -> StartupScript:
    """Set the script for sessions that start from now on.

    Raises InvalidInput, PermissionDenied (`_writer`).
    """
    writer = _writer(actor)
    content = _checked(content=content)["content"]
    if not content.strip():
        sentence = _("The script is empty. Remove it instead, if none is to run.")
        raise InvalidInput(sentence, fields={"content": [sentence]})
    script, _new = StartupScript.objects.update_or_create(
        user=get_acting_user(actor), defaults={"content": content, "changed_at": clock.now(), **writer}
    )
    changes = {"size_bytes": len(content.encode())}
    audit_log.record(actor=actor, action="sessions.set_startup_script", target=script, changes=changes)
    return _with_use(StartupScript).get(pk=script.pk)  # type: ignore[no-any-return]


@transaction.atomic
def remove_startup_script(*, actor: Actor) -> None:
    """Delete the start-up script. Raises NotFound if there is none."""
    script = startup_script(actor)
    if script is None:
        raise NotFound(_("You have no start-up script."))
    audit_log.record(actor=actor, action="sessions.remove_startup_script", target=script)
    script.delete()


def _writer(actor: Actor) -> dict[str, Any]:
    """Return the columns that record the writing token.

    The script and files run in all later sessions, with access to all their folders. So they are
    disabled with the token that wrote them, until saved again. Raises PermissionDenied for a token
    with restricted scopes or its own policy.
    """
    token = require_full_token(
        actor,
        missing=_(
            "Your token may not change what your sessions begin with: it does not have the scopes {scopes}."
        ),
        bound=_("A token with a policy of its own does not change what your sessions begin with."),
        hint=_("Do it on your page of dotfiles, or with another token."),
    )
    return {"keypair": token, "token_name": token.name if token else ""}


def _checked(**values: str) -> dict[str, str]:
    """Return the validated values. Raises InvalidInput that names every invalid one."""
    checks = {"path": check_dotfile_path, "content": check_content, "mode": check_file_mode}
    kept: dict[str, str] = {}
    problems: dict[str, list[str]] = {}
    for name, value in values.items():
        try:
            kept[name] = checks[name](value)
        except ValueError as error:
            problems[name] = [str(error)]
    if problems:
        raise InvalidInput(next(iter(problems.values()))[0], fields=problems)
    return kept
