"""Deploys the translated template on moto, a mock of AWS in this process, as far as the mock goes."""

import copy
import functools
import io
import json
import logging
import re
import warnings
import zipfile

import boto3
import yaml
from moto import mock_aws
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.sqs.models import Queue
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

# Mock and translator read a template many times, and libyaml reads it faster than Python does.
yaml.SafeLoader = yaml.CSafeLoader
yaml.Loader = yaml.loader.Loader = yaml.CLoader

# The mock warns of each kind of resource that it does not know, several times; the check lists them once. The translator misses its own metrics.
warnings.filterwarnings("ignore", message="Tried to parse")
for noisy in ("moto", "samtranslator"):
    logging.getLogger(noisy).setLevel(logging.ERROR)

REGION = "eu-central-1"
ACCOUNT = "123456789012"
STACK = "inbox"
CODE = f"{STACK}-code-bucket-an-id"
# What `sam deploy` would answer; every optional part is on.
ANSWERS = {
    "AlarmTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:{STACK}-alarms",
    "DataKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/data",
    "DocumentKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/documents",
    "DomainName": "hooks.example.com",
    "CertificateArn": f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/hooks",
    "ExecuteApiAddress": "off",
    "EdgeProofHashes": f"{64 * '1'},{64 * '2'}",
    "ClientAddressHeader": "x-client-address",
    "OperatorArn": f"arn:aws:iam::{ACCOUNT}:role/operator",
    "WorkerConcurrencyMax": "3",
    "SlowConcurrencyMax": "5",
    "DispatcherConcurrencyMax": "4",
}


def keeps_policy(queue, attributes, *more, set_attributes=Queue._set_attributes):
    """The mock's own, which forgets the policy of a queue when a call names other attributes only."""
    kept = queue.policy if hasattr(queue, "_policy_json") else None
    set_attributes(queue, attributes, *more)
    if "Policy" not in attributes:
        queue.policy = kept


def names_its_sources(queue, attributes=Queue.attributes.fget):
    """The mock's own, which leaves out whose dead letters a queue takes."""
    policy = getattr(queue, "redrive_allow_policy", None)
    more = {"RedriveAllowPolicy": policy if isinstance(policy, str) else json.dumps(policy)} if policy else {}
    return {**attributes(queue), **more}


def refuses_in_json(application, environ, start_response, dispatch=DomainDispatcherApplication.__call__):
    """The mock's own, which refuses a caller without a right by XML, also where a service speaks JSON."""
    started = []
    given = dispatch(application, environ, lambda *head: started.append(head))
    answer = list(given)
    given.close()
    status, headers, *more = started[-1]
    if "HTTP_X_AMZ_TARGET" in environ and b"<Code>AccessDenied</Code>" in b"".join(answer):
        answer = [json.dumps({"__type": "AccessDeniedException", "Message": "the caller lacks the right"}).encode()]
        status, headers = "400 Bad Request", [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(answer[0])))]
    start_response(status, headers, *more)
    return answer


Queue._set_attributes = keeps_policy
Queue.attributes = property(names_its_sources)
DomainDispatcherApplication.__call__ = refuses_in_json


class NoManagedPolicies:
    """The template names no managed policy, so nothing has to be looked up."""

    def load(self):
        return {}


