"""Model fields: names in normal form, stored messages and encrypted secrets."""

from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from psycopg.errors import UniqueViolation

from common.values.encryption import Undecipherable, decrypt, encrypt
from common.values.stored_message import StoredMessage
from common.values.text import check_text, normalised

MOST_ALIKE = 1000
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


def normalise_names(model: type[models.Model], column: str, *, are_duplicates: bool = False) -> None:
    """Bring existing rows into form C, for migrations, and log changes. A row whose name is taken
    then gets a suffix -2, -3 …, whichever row was made first; with `are_duplicates`, where such
    rows mean the same, it is deleted. Idempotent.
    """
    rows = model._default_manager.filter(**{f"{column}__regex": r"[^\x01-\x7f]"}).order_by("pk")
    for key, stored in rows.values_list("pk", column):
        if (wanted := normalised(stored)) == stored:
            continue
        row = model._default_manager.filter(pk=key)
        became = _rename(row, column, wanted, most=1 if are_duplicates else MOST_ALIKE)
        if became is None:
            row.delete()
        log.warning(
            "names.normalised", table=model._meta.db_table, key=str(key), column=column, was=ascii(stored),
            now=ascii(became) if became is not None else "deleted: another row says the same",
        )  # fmt: skip


def _rename(row: models.QuerySet[Any], column: str, wanted: str, most: int) -> str | None:
    """Return the new name of `row`, after at most `most` tries; None if `most` is 1 and the name is
    taken. Raises IntegrityError if all are taken, or on another constraint.
    """
    length: int = getattr(row.model._meta.get_field(column), "max_length", 0)
    for number in range(1, most + 1):
        ending = f"-{number}" if number > 1 else ""
        name = wanted[: length - len(ending)] + ending
        try:
            with transaction.atomic():
                row.update(**{column: name})
            return name
        except IntegrityError as error:
            is_last = number == most > 1
            if is_last or not isinstance(error.__cause__, UniqueViolation):
                raise
    return None


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
