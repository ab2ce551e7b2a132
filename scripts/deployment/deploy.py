"""Runs deploy.sh of a release on the mock of AWS, as a deployer, lets an update fail at each resource that it changes, and then removes
everything as docs/run/fifteen-minutes.md does: it notes what a deployer calls. `HOOKONCE` names the binary, `AWS_ONE` a command line of
AWS of version 1."""

import hashlib
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path += [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[1] / "releases")]

import calls  # noqa: E402
from mock import REGION, STACK, client  # noqa: E402
from moto import mock_aws  # noqa: E402
from moto.cloudformation.models import CloudFormationBackend, Event  # noqa: E402
from moto.cloudformation.responses import CloudFormationResponse  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402
from template import released  # noqa: E402

PAGE = pathlib.Path("docs/run/fifteen-minutes.md")
# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)


def termination_protection(request):
    """The mock lacks it."""
    name = request._get_param("StackName")
    return f"<UpdateTerminationProtectionResponse><UpdateTerminationProtectionResult><StackId>{name}</StackId></UpdateTerminationProtectionResult></UpdateTerminationProtectionResponse>"


class Fault:
    """At which of the resources that an update changes it fails, in the order of their names."""

    at = None


def execute(backend, change_set_name, stack_name=None):
    """The mock's own, which never fails and makes no outputs."""
    change_set = next(one for name, one in backend.change_sets.items() if change_set_name in (name, one.change_set_name))
    if change_set.change_set_type == "UPDATE" and change_set.stack_name == STACK:
        update(change_set)
        return
    execute_change_set(backend, change_set_name, stack_name)
    for stack in backend.stacks.values():
        stack.template_dict = json.loads(stack.template) if stack.template.startswith("{") else yaml_parse(stack.template)
        stack.output_map = stack._create_output_map()


def update(change_set):
    """What CloudFormation says of an update: one resource after the other, and back where one fails. The mock cannot update what it made, so
    here only the parameters change."""
    stack = change_set.stack
    resources = sorted((change.logical_resource_id, change.resource_type) for change in change_set.changes)

    def tell(resource, kind, status, reason=None):
        stack.events.append(Event(stack.stack_id, stack.name, resource, resource, kind, status, reason, None))

    stack._add_stack_event("UPDATE_IN_PROGRESS")
    for at, (resource, kind) in enumerate(resources):
        tell(resource, kind, "UPDATE_IN_PROGRESS")
        if at == Fault.at:
            tell(resource, kind, "UPDATE_FAILED", "it was meant to fail")
            break
        tell(resource, kind, "UPDATE_COMPLETE")
    if Fault.at is None:
        stack.resource_map.resolved_parameters.update(change_set.parameters)
        stack.status, change_set.execution_status = "UPDATE_COMPLETE", "EXECUTE_COMPLETE"
    else:
        stack._add_stack_event("UPDATE_ROLLBACK_IN_PROGRESS")
        for resource, kind in reversed(resources[: Fault.at + 1]):
            tell(resource, kind, "UPDATE_COMPLETE")
        stack.status, change_set.execution_status = "UPDATE_ROLLBACK_COMPLETE", "EXECUTE_FAILED"
    stack._add_stack_event(stack.status)


CloudFormationResponse.update_termination_protection = termination_protection
execute_change_set = CloudFormationBackend.execute_change_set
CloudFormationBackend.execute_change_set = execute


def release(folder):
    """The archive, with code that is no code. The mock knows two outputs."""
    template = released("arm64", "0.1.0")
    template["Outputs"] = {name: template["Outputs"][name] for name in ("Version", "InboxTable")}
    folder.mkdir()
    (folder / "template.json").write_text(json.dumps(template))
    for name in ("deploy.sh", "bucket.yaml", "stack-policy.json"):
        shutil.copy(f"deploy/{name}", folder)
    for name in ("webhook", "worker", "relay", "dispatcher"):
        (folder / f"{name}.zip").write_bytes(name.encode())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))


