"""Runs deploy.sh of a release on the mock of AWS, as a deployer, and then removes everything as docs/run/fifteen-minutes.md does: it
notes what a deployer calls. `HOOKONCE` names the binary, `AWS_ONE` a command line of AWS of version 1."""

import hashlib
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path += [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[1] / "releases")]

import calls  # noqa: E402
from mock import REGION, STACK, client  # noqa: E402
from moto import mock_aws  # noqa: E402
from moto.cloudformation.models import CloudFormationBackend  # noqa: E402
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


def execute(backend, change_set_name, stack_name=None):
    """The mock's own, which makes no outputs."""
    execute_change_set(backend, change_set_name, stack_name)
    for stack in backend.stacks.values():
        stack.template_dict = json.loads(stack.template) if stack.template.startswith("{") else yaml_parse(stack.template)
        stack.output_map = stack._create_output_map()


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

    def run(self, what, text, prints):
        environment = {**self.environment, "AWS_ACCESS_KEY_ID": calls.key_of("deployer", what)}
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
        self.count += 1
        printed = ran.stdout + ran.stderr
        if ran.returncode or prints not in printed:
            self.found.append(f"{what}: exit {ran.returncode}, or no {prints!r} in:\n{printed}")


def removal():
    """The block with which the page removes everything, for this stack. No handler was deployed here."""
    block = PAGE.read_text("utf-8").split("\n## 9. Remove\n", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    lines = [line for line in block.splitlines() if "hookonce-pushes" not in line]
    topic = "topic=$(aws sns create-topic --name hookonce-alarms --query TopicArn --output text)"
    bucket = f"bucket=$(aws cloudformation describe-stacks --stack-name {STACK}-code --query 'Stacks[0].Outputs[0].OutputValue' --output text)"
    return "\n".join([topic, bucket, *(line.replace("-name hookonce", f"-name {STACK}") for line in lines)])


def look(deployer):
    deployer.run("deploy.sh", f"./deploy.sh --stack {STACK}", f"the stack {STACK} is deployed: CREATE_COMPLETE")
    deployer.run("deploy.sh --plan", f"./deploy.sh --stack {STACK} --plan LogLevel=debug", "RelayFunction")
    deployer.run(f"{PAGE}, Remove", removal(), f"{STACK}-DocumentsTable-")
    left = client("dynamodb").list_tables()["TableNames"], [one["StackName"] for one in client("cloudformation").describe_stacks()["Stacks"]]
    if left != ([], []):
        deployer.found.append(f"{PAGE}: what is left after everything is removed: {left}")


def main():
    with mock_aws(), tempfile.TemporaryDirectory() as place:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            folder = pathlib.Path(place, "release")
            release(folder)
            deployer = Deployer(folder, f"http://{host}:{port}")
            look(deployer)
        finally:
            server.stop()
    calls.write()
    for finding in deployer.found:
        print(finding)
    print(json.dumps({"part": "deploy", "commands": deployer.count, "violations": len(deployer.found)}))
    return 1 if deployer.found else 0


if __name__ == "__main__":
    sys.exit(main())
