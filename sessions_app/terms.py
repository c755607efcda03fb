"""By what a request is judged: who may use which project, image and group, and what policies say. Where any of that was changed since it was
judged, the database refuses its session (ADR 49), and it is judged anew."""

from datetime import timedelta

from common import clock
from sessions_app.models import TermsChange

KEPT_FOR = timedelta(hours=1)  # no request takes as long
SEEN = "pg_current_snapshot()::text"
"""A column of the statement by which a request is judged: which transactions it sees."""
STAND_BY = "set_config('berth.terms_seen', %(seen)s::text, true)"
"""A column of a later statement: a session that it, or another of its transaction, writes is refused if somebody committed a change that the
first, which had `seen` this, did not see. Nothing is asked of what was judged by nothing ('')."""
TERMS_STAND = "terms_stand"
"""The constraint that an IntegrityError names then."""


class Overtaken(Exception):
    """What a request was judged by was changed until it was written; nothing is."""


def purge_changes() -> None:
    """Forget those that nobody asks about any more."""
    TermsChange.objects.filter(noted_at__lt=clock.now() - KEPT_FOR).delete()
