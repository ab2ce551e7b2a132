"""Checks the policies of deploy/policies by the calls that deploy.py, operate.py and pages.py have noted, and by those of
CloudFormation: each role may do what its commands and pages need, and no statement, action, resource or condition is in a policy that
they do not need. Then breaks the policies: each break must be found.

usage: rights.py NOTES..."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

import schemas  # noqa: E402
from mock import translated, verdict  # noqa: E402
from policies import FOLDER, PLACEHOLDERS, ROLES, allow, applies, many, of_all, of_role  # noqa: E402

PLACE = pathlib.Path("target/rights")
# The most characters of a managed policy, without white space.
CHARACTERS_MAX = 6144
# The longest name of a stack that the policies fit: the page says it.
NAME_MAX = 25
# The most characters in the name of such a part. To make a longer one fit, CloudFormation cuts the stack's name in it.
PART_MAX = {"AWS::Events::Rule": 64, "AWS::IAM::Role": 64, "AWS::Lambda::Function": 64}
# What CloudFormation ends a name with: twelve or thirteen characters.
RANDOM_MAX = 13
ARN = "arn:aws:{}:eu-central-1:123456789012:{}".format
DOCUMENTS, INBOX, DOMAIN = (ARN("dynamodb", f"table/inbox-{name}Table-AN1ID") for name in ("Documents", "Inbox", "Domain"))
ROLE = "arn:aws:iam::123456789012:role/inbox-WebhookRole-AN1ID"
ADMIN = "arn:aws:iam::123456789012:role/inbox-ci-admin"
WEBHOOK = ARN("lambda", "function:inbox-WebhookFunction-AN1ID")


def kind(*names):
    return {"dynamodb:LeadingKeys": list(names)}


# What is denied, though a command asks: it says so and shows the rest.
DENIED_TO = {("reader", command, "dynamodb:Query", secret) for command in ("hookonce console", "hookonce status")
             for secret in ("endpoint", "destination")}
# What nobody of a role may do.
FORBIDDEN = {
    "reader": [
        *(("dynamodb:GetItem", DOCUMENTS, kind(name)) for name in ("endpoint", "destination", "key")),
        ("dynamodb:GetItem", DOCUMENTS, {}),
        ("dynamodb:GetItem", INBOX, kind("in#shop#evt_1")),
        *((f"dynamodb:{action}", DOCUMENTS, kind(name)) for action in ("BatchGetItem", "Query", "PutItem", "DeleteItem") for name in ("endpoint", "routes")),
        ("dynamodb:Scan", DOCUMENTS, {}),
        *((f"dynamodb:{action}Item", table, kind("in#shop#evt_1")) for action in ("Put", "Update", "Delete") for table in (INBOX, DOMAIN)),
        ("sqs:ReceiveMessage", ARN("sqs", "inbox-DeadLetterQueue-AN1ID"), {}),
        ("sqs:SendMessage", ARN("sqs", "hookonce-an-id-hints"), {}),
        ("lambda:InvokeFunction", WEBHOOK, {}),
        ("lambda:GetFunctionConfiguration", ARN("lambda", "function:other-WebhookFunction-AN1ID"), {}),
        ("cloudformation:DescribeStacks", ARN("cloudformation", "stack/other/an-id"), {}),
    ],
    "deployer": [
        *((f"dynamodb:{action}", table, {}) for action in ("Scan", "Query") for table in (DOCUMENTS, INBOX, DOMAIN)),
        *((f"dynamodb:{action}", table, kind("endpoint")) for action in ("BatchGetItem", "GetItem", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem",
                                                                         "PartiQLSelect") for table in (DOCUMENTS, INBOX, DOMAIN)),
        ("dynamodb:DeleteTable", ARN("dynamodb", "table/other-InboxTable-AN1ID"), {}),
        ("dynamodb:ExportTableToPointInTime", INBOX, {}),
        *((f"iam:{action}", ROLE, {}) for action in ("CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary", "AttachRolePolicy")),
        ("iam:CreateRole", ROLE, {"iam:PermissionsBoundary": ["arn:aws:iam::aws:policy/AdministratorAccess"]}),
        ("iam:CreateRole", ROLE.replace("inbox", "other"), {"iam:PermissionsBoundary": [schemas.BOUNDARY]}),
        ("iam:CreatePolicyVersion", schemas.BOUNDARY, {}),
        ("iam:PassRole", ROLE.replace("inbox", "other"), {"iam:PassedToService": ["lambda.amazonaws.com"]}),
        ("iam:PassRole", ROLE, {"iam:PassedToService": ["ec2.amazonaws.com"]}),
        # A role that somebody else has made, whose name begins as the stack's does.
        ("iam:PassRole", ADMIN, {"iam:PassedToService": ["lambda.amazonaws.com"]}),
        ("iam:UpdateAssumeRolePolicy", ADMIN, {}),
        *((f"sqs:{action}", ARN("sqs", "hookonce-an-id-hints"), {}) for action in ("ReceiveMessage", "SendMessage", "DeleteMessage", "PurgeQueue")),
        ("lambda:InvokeFunction", WEBHOOK, {}),
        ("lambda:UpdateFunctionCode", ARN("lambda", "function:other-WebhookFunction-AN1ID"), {}),
        ("lambda:DeleteEventSourceMapping", ARN("lambda", "event-source-mapping:an-id"), {"lambda:FunctionArn": [ARN("lambda", "function:other-WorkerFunction-AN1ID")]}),
        ("s3:GetObject", "arn:aws:s3:::other/key", {}),
        ("cloudformation:CreateChangeSet", ARN("cloudformation", "stack/other/an-id"), {}),
        ("logs:FilterLogEvents", ARN("logs", "log-group:inbox-WebhookLogs-AN1ID"), {}),
    ],
    "operator": [
        ("dynamodb:DeleteTable", INBOX, {}),
        ("dynamodb:UpdateTable", DOCUMENTS, {}),
        ("dynamodb:DeleteItem", INBOX, kind("in#shop#evt_1")),
        # Business items.
        *((f"dynamodb:{action}Item", DOMAIN, keys) for action in ("Put", "Update", "Delete") for keys in (kind("acme#order#1"), {})),
        *((f"dynamodb:{action}Item", DOCUMENTS, kind("key")) for action in ("Get", "Put", "Update")),
        *((f"dynamodb:{action}Item", DOCUMENTS, {}) for action in ("Get", "Put", "Delete")),
        ("dynamodb:DeleteItem", DOCUMENTS, kind("routes")),
        ("dynamodb:GetItem", DOCUMENTS, kind("endpoint", "key")),
        ("sqs:SetQueueAttributes", ARN("sqs", "hookonce-an-id-hints"), {}),
        ("sqs:SendMessage", ARN("sqs", "hookonce-an-id-hints"), {}),
        ("lambda:UpdateFunctionCode", WEBHOOK, {}),
        ("lambda:UpdateFunctionConfiguration", WEBHOOK, {"lambda:Layer": [ARN("lambda", "layer:another:1")]}),
        ("lambda:UpdateEventSourceMapping", ARN("lambda", "event-source-mapping:an-id"), {"lambda:FunctionArn": [ARN("lambda", "function:other-WorkerFunction-AN1ID")]}),
        ("iam:PassRole", ROLE, {"iam:PassedToService": ["lambda.amazonaws.com"]}),
        ("cloudformation:DeleteStack", ARN("cloudformation", "stack/inbox/an-id"), {}),
    ],
}


class Notes:
    """The calls that were noted, by the role that made them."""

    def __init__(self, paths):
        read = [json.loads(pathlib.Path(path).read_text("utf-8")) for path in paths]
        self.calls = {}
        for role, *call, command in (call for some in read for call in some["calls"]):
            self.calls.setdefault(role, []).append((*call, command))
        self.calls.setdefault("deployer", []).extend(schemas.calls())
        self.commands = {command for some in read for command in some["commands"]}

    def of(self, role):
        """Those that the role needs."""
        return [call for call in self.calls.get(role, []) if not is_denied(role, *call)]


def is_denied(role, action, _arn, context, command):
    return any((role, command, action, value) in DENIED_TO for value in context.get("dynamodb:LeadingKeys", []))


def denied(granted, notes):
    """The calls that a role needs and does not get."""
    for role in ROLES:
        statements = of_role(granted, role)
        for action, arn, context, command in notes.of(role):
            if not allow(statements, action, arn, context):
                yield f"{role}: {command}: {action} on {arn} is denied {context or ''}"


def allowed(granted, notes):
    """The calls that a role gets and must not get."""
    for role, calls in FORBIDDEN.items():
        for call in calls:
            if allow(of_role(granted, role), *call):
                yield f"{role} may do {call[0]} on {call[1]} {call[2] or ''}"
    # AWS denies these for another reason, which no policy may rely on. Whoever runs them reads the name of a queue or table before.
    for action, arn, context, command in notes.calls.get("nobody", []):
        for role in ROLES:
            if action != "cloudformation:DescribeStacks" and allow(of_role(granted, role), action, arn, context):
                yield f"{role}: {command} should be denied"
    for role, calls in notes.calls.items():
        for call in calls:
            if role in ROLES and is_denied(role, *call) and allow(of_role(granted, role), *call[:3]):
                yield f"{role}: {call[3]}: {call[0]} should be denied"


def reduced(statement):
    yield "the statement", None
    for part in ("Action", "Resource"):
        for value in many(statement[part]):
            if statement[part] != value:
                yield value, {**statement, part: [one for one in many(statement[part]) if one != value]}
    for operator, entries in statement.get("Condition", {}).items():
        for key, values in entries.items():
            for value in many(values) if len(many(values)) > 1 else []:
                fewer = [one for one in values if one != value]
                yield f"{key} {value}", {**statement, "Condition": {**statement["Condition"], operator: {**entries, key: fewer}}}


def idle(granted, notes):
    """The parts without which every call is still allowed."""
    for name, statements in granted.items():
        for number, one in enumerate(statements):
            roles = [role for role, names in ROLES.items() if name in names]
            touched = [(role, call[:3]) for role in roles for call in notes.of(role) if applies(one, *call[:3])]
            for what, instead in reduced(one):
                rest = {**granted, name: [*statements[:number], *([instead] if instead else []), *statements[number + 1:]]}
                if all(allow(of_role(rest, role), *call) for role, call in touched):
                    yield f"{name}.json, {one['Sid']}: {what}: no page and no command needs it"


def loose(granted, notes):
    """The conditions without which no more is allowed."""
    for name, statements in granted.items():
        for number, statement in enumerate(statements):
            for operator in statement.get("Condition", {}):
                rest = {key: value for key, value in statement["Condition"].items() if key != operator}
                others = [*statements[:number], {**statement, "Condition": rest}, *statements[number + 1:]]
                if not any(allowed({**granted, name: others}, notes)):
                    yield f"{name}.json, {statement['Sid']}: nothing here is denied by the condition {operator}"


def findings(granted, notes):
    found = [*denied(granted, notes), *allowed(granted, notes)]
    return found or [*idle(granted, notes), *loose(granted, notes)]


def linted():
    """What cfn-lint knows of policies: actions that AWS has, each on a resource that it can have."""
    resources = {name.title(): {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"PolicyDocument": {"Version": "2012-10-17", "Statement": statements}}}
                 for name, statements in of_all().items()}
    PLACE.mkdir(parents=True, exist_ok=True)
    template = PLACE / "policies.template.json"
    template.write_text(json.dumps({"Resources": resources}), "utf-8")
    lint = pathlib.Path(sys.executable).parent / "cfn-lint"
    ran = subprocess.run([lint, "--regions", "eu-central-1", "--", template], capture_output=True, text=True, check=False)
    return [ran.stdout + ran.stderr] if ran.returncode else []


def sizes():
    """Policies that IAM would not take for a stack with a long name."""
    longest = {**PLACEHOLDERS, "REGION": "ap-southeast-1", "STACK": NAME_MAX * "n", "BOUNDARY": f"{PLACEHOLDERS['BOUNDARY']}{64 * 'n'}"}
    for name in of_all():
        text = "".join((FOLDER / f"{name}.json").read_text("utf-8").split())
        filled = re.sub("|".join(longest), lambda word: longest[word[0]], text)
        if len(filled) > CHARACTERS_MAX:
            yield f"{name}.json has {len(filled)} characters for a stack whose name has {NAME_MAX}, and a policy may have {CHARACTERS_MAX}"


def cut():
    """Parts in whose names the longest name of a stack would be cut, so that no pattern of a policy fits them."""
    for logical, resource in translated(pathlib.Path("template.yaml").read_text("utf-8"))["Resources"].items():
        if resource["Type"] in PART_MAX:
            left = PART_MAX[resource["Type"]] - len(f"-{logical}-") - RANDOM_MAX
            if left < NAME_MAX:
                yield f"{logical} leaves {left} characters for the stack's name, and the policies are for {NAME_MAX}"


# Commands for which no role is here: they need an account that only one person has, or a right that is not in the stack.
NOT_HERE = {"hookonce destination test", "hookonce pull", "hookonce submit"}
COMMAND = re.compile(r"hookonce ((?:endpoint|destination|route) [a-z]+|[a-z]+)[^`\n]* --stack (?!\S*/)")


def untried(notes):
    """The commands of pages that no role has run."""
    pages = [*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").rglob("*.md")]
    on_pages = {f"hookonce {name}" for page in pages for name in COMMAND.findall(page.read_text("utf-8"))}
    return [f"{command} stands on a page, and no role has run it" for command in sorted(on_pages - notes.commands - NOT_HERE)]


def statement(granted, sid):
    return next(one for statements in granted.values() for one in statements if one["Sid"] == sid)


def drop(sid):
    def change(granted):
        for statements in granted.values():
            statements[:] = [one for one in statements if one["Sid"] != sid]
    return change


def put(sid, part, value):
    def change(granted):
        statement(granted, sid)[part] = value
    return change


# One break for each kind of finding, and what must then be found.
BREAKS = (
    (drop("ReadLogs"), "logs tail"),
    (drop("DeployRoutes"), "hookonce route deploy"),
    (drop("PauseAndResume"), "hookonce pause"),
    (put("CountMessages", "Action", ["sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ListQueueTags"]), "sqs:ListQueueTags: no page"),
    (put("LookAtFunctions", "Resource", [WEBHOOK.replace("AN1ID", "*"), ARN("lambda", "function:inbox-*")]), "Function-*: no page"),
    (put("FindTheStack", "Resource", "*"), "reader may do cloudformation:DescribeStacks"),
    (put("ReadTheRoutesOnly", "Condition", {"ForAllValues:StringEquals": kind("routes")}), "reader may do dynamodb:GetItem"),
    (put("ReadTheRoutesOnly", "Condition", {"ForAllValues:StringEquals": kind("routes", "endpoint"), "Null": {"dynamodb:LeadingKeys": "false"}}), "reader may do"),
    (put("LookAtRecords", "Resource", ARN("dynamodb", "table/inbox-*")), "reader: hookonce console: dynamodb:Query should be denied"),
    (put("LookAtFunctions", "Condition", {"ArnLike": {"aws:PrincipalArn": "*"}}), "is denied"),
    (put("RestartInstances", "Condition", {}), "lambda:UpdateFunctionConfiguration"),
    (drop("ChangeStacks"), "deploy.sh"),
    (drop("MakeTables"), "CloudFormation, for InboxTable"),
    (put("MakeTables", "Action", "dynamodb:*"), "deployer may do dynamodb:GetItem"),
    (put("MakeRolesWithTheBoundary", "Condition", {}), "deployer may do iam:CreateRole"),
    (put("GiveRolesToFunctions", "Condition", {}), "deployer may do iam:PassRole"),
)


def missed(notes):
    for number, (change, expected) in enumerate(BREAKS):
        broken = copy.deepcopy(of_all())
        change(broken)
        found = findings(broken, notes)
        if not any(expected in one for one in found):
            yield f"break {number + 1}: {expected!r} is not found: {found}"


def main():
    notes, granted = Notes(sys.argv[1:]), of_all()
    found = [*findings(granted, notes), *linted(), *sizes(), *cut(), *untried(notes), *schemas.unused()]
    found = found or list(missed(notes))
    print("NOT checked: rights by AWS itself; keys of your own, which need more; what AWS names each call's resource is calls.py's word")
    counts = {role: len(notes.of(role)) for role in ROLES}
    parts = sum(len(list(reduced(one))) for some in granted.values() for one in some)
    return verdict("rights", found, **counts, parts=parts, broken=len(BREAKS))


if __name__ == "__main__":
    sys.exit(main())
