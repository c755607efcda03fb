"""Shows errors of services in forms, and digests of form values for confirmation."""

import hashlib
import json
from typing import Any

from django import forms

from common.errors import BerthError


def add_errors(form: forms.Form, refusal: BerthError) -> None:
    """Add the error to the fields it names, if the form has them; else to the form as a whole."""
    at_fields = {name: sentences for name, sentences in refusal.fields.items() if name in form.fields}
    for name, sentences in at_fields.items():
        for sentence in sentences:
            form.add_error(name, sentence)
    if not at_fields:
        form.add_error(None, f"{refusal.message} {refusal.hint}".strip())


def form_digest(values: dict[str, Any]) -> str:
    """Return a digest that the confirm button sends along; changed values must be confirmed
    again.
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
