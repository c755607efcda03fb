"""How a person wants the portal to look, kept on the server, so that it is the same in every browser."""

from collections.abc import Collection, Iterable, Mapping

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.models import ListColumns, User
from accounts.selectors import user_of
from common.actors import Actor
from common.errors import InvalidInput
from common.values.text import quoted


def column_choice(actor: Actor, table: str) -> Mapping[str, bool]:
    """{column: whether it is shown}, as far as the person said. One query."""
    chosen = ListColumns.objects.filter(user_id=actor.user_id or 0, table=table).values_list(
        "shown", flat=True
    )
    return chosen.first() or {}


def choose_columns(*, actor: Actor, table: str, columns: Iterable[str], shown: Collection[str]) -> None:
    """Of these `columns` of a list, show those in `shown`; what was said of others stays."""
    choice = {**column_choice(actor, table), **{name: name in shown for name in columns}}
    ListColumns.objects.update_or_create(user=user_of(actor), table=table, defaults={"shown": choice})


def check_language(language: str) -> str:
    """One that the pages speak. Raises InvalidInput."""
    known = dict(settings.LANGUAGES)
    if language not in known:
        sentence = _("{language} is no language of these pages.").format(language=quoted(language))
        hint = _("There are: {languages}.").format(languages=", ".join(known))
        raise InvalidInput(sentence, hint=hint, fields={"language": [f"{sentence} {hint}"]})
    return language


def choose_language(*, actor: Actor, language: str) -> None:
    """Of the pages, in each browser from its next sign-in on; "": as the browser asks. Raises InvalidInput."""
    User.objects.filter(pk=user_of(actor).pk).update(language=check_language(language) if language else "")
