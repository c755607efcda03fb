"""Columns of our own kinds."""

from typing import Any

from django.db import models

from common.kept_sentences import KeptSentence


class SentenceField(models.JSONField):
    """A KeptSentence as {"text", "arguments", "quote"}; what is empty is left out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"default": KeptSentence, "blank": True, **options})

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> KeptSentence | None:
        if value is None:  # of a row that an outer join did not find
            return None
        return KeptSentence(**super().from_db_value(value, expression, connection))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        kept = value.to_json() if isinstance(value, KeptSentence) else value
        return super().get_db_prep_value(kept, connection, prepared)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        options.pop("default", None)
        options.pop("blank", None)
        return name, path, args, options

    def to_python(self, value: Any) -> KeptSentence:
        return value if isinstance(value, KeptSentence) else KeptSentence(**(value or {}))

    def value_to_string(self, obj: Any) -> Any:
        return self.value_from_object(obj).to_json()
