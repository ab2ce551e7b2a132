"""The sample handlers answer every case as the other languages do."""

from __future__ import annotations

import base64
import re
from contextlib import nullcontext
from typing import Any, Iterator

import pytest

import answers
import builds
import messages
import payments
import receipts
from cases import body, canonical, load
from hookonce import Plan
from hookonce.keys import fact_of, identity, item_key, once_key
from hookonce.protocol import Entry
from hookonce.rules import check_answer

ENTRIES: dict[str, Entry] = {
    "payments": payments.lambda_handler,
    "messages": messages.lambda_handler,
    "builds": builds.lambda_handler,
    "answers": answers.lambda_handler,
    "receipts": receipts.lambda_handler,
}


def handler_cases() -> Iterator[Any]:
    for name, entry in ENTRIES.items():
        file = load(f"{name}.json")
        for case in file["cases"]:
            event = {**file["event"], **case.get("event", {}), "body_base64": base64.b64encode(body(case)).decode()}
            yield pytest.param(entry, event, case, id=f"{name}: {case['name']}")


@pytest.mark.parametrize(("entry", "event", "case"), list(handler_cases()))
def test_the_answer_is_the_expected_one(entry: Entry, event: dict[str, Any], case: dict[str, Any]) -> None:
    request = {"version": 1, "request": "r-1", "event": event}
    answer = entry(request, None)
    reads: Any = answer.get("reads", [])
    if "reads" in answer:
        stored = {identity(item): item["item"] for item in case.get("items", [])}
        items = [{**key, "item": stored.get(identity(key))} for key in reads]
        second = entry({**request, "items": items}, None)
        assert "error" in second or second["fact"] == answer["fact"]
        answer = second
    assert answer.pop("request") == "r-1"
    if "error" in answer:
        # Where a language noticed it is its own.
        failure: Any = answer["error"]
        answer = {"error": {name: part for name, part in failure.items() if name != "at"}}
    if "writes" in answer:
        fact = answer.pop("fact")
        answer = {"fact": fact, "reads": reads, "plan": canonical(answer)}
    expected = case["expect"]
    assert answer == ({**expected, "plan": canonical(expected["plan"])} if "plan" in expected else expected)


def test_keys_are_those_of_the_worker() -> None:
    keys = load("keys.json")
    for case in keys["items"]:
        assert item_key(case["tenant"], case["kind"], case["parts"]).text == case["key"]
    for case in keys["once"]:
        first = item_key(case["tenant"], case["kind"], case["parts"])
        assert once_key(first, case["record"], case["generation"]).text == case["key"]
    for case in keys["facts"]:
        assert fact_of(*case["parts"]).text == case["fact"]


def test_effects_match_the_cases() -> None:
    cases = load("effects.json")
    for case in cases["effects"]:
        payload = base64.b64decode(case["payload_base64"]) if "payload_base64" in case else case["payload"]
        others = {field: case[field] for field in ("method", "path") if field in case}
        plan = Plan()
        plan.effect(case["effect"], case["destination"], payload, **others)
        assert plan.to_json()["effects"] == [case["expect"]], case["name"]
    for name in cases["names"]["valid"]:
        Plan().effect(name, name, {})
    for path in cases["paths"]["valid"]:
        Plan().effect("e", "d", {}, path=path)
    for name in cases["names"]["refused"]:
        for names in [(name, "d"), ("e", name)]:
            with pytest.raises(ValueError):
                Plan().effect(*names, {})
    for path in cases["paths"]["refused"]:
        with pytest.raises(ValueError):
            Plan().effect("e", "d", {}, path=path)


@pytest.mark.parametrize("case", load("refused.json")["cases"], ids=lambda case: case["name"])
def test_the_kit_refuses_what_the_worker_refuses(case: dict[str, Any]) -> None:
    reads = case.get("reads", [])
    answer = case.get("plan", {"reads": reads})
    answer = {"fact": case.get("fact", "f"), "when_condition_fails": "retry", **answer}
    with pytest.raises(AssertionError, match=re.escape(case["says"])) if "code" in case else nullcontext():
        check_answer(answer, load("refused.json")["tenant"], reads)
