"""Notes the calls that reach the mock of AWS: for which command, in which role, and what AWS asks of the caller's policies. A call that
the policies of its role do not allow is denied.

A command runs with an access key that names both. `CALLS` names the file for rights.py."""

import itertools
import json
import os
import re
from urllib.parse import unquote

import policies
from mock import ACCOUNT, REGION
from moto.awslambda.models import lambda_backends
from moto.core.authorization import ActionAuthenticatorMixin
from moto.core.exceptions import AccessDeniedError

authorize = ActionAuthenticatorMixin._authenticate_and_authorize_action
numbers, commands, noted, granted = itertools.count(), {}, {}, policies.of_all()


def key_of(role, command):
    """The access key with which a command is run in a role."""
    number = next(numbers)
    commands[number] = command
    return f"{role}{number}"


def note(headers, service, action, request=None, resource="*"):
    """Keeps what a call needs, once for each role, with the first command that makes it. Then denies what the role may not do."""
    signed = re.search(r"Credential=([a-z]+)(\d+)/", headers.get("Authorization", ""))
    if not signed or int(signed[2]) not in commands:
        return
    role, command = signed[1], commands[int(signed[2])]
    # Somebody with every right.
    if role == "other":
        return
    for need in needs(service, action, request, resource):
        noted.setdefault((role, *need[:2], json.dumps(need[2], sort_keys=True)), command)
        if role in policies.ROLES and not policies.allow(policies.of_role(granted, role), *need):
            raise AccessDeniedError(user_arn=f"arn:aws:iam::{ACCOUNT}:user/{role}", action=need[0])


def authorized(request, iam_request_class, resource="*"):
    action = request._get_action()
    if service := re.search(r"Credential=[^/]+/\w+/[\w-]+/([\w-]+)/", request.headers.get("Authorization", "")):
        note(request.headers, service[1], action[0] if isinstance(action, list) else action, request, resource)
    return authorize(request, iam_request_class, resource)


ActionAuthenticatorMixin._authenticate_and_authorize_action = authorized


def write():
    """The file for rights.py."""
    if path := os.environ.get("CALLS"):
        calls = [[*key[:3], json.loads(key[3]), command] for key, command in noted.items()]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"calls": calls, "commands": sorted(set(commands.values()))}, file)


def arn(service, rest):
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"


def needs(service, action, request, resource):
    """What a call needs: actions of IAM, each with a resource and with what a condition may ask."""
    # Whoever has credentials may ask who they are.
    if service == "sts" and action == "GetCallerIdentity":
        return []
    if service not in SERVICES:
        raise ValueError(f"nothing is known of {service}:{action}")
    return SERVICES[service](action, request, resource)


def body(request):
    return json.loads(request.body or "{}")


def field(request, name):
    """A field of a form, or of a body in JSON."""
    if name in (request.data or {}):
        return request.data[name][0]
    return body(request).get(name) if str(request.body or "").startswith("{") else None


def of_dynamodb(action, request, _resource):
    asked = request.body if isinstance(request.body, dict) else body(request)
    table = lambda name: name if name.startswith("arn:") else arn("dynamodb", f"table/{name}")
    if action == "BatchGetItem":
        return [(f"dynamodb:{action}", table(name), leading(*some["Keys"])) for name, some in asked["RequestItems"].items()]
    if action == "TransactWriteItems":
        names = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
        parts = [(names[kind], part) for item in asked["TransactItems"] for kind, part in item.items()]
        return [(f"dynamodb:{name}", table(part["TableName"]), leading(part.get("Key") or part["Item"])) for name, part in parts]
    if action == "ListTables":
        return [("dynamodb:ListTables", "*", {})]
    place = table(asked.get("ResourceArn") or asked["TableName"]) + (f"/index/{asked['IndexName']}" if "IndexName" in asked else "")
    if action == "Query":
        value = re.match(r"\S+ = (:\w+)", asked["KeyConditionExpression"])[1]
        return [("dynamodb:Query", place, {"dynamodb:LeadingKeys": [asked["ExpressionAttributeValues"][value]["S"]]})]
    if key := asked.get("Key") or asked.get("Item"):
        return [(f"dynamodb:{action}", place, leading(key))]
    return [(f"dynamodb:{action}", place, {})]


def leading(*keys):
    """The partition keys of items."""
    return {"dynamodb:LeadingKeys": sorted({key["kind" if "kind" in key else "pk"]["S"] for key in keys})}


def of_sqs(action, request, _resource):
    name = field(request, "QueueName") or field(request, "QueueUrl").rsplit("/", 1)[1]
    return [(f"sqs:{action}", arn("sqs", name), {})]


def of_lambda(action, request, _resource):
    if action in ("ListEventSourceMappings", "GetAccountSettings"):
        return [(f"lambda:{action}", "*", {})]
    kind, name = re.search(r"/(functions|event-source-mappings)/([^/]+)", unquote(request.raw_path)).groups()
    if kind == "functions":
        layers = field(request, "Layers") if action == "UpdateFunctionConfiguration" else None
        context = {"lambda:Layer": layers} if layers else {}
        return [(f"lambda:{'InvokeFunction' if action == 'Invoke' else action}", arn("lambda", f"function:{name}"), context)]
    reads = lambda_backends[ACCOUNT][REGION].get_event_source_mapping(name).function_arn
    return [(f"lambda:{action}", arn("lambda", f"event-source-mapping:{name}"), {"lambda:FunctionArn": [reads]})]


def of_logs(action, request, _resource):
    asked = body(request)
    groups = [asked["logGroupName"]] if "logGroupName" in asked else asked.get("logGroupNames", [])
    return [(f"logs:{action}", arn("logs", f"log-group:{group}"), {}) for group in groups] or [(f"logs:{action}", "*", {})]


def of_cloudwatch(action, request, _resource):
    alarm = field(request, "AlarmName") or next(iter(field(request, "AlarmNames") or []), None)
    return [(f"cloudwatch:{action}", arn("cloudwatch", f"alarm:{alarm}") if alarm else "*", {})]


def of_cloudformation(action, request, _resource):
    name = field(request, "StackName")
    if action in ("GetTemplateSummary", "ListStacks") and not name:
        return [(f"cloudformation:{action}", "*", {})]
    if name:
        return [(f"cloudformation:{action}", name if name.startswith("arn:") else arn("cloudformation", f"stack/{name}/an-id"), {})]
    # AWS reads the stack from the change set.
    return []


def of_sns(action, request, _resource):
    topic = field(request, "TopicArn") or arn("sns", field(request, "Name"))
    return [(f"sns:{action}", topic, {})]


def of_s3(action, _request, resource):
    return [(f"s3:{action}", resource, {})]


SERVICES = {
    "cloudformation": of_cloudformation, "dynamodb": of_dynamodb, "lambda": of_lambda, "logs": of_logs, "monitoring": of_cloudwatch,
    "s3": of_s3, "sns": of_sns, "sqs": of_sqs,
}
