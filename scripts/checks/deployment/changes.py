"""What a change set would do, as CloudFormation names it, and what the policy of a stack denies of it. Whether a change of a property
makes a resource anew is read from the schemas of resource types, as cfn-lint has them."""

import json

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from mock import NOTHING, REGION, Deployed
from moto.cloudformation.models import Change
from policies import is_like, many

# How CloudFormation names it in the details of a change, and in the change.
REPLACED = {"Never": "False", "Conditionally": "Conditional", "Always": "True"}
# What a policy names.
ACTIONS = {"Remove": "Update:Delete", "True": "Update:Replace", "Conditional": "Update:Replace", "False": "Update:Modify"}


def schema(kind):
    return PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema


def recreation(kind, name):
    """Whether a change of a property makes the resource anew."""
    def is_in(listed):
        return any(path.split("/")[2] == name for path in schema(kind).get(listed, []))

    if is_in("createOnlyProperties"):
        return "Always"
    return "Conditionally" if is_in("conditionalCreateOnlyProperties") else "Never"


class Evaluated(Deployed):
    """A template with these values of its parameters. What only a stack knows stays as it is written."""

    def __init__(self, template, values):
        self.template = template
        self.values = {name: body.get("Default") for name, body in template.get("Parameters", {}).items()} | values

    def reference(self, name):
        return NOTHING if name == "AWS::NoValue" else self.values.get(name, {"Ref": name})

    def attribute(self, path):
        return {"Fn::GetAtt": path}

    def substitute(self, argument):
        text, own = argument if isinstance(argument, list) else (argument, {})
        return {"Fn::Sub": text, "values": self.resolve(own), "parameters": {name: value for name, value in self.values.items() if f"${{{name}}}" in text}}

    def select(self, argument):
        return {"Fn::Select": self.resolve(argument)}

    def split(self, argument):
        return {"Fn::Split": self.resolve(argument)}

    def made(self):
        """The resources that are made, with their properties."""
        resources = self.template["Resources"]
        return {name: {**resources[name], "Properties": self.resolve(resources[name].get("Properties", {}))} for name in self.wanted(resources)}


def between(old, new):
    """The changes from one template to another, both evaluated."""
    before, after = old.made(), new.made()
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield Change("Remove" if name in before else "Add", name, {**before, **after}[name]["Type"])
        elif details := list(details_of(before[name], after[name])):
            change = Change("Modify", name, after[name]["Type"])
            words = {detail["Target"]["RequiresRecreation"] for detail in details}
            change.replacement = REPLACED[next(word for word in reversed(REPLACED) if word in words)]
            change.details = details
            yield change


def details_of(before, after):
    properties = {**before["Properties"], **after["Properties"]}
    for name in properties:
        if before["Properties"].get(name) != after["Properties"].get(name):
            target = {"Attribute": "Tags"} if name == "Tags" else {"Attribute": "Properties", "Name": name}
            yield {"Target": {**target, "RequiresRecreation": recreation(after["Type"], name)}}
    for name in ("DeletionPolicy", "Metadata", "UpdateReplacePolicy"):
        if before.get(name) != after.get(name):
            yield {"Target": {"Attribute": name, "RequiresRecreation": "Never"}}


def denial(policy, change):
    """Why the policy of the stack denies a change. What it does not allow is denied, too."""
    if not policy or change.action == "Add":
        return None
    action = ACTIONS["Remove" if change.action == "Remove" else change.replacement]
    fitting = [(number, one) for number, one in enumerate(json.loads(policy)["Statement"], 1) if applies(one, action, change)]
    denying = [number for number, one in fitting if one["Effect"] == "Deny"]
    if fitting and not denying:
        return None
    return f"Action denied by stack policy: Statement [#{(denying or [0])[0]}] does not allow [{action}] for resource [{change.logical_resource_id}]"


def applies(statement, action, change):
    assert {*statement} <= {"Effect", "Action", "Principal", "Resource", "NotResource", "Condition"}, statement
    names = many(statement.get("Resource", statement.get("NotResource")))
    is_named = any(is_like(name, f"LogicalResourceId/{change.logical_resource_id}") for name in names)
    kinds = statement.get("Condition", {"StringEquals": {"ResourceType": change.resource_type}})
    assert {*kinds} == {"StringEquals"} and {*kinds["StringEquals"]} == {"ResourceType"}, kinds
    return (any(is_like(one, action) for one in many(statement["Action"])) and is_named == ("Resource" in statement)
            and change.resource_type in many(kinds["StringEquals"]["ResourceType"]))
