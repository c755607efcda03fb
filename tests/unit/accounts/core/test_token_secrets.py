"""Tokens: their format, and refusal of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.core import token_secrets
from common.messaging.live_updates import Audience, Listener


def test_a_new_token_is_read_back() -> None:
    access_key, secret = token_secrets.new_access_key(), token_secrets.new_secret()
    assert token_secrets.split_token(f"{access_key}.{secret}") == (access_key, secret)


@given(st.text(max_size=200))
def test_text_of_another_shape_is_no_token(text: str) -> None:
    assert token_secrets.split_token(text) is None
    assert token_secrets.split_token(f"bk{text}.{text}") is None or len(text) > 40


def test_news_for_everybody_are_heard_by_everybody_and_others_by_their_audience() -> None:
    nobody = Listener(user_id=1, receives_all=False, admin_project_ids=frozenset(), overseen_domain_id=None)
    assert nobody.receives(Audience())
    assert nobody.receives(Audience(owner_id=1, project_id=5))
    assert not nobody.receives(Audience(owner_id=2))
    assert not nobody.receives(Audience(project_id=5))
    assert not nobody.receives(Audience(domain_id=3))


def test_tokens_have_names() -> None:
    assert token_secrets.check_token_name(" laptop ") == "laptop"
    for name in ("", "  ", "a" * 61):
        with pytest.raises(ValueError):
            token_secrets.check_token_name(name)