class Deployed:
    """A stack on the mock: what was created, and what the mock could not create."""

    def __init__(self, template_text):
        self.template = translated(template_text)
        self.made_by_hand = set()
        self.not_made = set()
        upload_code()
        # The mock cannot take an output that names a resource it does not know.
        body = {name: part for name, part in self.template.items() if name != "Outputs"}
        self.id = client("cloudformation").create_stack(
            StackName=STACK, TemplateBody=json.dumps(body), Capabilities=["CAPABILITY_IAM"],
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in ANSWERS.items()])["StackId"]
        described = client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
        # What the mock does not know is an entry without a name; what has no id of its own, such as a permission, has none.
        self.made = {entry["LogicalResourceId"] for entry in described if "LogicalResourceId" in entry}
        self.ids = {entry["LogicalResourceId"]: entry["PhysicalResourceId"] for entry in described if "PhysicalResourceId" in entry}
        self.finish_by_hand()

    def resources(self, kind):
        return {name: body for name, body in self.template["Resources"].items() if body["Type"] == kind}

    def properties(self, name):
        return self.resolve(self.template["Resources"][name]["Properties"])

    def finish_by_hand(self):
        """Makes what the mock's CloudFormation does not know, with the calls that CloudFormation would make."""
        kinds = {body["Type"] for body in self.template["Resources"].values()}
        # These first: others name them.
        kinds = sorted(kinds, key=lambda kind: (kind not in FIRST, FIRST.index(kind) if kind in FIRST else 0, kind))
        for kind in kinds:
            unknown = [name for name in self.resources(kind) if name not in self.made]
            if kind in BY_HAND:
                made = [name for name in self.resources(kind) if name in self.made]
                for name in made if BY_HAND[kind] is finish_table else self.wanted(unknown):
                    BY_HAND[kind](self, name, self.properties(name))
                    self.made_by_hand.add(kind)
            elif unknown:
                self.not_made.add(kind)

    def wanted(self, names):
        """Those whose condition holds."""
        resources = self.template["Resources"]
        return [name for name in names if "Condition" not in resources[name] or self.holds(self.template["Conditions"][resources[name]["Condition"]])]

    def resolve(self, value):
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (name, argument), = value.items()
            if name in INTRINSIC:
                return getattr(self, INTRINSIC[name])(argument)
        resolved = {name: self.resolve(item) for name, item in value.items()}
        return {name: item for name, item in resolved.items() if item is not NOTHING}

    def reference(self, name):
        pseudo = {"AWS::StackName": STACK, "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws",
                  "AWS::URLSuffix": "amazonaws.com", "AWS::NoValue": NOTHING, "AWS::StackId": self.id}
        if name in pseudo:
            return pseudo[name]
        if name in self.template["Parameters"]:
            return ANSWERS.get(name, self.template["Parameters"][name].get("Default"))
        return self.ids[name]

    def attribute(self, path):
        name, attribute = path if isinstance(path, list) else path.split(".", 1)
        return ATTRIBUTES[self.template["Resources"][name]["Type"], attribute](self.ids[name])

    def substitute(self, argument):
        text, values = argument if isinstance(argument, list) else (argument, {})

        def insert(match):
            name = match.group(1)
            if name in values:
                return str(self.resolve(values[name]))
            return str(self.attribute(name) if "." in name else self.reference(name))

        return re.sub(r"\$\{([A-Za-z0-9_:.]+)\}", insert, text)

    def choose(self, argument):
        condition, then, otherwise = argument
        return self.resolve(then if self.holds(self.template["Conditions"][condition]) else otherwise)

    def holds(self, condition):
        (name, argument), = condition.items()
        if name == "Fn::Not":
            return not self.holds(argument[0])
        if name == "Condition":
            return self.holds(self.template["Conditions"][argument])
        assert name == "Fn::Equals", name
        left, right = self.resolve(argument)
        return left == right

    def select(self, argument):
        place, parts = argument
        return self.resolve(parts)[place]

    def split(self, argument):
        separator, text = self.resolve(argument)
        return text.split(separator)

    def find(self, path):
        first, second, third = self.resolve(path)
        # CloudFormation hands every value of a mapping on as a text.
        return str(self.template["Mappings"][first][second][third])


NOTHING = object()
FIRST = ["AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage", "AWS::ApiGatewayV2::DomainName"]
INTRINSIC = {
    "Ref": "reference",
    "Fn::GetAtt": "attribute",
    "Fn::Sub": "substitute",
    "Fn::If": "choose",
    "Fn::FindInMap": "find",
    "Fn::Select": "select",
    "Fn::Split": "split",
}


@functools.cache
def client(service):
    return boto3.client(service, region_name=REGION)


def translated(text):
    template = yaml_parse(text)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = f"s3://{CODE}/function.zip"
    return transform(template, ANSWERS, NoManagedPolicies())


def upload_code():
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("bootstrap", "")
    if not client("s3").list_buckets()["Buckets"]:
        client("s3").create_bucket(Bucket=CODE, CreateBucketConfiguration={"LocationConstraint": REGION})
    client("s3").put_object(Bucket=CODE, Key="function.zip", Body=package.getvalue())


def queue_attribute(url, name):
    return client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]


def function_arn(name):
    return client("lambda").get_function(FunctionName=name)["Configuration"]["FunctionArn"]


ATTRIBUTES = {
    ("AWS::DynamoDB::Table", "Arn"): lambda name: client("dynamodb").describe_table(TableName=name)["Table"]["TableArn"],
    ("AWS::SQS::Queue", "Arn"): lambda url: queue_attribute(url, "QueueArn"),
    ("AWS::SQS::Queue", "QueueName"): lambda url: url.rsplit("/", 1)[1],
    ("AWS::IAM::Role", "Arn"): lambda name: client("iam").get_role(RoleName=name)["Role"]["Arn"],
    ("AWS::Lambda::Function", "Arn"): function_arn,
    ("AWS::Logs::LogGroup", "Arn"): lambda name: f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*",
    ("AWS::ApiGatewayV2::DomainName", "RegionalDomainName"): lambda name: client("apigatewayv2").get_domain_name(
        DomainName=name)["DomainNameConfigurations"][0].get("ApiGatewayDomainName", f"target.of.{name}"),
    ("AWS::Events::Rule", "Arn"): lambda name: client("events").describe_rule(Name=name)["Arn"],
}


def make_queue_policy(stack, name, properties):
    for url in properties["Queues"]:
        client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(properties["PolicyDocument"])})


