"""What would silently have a wrong effect."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Callable

import pytest

from hookonce import Event, Fact, ItemKey, Items, OnceKey, Permanent, Plan, TableKey, fact_of
from hookonce.event import Document
from hookonce.keys import identity, item_key
from hookonce.protocol import ReadKey
from hookonce.rules import check_answer
from hookonce.runtime import _invoke
from hookonce.testing import make_event, play
from hookonce.values import encode

ORDER = TableKey("orders", {"number": 17, "shop": "acme"})


class Currency(str, Enum):
    EUR = "eur"


class Level(IntEnum):
    ONE = 1


def test_a_second_version_brings_nothing_back() -> None:
    items = Items([{**ORDER.to_json(), "item": {"epoch": {"N": "2"}, "seq": {"N": "3"}}}])
    plan = Plan()
    plan.put(ORDER, {}).newer_than(items, "epoch", 1, tie="skip").newer_than(items, "seq", 9, tie="skip")
    assert plan.to_json()["writes"] == []


def test_an_item_of_a_table_is_absent_without_its_own_key_attribute() -> None:
    assert Plan().put(ORDER, {}).if_absent().to_json()["condition"] == [{"absent": "number"}]
    assert Plan().check(ORDER).if_present().to_json()["condition"] == [{"present": "number"}]
    assert Plan().put(ItemKey("a#b#c"), {}).if_absent().to_json()["condition"] == [{"absent": "pk"}]
    with pytest.raises(ValueError, match="at least one attribute"):
        TableKey("orders", {})


def test_a_member_of_an_enum_is_its_value_everywhere() -> None:
    assert item_key("t", "k", (Currency.EUR, Level.ONE)).text == "t#k#eur#1"
    assert encode([Currency.EUR, Level.ONE]) == {"L": [{"S": "eur"}, {"N": "1"}]}
    assert type(encode(Currency.EUR)["S"]) is str


@pytest.mark.parametrize("length", [1, 200])
def test_half_of_a_surrogate_pair_is_no_text(length: int) -> None:
    half = "\ud83d" * length
    refused: list[Callable[[], object]] = [
        lambda: fact_of(half),
        lambda: encode(half),
        lambda: encode({half: 1}),
        lambda: check_answer({"fact": half}, "test", []),
        lambda: Plan().effect("e", "d", half),
        lambda: Plan().effect("e", "d", {"lines": [{half: 1}]}),
        lambda: Plan().effect("e", "d", ["\ud83d", "\ude00"]),
    ]
    for refuse in refused:
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            refuse()
    plan = Plan()
    plan.effect("e", "d", "\U0001f600" * length)
    assert plan.to_json()["effects"] == [{"effect": "e", "destination": "d", "payload": "\U0001f600" * length}]


def test_a_text_is_no_list() -> None:
    with pytest.raises(TypeError, match="list of names"):
        Plan().update(ORDER, remove="old")
    with pytest.raises(TypeError, match="list of values"):
        Plan().check(ORDER).if_one_of("state", "paid")


def test_a_tie_is_one_of_two_words() -> None:
    tie: Any = "sometimes"
    with pytest.raises(ValueError, match="write or skip"):
        Plan().put(ORDER, {}).newer_than(Items([{**ORDER.to_json(), "item": None}]), "epoch", 1, tie=tie)


@pytest.mark.parametrize("number", ["17", "17.0", "1.7e1", "0170e-1"])
def test_one_number_is_one_key(number: str) -> None:
    assert identity({"table": "t", "key": {"n": {"N": number}}}) == identity({"table": "t", "key": {"n": {"N": "17"}}})
    assert identity({"table": "t", "key": {"n": {"N": number}}}) != identity({"table": "t", "key": {"n": {"N": "-17"}}})
    assert identity({"table": "t", "key": {"n": {"N": "0.0"}}}) == identity({"table": "t", "key": {"n": {"N": "-0"}}})


def test_an_answer_that_cannot_be_encoded_fails_one_invocation() -> None:
    kind, data = _invoke(lambda request, context: {"fact": "\ud800"}, b"{}")
    assert kind == "error" and b"UnicodeEncodeError" in data


def test_no_error_holds_what_a_provider_chose() -> None:
    with pytest.raises(LookupError) as missing:
        Items().get(ItemKey("acme#lead#secret"))
    assert "secret" not in str(missing.value) and "domain table" in str(missing.value)


def played(change: Any) -> None:
    class Rule:
        def fact(self, event: Event) -> Fact:
            return fact_of("x")

        def reads(self, event: Event) -> list[ReadKey]:
            return change if isinstance(change, list) else []

        def plan(self, event: Event, items: Items) -> Plan:
            plan = Plan()
            if callable(change):
                change(plan, event)
            return plan

    play(make_event("a", {}), Rule())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ([ItemKey("other#a#b")], "another tenant"),
        (lambda plan, event: plan.put(ItemKey("other#a#b"), {}), "another tenant"),
        (lambda plan, event: plan.put(event.item_key("a"), {"pk": "b"}), "a key attribute"),
        (lambda plan, event: plan.update(ORDER, set={"shop": Decimal(1)}), "a key attribute"),
        (lambda plan, event: plan.check(event.item_key("a")).if_absent(""), "by an empty text"),
        (lambda plan, event: plan.check(event.item_key("a")).if_present(""), "by an empty text"),
        (lambda plan, event: plan.check(event.item_key("a")).if_one_of("state", []), "with no value"),
        (lambda plan, event: [plan.effect("e", "d", 1) for _ in range(2)], "have one name"),
    ],
)
def test_the_kit_refuses_what_the_answer_alone_shows(change: Any, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        played(change)
    played(lambda plan, event: plan.update(event.item_key("a"), set={"x": 1}))


def test_the_kit_takes_the_longest_keys() -> None:
    longest = [
        TableKey("o", {"pk": b"a" * 2_048}),
        TableKey("o", {"sk": "é" * 512, "pk": "é" * 1_024}),
        TableKey("o", {"pk": b"a" * 2_048, "sk": 1}),
        item_key("test", "a" * 2_042, ()),
    ]
    played(longest)
    played(lambda plan, event: [plan.put(key, {}) for key in longest])


@pytest.mark.parametrize("reads", [None, "key", [OnceKey("test#a#b")]])
def test_reads_must_be_returned(reads: Any) -> None:
    class Forgetful:
        def fact(self, event: Event) -> Fact:
            return fact_of("x")

        def reads(self, event: Event) -> Any:
            return reads

        def plan(self, event: Event, items: Items) -> Plan:
            return Plan()

    with pytest.raises(TypeError, match=r"reads\(\) must return"):
        play(make_event("a", {}), Forgetful())


def test_a_handler_may_leave_the_fact_to_its_route() -> None:
    class Rule:
        def fact(self, event: Event) -> Fact:
            return fact_of("")

        def reads(self, event: Event) -> list[ReadKey]:
            return []

        def plan(self, event: Event, items: Items) -> Plan:
            return Plan()

    event = make_event("a", {})
    assert play(event, Rule(), route_names_fact=True).fact == ""
    with pytest.raises(AssertionError, match="FACT_MISSING"):
        play(event, Rule())


def test_a_body_that_does_not_fit_is_told_by_the_path_that_the_code_asks_for_and_by_no_value() -> None:
    body = {"data": {"object": {"lines": [{"amount": 1}, {"amount": "hush"}], "half": "\ud83d", "hush": 1}}}

    def at(read: Callable[[Document], object], body: object = body) -> str | None:
        with pytest.raises(Permanent) as failed:
            read(make_event("a", json.dumps(body).encode()).read("BAD"))
        assert failed.value.code == "BAD" and "hush" not in str(failed.value)
        return failed.value.at

    assert at(lambda it: it.text("data", "object", "id")) == "data.object.id"
    assert at(lambda it: it.at("data", "other", "id")) == "data.other"
    assert at(lambda it: [line.integer("amount") for line in it.list("data", "object", "lines")]) == (
        "data.object.lines[1].amount"
    )
    assert at(lambda it: it.text("data", "object", "half")) == "data.object.half"
    assert at(lambda it: it.flag("data", "object")) == "data.object"
    assert at(lambda it: it.text("a"), [1]) is None, "the whole body is no object"
    assert at(lambda it: it.text("a name")) is None, "it is no path"
    assert at(lambda it: it.text("x" * 257)) is None


def test_an_answer_and_a_test_name_the_field() -> None:
    class Reads:
        def fact(self, event: Event) -> Fact:
            return fact_of(event.read("BAD").text("data", "id"))

        def reads(self, event: Event) -> list[ReadKey]:
            return []

        def plan(self, event: Event, items: Items) -> Plan:
            return Plan()

    assert play(make_event("a", {"data": {}}), Reads()).error == {"code": "BAD", "retryable": False, "at": "data.id"}
    assert play(make_event("a", b"no JSON"), Reads()).error == {"code": "BAD", "retryable": False}


def test_a_row_of_a_table_of_your_own_is_created_unless_it_is_there() -> None:
    plan = Plan()
    plan.create_missing(ORDER, {"state": "paid"}, Items([{**ORDER.to_json(), "item": None}]))
    assert plan.to_json()["writes"] == [
        {**ORDER.to_json(), "action": {"put": {"state": {"S": "paid"}}}, "condition": [{"absent": "number"}]}
    ]
    plan = Plan()
    plan.create_missing(ORDER, {"state": "paid"}, Items([{**ORDER.to_json(), "item": {"state": {"S": "new"}}}]))
    assert plan.to_json()["writes"] == [], "a forced replay finds it"


def test_a_key_that_outlives_the_event_is_not_created_as_one_of_the_event() -> None:
    once: Any = make_event("a", {}).once("ledger", "in_1")
    for key in (ORDER, ItemKey("a#b#c")):
        wrong: Any = key
        with pytest.raises(TypeError, match="create_missing"):
            Plan().create(wrong, {})
    with pytest.raises(TypeError, match="outlives"):
        Plan().create_missing(once, {}, Items([]))
