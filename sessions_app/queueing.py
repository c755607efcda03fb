"""What a request says of its place in the queue, checked as far as that needs no database. Pure."""

import re

from accounts.quota import HIGHEST_PRIORITY
from common.languages import gettext as _
from common.texts import quoted

LOWEST_PRIORITY = -HIGHEST_PRIORITY
_WHOLE = re.compile(r"[-−]?\d{1,9}\Z", re.ASCII)


def check_priority(value: object) -> int:
    """Forms send it as text."""
    if value is None or value == "":
        return 0
    if isinstance(value, str) and _WHOLE.match(value.strip()):
        value = int(value.strip().replace("−", "-"))
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > HIGHEST_PRIORITY:
        sentence = _("{value} is no priority. Give a whole number from {least} to {most}.")
        raise ValueError(sentence.format(value=quoted(value), least=LOWEST_PRIORITY, most=HIGHEST_PRIORITY))
    return value