def make_alarm(stack, name, properties):
    """botocore checks each property against AWS's model of the call; CloudFormation has texts for numbers."""
    properties = copy.deepcopy(properties)
    for number in ("Threshold", "Period", "EvaluationPeriods"):
        if number in properties:
            properties[number] = float(properties[number]) if number == "Threshold" else int(properties[number])
    stack.ids[name] = properties["AlarmName"]
    client("cloudwatch").put_metric_alarm(**properties)


def make_gateway(stack, name, properties):
    body = properties["Body"]
    address = body["servers"][0]["x-amazon-apigateway-endpoint-configuration"]
    gateway = client("apigatewayv2").create_api(
        Name=body["info"]["title"], ProtocolType="HTTP",
        DisableExecuteApiEndpoint=address["disableExecuteApiEndpoint"])["ApiId"]
    stack.ids[name] = gateway
    for path, methods in body["paths"].items():
        for method, operation in methods.items():
            integration = operation["x-amazon-apigateway-integration"]
            made = client("apigatewayv2").create_integration(
                ApiId=gateway, IntegrationType=integration["type"].upper().replace("-", "_"),
                IntegrationMethod=integration["httpMethod"], IntegrationUri=integration["uri"],
                PayloadFormatVersion=integration["payloadFormatVersion"], TimeoutInMillis=integration["timeoutInMillis"])
            verb = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
            client("apigatewayv2").create_route(
                ApiId=gateway, RouteKey=f"{verb} {path}", Target=f"integrations/{made['IntegrationId']}")


def make_stage(stack, name, properties):
    settings = properties["DefaultRouteSettings"]
    settings["ThrottlingRateLimit"] = float(settings["ThrottlingRateLimit"])
    settings["ThrottlingBurstLimit"] = int(settings["ThrottlingBurstLimit"])
    client("apigatewayv2").create_stage(
        ApiId=properties["ApiId"], StageName=properties["StageName"], AutoDeploy=properties["AutoDeploy"],
        AccessLogSettings=properties["AccessLogSettings"], DefaultRouteSettings=settings)
    stack.ids[name] = properties["StageName"]


def make_domain(stack, name, properties):
    stack.ids[name] = client("apigatewayv2").create_domain_name(**properties)["DomainName"]


def make_mapping(stack, name, properties):
    stack.ids[name] = client("apigatewayv2").create_api_mapping(**properties)["ApiMappingId"]


def make_metric_filter(stack, name, properties):
    stack.ids[name] = name
    transformations = [{key[0].lower() + key[1:]: value for key, value in one.items()} for one in properties["MetricTransformations"]]
    client("logs").put_metric_filter(
        logGroupName=properties["LogGroupName"], filterName=name, filterPattern=properties["FilterPattern"],
        metricTransformations=transformations)


def make_invoke_config(stack, name, properties):
    client("lambda").put_function_event_invoke_config(
        FunctionName=properties["FunctionName"], MaximumRetryAttempts=properties["MaximumRetryAttempts"],
        MaximumEventAgeInSeconds=properties["MaximumEventAgeInSeconds"])


def finish_table(stack, name, properties):
    """The mock makes the table, but not these of its properties."""
    table = stack.ids[name]
    if "TimeToLiveSpecification" in properties:
        client("dynamodb").update_time_to_live(
            TableName=table, TimeToLiveSpecification=properties["TimeToLiveSpecification"])
    if "PointInTimeRecoverySpecification" in properties:
        client("dynamodb").update_continuous_backups(
            TableName=table, PointInTimeRecoverySpecification=properties["PointInTimeRecoverySpecification"])
    if "ResourcePolicy" in properties:
        client("dynamodb").put_resource_policy(
            ResourceArn=stack.attribute([name, "Arn"]), Policy=json.dumps(properties["ResourcePolicy"]["PolicyDocument"]))


def with_outputs(stack):
    """The mock could not take the outputs before every resource had its name."""
    outputs = {name: {"Value": stack.resolve(body["Value"])} for name, body in stack.template["Outputs"].items()}
    client("cloudformation").update_stack(
        StackName=STACK, TemplateBody=json.dumps({**stack.template, "Outputs": outputs}), Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in ANSWERS.items()])


BY_HAND = {
    "AWS::ApiGatewayV2::Api": make_gateway,
    "AWS::ApiGatewayV2::ApiMapping": make_mapping,
    "AWS::ApiGatewayV2::DomainName": make_domain,
    "AWS::ApiGatewayV2::Stage": make_stage,
    "AWS::CloudWatch::Alarm": make_alarm,
    "AWS::DynamoDB::Table": finish_table,
    "AWS::Lambda::EventInvokeConfig": make_invoke_config,
    "AWS::Logs::MetricFilter": make_metric_filter,
    "AWS::SQS::QueuePolicy": make_queue_policy,
}


def verdict(part, found, **figures):
    """Prints what was found, and the figures as the last line. The exit code."""
    for finding in found:
        print(finding)
    print(json.dumps({"part": part, **figures, "violations": len(found)}))
    return 1 if found else 0


def deployed(template_text, look):
    """Deploys on an empty mock and returns what `look` finds there."""
    with mock_aws():
        return look(Deployed(template_text))
