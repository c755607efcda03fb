"""Model fields: names in normal form, stored messages and encrypted secrets."""

from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import models

from common.values.encryption import Undecipherable, decrypt, encrypt
from common.values.stored_message import StoredMessage
from common.values.text import check_text, normalised

SECRETS = "secret columns"
log = structlog.get_logger(__name__)


def validate_visible(text: str) -> None:
    """Raise ValidationError for invisible characters and for those that change text direction."""
    try:
        check_text(text, max_length=len(text))
    except ValueError as error:
        raise ValidationError(str(error)) from error


class NameField(models.CharField):
    """Name entered by a user. Stored and compared in Unicode normalisation form C, so that names
    that look alike are equal, whichever keyboard or file system they come from.
    """

    default_validators = [*models.CharField.default_validators, validate_visible]  # noqa: RUF012  the form that Django wants

    def to_python(self, value: Any) -> Any:
        return _normalised(super().to_python(value))

    def get_prep_value(self, value: Any) -> Any:
        return _normalised(super().get_prep_value(value))

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Normalise the value in memory as well as in the database."""
        value = _normalised(super().pre_save(model_instance, add))
        setattr(model_instance, self.attname, value)
        return value


def _normalised(value: Any) -> Any:
    return normalised(value) if isinstance(value, str) else value


class StoredMessageField(models.JSONField):
    """StoredMessage stored as {"text", "arguments", "quote"}, without empty parts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"default": StoredMessage, "blank": True, **options})

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> StoredMessage | None:
        if value is None:  # no row found by an outer join
            return None
        return StoredMessage(**super().from_db_value(value, expression, connection))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        stored = value.to_json() if isinstance(value, StoredMessage) else value
        return super().get_db_prep_value(stored, connection, prepared)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        options.pop("default", None)
        options.pop("blank", None)
        return name, path, args, options

    def to_python(self, value: Any) -> StoredMessage:
        return value if isinstance(value, StoredMessage) else StoredMessage(**(value or {}))

    def value_to_string(self, obj: Any) -> Any:
        return self.value_from_object(obj).to_json()


class SecretField(models.TextField):
    """Text that is encrypted in the database with a key derived from BERTH_SECRET_KEY. It reads as "" after
    that key was changed. Not for filters.
    """

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str:
        try:
            return decrypt(SECRETS, value) if value else ""
        except Undecipherable:
            log.warning("secret.unreadable", hint="BERTH_SECRET_KEY was changed; set the secret again.")
            return ""

    def get_prep_value(self, value: Any) -> Any:
        return encrypt(SECRETS, value) if value else ""


SentenceField = StoredMessageField  # its name in older migrations
