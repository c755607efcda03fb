"""When a session will probably start, in numbers and in words. Pure."""

from dataclasses import dataclass
from math import ceil

from common.i18n import gettext as _
from common.values.durations import duration_words

MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class StartRange:
    """Seconds from now: most likely not before `earliest_s` nor after `latest_s`; None: nobody knows how late it may be."""

    earliest_s: int
    latest_s: int | None

    @property
    def words(self) -> str:
        """In whole minutes: it is no promise."""
        early = duration_words(self.earliest_s // MINUTE_S * MINUTE_S)
        if self.latest_s is None:
            if self.earliest_s < MINUTE_S:
                return _("It may start at any moment; how long it may take is unknown.")
            return _("It will probably not start before {early}; how long it may take is unknown.").format(
                early=early
            )
        late = duration_words(max(1, ceil(self.latest_s / MINUTE_S)) * MINUTE_S)
        if self.earliest_s < MINUTE_S:
            return _("It will probably start within {late}.").format(late=late)
        return _("It will probably start in {early} to {late}.").format(early=early, late=late)