class Deployer:
    """Runs commands in the folder of the release, and keeps what did not go as it should."""

    def __init__(self, folder, url):
        self.folder, self.found, self.count = folder, [], 0
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": REGION, "HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}",
                            "AWS_PAGER": ""}
        self.place("aws", f'exec "{os.environ["AWS_ONE"]}" --endpoint-url "$AWS_ENDPOINT_URL" "$@"')
        # What the deployment ends with is an operator's, and finds nothing here that runs.
        self.place("hookonce", f'[ "$1" != doctor ] || exit 0; exec "{os.environ["HOOKONCE"]}" "$@"')

    def place(self, name, line):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, what, text, prints, status=0):
        environment = {**self.environment, "AWS_ACCESS_KEY_ID": calls.key_of("deployer", what)}
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
        self.count += 1
        printed = ran.stdout + ran.stderr
        if ran.returncode != status or prints not in printed:
            self.found.append(f"{what}: exit {ran.returncode}, or no {prints!r} in:\n{printed}")
        return printed


def removal():
    """The block with which the page removes everything, for this stack. No handler was deployed here."""
    block = PAGE.read_text("utf-8").split("\n## 9. Remove\n", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    lines = [line for line in block.splitlines() if "hookonce-pushes" not in line]
    topic = "topic=$(aws sns create-topic --name hookonce-alarms --query TopicArn --output text)"
    bucket = f"bucket=$(aws cloudformation describe-stacks --stack-name {STACK}-code --query 'Stacks[0].Outputs[0].OutputValue' --output text)"
    return "\n".join([topic, bucket, *(line.replace("-name hookonce", f"-name {STACK}") for line in lines)])


def state():
    """What an update that failed must leave as it was."""
    cloud = client("cloudformation")
    stack = cloud.describe_stacks(StackName=STACK)["Stacks"][0]
    template = json.dumps(cloud.get_template(StackName=STACK)["TemplateBody"], sort_keys=True)
    policy = json.loads(cloud.get_stack_policy(StackName=STACK)["StackPolicyBody"])
    return sorted((one["ParameterKey"], one["ParameterValue"]) for one in stack["Parameters"]), template, policy


def faults(deployer, plan):
    """Lets an update fail at each of the resources that it changes, and then succeed."""
    update, before = f"./deploy.sh --stack {STACK} LogLevel=debug", state()
    changed = sorted(re.findall(r"^ modify +(\w+)", plan, re.MULTILINE))
    for at, resource in enumerate(changed):
        Fault.at = at
        printed = deployer.run(f"a fault at {resource}", update, f"{resource}: UPDATE_FAILED: it was meant to fail", status=3)
        if "is not deployed: UPDATE_ROLLBACK_COMPLETE; it is as it was before" not in printed:
            deployer.found.append(f"a fault at {resource}: nothing says that the stack is as it was:\n{printed}")
        if state() != before:
            deployer.found.append(f"a fault at {resource}: the stack is not as it was")
    Fault.at = None
    deployer.run("the same update without a fault", update, f"the stack {STACK} is deployed: UPDATE_COMPLETE")
    if ("LogLevel", "debug") not in state()[0]:
        deployer.found.append("the update without a fault changed nothing")
    if not changed:
        deployer.found.append(f"the plan of an update names no resource:\n{plan}")
    return len(changed)


def look(deployer):
    deployer.run("deploy.sh", f"./deploy.sh --stack {STACK}", f"the stack {STACK} is deployed: CREATE_COMPLETE")
    plan = deployer.run("deploy.sh --plan", f"./deploy.sh --stack {STACK} --plan LogLevel=debug", "RelayFunction")
    positions = faults(deployer, plan)
    deployer.run(f"{PAGE}, Remove", removal(), f"{STACK}-DocumentsTable-")
    left = client("dynamodb").list_tables()["TableNames"], [one["StackName"] for one in client("cloudformation").describe_stacks()["Stacks"]]
    if left != ([], []):
        deployer.found.append(f"{PAGE}: what is left after everything is removed: {left}")
    return positions


def main():
    with mock_aws(), tempfile.TemporaryDirectory() as place:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            folder = pathlib.Path(place, "release")
            release(folder)
            deployer = Deployer(folder, f"http://{host}:{port}")
            positions = look(deployer)
        finally:
            server.stop()
    calls.write()
    for finding in deployer.found:
        print(finding)
    print(json.dumps({"part": "deploy", "commands": deployer.count, "faults": positions, "violations": len(deployer.found)}))
    return 1 if deployer.found else 0


if __name__ == "__main__":
    sys.exit(main())
