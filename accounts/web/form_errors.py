"""What a service refuses, as a form shows it; and what a form is asked twice."""

import hashlib
import json
from typing import Any

from django import forms

from common.errors import BerthError


def mark(form: forms.Form, refusal: BerthError) -> None:
    """At the fields that the refusal names, where the form has them; else above the form."""
    at_fields = {name: sentences for name, sentences in refusal.fields.items() if name in form.fields}
    for name, sentences in at_fields.items():
        for sentence in sentences:
            form.add_error(name, sentence)
    if not at_fields:
        form.add_error(None, f"{refusal.message} {refusal.hint}".strip())


def digest(wanted: dict[str, Any]) -> str:
    """What the button of a form sends along to say that just these values are meant: whoever changes them is asked again."""
    return hashlib.sha256(json.dumps(wanted, sort_keys=True, default=str).encode()).hexdigest()[:16]
