"""Callbacks are delivered at least once, in order and signed, and never to private addresses."""

import hashlib
import hmac
import socket
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist

from accounts.models import User
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput
from common.models import AuditEntry
from sessions_app.admission.service import enqueue_batch
from sessions_app.callbacks import delivery, http_post
from sessions_app.callbacks.delivery import deliver_callbacks, find_callback_url, list_deliveries
from sessions_app.callbacks.http_post import post
from sessions_app.callbacks.signing_secret import make_callback_secret
from sessions_app.core.callbacks import CallbackNetworks, Fault, parse_target
from sessions_app.core.request import parse_request
from sessions_app.core.states import Reason
from sessions_app.launch.terminator import end_session
from sessions_app.models import CallbackDelivery, ComputeSession, SessionCallback, SessionTransition
from sessions_app.termination.service import begin_termination
from sessions_app.web.personal import EXAMPLE
from tests.doubles.callback_server import CallbackServer
from tests.factories import actor_for
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture(scope="module")
def running() -> Iterator[CallbackServer]:
    server = CallbackServer()
    yield server
    server.close()


@pytest.fixture
def server(running: CallbackServer, settings: Any) -> CallbackServer:
    running.heard.clear()
    running.fault = ""
    settings.BERTH_CALLBACK_NETWORKS = LOOPBACK
    return running


@pytest.fixture
def secret(place: Place) -> str:
    return make_callback_secret(actor=actor_for(place.owner))


def batch(place: Place, server: CallbackServer, **changes: object) -> ComputeSession:
    return place.run(type="batch", command="make", callback_url=server.url, **changes)


def fail(session: ComputeSession, reason: Reason = Reason.COMMAND_FAILED) -> None:
    begin_termination(session.pk, reason=reason, actor=SYSTEM, exit_code=3)
    end_session(session.pk)


def states_of(session: ComputeSession) -> list[str]:
    return list(list_deliveries(session).values_list("state", flat=True))


def test_a_session_tells_its_start_its_retries_and_its_end(
    place: Place, server: CallbackServer, secret: str
) -> None:
    session = batch(place, server, max_retries=1, name="train")
    deliver_callbacks()
    fail(session)
    deliver_callbacks()
    deliver_callbacks()
    assert [each.told["event"] for each in server.heard] == ["session.started", "session.retried"]

    place.end(session)
    deliver_callbacks()
    told = server.heard[-1].told
    assert told["event"] == "session.ended"
    assert told["session"]["status"] == "CANCELLED"
    assert told["session"]["outcome"] == "cancelled"
    assert told["session"]["name"] == "train"
    assert told["session"]["url"].endswith(f"/sessions/{session.pk}/")
    assert states_of(session) == ["delivered"] * 3
    assert not SessionCallback.objects.get().is_open


def test_an_end_says_how_it_was(place: Place, server: CallbackServer, secret: str) -> None:
    fail(batch(place, server))
    deliver_callbacks()
    started, ended = (each.told["session"] for each in server.heard)
    assert (started["outcome"], started["exit_code"]) == (None, None)
    assert (ended["outcome"], ended["exit_code"], ended["reason"]) == ("failed", 3, "command_failed")


def test_signature_is_verified_with_the_secret(place: Place, server: CallbackServer, secret: str) -> None:
    batch(place, server)
    deliver_callbacks()
    heard = server.heard[0]
    told: dict[str, Any] = {}
    exec(EXAMPLE, told)  # what people read, word for word
    is_from_berth = told["is_from_berth"]
    assert is_from_berth(secret, heard.headers, heard.body)
    assert not is_from_berth(secret, heard.headers, heard.body + b" ")
    assert not is_from_berth("other", heard.headers, heard.body)
    assert heard.headers["Berth-Delivery"] == heard.told["id"] == str(CallbackDelivery.objects.get().pk)
    assert (heard.path, heard.headers["Berth-Event"]) == ("/hook?a=1", "session.started")


