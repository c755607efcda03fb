"""Shows errors of services in forms or messages, and digests of form values for confirmation."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest

from common.errors import BerthError


def add_errors(form: forms.Form, refusal: BerthError) -> None:
    """Add the error to the fields it names, if the form has them; else to the form as a whole."""
    at_fields = {name: sentences for name, sentences in refusal.fields.items() if name in form.fields}
    for name, sentences in at_fields.items():
        for sentence in sentences:
            form.add_error(name, sentence)
    if not at_fields:
        form.add_error(None, f"{refusal.message} {refusal.hint}".strip())


class _ShownErrors:
    """Context manager that passes errors of these kinds to `show` instead of raising them."""

    def __init__(self, show: Callable[[BerthError], object], kinds: tuple[type[BerthError], ...]) -> None:
        self._show, self._kinds = show, kinds or (BerthError,)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, self._kinds):
            return False
        self._show(error)
        return True


def errors_in_form(form: forms.Form, *kinds: type[BerthError]) -> _ShownErrors:
    """Return a context manager that shows errors in the form. Default of `kinds`: all errors."""
    return _ShownErrors(partial(add_errors, form), kinds)


def errors_as_messages(request: HttpRequest, *kinds: type[BerthError]) -> _ShownErrors:
    """Return a context manager that shows errors as messages on the next page."""
    return _ShownErrors(lambda error: messages.error(request, f"{error.message} {error.hint}".strip()), kinds)


def form_digest(values: dict[str, Any]) -> str:
    """Return a digest that the confirm button sends along; changed values must be confirmed again."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
