"""What CloudFormation calls in the name of whoever deploys: the permissions that the schema of each kind of resource names, as cfn-lint
has them, on the resources of the templates. A list says which of them the templates do not need, and why."""

import importlib.resources
import json
import re

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER
from mock import ACCOUNT, REGION, STACK, translated
from policies import PLACEHOLDERS
from samtranslator.yaml_helper import yaml_parse

BOUNDARY = PLACEHOLDERS["BOUNDARY"]
# Nothing is listed by a deployment.
HANDLERS = ("create", "read", "update", "delete")
SERVICES = json.loads(importlib.resources.files("cfnlint.data.AdditionalSpecs").joinpath("Policies.json").read_text("utf-8"))
# What a template would need that has what these have not.
LEFT_OUT = {
    r"AWS::DynamoDB::Table .*(Replica|ServiceLinkedRole|dynamodb:(Scan|Query|.*Item)$)": "no table is global",
    r"AWS::DynamoDB::Table .*(Import|s3:|logs:)": "no table is imported",
    r"AWS::DynamoDB::Table .*(kinesis:|(Enable|Disable|Update)KinesisStreaming|UpdateContributorInsights)": "no table has a stream to Kinesis, or insights",
    r"AWS::(DynamoDB|Lambda)::.* kms:": "with keys of your own, see their section on the page",
    r"AWS::Lambda::Function (ec2:|elasticfilesystem:|s3files:)": "no function is in a network, or has files",
    r"AWS::Lambda::Function lambda:(GetLayer|GetCodeSigning|(Put|Delete)FunctionCodeSigning|PassCapacity|AssociateRuntime|PublishVersion|PutFunctionScaling|PutRuntime|.*FunctionConcurrency)": "no function has one",
    r"AWS::Lambda::Function s3:GetObjectVersion": "the bucket keeps no versions",
    r"AWS::IAM::Role iam:(UpdateRoleDescription|DeleteRolePermissionsBoundary)": "no role has a description, and none loses its boundary",
    r"AWS::IAM::Policy iam:.*(User|Group)": "the policy belongs to roles",
    r"AWS::Events::Rule iam:PassRole": "the target of the rule has no role",
    r"AWS::Logs::LogGroup (s3:|firehose:|logs:.*(DataProtection|Index|BearerToken|DeletionProtection|KmsKey|DeleteResourcePolicy|DeleteRetention))": "no log group has one",
    r"AWS::ApiGatewayV2::Stage apigateway:.*Resource": "AWS has no such actions: its tags are below /tags",
    r"AWS::ApiGatewayV2::.* s3:": "no template lies in a bucket of the gateway",
    r"AWS::S3::Bucket (iam:|s3tables:|s3:.*(Tagging|Tag|Untag|Abac|Analytics|CORS|Cors|Inventory|Lifecycle|Metrics|Notification|Replication|Website|Accelerate|Acl|Lock|DeleteObject|Logging|Versioning|Encryption|Tiering|Metadata|ListTags))": "the bucket has none",
}
# What no schema names. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging.html
BESIDE = {"AWS::ApiGatewayV2::Stage": [f"logs:{action}" for action in (
    "CreateLogDelivery", "DeleteLogDelivery", "DescribeResourcePolicies", "GetLogDelivery", "ListLogDeliveries", "PutResourcePolicy", "UpdateLogDelivery")]}
# What has no resource although it could have one.
EVERYWHERE = {"logs:DescribeLogGroups", "cloudwatch:DescribeAlarms", "lambda:CreateEventSourceMapping"}


def arn(service, rest, region=REGION, account=ACCOUNT):
    return f"arn:aws:{service}:{region}:{account}:{rest}"


def named(logical):
    return f"{STACK}-{logical}-AN1ID"


def queue(logical):
    return arn("sqs", named(logical) if logical == "DeadLetterQueue" else f"hookonce-an-id-{logical.lower()}")


