"""Validation of model instances before they are saved."""

from django.core.exceptions import ValidationError
from django.db.models import Model

from common.errors import InvalidInput


def validate_model(row: Model) -> None:
    """Call `full_clean`, without the password. Raises InvalidInput with the errors of each field."""
    try:
        row.full_clean(exclude=["password"])
    except ValidationError as error:
        raise InvalidInput(error.messages[0], fields=error.message_dict) from error
