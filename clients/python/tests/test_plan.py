"""The plan builder, values and documents."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal
from typing import Any, Callable

import pytest

from cases import load
from hookonce import Event, ItemKey, Items, OnceKey, Permanent, Plan, Retryable, TableKey, Value, Write
from hookonce.errors import RESERVED, RESERVED_PREFIX
from hookonce.testing import make_event
from hookonce.values import decode, encode

ORDER = TableKey("orders", {"shop": "acme", "number": 17})
ORDER_JSON: dict[str, Any] = {"table": "orders", "key": {"number": {"N": "17"}, "shop": {"S": "acme"}}}
BALANCE = ItemKey("acme#balance#1")


def shown(item: dict[str, Any] | None) -> Items:
    return Items([{**ORDER_JSON, "item": item}])


def only_write(plan: Plan) -> Any:
    writes: Any = plan.to_json()["writes"]
    assert len(writes) == 1
    return writes[0]


def every_kind(items: Items) -> Plan:
    plan = Plan("permanent")
    plan.create(OnceKey("acme#ledger#1"), {"minor": 5})
    plan.update(BALANCE, set={"a": "x"}, add={"minor": -5}, remove=["old"]).blind()
    plan.put(ORDER, {"paid": True, "tags": {"b", "a"}}).as_seen(items, "state", "paid_at")
    plan.delete(TableKey("carts", {"id": b"\x00"})).if_present("id")
    plan.check(ItemKey("acme#customer#1")).if_equals("a", 1).if_differs("b", None).if_one_of("c", ["x", "y"])
    return plan


def a_check_of_a_user_table(items: Items) -> Plan:
    plan = Plan()
    plan.update(ItemKey("acme#note#1"), add={"count": 1})
    plan.check(ORDER).as_seen(items, "state")
    return plan


def sets_under_typed_keys(items: Items) -> Plan:
    cart, plan = TableKey("carts", {"id": b"\x00\xff"}), Plan()
    lines: frozenset[int | Decimal] = frozenset({3, Decimal("2.50")})
    order = plan.put(ORDER, {"lines": lines}).as_seen(items, "lines")
    order.newer_than(items, "version", 9007199254740994, tie="skip")
    changes: dict[str, Value] = {"seen": frozenset({b"\x00"}), "tags": frozenset({"😀", "\uffee", "b"})}
    plan.update(cart, set=changes).as_seen(items, "seen").newer_than(items, "version", "b", tie="skip")
    return plan


BUILT: dict[str, Callable[[Items], Plan]] = {
    "every kind of write and condition": every_kind,
    "a check of an item of a user table, as it was read": a_check_of_a_user_table,
    "sets of every type under typed keys, with a version": sets_under_typed_keys,
}


def test_plans_have_the_form_that_the_cases_show() -> None:
    cases = {case["name"]: case for case in load("plans.json")["cases"]}
    assert cases.keys() == BUILT.keys()
    for name, case in cases.items():
        assert BUILT[name](Items(case["items"])).to_json() == case["plan"], name


@pytest.mark.parametrize("case", load("versions.json")["cases"], ids=str)
def test_an_older_version_never_overwrites_a_newer_one(case: dict[str, Any]) -> None:
    stored, version = case["stored"], case["version"]
    items, plan = shown(None if stored is None else {"version": stored}), Plan()
    number: Any = decode(version)
    plan.put(ORDER, {"state": "paid"}).newer_than(items, "version", number, tie=case["tie"])
    if not case["written"]:
        assert plan.to_json()["writes"] == []
        return
    write = only_write(plan)
    assert write["action"] == {"put": {"state": {"S": "paid"}, "version": version}}
    assert write["condition"] == [{"absent": "version"} if stored is None else {"equals": ["version", stored]}]


@pytest.mark.parametrize("case", load("versions.json")["given"], ids=str)
def test_a_write_that_gives_its_version_another_value_is_refused(case: dict[str, Any]) -> None:
    value: Any = decode(case["value"])
    version: Any = decode(case["version"])
    writes: list[tuple[Write, dict[str, Any]]] = [
        (Plan().put(ORDER, {"version": value}), {"put": {"version": case["value"]}}),
        (Plan().update(ORDER, set={"version": value}), {"update": [{"set": ["version", case["value"]]}]}),
    ]
    for write, action in writes:
        with pytest.raises(ValueError, match="another version") if case["refused"] else nullcontext():
            write.newer_than(shown(None), "version", version, tie="skip")
        assert write.to_json()["action"] == action


def test_a_version_is_stored_once_and_never_forgotten() -> None:
    plan = Plan()
    plan.update(ORDER, set={"version": 7}).newer_than(shown(None), "version", 7, tie="skip")
    assert only_write(plan)["action"] == {"update": [{"set": ["version", {"N": "7"}]}]}
    with pytest.raises(ValueError, match="another version"):
        plan.put(ORDER, {"version": 8}).newer_than(shown(None), "version", 7, tie="skip")
    with pytest.raises(TypeError, match="forgets the version"):
        plan.delete(ORDER).newer_than(shown(None), "version", 7, tie="skip")


def test_an_item_that_lives_longer_than_its_event_is_created_once() -> None:
    lead = ItemKey("acme#lead#1")
    plan = Plan()
    plan.create_missing(lead, {"name": "Ada"}, Items([{"key": lead.text, "item": {"name": {"S": "Ada"}}}]))
    assert plan.to_json()["writes"] == []
    plan.create_missing(lead, {"name": "Ada"}, Items([{"key": lead.text, "item": None}]))
    assert only_write(plan)["condition"] == [{"absent": "pk"}]


def test_items_are_found_whatever_the_order_of_their_key() -> None:
    items = shown({"total": {"N": "12.50"}, "count": {"N": "3"}})
    assert items.get(TableKey("orders", {"number": 17, "shop": "acme"})) == {"total": Decimal("12.50"), "count": 3}
    assert (items.integer(ORDER, "count"), items.integer(ORDER, "none")) == (3, 0)
    assert shown(None).get(ORDER) is None
    with pytest.raises(LookupError, match="did not ask"):
        items.get(BALANCE)


STORED: list[tuple[dict[str, Any], int]] = [
    ({"N": "9223372036854775807"}, 2**63 - 1),
    ({"N": "9223372036854775808"}, 0),
    ({"N": "-9223372036854775808"}, -(2**63)),
    ({"N": "-9223372036854775809"}, 0),
    ({"N": "+7"}, 7),
    ({"N": "-0"}, 0),
    ({"N": "7.0"}, 0),
    ({"N": "7e0"}, 0),
    ({"S": "7"}, 0),
    ({"BOOL": True}, 0),
    ({"NS": ["7"]}, 0),
]


@pytest.mark.parametrize(("typed", "integer"), STORED)
def test_what_is_no_whole_number_of_64_bits_counts_as_zero(typed: dict[str, Any], integer: int) -> None:
    assert shown({"total": typed}).integer(ORDER, "total") == integer


VALUES: list[tuple[Value, dict[str, Any]]] = [
    ("ü#", {"S": "ü#"}),
    (123456789012345678901234567890, {"N": "123456789012345678901234567890"}),
    (Decimal("0.10"), {"N": "0.10"}),
    (b"\xff\x00", {"B": "/wA="}),
    (True, {"BOOL": True}),
    (None, {"NULL": True}),
    (["a", 1, [None]], {"L": [{"S": "a"}, {"N": "1"}, {"L": [{"NULL": True}]}]}),
    ({"a": {"b": False}}, {"M": {"a": {"M": {"b": {"BOOL": False}}}}}),
    (frozenset({"b", "a"}), {"SS": ["a", "b"]}),
    (frozenset({2, Decimal("1.5")}), {"NS": ["1.5", "2"]}),
    (frozenset({b"b", b"a"}), {"BS": ["YQ==", "Yg=="]}),
]


@pytest.mark.parametrize(("value", "typed"), VALUES)
def test_a_value_is_written_and_read_without_loss(value: Value, typed: dict[str, Any]) -> None:
    assert encode(value) == typed
    assert decode(typed) == value


@pytest.mark.parametrize("value", [1.5, frozenset(), {1: "a"}.keys(), Decimal("NaN"), {"a", 1}, object()])
def test_what_would_lose_something_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(value)


def test_a_comparison_with_nothing_is_refused() -> None:
    # Otherwise the write would have no condition, and the plan would be refused for another reason.
    write: Any = Plan().put(ORDER, {"paid": True})
    with pytest.raises(TypeError, match="attribute"):
        write.as_seen(shown(None))


@pytest.mark.parametrize("amount", [True, 1.0, 2**63, "1"])
def test_only_whole_numbers_are_added(amount: Any) -> None:
    with pytest.raises(TypeError):
        Plan().update(BALANCE, add={"minor": amount})


@pytest.mark.parametrize("code", ["", "lower", "A" * 65, "A B"])
def test_a_code_is_a_fixed_word(code: str) -> None:
    with pytest.raises(ValueError, match="a code has"):
        Permanent(code)


def test_a_code_of_hookonce_is_not_a_handlers_own() -> None:
    codes = load("codes.json")
    assert (RESERVED, RESERVED_PREFIX) == (frozenset(codes["reserved"]), codes["reserved_prefix"])
    event = make_event("a", {})
    reserved = [*codes["reserved"], codes["reserved_prefix"], codes["reserved_prefix"] + "CRASHED"]
    for code in reserved:
        for fail in (Permanent, Retryable, event.read):
            with pytest.raises(ValueError, match="a code of hookonce itself"):
                fail(code)
    for code in codes["own"]:
        assert Permanent(code).code == code
        event.read(code)


def test_json_keeps_the_digits_of_its_numbers() -> None:
    body = make_event("a", b'{"a": [1.0, 9007199254740993, 0.10000000000000000001]}').json()
    assert [str(number) for number in body["a"]] == ["1.0", "9007199254740993", "0.10000000000000000001"]


def test_json_holds_any_whole_number_and_refuses_what_python_cannot_hold() -> None:
    long = "1" * 5_000
    body = make_event("a", f"[-0, {long}]".encode()).json()
    assert [str(number) for number in body] == ["-0", long]
    for unfit in (b"[" * 3_000 + b"]" * 3_000, b"1e99999999999999999999", b"NaN"):
        with pytest.raises(ValueError):
            make_event("a", unfit).json()


@pytest.mark.parametrize("depth", [126, 127, 128, 253, 254, 255, 5_000])
def test_what_is_nested_deeply_must_be_json(depth: int) -> None:
    opened, closed = '{"a": [0, ' * depth, "], \"b\": 1}" * depth
    assert make_event("a", f"{opened}1{closed}".encode()).read("BAD").integer("b") == 1
    for broken in (opened, closed, opened + closed, f"{opened}01{closed}", f"{opened}1{closed}]", f'{opened}"{closed}'):
        with pytest.raises(Permanent, match="BAD"):
            make_event("a", broken.encode()).read("BAD")


def test_an_event_survives_the_wire() -> None:
    event = make_event("a", b"\xff", key="k", generation=2, headers={"x": "y"})
    assert Event.from_json(event.to_json()) == event
    assert "255" not in repr(event) and "xff" not in repr(event)


def test_a_document_refuses_what_does_not_fit() -> None:
    document = make_event("a", {"text": "x", "one": 1, "yes": True, "none": None, "list": [{"a": 1}]}).read("BAD")
    assert (document.text("text"), document.integer("one"), document.flag("yes")) == ("x", 1, True)
    assert [element.integer("a") for element in document.list("list")] == [1]
    assert document.optional("none") is None and document.optional("missing") is None
    readers: list[Any] = [
        lambda: document.text("one"),
        lambda: document.text("missing"),
        lambda: document.integer("yes"),
        lambda: document.flag("one"),
        lambda: document.list("text"),
        lambda: document.at("text", "deeper"),
        lambda: document.at("list").optional("a"),
        lambda: make_event("a", b"\xff").read("BAD"),
        lambda: make_event("a", b"[" * 100_000).read("BAD"),
    ]
    for read in readers:
        with pytest.raises(Permanent, match="BAD"):
            read()


def test_errors_state_whether_another_attempt_can_succeed() -> None:
    assert (Permanent("A").retryable, Retryable("A").retryable) == (False, True)


def test_a_payload_is_what_it_was_when_it_was_planned() -> None:
    payload = {"lines": ["a"]}
    plan = Plan()
    plan.effect("e", "d", payload)
    payload["lines"].append("b")
    assert plan.to_json()["effects"] == [{"effect": "e", "destination": "d", "payload": {"lines": ["a"]}}]
    assert "effects" not in Plan().to_json()


def test_a_payload_that_json_would_change_is_refused() -> None:
    for payload in [Decimal("1.10"), {"a": float("nan")}, {"a": {1, 2}}, {(1, 2): "a"}]:
        unfit: Any = payload
        with pytest.raises(TypeError):
            Plan().effect("e", "d", unfit)
    unknown: Any = "GET"
    with pytest.raises(ValueError):
        Plan().effect("e", "d", {}, method=unknown)
