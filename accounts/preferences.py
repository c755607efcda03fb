"""How a person wants the portal to look, kept on the server, so that it is the same in every browser."""

from collections.abc import Collection, Iterable, Mapping

from accounts.models import ListColumns
from accounts.selectors import user_of
from common.actors import Actor


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
