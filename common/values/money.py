"""Formats amounts of money in the installation's currency and the reader's language."""

from decimal import Decimal

from babel.numbers import format_currency, is_currency
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import get_language, to_locale

USUAL_LANGUAGE = "en"


def read_currency(code: str) -> str:
    """Return the ISO 4217 code `code`, or "". Raises ImproperlyConfigured."""
    if code and not is_currency(code):
        raise ImproperlyConfigured(
            f"BERTH_CURRENCY={code[:20]!r} is no currency. Use a code of ISO 4217 like EUR, KRW or JPY, or none."
        )
    return code


def format_money(amount: Decimal | str) -> str:
    """Return the amount with all its decimals, "€99.50"; a plain number without a currency."""
    if not settings.BERTH_CURRENCY:
        return str(amount)
    return format_currency(
        Decimal(amount),
        settings.BERTH_CURRENCY,
        locale=to_locale(get_language() or USUAL_LANGUAGE),
        decimal_quantization=False,
    )
