"""The policies of deploy/policies, and a small evaluator of IAM that decides a call by them. It knows what they use. Whatever else a
statement says fails the check."""

import functools
import json
import pathlib
import re

FOLDER = pathlib.Path("deploy/policies")
# What a role has: that of a reader is also attached to an operator.
ROLES = {"reader": ("reader",), "operator": ("reader", "operator"), "deployer": ("deployer",)}
PARTS = {"Sid", "Effect", "Action", "Resource", "Condition"}
# What the page puts in place of these words.
PLACEHOLDERS = {"REGION": "eu-central-1", "ACCOUNT": "123456789012", "STACK": "inbox", "BOUNDARY": "arn:aws:iam::123456789012:policy/boundary"}


def read(name):
    """The statements of a policy, as the page fills it in."""
    text = re.sub("|".join(PLACEHOLDERS), lambda word: PLACEHOLDERS[word[0]], (FOLDER / f"{name}.json").read_text("utf-8"))
    statements = json.loads(text)["Statement"]
    strange = [part for statement in statements for part in statement if part not in PARTS]
    assert not strange, f"{name}.json: this evaluator does not know {strange}"
    return statements


def of_all():
    return {name: read(name) for names in ROLES.values() for name in names}


def of_role(policies, role):
    return [statement for name in ROLES[role] for statement in policies[name]]


def many(value):
    return value if isinstance(value, list) else [value]


@functools.cache
def is_like(pattern, text):
    """Whether a text fits a pattern with `*` and `?`."""
    return re.fullmatch("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern), text, re.DOTALL) is not None


def is_arn_like(pattern, arn):
    """The same, part by part."""
    if pattern == "*":
        return True
    patterns, parts = pattern.split(":", 5), arn.split(":", 5)
    return len(patterns) == len(parts) and all(map(is_like, patterns, parts))


# How a value of the request is compared with one of the policy.
COMPARED = {"StringEquals": str.__eq__, "StringLike": lambda found, wanted: is_like(wanted, found), "ArnLike": lambda found, wanted: is_arn_like(wanted, found)}


def holds(operator, key, wanted, context):
    found, wanted = context.get(key, []), many(wanted)
    if operator == "Null":
        return wanted == [str(not found).lower()]
    quantifier, _, name = operator.rpartition(":")
    fits = [any(COMPARED[name](value, one) for one in wanted) for value in found]
    if quantifier == "ForAllValues":
        # It also holds where there is no value.
        return all(fits)
    assert not quantifier, f"this evaluator does not know {operator}"
    return len(fits) == 1 and fits[0]


def applies(statement, action, arn, context):
    conditions = [(operator, *entry) for operator, entries in statement.get("Condition", {}).items() for entry in entries.items()]
    return (any(is_like(one.lower(), action.lower()) for one in many(statement["Action"]))
            and any(is_arn_like(one, arn) for one in many(statement["Resource"]))
            and all([holds(*condition, context) for condition in conditions]))


def allow(statements, action, arn, context):
    """Some statement allows it, and none denies it."""
    effects = {statement["Effect"] for statement in statements if applies(statement, action, arn, context)}
    return effects == {"Allow"}
