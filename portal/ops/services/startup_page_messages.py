"""Texts of the start-up page in all languages; translations are not available yet."""

from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from types import MappingProxyType

COOKIE = "berth_language"


@dataclass(frozen=True, slots=True)
class Words:
    """Texts of one language. `stage` takes {seconds}."""

    title: str
    promise: str
    stage: str


WORDS = MappingProxyType(
    {
        "en": Words(
            "Berth is starting",
            "This page opens by itself as soon as Berth answers. Running sessions go on meanwhile.",
            "It has been starting for {seconds} s; the first time takes some minutes.",
        ),
        "ko": Words(
            "Berth를 시작하는 중입니다",
            "Berth가 응답하면 이 페이지가 저절로 열립니다. 실행 중인 세션은 그대로 계속됩니다.",
            "시작한 지 {seconds}초 지났습니다. 처음에는 몇 분이 걸립니다.",
        ),
        "ja": Words(
            "Berthを起動しています",
            "Berthが応答すると、このページは自動的に開きます。実行中のセッションはそのまま続きます。",
            "起動を始めてから{seconds}秒たちました。初回は数分かかります。",
        ),
    }
)


def language_for(cookie: str, accepted: str) -> str:
    """Return the language of the cookie, else the first known one in Accept-Language."""
    names = (part.partition(";")[0].strip().lower()[:2] for part in accepted.split(","))
    return next((name for name in (_chosen(cookie), *names) if name in WORDS), "en")


def _chosen(cookie: str) -> str:
    try:
        found = SimpleCookie(cookie).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
