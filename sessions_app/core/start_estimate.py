"""Estimated start of a waiting session, as seconds and as a sentence. Pure."""

from dataclasses import dataclass
from math import ceil

from common.i18n import gettext as _
from common.values.durations import format_duration

MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class StartRange:
    """Probable start between `earliest_s` and `latest_s` seconds from now; None: no upper bound."""

    earliest_s: int
    latest_s: int | None

    @property
    def words(self) -> str:
        """Sentence in whole minutes, because it is only an estimate."""
        early = format_duration(self.earliest_s // MINUTE_S * MINUTE_S)
        if self.latest_s is None:
            if self.earliest_s < MINUTE_S:
                return _("It may start at any moment; how long it may take is unknown.")
            return _("It will probably not start before {early}; how long it may take is unknown.").format(
                early=early
            )
        late = format_duration(max(1, ceil(self.latest_s / MINUTE_S)) * MINUTE_S)
        if self.earliest_s < MINUTE_S:
            return _("It will probably start within {late}.").format(late=late)
        return _("It will probably start in {early} to {late}.").format(early=early, late=late)