GATEWAY = [arn("apigateway", path, account="") for path in ("/apis", "/apis/an-id", "/apis/an-id/stages", "/apis/an-id/stages/$default", "/tags/an-arn")]
DOMAIN = [arn("apigateway", path, account="") for path in ("/domainnames", "/domainnames/hooks.example.com", "/domainnames/hooks.example.com/apimappings/an-id")]
# What a resource is called, once CloudFormation has made it.
ARNS = {
    "AWS::ApiGatewayV2::Api": lambda *_: GATEWAY,
    "AWS::ApiGatewayV2::ApiMapping": lambda *_: DOMAIN,
    "AWS::ApiGatewayV2::DomainName": lambda *_: DOMAIN,
    "AWS::ApiGatewayV2::Stage": lambda *_: GATEWAY,
    "AWS::CloudWatch::Alarm": lambda logical, _: [arn("cloudwatch", f"alarm:hookonce/{STACK}/page/{logical}")],
    "AWS::CloudWatch::Dashboard": lambda logical, _: [arn("cloudwatch", f"dashboard/{logical}-AN1ID", region="")],
    "AWS::DynamoDB::Table": lambda logical, _: [arn("dynamodb", f"table/{named(logical)}")],
    "AWS::Events::Rule": lambda logical, _: [arn("events", f"rule/{named(logical)}")],
    "AWS::IAM::Policy": lambda *_: [arn("iam", f"role/{named('WorkerRole')}", region="")],
    "AWS::IAM::Role": lambda logical, _: [arn("iam", f"role/{named(logical)}", region="")],
    "AWS::Lambda::EventInvokeConfig": lambda *_: [arn("lambda", f"function:{named('RelayFunction')}")],
    "AWS::Lambda::EventSourceMapping": lambda *_: [arn("lambda", "event-source-mapping:an-id")],
    "AWS::Lambda::Function": lambda logical, _: [arn("lambda", f"function:{named(logical)}")],
    "AWS::Lambda::Permission": lambda *_: [arn("lambda", f"function:{named('WebhookFunction')}")],
    "AWS::Logs::LogGroup": lambda logical, body: [arn("logs", f"log-group:{'/aws/vendedlogs/hookonce/' + STACK + '/gateway' if 'LogGroupName' in body else named(logical)}")],
    "AWS::Logs::MetricFilter": lambda _, body: [arn("logs", f"log-group:{'/aws/vendedlogs/hookonce/' + STACK + '/gateway' if 'Gateway' in str(body['LogGroupName']) else named('WorkerLogs')}")],
    "AWS::S3::Bucket": lambda *_: [f"arn:aws:s3:::{STACK}-code-bucket-an-id"],
    "AWS::S3::BucketPolicy": lambda *_: [f"arn:aws:s3:::{STACK}-code-bucket-an-id"],
    "AWS::SQS::Queue": lambda logical, _: [queue(logical)],
    "AWS::SQS::QueuePolicy": lambda _, body: [queue(body["Queues"][0]["Ref"])],
}


def context_of(kind, action):
    if action == "iam:PassRole":
        return {"iam:PassedToService": ["lambda.amazonaws.com"]}
    if kind == "AWS::Lambda::EventSourceMapping" and "Tag" not in action:
        return {"lambda:FunctionArn": [arn("lambda", f"function:{named('WorkerFunction')}")]}
    if kind in ("AWS::IAM::Role", "AWS::IAM::Policy"):
        return {"iam:PermissionsBoundary": [BOUNDARY]}
    return {}


def is_left_out(kind, action):
    return any(re.match(pattern, f"{kind} {action}") for pattern in LEFT_OUT)


def resources(action, kind, logical, body):
    """What the action is asked of: another resource than the one that is made, or none."""
    service, name = action.split(":")
    if action == "iam:PassRole":
        return [arn("iam", f"role/{named(logical.replace('Function', 'Role'))}", region="")]
    if action == "s3:GetObject":
        return [f"arn:aws:s3:::{STACK}-code-bucket-an-id/a-hash"]
    if action in EVERYWHERE or not SERVICES[service]["Actions"].get(name.lower(), {}).get("Resources"):
        return ["*"]
    return ARNS[kind](logical, body)


def calls():
    """Each call of CloudFormation, with the resource for which it is made."""
    templates = [translated(open("template.yaml", encoding="utf-8").read())]
    templates += [yaml_parse(open(f"deploy/{name}.yaml", encoding="utf-8").read()) for name in ("bucket", "dashboard")]
    for template in templates:
        for logical, resource in template["Resources"].items():
            kind, body = resource["Type"], resource.get("Properties", {})
            handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema.get("handlers", {})
            actions = {action for name in HANDLERS for action in handlers.get(name, {}).get("permissions", [])}
            for action in sorted(actions.union(BESIDE.get(kind, []))):
                if not is_left_out(kind, action):
                    for place in resources(action, kind, logical, body):
                        yield action, place, context_of(kind, action), f"CloudFormation, for {logical}"


def unused():
    """Reasons for which nothing is left out."""
    kinds = {f"{kind} {action}" for kind in ARNS for handler in PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema.get("handlers", {}).values()
             for action in handler["permissions"]}
    return [f"no schema has what is left out because {reason}" for pattern, reason in LEFT_OUT.items() if not any(re.match(pattern, one) for one in kinds)]
