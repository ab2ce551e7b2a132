"""Checks the examples of deploy/cdk and deploy/terraform against the template, as far as no account is needed. Then breaks
each input once: each break must be found.

usage: check.py RELEASE CDK_OUTPUT TERRAFORM PLACE

RELEASE is what release.py wrote, CDK_OUTPUT the folder that the CDK example was synthesised into, TERRAFORM the
example's file, PLACE a folder for Terraform. Terraform itself runs, but with a stand-in for its provider (provider.py).
Nothing is deployed."""

import copy
import json
import pathlib
import sys

from terraform import Refused, applied

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from references import references  # noqa: E402

# Whatever CDK adds to a template of ours.
CDKS_OWN = {"BootstrapVersion", "CheckBootstrapVersion"}
REGION = "eu-central-1"
# CloudFormation gives a stack's name 128, and the last part of its id 36.
QUEUE_NAME_CHARACTERS_MAX = 80
SECTIONS = ("Parameters", "Rules", "Mappings", "Conditions", "Resources", "Outputs")
# CloudFormation reads no more from the body of a request.
REQUEST_BYTES_MAX = 51_200


def sorted_dependencies(template):
    """CDK sorts the names that a resource depends on; CloudFormation reads no order in them."""
    template = copy.deepcopy(template)
    for resource in template["Resources"].values():
        if isinstance(resource.get("DependsOn"), list):
            resource["DependsOn"].sort()
    return template


def translation(template):
    """The translation is plain CloudFormation, and fixes no parameter."""
    strange = [name for name, body in template["Resources"].items() if not body["Type"].startswith("AWS::") or "::Serverless::" in body["Type"]]
    yield "the translation", "resources that are not CloudFormation's", strange, []
    yield "the translation", "transform", template.get("Transform"), None
    text = json.dumps(template)
    used = references({name: template[name] for name in SECTIONS if name != "Parameters"})
    unused = [name for name in template["Parameters"] if name not in used and f"${{{name}}}" not in text]
    yield "the translation", "parameters that nothing reads", unused, []
    queues = [body["Properties"].get("QueueName", "") for body in template["Resources"].values() if body["Type"] == "AWS::SQS::Queue"]
    long = [name for name in map(longest, queues) if len(name) > QUEUE_NAME_CHARACTERS_MAX]
    yield "the translation", "queues whose name can be too long", long, []


def longest(name):
    """The longest name that comes of a substitution."""
    text, values = (lambda argument: argument if isinstance(argument, list) else [argument, {}])(name.get("Fn::Sub", "") if name else "")
    text = text.replace("${AWS::StackName}", 128 * "n")
    for key, value in values.items():
        text = text.replace(f"${{{key}}}", 36 * "i" if value == LAST_OF_THE_ID else 200 * "?")
    return text


LAST_OF_THE_ID = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}


def passed(where, parameters, template):
    yield where, "unknown parameters", sorted(set(parameters) - set(template["Parameters"])), []
    missing = [name for name, body in template["Parameters"].items() if "Default" not in body and name not in parameters]
    yield where, "parameters without a value", missing, []


def cdk(template, stages):
    for stage, stack in stages.items():
        topic, arn = f"{stage}-alarms", ["arn:", "AWS::Partition", ":sns:", "AWS::Region", ":", "AWS::AccountId", f":{stage}-alarms"]
        parameters = {"AlarmTopicArn": {"Fn::Join": ["", [{"Ref": part} if "::" in part else part for part in arn]]}} | PARAMETERS[stage]
        yield from passed("CDK", parameters, template)
        ours, theirs = (sorted_dependencies(with_texts(one)) for one in (inserted(template, parameters), stack))
        for section in SECTIONS:
            kept = {name: body for name, body in theirs.get(section, {}).items() if name not in CDKS_OWN and not is_topic(body)}
            names = ours[section] | kept
            yield stage, f"{section} that changed", sorted(name for name in names if without_code(ours[section].get(name)) != without_code(kept.get(name))), []
        yield stage, "topics", [body["Properties"] for body in stack["Resources"].values() if is_topic(body)], [{"TopicName": topic}]
        # CloudFormation evaluates both before there is any resource.
        early = references([stack["Conditions"], stack["Rules"]]) - set(stack["Parameters"])
        yield stage, "resources that conditions and rules name", sorted(name for name in early if "::" not in name), []
        places = [body["Properties"]["Code"] for body in stack["Resources"].values() if body["Type"] == "AWS::Lambda::Function"]
        yield stage, "functions with code of their own", len({place["S3Key"] for place in places}), 4
    shared = [named(stack) for stack in stages.values()]
    yield "CDK", "names that its stages share", sorted(set.intersection(*shared)), []


# Of each stage, beside its topic.
PARAMETERS = {"hooks-prod": {"RequestsPerSecondMax": "200"}, "hooks-staging": {"LogLevel": "debug"}}


