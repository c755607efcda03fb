"""By what a request is judged: who may use which project, image and group, and what policies say. Whoever judged one learns by the statement
that writes the session whether any of that was changed meanwhile (ADR 49)."""

from datetime import timedelta

from common import clock
from sessions_app.models import TermsChange

KEPT_FOR = timedelta(days=1)  # no request takes as long
SEEN = "pg_current_snapshot()::text"
"""As a column of a statement: which transactions it sees."""
HAVE_CHANGED = "%(seen)s::text IS NOT NULL AND berth_terms_changed(%(seen)s::text)"
"""As a condition of another: whether somebody committed a change that the first, which had `seen` this, does not see; no for `seen` NULL. It
looks when it is asked, at what is committed by then."""


def purge_changes() -> None:
    """Forget those that nobody asks about any more."""
    TermsChange.objects.filter(noted_at__lt=clock.now() - KEPT_FOR).delete()
