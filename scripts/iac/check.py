"""Checks the examples of deploy/cdk and deploy/terraform against the template, as far as no account is needed. Then breaks
each input once: each break must be found.

usage: check.py TEMPLATE CDK_OUTPUT TERRAFORM PLACE

TEMPLATE is the translated template, CDK_OUTPUT the folder that the CDK example was synthesised into, TERRAFORM the
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
# `sam package` has put a place in S3 where they stood.
READ_BY_THE_BUILD = {"WorkerCode"}
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
    unused = [name for name in template["Parameters"] if name not in used | READ_BY_THE_BUILD and f"${{{name}}}" not in text]
    yield "the translation", "parameters that nothing reads", unused, []


def passed(where, parameters, template):
    yield where, "unknown parameters", sorted(set(parameters) - set(template["Parameters"])), []
    missing = [name for name, body in template["Parameters"].items() if "Default" not in body and name not in parameters]
    yield where, "parameters without a value", missing, []


def cdk(template, synthesised):
    root, (nested,) = synthesised["root"], synthesised["nested"]
    ours, theirs = sorted_dependencies(template), sorted_dependencies(nested)
    for section in SECTIONS:
        kept = {name: body for name, body in theirs.get(section, {}).items() if name not in CDKS_OWN}
        # An output that the root reads is CDK's own, too.
        names = ours[section] if section == "Outputs" else ours[section] | kept
        yield "CDK", f"{section} that changed", sorted(name for name in names if ours[section].get(name) != kept.get(name)), []
    (name, stack), = [(name, body["Properties"]) for name, body in root["Resources"].items() if body["Type"] == "AWS::CloudFormation::Stack"]
    # CloudFormation calls it ROOT-ID-RANDOM, and a queue begins with that.
    longest = len(f"-{name}-{13 * 'x'}-effects")
    yield "CDK", "whether a queue's name leaves 40 of its 80 characters for the root's", longest <= 40, True
    yield from passed("CDK", stack["Parameters"], template)
    yield "CDK", "parameters passed", sorted(stack["Parameters"]), ["AlarmTopicArn", "WorkerConcurrencyMax"]
    topics = [name for name, body in root["Resources"].items() if body["Type"] == "AWS::SNS::Topic"]
    yield "CDK", "the topic of alarms", [stack["Parameters"].get("AlarmTopicArn")], [{"Ref": name} for name in topics]
    # CloudFormation evaluates both before there is any resource.
    for where, one in (("CDK's root", root), ("CDK's nested stack", nested)):
        early = references([one.get("Conditions", {}), one.get("Rules", {})]) - set(one["Parameters"])
        yield where, "resources that conditions and rules name", sorted(early), []
    types = [body["Type"] for body in nested["Resources"].values()]
    yield "CDK", "functions and tables", (types.count("AWS::Lambda::Function"), types.count("AWS::DynamoDB::Table")), (4, 3)
    read = {name.removeprefix("Outputs.") for body in [root["Outputs"]] for name in nested_outputs(body)}
    yield "CDK", "outputs that do not exist", sorted(read - set(nested["Outputs"])), []


def nested_outputs(outputs):
    """The outputs of the nested stack that the root reads."""
    found = []
    for body in outputs.values():
        target = body["Value"].get("Fn::GetAtt", [])
        if len(target) == 2 and target[1].startswith("Outputs."):
            found.append(target[1])
    return found


def terraform(template, example):
    stack = example["resources"]["aws_cloudformation_stack.inbox"]
    yield from passed("Terraform", stack["parameters"], template)
    topic = example["resources"]["aws_sns_topic.alarms"]["arn"]
    yield "Terraform", "parameters passed", stack["parameters"], {"AlarmTopicArn": topic, "WorkerConcurrencyMax": "10"}
    roles = [name for name, body in template["Resources"].items() if body["Type"] == "AWS::IAM::Role"]
    named = [name for name in roles if "RoleName" in template["Resources"][name]["Properties"]]
    yield "Terraform", "capabilities", stack["capabilities"], ["CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"]
    # The provider takes either. The stand-in has found the template at its address.
    yield "Terraform", "the template in the request", stack["template_body"], None
    yield "Terraform", "the template is too large for a request", len(json.dumps(template, separators=(",", ":"))) > REQUEST_BYTES_MAX, True
    read = {"webhook_url": stack["outputs"]["WebhookUrl"], "domain_table": stack["outputs"]["DomainTable"]}
    yield "Terraform", "outputs", example["outputs"], read
    yield "Terraform", "changes after `apply`", example["again"], {}
    updated = {"aws_cloudformation_stack.inbox": ["update"], "aws_s3_object.template": ["delete", "create"]}
    yield "Terraform", "changes with a new template", example["new template"], updated
    yield "Terraform", "destroys the stack", "Instance cannot be destroyed" not in example["destroy"], False


def findings(inputs):
    template, synthesised, example = inputs
    rules = [*translation(template), *cdk(template, synthesised), *terraform(template, example)]
    found = [f"{what}: {rule} is {is_so!r} and should be {should_be!r}" for what, rule, is_so, should_be in rules if is_so != should_be]
    return len(rules), found


def break_condition(inputs):
    nested, = inputs[1]["nested"]
    nested["Conditions"]["HasAlarmTopic"] = {"Fn::Not": [{"Fn::Equals": [{"Ref": "Gateway"}, ""]}]}


def break_resource(inputs):
    nested, = inputs[1]["nested"]
    del nested["Resources"]["WorkerFunctionHints"]["Properties"]["FunctionResponseTypes"]


def break_cdk_parameter(inputs):
    for body in inputs[1]["root"]["Resources"].values():
        if body["Type"] == "AWS::CloudFormation::Stack":
            body["Properties"]["Parameters"]["AlarmTopic"] = body["Properties"]["Parameters"].pop("AlarmTopicArn")


def break_nested_id(inputs):
    resources = inputs[1]["root"]["Resources"]
    resources["InboxNestedStackInboxNestedStackResource3B0B17C6"] = resources.pop("Inbox")


def break_terraform_parameter(inputs):
    inputs[2]["resources"]["aws_cloudformation_stack.inbox"]["parameters"]["WorkerConcurrency"] = "10"


def break_output(inputs):
    outputs = inputs[2]["outputs"]
    outputs["domain_table"] = outputs["webhook_url"]


def break_lifecycle(inputs):
    inputs[2]["destroy"] = {"aws_cloudformation_stack.inbox": ["delete"]}


def break_translation(inputs):
    inputs[0]["Resources"]["WorkerFunctionHints"]["Properties"]["ScalingConfig"] = {"MaximumConcurrency": 5}
    nested, = inputs[1]["nested"]
    nested["Resources"]["WorkerFunctionHints"]["Properties"]["ScalingConfig"] = {"MaximumConcurrency": 5}


def break_capability(inputs):
    inputs[0]["Resources"]["WorkerRole"]["Properties"]["RoleName"] = "worker"


# Each break, and what must then be found.
BREAKS = {
    break_condition: "CDK's nested stack: resources that conditions and rules name",
    break_resource: "CDK: Resources that changed is ['WorkerFunctionHints']",
    break_cdk_parameter: "CDK: unknown parameters is ['AlarmTopic']",
    break_nested_id: "CDK: whether a queue's name leaves 40 of its 80 characters for the root's is False",
    break_terraform_parameter: "Terraform: unknown parameters is ['WorkerConcurrency']",
    break_output: "Terraform: outputs is",
    break_lifecycle: "Terraform: destroys the stack",
    break_translation: "the translation: parameters that nothing reads is ['WorkerConcurrencyMax']",
    break_capability: "Terraform: capabilities",
}
# Each break of the example's text, and what Terraform must then say.
TEXT_BREAKS = {
    ("bucket = var.bucket", "bucket  = var.bucket"): "terraform fmt: main.tf",
    ("capabilities =", "timeout      = 30\n  capabilities ="): 'An argument named "timeout" is not expected here',
    ('= ["CAPABILITY_IAM"]', '= "CAPABILITY_IAM"'): 'Inappropriate value for attribute "capabilities": set of string required',
    ("var.template)", "var.templates)"): 'An input variable with the name "templates" has not been declared',
    ("${aws_s3_object.template.key}", "${var.template}"): "TemplateURL must reference a valid S3 object",
    ('outputs["DomainTable"]', 'outputs["Domain"]'): "Invalid index on main.tf",
}


def missed_text_breaks(place, template, text):
    for (old, new), expected in TEXT_BREAKS.items():
        try:
            applied(place / "broken", template, text.replace(old, new))
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


def read_cdk(folder):
    root = json.loads((folder / "Hooks.template.json").read_text())
    nested = [json.loads(file.read_text()) for file in sorted(folder.glob("*.nested.template.json"))]
    return {"root": root, "nested": nested}


def main():
    template, cdk_output, terraform_file, place = (pathlib.Path(word).absolute() for word in sys.argv[1:])
    text = terraform_file.read_text()
    try:
        inputs = json.loads(template.read_text()), read_cdk(cdk_output), applied(place / "example", template, text)
    except Refused as refused:
        print(refused)
        return 1
    rules, found = findings(inputs)
    missed = [] if found else [*missed_breaks(inputs), *missed_text_breaks(place, template, text)]
    for line in found + missed:
        print(line)
    print("NOT checked: a deployment, `sam package`, `terraform init` and Terraform's provider, for which a stand-in ran")
    figures = {"rules": rules, "broken": len(BREAKS) + len(TEXT_BREAKS), "violations": len(found) + len(missed)}
    print(json.dumps({"part": "iac", "terraform": inputs[2]["version"]} | figures))
    return 1 if found or missed else 0


if __name__ == "__main__":
    sys.exit(main())