@pytest.mark.parametrize("fault", [500, 404, 301, "redirects", "closes", "garbage"])
def test_refused_delivery_is_retried_under_the_same_id(
    place: Place, server: CallbackServer, secret: str, fault: str | int
) -> None:
    server.fault = fault
    session = batch(place, server)
    fail(session)
    deliver_callbacks()
    deliver_callbacks()
    assert len(server.heard) == 1
    assert states_of(session) == ["waiting"] * 2
    assert all(each.path == "/hook?a=1" for each in server.heard)

    server.fault = ""
    with clock.frozen_at(clock.now() + timedelta(seconds=11)):
        deliver_callbacks()
    first, again, end = server.heard
    assert first.told["id"] == again.told["id"]
    assert end.told["event"] == "session.ended"
    assert states_of(session) == ["delivered"] * 2


def test_deliveries_of_a_session_keep_their_order(place: Place, server: CallbackServer, secret: str) -> None:
    server.fault = 503
    session = batch(place, server)
    deliver_callbacks()
    fail(session)
    with clock.frozen_at(clock.now() + timedelta(seconds=11)):
        deliver_callbacks()
    assert {each.told["event"] for each in server.heard} == {"session.started"}


def test_the_order_is_that_of_history_though_the_clock_was_set_back(
    place: Place, server: CallbackServer, secret: str
) -> None:
    session = batch(place, server)
    SessionTransition.objects.filter(session=session).update(happened_at=clock.now() + timedelta(hours=1))
    fail(session)
    deliver_callbacks()
    assert [each.told["event"] for each in server.heard] == ["session.started", "session.ended"]
    assert [each.news for each in list_deliveries(session)] == ["session.started", "session.ended"]


def test_delivery_is_given_up_after_a_day_and_the_next_is_sent(
    place: Place, server: CallbackServer, secret: str
) -> None:
    server.fault = 500
    session = batch(place, server)
    deliver_callbacks()
    with clock.frozen_at(clock.now() + timedelta(hours=25)):
        deliver_callbacks()
        assert states_of(session) == ["given_up"]
        server.fault = ""
        fail(session)
        deliver_callbacks()
    assert states_of(session) == ["given_up", "delivered"]


