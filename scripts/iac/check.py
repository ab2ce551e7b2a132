"""Checks the examples of deploy/cdk and deploy/terraform against the template, as far as no account is needed. Then breaks
each input once: each break must be found.

usage: check.py TEMPLATE CDK_OUTPUT TERRAFORM

TEMPLATE is the translated template, CDK_OUTPUT the folder that the CDK example was synthesised into, TERRAFORM the
example's file. Nothing is deployed, and Terraform itself does not run."""

import copy
import json
import pathlib
import sys

import hcl2

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from references import references  # noqa: E402

# Whatever CDK adds to a template of ours.
CDKS_OWN = {"BootstrapVersion", "CheckBootstrapVersion"}
# `sam package` has put a place in S3 where they stood.
READ_BY_THE_BUILD = {"WorkerCode"}
SECTIONS = ("Parameters", "Rules", "Mappings", "Conditions", "Resources", "Outputs")
# What the provider takes: https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/cloudformation_stack
STACK_ARGUMENTS = {
    "capabilities", "disable_rollback", "iam_role_arn", "name", "notification_arns", "on_failure", "parameters", "policy_body",
    "policy_url", "region", "tags", "template_body", "template_url", "timeout_in_minutes",
}
# What Terraform itself takes in any resource.
META_ARGUMENTS = {"lifecycle", "depends_on", "provider"}
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
    stack, = [body["Properties"] for body in root["Resources"].values() if body["Type"] == "AWS::CloudFormation::Stack"]
    yield from passed("CDK", stack["Parameters"], template)
    yield "CDK", "parameters passed", sorted(stack["Parameters"]), ["AlarmTopicArn", "WorkerConcurrencyMax"]
    topics = [name for name, body in root["Resources"].items() if body["Type"] == "AWS::SNS::Topic"]
    yield "CDK", "the topic of alarms", [stack["Parameters"].get("AlarmTopicArn")], [{"Ref": name} for name in topics]
    # CloudFormation evaluates both before there is any resource.
    for where, one in (("CDK's root", root), ("CDK's nested stack", nested)):
        early = references([one.get("Conditions", {}), one.get("Rules", {})]) - set(one["Parameters"])
        yield where, "resources that conditions and rules name", sorted(early), []
    types = [body["Type"] for body in nested["Resources"].values()]
    yield "CDK", "functions and tables", (types.count("AWS::Lambda::Function"), types.count("AWS::DynamoDB::Table")), (4, 2)
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


def terraform(template, configuration):
    stack = configuration["resource"]["aws_cloudformation_stack", "inbox"]
    yield from passed("Terraform", stack["parameters"], template)
    roles = [name for name, body in template["Resources"].items() if body["Type"] == "AWS::IAM::Role"]
    named = [name for name in roles if "RoleName" in template["Resources"][name]["Properties"]]
    yield "Terraform", "capabilities", stack["capabilities"], ["CAPABILITY_NAMED_IAM" if named else "CAPABILITY_IAM"]
    arguments = {name for name in stack if not name.startswith("__")}
    yield "Terraform", "unknown arguments", sorted(arguments - STACK_ARGUMENTS - META_ARGUMENTS), []
    yield "Terraform", "where the template is", sorted({"template_body", "template_url"} & set(stack)), ["template_url"]
    yield "Terraform", "the template is too large for a request", len(json.dumps(template, separators=(",", ":"))) > REQUEST_BYTES_MAX, True
    start = "aws_cloudformation_stack.inbox.outputs["
    read = [value.split(start, 1)[1].split("]", 1)[0].strip('"') for value in configuration["output"].values() if start in value]
    yield "Terraform", "outputs read", len(read), len(configuration["output"])
    yield "Terraform", "outputs that do not exist", sorted(set(read) - set(template["Outputs"])), []


def findings(inputs):
    template, synthesised, configuration = inputs
    rules = [*translation(template), *cdk(template, synthesised), *terraform(template, configuration)]
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


def break_terraform_parameter(inputs):
    inputs[2]["resource"]["aws_cloudformation_stack", "inbox"]["parameters"]["WorkerConcurrency"] = 10


def break_terraform_argument(inputs):
    inputs[2]["resource"]["aws_cloudformation_stack", "inbox"]["timeout"] = 30


def break_output(inputs):
    inputs[2]["output"]["table"] = '${aws_cloudformation_stack.inbox.outputs["Domain"]}'


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
    break_terraform_parameter: "Terraform: unknown parameters is ['WorkerConcurrency']",
    break_terraform_argument: "Terraform: unknown arguments is ['timeout']",
    break_output: "Terraform: outputs that do not exist is ['Domain']",
    break_translation: "the translation: parameters that nothing reads is ['WorkerConcurrencyMax']",
    break_capability: "Terraform: capabilities",
}


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


def read_terraform(path):
    """The blocks by their labels. The parser keeps the quotation marks of texts and labels."""
    parsed = hcl2.loads(path.read_text())

    def plain(value):
        if isinstance(value, str) and value.startswith('"'):
            return value[1:-1]
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {plain(name): plain(item) for name, item in value.items()}
        return value

    resources = {(plain(kind), plain(name)): plain(body) for block in parsed["resource"] for kind, named in block.items() if kind != "__is_block__"
                 for name, body in named.items() if name != "__is_block__"}
    outputs = {plain(name): str(body["value"]) for block in parsed["output"] for name, body in block.items() if name != "__is_block__"}
    return {"resource": resources, "output": outputs}


def main():
    template, cdk_output, terraform_file = map(pathlib.Path, sys.argv[1:])
    inputs = json.loads(template.read_text()), read_cdk(cdk_output), read_terraform(terraform_file)
    rules, found = findings(inputs)
    missed = [] if found else list(missed_breaks(inputs))
    for line in found + missed:
        print(line)
    print("NOT checked: a deployment, `sam package`, Terraform itself and the types of its provider")
    print(json.dumps({"part": "iac", "rules": rules, "broken": len(BREAKS), "violations": len(found) + len(missed)}))
    return 1 if found or missed else 0


if __name__ == "__main__":
    sys.exit(main())
