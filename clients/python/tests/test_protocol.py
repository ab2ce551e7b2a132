"""The entry, the test kit and the runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import payments
from hookonce import IGNORE, Event, Fact, Ignore, ItemKey, Items, Plan, Retryable, fact_of, handler
from hookonce.testing import make_event, play

PACKAGE = Path(__file__).resolve().parents[1]
REFUND = {"data": {"object": {"id": "ch_1", "currency": "eur", "amount_refunded": 700}}}


class Counter:
    """Counts events. Its parts can be replaced, to see what a wrong handler does."""

    def fact(self, event: Event) -> Fact | Ignore:
        return fact_of(event.key)

    def reads(self, event: Event) -> list[ItemKey]:
        return [event.item_key("count", "all")]

    def plan(self, event: Event, items: Items) -> Plan:
        plan = Plan()
        plan.update(event.item_key("count", "all"), add={"events": 1}).blind()
        return plan


def request(**changes: Any) -> dict[str, Any]:
    return {"version": 1, "request": "r-9", "event": make_event("a", {}).to_json(), **changes}


def test_a_request_of_another_version_is_refused_and_may_be_tried_again() -> None:
    event = {**make_event("a", {}).to_json(), "version": 2}
    for changed in (request(version=2), request(event=event), {**request(), "version": None}):
        error = {"code": "REQUEST_VERSION_UNKNOWN", "retryable": True}
        assert handler(Counter())(changed, None) == {"request": "r-9", "error": error}


def test_a_request_of_every_release_is_read() -> None:
    releases = list((PACKAGE.parents[1] / "tests/stored").glob("*/stored.json"))
    assert releases
    for stored in releases:
        first, second = json.loads(stored.read_text("utf-8"))["requests"]
        entry, shown = handler(Counter()), {"request": "r-1", "fact": "evt_1"}
        assert entry(first, None) == {**shown, "reads": [{"key": "acme#count#all"}]}
        assert "writes" in entry(second, None)


def test_a_handler_plans_only_once_its_items_are_there() -> None:
    entry = handler(Counter())
    shapes: list[dict[str, Any]] = [{}, {"items": None}, {"items": []}]
    for shape in shapes:
        assert entry(request(**shape), None) == {
            "request": "r-9",
            "fact": "evt_1",
            "reads": [{"key": "test#count#all"}],
        }
    shown = [{"key": "test#count#all", "item": None}]
    assert "writes" in entry(request(items=shown), None)


def test_forgetting_to_return_is_an_error_and_never_ignores_an_event() -> None:
    class Forgetful(Counter):
        def fact(self, event: Event) -> Any:
            return None

    class Planless(Counter):
        def plan(self, event: Event, items: Items) -> Any:
            return None

    with pytest.raises(TypeError, match="fact"):
        handler(Forgetful())(request(), None)
    with pytest.raises(TypeError, match="plan"):
        play(make_event("a", {}), Planless())


def test_a_plan_is_played_in_both_rounds_with_the_items_of_the_tables() -> None:
    event = make_event("charge.refunded", REFUND, provider="stripe")
    played = play(event, payments.Payments(), {event.item_key("refund", "ch_1"): {"refunded_minor": 200}})
    assert played.fact == "charge.refunded#ch_1#700"
    assert played.reads == [{"key": "stripe#refund#ch_1"}]
    assert '"-500"' in played.snapshot() and played.snapshot().endswith("}\n")
    assert play(make_event("other", {}), payments.Payments()).ignored


def test_the_readme_shows_the_example_and_its_test() -> None:
    readme = (PACKAGE / "README.md").read_text("utf-8")
    code = [block.split("```")[0] for block in readme.split("```python\n")[1:]]
    assert code[0] == (PACKAGE / "examples/contracts.py").read_text("utf-8")
    shown: dict[str, Any] = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), shown)
    assert [write["key"] for write in shown["played"].plan["writes"]] == ["test#contract#c_1", "test#customer#cus_1"]


def test_a_failure_is_played_with_its_code() -> None:
    class Busy(Counter):
        def plan(self, event: Event, items: Items) -> Plan:
            raise Retryable("LIMIT_REACHED")

    played = play(make_event("a", {}), Busy())
    assert (played.error, played.plan, played.ignored) == ({"code": "LIMIT_REACHED", "retryable": True}, None, False)


def test_the_kit_finds_what_the_worker_would_refuse() -> None:
    class Restless(Counter):
        calls = 0

        def fact(self, event: Event) -> Fact | Ignore:
            self.calls += 1
            return fact_of(self.calls)

    class Careless(Counter):
        def plan(self, event: Event, items: Items) -> Plan:
            plan = Plan()
            plan.put(event.item_key("count", "all"), {})
            return plan

    class Twice(Counter):
        def plan(self, event: Event, items: Items) -> Plan:
            plan = super().plan(event, items)
            plan.check(event.item_key("count", "all")).if_present()
            return plan

    class Changing(Counter):
        def plan(self, event: Event, items: Items) -> Plan:
            return Plan() if items.get(event.item_key("count", "all")) else super().plan(event, items)

    for wrong, why in ((Restless(), "pure"), (Careless(), "was read"), (Twice(), "second time")):
        with pytest.raises(AssertionError, match=why):
            play(make_event("a", {}), wrong)
    assert play(make_event("a", {}), Changing()).plan is not None


def test_ignoring_is_a_word_of_its_own() -> None:
    class Picky(Counter):
        def fact(self, event: Event) -> Fact | Ignore:
            return IGNORE

    assert handler(Picky())(request(), None) == {"request": "r-9", "ignore": True}


class RuntimeApi(BaseHTTPRequestHandler):
    """Hands out the invocations of the server and keeps what comes back."""

    server: Any

    def do_GET(self) -> None:
        if not self.server.invocations:
            self.send_error(410)
            return
        data = json.dumps(self.server.invocations.pop(0)).encode()
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", "i-1")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.answers.append((self.path.rsplit("/", 2)[1:], json.loads(data)))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.sockets
def test_the_runtime_answers_one_invocation_after_the_other() -> None:
    event = make_event("invoice.paid", {}, provider="stripe").to_json()
    with HTTPServer(("127.0.0.1", 0), RuntimeApi) as server:
        server.invocations = [{}, request(event=event)]  # type: ignore[attr-defined]
        server.answers = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        environment = {
            **os.environ,
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}/key",
            "PYTHONPATH": str(PACKAGE / "src"),
        }
        command = [sys.executable, "-m", "hookonce.runtime", "payments.lambda_handler"]
        ended = subprocess.run(command, env=environment, cwd=PACKAGE / "examples", capture_output=True, timeout=30)
        server.shutdown()
        thread.join()
    # The Runtime API has no third invocation, so the process ends with an error.
    assert ended.returncode == 1
    (failed, answered) = server.answers  # type: ignore[attr-defined]
    assert failed[0] == ["i-1", "error"] and failed[1]["errorType"] == "KeyError"
    error = {"code": "INVOICE_UNREADABLE", "retryable": False, "at": "data"}
    assert answered == (["i-1", "response"], {"request": "r-9", "error": error})