def is_topic(body):
    return body.get("Type") == "AWS::SNS::Topic"


def without_code(body):
    """CDK puts it into a place of its own."""
    if not body or body.get("Type") != "AWS::Lambda::Function":
        return body
    return body | {"Properties": {name: value for name, value in body["Properties"].items() if name != "Code"}, "Metadata": None}


def inserted(template, values):
    """The template with values in place of parameters."""
    def insert(part):
        if isinstance(part, list):
            return [insert(item) for item in part]
        if not isinstance(part, dict):
            return part
        if part.keys() == {"Ref"} and part["Ref"] in values:
            return values[part["Ref"]]
        return {name: insert(item) for name, item in part.items()}

    return insert({**template, "Parameters": {name: body for name, body in template["Parameters"].items() if name not in values}})


def with_texts(part):
    """CDK writes a number where it knows that one is wanted. CloudFormation takes both."""
    if isinstance(part, list):
        return [with_texts(item) for item in part]
    if isinstance(part, dict):
        return {name: with_texts(item) for name, item in part.items()}
    return str(part) if isinstance(part, (int, float)) and not isinstance(part, bool) else part


def named(stack):
    """What would have the same name in any other stack."""
    names = set()
    for body in stack["Resources"].values():
        chosen = [value for key, value in body.get("Properties", {}).items() if key in NAMES and (isinstance(value, str) or "Ref" not in value)]
        names |= {f"{body['Type']} {value}" for value in map(json.dumps, chosen) if "AWS::StackName" not in value and "AWS::StackId" not in value}
    return names


# Properties by which an account knows a resource.
NAMES = ("AlarmName", "DashboardName", "FunctionName", "LogGroupName", "ManagedPolicyName", "QueueName", "RoleName", "TableName", "TopicName")


def terraform(template, example):
    stages = {stage: resources["aws_cloudformation_stack.inbox"] for stage, resources in example["stages"].items()}
    stack = stages["prod"]
    yield from passed("Terraform", stack["parameters"], template)
    topic = example["stages"]["prod"]["aws_sns_topic.alarms"]["arn"]
    yield "Terraform", "parameters passed", stack["parameters"], {"AlarmTopicArn": topic, "WorkerConcurrencyMax": "10"}
    roles = [name for name, body in template["Resources"].items() if body["Type"] == "AWS::IAM::Role"]
    named_roles = [name for name in roles if "RoleName" in template["Resources"][name]["Properties"]]
    yield "Terraform", "capabilities", stack["capabilities"], ["CAPABILITY_NAMED_IAM" if named_roles else "CAPABILITY_IAM"]
    policy = json.loads(stack["policy_body"] or "{}")
    yield "Terraform", "the stack policy", policy, json.loads(pathlib.Path("deploy/stack-policy.json").read_text())
    yield "Terraform", "time-outs", sorted(name for block in stack["timeouts"] for name, value in block.items() if value), ["create", "delete", "update"]
    # The provider takes either. The stand-in has found the template at its address.
    yield "Terraform", "the template in the request", stack["template_body"], None
    yield "Terraform", "the template is too large for a request", len(json.dumps(template, separators=(",", ":"))) > REQUEST_BYTES_MAX, True
    read = {"webhook_url": stack["outputs"]["WebhookUrl"], "domain_table": stack["outputs"]["DomainTable"]}
    yield "Terraform", "outputs", example["outputs"], read
    yield "Terraform", "changes after `apply`", example["again"], {}
    updated = {"aws_cloudformation_stack.inbox": ["update"], "aws_s3_object.template": ["delete", "create"]}
    yield "Terraform", "changes with a new template", example["new template"], updated
    yield "Terraform", "destroys the stack", "Instance cannot be destroyed" not in example["destroy"], False
    ids = [[body["id"] for body in resources.values() if body.get("id") != REGION] for resources in example["stages"].values()]
    yield "Terraform", "names that its stages share", sorted(set(ids[0]) & set(ids[1])), []


def findings(inputs):
    template, synthesised, example = inputs
    rules = [*translation(template), *cdk(template, synthesised), *terraform(template, example)]
    found = [f"{what}: {rule} is {is_so!r} and should be {should_be!r}" for what, rule, is_so, should_be in rules if is_so != should_be]
    return len(rules), found


def break_condition(inputs):
    inputs[1]["hooks-prod"]["Conditions"]["HasAlarmTopic"] = {"Fn::Not": [{"Fn::Equals": [{"Ref": "Gateway"}, ""]}]}


def break_resource(inputs):
    del inputs[1]["hooks-prod"]["Resources"]["WorkerFunctionHints"]["Properties"]["FunctionResponseTypes"]


def break_cdk_parameter(inputs):
    inputs[1]["hooks-staging"]["Resources"]["WorkerFunction"]["Properties"]["Environment"]["Variables"]["HOOKONCE_LOG"] = "info"


