"""Amounts of money in the languages of users."""

from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import override

from common.values.money import format_money, read_currency


@pytest.mark.parametrize(
    ("currency", "language", "amount", "text"),
    [
        ("", "en", "1234.50", "1234.50"),
        ("EUR", "en", "1234.50", "€1,234.50"),
        ("EUR", "en", "0.000125", "€0.000125"),
        ("KRW", "ko", "50000.00", "₩50,000"),
        ("JPY", "ja", "1234.50", "¥1,234.5"),
        ("USD", "ko", "99", "US$99.00"),
    ],
)
def test_amounts_are_read_in_ones_own_language(
    settings: Any, currency: str, language: str, amount: str, text: str
) -> None:
    settings.BERTH_CURRENCY = currency
    with override(language):
        assert format_money(Decimal(amount)).replace("￥", "¥") == text


def test_without_a_language_it_is_english(settings: Any) -> None:
    settings.BERTH_CURRENCY = "EUR"
    with override(None):
        assert format_money("2.00") == "€2.00"


def test_a_currency_is_a_known_code_or_none() -> None:
    assert [read_currency(code) for code in ("", "EUR", "KRW")] == ["", "EUR", "KRW"]
    for wrong in ("euro", "€", "XXXX", "eu"):
        with pytest.raises(ImproperlyConfigured, match="BERTH_CURRENCY"):
            read_currency(wrong)