def test_a_worker_that_dies_while_it_tells_loses_nothing(
    place: Place, server: CallbackServer, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = batch(place, server)
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "_settle", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            deliver_callbacks()
    assert (len(server.heard), states_of(session)) == (1, ["waiting"])

    with clock.frozen_at(clock.now() + timedelta(seconds=11)):
        deliver_callbacks()
    assert server.heard[0].told["id"] == server.heard[1].told["id"]
    assert states_of(session) == ["delivered"]


def test_many_simultaneous_ends_are_delivered(place: Place, server: CallbackServer, secret: str) -> None:
    sessions = [batch(place, server, resources={"cpu": 0.5, "mem": "64m"}) for _ in range(5)]
    for session in sessions:
        fail(session, Reason.COMMAND_FINISHED)
    deliver_callbacks()
    assert len(server.heard) == 10
    assert not CallbackDelivery.objects.exclude(state="delivered").exists()


def test_many_that_are_asked_for_at_once_tell_the_same_address(
    place: Place, server: CallbackServer, secret: str
) -> None:
    asked = [
        parse_request(place.request(name=f"train-{number}", callback_url=server.url)) for number in range(3)
    ]
    ids = enqueue_batch(actor=actor_for(place.owner), requests=asked)
    told = set(SessionCallback.objects.values_list("pk", "url", "host"))
    assert told == {(each, server.url, parse_target(server.url).host) for each in ids}


def test_a_domain_tells_so_many_in_a_minute(
    place: Place, server: CallbackServer, secret: str, settings: Any
) -> None:
    settings.BERTH_CALLBACKS_PER_MINUTE = 1
    session = batch(place, server)
    fail(session)
    deliver_callbacks()
    assert len(server.heard) == 1
    with clock.frozen_at(clock.now() + timedelta(seconds=61)):
        deliver_callbacks()
    assert len(server.heard) == 2


def test_a_closed_account_tells_nothing_more(place: Place, server: CallbackServer, secret: str) -> None:
    session = batch(place, server)
    User.objects.filter(pk=place.owner.pk).update(is_active=False)
    deliver_callbacks()
    assert (server.heard, states_of(session)) == ([], ["given_up"])


@pytest.mark.parametrize("fault", ["hangs", "drips"])
def test_slow_answers_have_an_end(
    server: CallbackServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_post, "WHOLE_S", 0.5)
    server.fault = fault
    answer = post(parse_target(server.url), b"{}", {}, CallbackNetworks(LOOPBACK))
    assert answer.fault is Fault.TIMEOUT


def test_of_a_huge_answer_the_status_alone_is_read(server: CallbackServer) -> None:
    server.fault = "huge"
    assert post(parse_target(server.url), b"{}", {}, CallbackNetworks(LOOPBACK)).status == 200


def test_machines_around_us_are_not_spoken_to(server: CallbackServer) -> None:
    port = parse_target(server.url).port
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        answer = post(parse_target(f"http://{host}:{port}/"), b"{}", {}, CallbackNetworks())
        assert answer.fault in (Fault.FORBIDDEN, Fault.NAME), host
    assert server.heard == []


def test_a_name_is_asked_for_once_and_what_was_looked_at_is_called(
    server: CallbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, real = parse_target(server.url).port, socket.getaddrinfo
    answers = iter(("127.0.0.1", "10.0.0.1"))

    def rebinding(host: str, *arguments: Any, **options: Any) -> Any:
        return real(next(answers) if host == "rebinds.example" else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    assert (
        post(parse_target(f"http://rebinds.example:{port}/x"), b"{}", {}, CallbackNetworks(LOOPBACK)).status
        == 204
    )
    assert server.heard[0].headers["Host"] == f"rebinds.example:{port}"
    assert (
        post(parse_target(f"http://rebinds.example:{port}/x"), b"{}", {}, CallbackNetworks(LOOPBACK)).fault
        is Fault.FORBIDDEN
    )


def test_unknown_names_closed_ports_and_plain_http_behind_https_are_told_apart(
    server: CallbackServer,
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = unused.getsockname()[1]
    assert (
        post(parse_target("http://absent.invalid/"), b"", {}, CallbackNetworks(LOOPBACK)).fault is Fault.NAME
    )
    assert (
        post(parse_target(f"http://127.0.0.1:{closed}/"), b"", {}, CallbackNetworks(LOOPBACK)).fault
        is Fault.CONNECT
    )
    secure = server.url.replace("http:", "https:")
    assert post(parse_target(secure), b"", {}, CallbackNetworks(LOOPBACK)).fault is Fault.TLS


def test_callback_urls_that_could_never_be_reached_are_refused(
    place: Place, server: CallbackServer, settings: Any
) -> None:
    with pytest.raises(Conflict, match="no callback secret"):
        place.enqueue(callback_url=server.url)
    make_callback_secret(actor=actor_for(place.owner))
    settings.BERTH_CALLBACK_NETWORKS = ()
    with pytest.raises(InvalidInput, match="not called"):
        place.enqueue(callback_url="http://169.254.169.254/latest/meta-data/")
    settings.BERTH_CALLBACK_NETWORKS = LOOPBACK
    settings.BERTH_CALLBACK_FORBIDDEN_NETWORKS = (ip_network("127.0.0.1/32"),)
    with pytest.raises(InvalidInput, match="not called"):
        place.enqueue(callback_url=server.url)
    assert not SessionCallback.objects.exists()


def test_an_address_is_its_owners_alone(place: Place, server: CallbackServer, secret: str) -> None:
    session = place.enqueue(callback_url=server.url)
    assert find_callback_url(actor_for(place.owner), session) == server.url
    assert find_callback_url(SYSTEM, session) == ""
    assert server.url not in str(list(AuditEntry.objects.values_list("changes", flat=True)))
    with pytest.raises(ObjectDoesNotExist):
        _ = place.enqueue().callback


def test_another_secret_signs_from_now_on(place: Place, server: CallbackServer, secret: str) -> None:
    batch(place, server)
    newer = make_callback_secret(actor=actor_for(place.owner))
    deliver_callbacks()
    heard = server.heard[0]
    text = heard.headers["Berth-Timestamp"].encode() + b"." + heard.body
    assert secret != newer
    assert (
        heard.headers["Berth-Signature"] == f"v1={hmac.new(newer.encode(), text, hashlib.sha256).hexdigest()}"
    )