def break_code(inputs):
    functions = [body for body in inputs[1]["hooks-prod"]["Resources"].values() if body["Type"] == "AWS::Lambda::Function"]
    functions[0]["Properties"]["Code"] = functions[1]["Properties"]["Code"]


def break_topic(inputs):
    for stack in inputs[1].values():
        for body in filter(is_topic, stack["Resources"].values()):
            body["Properties"]["TopicName"] = "alarms"


def break_queue(inputs):
    inputs[0]["Resources"]["SlowQueue"]["Properties"]["QueueName"] = {"Fn::Sub": "${AWS::StackName}-slow"}


def break_terraform_parameter(inputs):
    inputs[2]["stages"]["prod"]["aws_cloudformation_stack.inbox"]["parameters"]["WorkerConcurrency"] = "10"


def break_stage(inputs):
    inputs[2]["stages"]["staging"]["aws_sns_topic.alarms"]["id"] = inputs[2]["stages"]["prod"]["aws_sns_topic.alarms"]["id"]


def break_output(inputs):
    outputs = inputs[2]["outputs"]
    outputs["domain_table"] = outputs["webhook_url"]


def break_lifecycle(inputs):
    inputs[2]["destroy"] = {"aws_cloudformation_stack.inbox": ["delete"]}


def break_translation(inputs):
    for template in (inputs[0], *inputs[1].values()):
        template["Resources"]["WorkerFunctionSlowHints"]["Properties"]["ScalingConfig"] = {"MaximumConcurrency": 5}


def break_capability(inputs):
    inputs[0]["Resources"]["WorkerRole"]["Properties"]["RoleName"] = "worker"


# Each break, and what must then be found.
BREAKS = {
    break_condition: "hooks-prod: resources that conditions and rules name",
    break_resource: "hooks-prod: Resources that changed is ['WorkerFunctionHints']",
    break_cdk_parameter: "hooks-staging: Resources that changed is ['WorkerFunction']",
    break_code: "hooks-prod: functions with code of their own is 3",
    break_topic: "CDK: names that its stages share is",
    break_queue: "the translation: queues whose name can be too long",
    break_terraform_parameter: "Terraform: unknown parameters is ['WorkerConcurrency']",
    break_stage: "Terraform: names that its stages share is",
    break_output: "Terraform: outputs is",
    break_lifecycle: "Terraform: destroys the stack",
    break_translation: "the translation: parameters that nothing reads is ['SlowConcurrencyMax']",
    break_capability: "Terraform: capabilities",
}
# Each break of the example's text, and what Terraform must then say.
TEXT_BREAKS = {
    ("bucket = var.bucket", "bucket  = var.bucket"): "terraform fmt: main.tf",
    ("capabilities =", "timeout      = 30\n  capabilities ="): 'An argument named "timeout" is not expected here',
    ('= ["CAPABILITY_IAM"]', '= "CAPABILITY_IAM"'): 'Inappropriate value for attribute "capabilities": set of string required',
    ("file(\"${var.release}", "file(\"${var.releases}"): 'An input variable with the name "releases" has not been declared',
    ("${aws_s3_object.template.key}", "${var.bucket}"): "TemplateURL must reference a valid S3 object",
    ('outputs["DomainTable"]', 'outputs["Domain"]'): "Invalid index on main.tf",
}


def missed_text_breaks(place, release, text):
    for (old, new), expected in TEXT_BREAKS.items():
        try:
            applied(place / "broken", release, text.replace(old, new))
            printed = "nothing"
        except Refused as refused:
            printed = str(refused)
        if text.count(old) != 1 or expected not in printed:
            yield f"after {old!r} became {new!r}, Terraform says {printed}"


def missed_breaks(inputs):
    for broken, expected in BREAKS.items():
        changed = copy.deepcopy(inputs)
        broken(changed)
        if not any(expected in finding for finding in findings(changed)[1]):
            yield f"nothing is found after {broken.__name__}"


def main():
    release, cdk_output, terraform_file, place = (pathlib.Path(word).absolute() for word in sys.argv[1:])
    text = terraform_file.read_text()
    stages = {stage: json.loads((cdk_output / f"{stage}.template.json").read_text()) for stage in PARAMETERS}
    try:
        inputs = json.loads((release / "template.json").read_text()), stages, applied(place / "example", release, text)
    except Refused as refused:
        print(refused)
        return 1
    rules, found = findings(inputs)
    missed = [] if found else [*missed_breaks(inputs), *missed_text_breaks(place, release, text)]
    for line in found + missed:
        print(line)
    print("NOT checked: a deployment, `aws cloudformation package`, `terraform init` and Terraform's provider, for which a stand-in ran")
    figures = {"rules": rules, "broken": len(BREAKS) + len(TEXT_BREAKS), "violations": len(found) + len(missed)}
    print(json.dumps({"part": "iac", "terraform": inputs[2]["version"]} | figures))
    return 1 if found or missed else 0


if __name__ == "__main__":
    sys.exit(main())
