"""Display preferences of users (list columns, language), stored on the server and shared by all
browsers.
"""

from collections.abc import Collection, Iterable, Mapping

from django.conf import settings
from django.utils.translation import gettext as _

from accounts.models import ListColumns, User
from accounts.selectors import get_acting_user
from common.actors import Actor
from common.errors import InvalidInput
from common.values.text import quoted


def column_choice(actor: Actor, table: str) -> Mapping[str, bool]:
    """Return {column: is shown} as chosen by the actor; other columns are missing. One query."""
    chosen = ListColumns.objects.filter(user_id=actor.user_id or 0, table=table).values_list(
        "shown", flat=True
    )
    return chosen.first() or {}


def choose_columns(*, actor: Actor, table: str, columns: Iterable[str], shown: Collection[str]) -> None:
    """Show those `columns` of a list that are in `shown`, and hide the other `columns`."""
    choice = {**column_choice(actor, table), **{name: name in shown for name in columns}}
    ListColumns.objects.update_or_create(user=get_acting_user(actor), table=table, defaults={"shown": choice})


def check_language(language: str) -> str:
    """Return `language` if the pages are available in it. Raises InvalidInput."""
    known = dict(settings.LANGUAGES)
    if language not in known:
        sentence = _("{language} is no language of these pages.").format(language=quoted(language))
        hint = _("There are: {languages}.").format(languages=", ".join(known))
        raise InvalidInput(sentence, hint=hint, fields={"language": [f"{sentence} {hint}"]})
    return language


def choose_language(*, actor: Actor, language: str) -> None:
    """Set the language of pages, effective per browser at its next sign-in; "" follows the browser.
    Raises InvalidInput.
    """
    User.objects.filter(pk=get_acting_user(actor).pk).update(
        language=check_language(language) if language else ""
    )
