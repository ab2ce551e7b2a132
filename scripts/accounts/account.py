"""The account that a run uses: its command line, the release, and what the run has made there. All of it has the name of the run."""

import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import time
import zipfile

from load import Load

HERE = pathlib.Path(__file__).resolve().parent
NAME = re.compile(r"hookonce-proof-[0-9a-f]{6}")
TABLES = ("InboxTable", "DomainTable", "DocumentsTable")
FUNCTIONS = ("WebhookFunction", "WorkerFunction", "RelayFunction", "DispatcherFunction")
# Where a mock of AWS answers.
MOCK = "AWS_ENDPOINT_URL"
COMMAND_SECONDS, DEPLOYMENT_SECONDS = 600, 3600
# How long a step waits for what AWS does by itself: a message that a killed batch held comes again after six minutes, a metric after
# some, and a stack is deleted in some. The mock does it all at once, but for a record without a hint: it waits four minutes for the relay.
PATIENCE_SECONDS, LOOK_SECONDS = 1200, 4
MOCK_PATIENCE_SECONDS, MOCK_LOOK_SECONDS = 400, 0.5


class Refused(Exception):
    """A command that did not do what it should. Its text is for a person."""


class Skipped(Exception):
    """Why a step was not done."""


class Account:
    def __init__(self, options, work):
        self.work, self.mock = work, os.environ.get(MOCK)
        self.environment = {**os.environ, "AWS_PAGER": "", "AWS_PROFILE": options.profile, "COLUMNS": "80"}
        # They would go before the profile.
        for name in () if self.mock else ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            self.environment.pop(name, None)
        self.region = options.region or self.environment.get("AWS_REGION") or self.run("aws", "configure", "get", "region").strip()
        self.environment |= {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}
        self.name = getattr(options, "stack", None) or f"hookonce-proof-{secrets.token_hex(3)}"
        self.secret = f"whsec_{secrets.token_urlsafe(24)}"
        self.patience = MOCK_PATIENCE_SECONDS if self.mock else PATIENCE_SECONDS
        self.parameters, self.outputs, self.loads, self.pair = {}, {}, {}, None

    def run(self, *words, given=None, seconds=COMMAND_SECONDS, folder=None):
        """What a command prints. Ctrl-C ends the wait and not the command, which may be in the middle of a deployment."""
        ran = subprocess.Popen([str(word) for word in words], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, cwd=folder, start_new_session=True)
        try:
            printed, failure = ran.communicate(given, timeout=seconds)
        except subprocess.TimeoutExpired:
            ran.kill()
            raise Refused(f"{' '.join(map(str, words[:3]))} did not end in {seconds} s") from None
        if ran.returncode:
            raise Refused(f"{' '.join(map(str, words[:3]))} ended with {ran.returncode}: {(failure or printed).strip()[-500:]}")
        return printed

    def until(self, look, patience=None):
        """What `look` returns once that is true, or when all patience is over."""
        end = time.monotonic() + (patience or self.patience)
        while not (seen := look()) and time.monotonic() < end:
            time.sleep(MOCK_LOOK_SECONDS if self.mock else LOOK_SECONDS)
        return seen

    def aws(self, service, operation, **asked):
        words = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", *(value if isinstance(value, list) else [value]))
                 if part is not True]
        return json.loads(self.run("aws", service, operation, "--output", "json", *words) or "{}")

    def hookonce(self, *words, given=None):
        return self.run("hookonce", *words, "--stack", self.name, given=given)

    def told(self, *words):
        """What hookonce prints as JSON, whatever its exit code says of what it found."""
        ran = subprocess.run(["hookonce", *words, "--json", "--stack", self.name], env=self.environment, capture_output=True, text=True,
                             timeout=COMMAND_SECONDS, check=False, start_new_session=True)
        try:
            return json.loads(ran.stdout)
        except ValueError:
            raise Refused(f"hookonce {words[0]} ended with {ran.returncode}: {ran.stderr.strip()[-500:]}") from None

    def identity(self):
        return self.aws("sts", "get-caller-identity")["Account"]

    # ------------------------------------------------------------ the stack

    def stack(self, name):
        return self.aws("cloudformation", "describe-stacks", stack_name=name)["Stacks"][0]

    def status(self, name):
        """That of a stack, or none if there is no such stack."""
        try:
            status = self.stack(name)["StackStatus"]
        except Refused as refused:
            if "does not exist" not in str(refused):
                raise
            return None
        return None if status == "DELETE_COMPLETE" else status

    def output_of(self, name):
        return {one["OutputKey"]: one["OutputValue"] for one in self.stack(name).get("Outputs", [])}

    def resources(self):
        listed = self.aws("cloudformation", "describe-stack-resources", stack_name=self.name)["StackResources"]
        return {one["LogicalResourceId"]: (one["ResourceType"], one["PhysicalResourceId"]) for one in listed if "PhysicalResourceId" in one}

    def deploy(self, release, allow=(), **parameters):
        """What deploy.sh of a release brings, and may lose. The status of the stack."""
        given = [word for name in allow for word in ("--allow", name)] + [f"{name}={value}" for name, value in parameters.items()]
        self.run(release / "deploy.sh", "--stack", self.name, *given, seconds=DEPLOYMENT_SECONDS)
        described = self.stack(self.name)
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in described["Outputs"]}
        return described["StackStatus"]

    def hashes(self):
        """The code that each function runs."""
        return [self.aws("lambda", "get-function-configuration", function_name=self.outputs[name])["CodeSha256"] for name in FUNCTIONS]

    def url(self, endpoint):
        """The public address of an endpoint, or where the mock answers for it."""
        address = self.outputs["WebhookUrl"] + endpoint
        if not self.mock:
            return address
        host, path = address.removeprefix("https://").split("/", 1)
        return f"{self.mock}/_aws/execute-api/{host.split('.')[0]}/$default/{path}"

    def configure(self, function, **settings):
        self.aws("lambda", "update-function-configuration", function_name=self.outputs[function], **settings)
        self.updated(function)

    def code(self, function, file):
        self.aws("lambda", "update-function-code", function_name=self.outputs[function], zip_file=f"fileb://{file}")
        self.updated(function)

    def updated(self, function):
        asked = {"function_name": self.outputs[function]}
        self.until(lambda: self.aws("lambda", "get-function-configuration", **asked)["LastUpdateStatus"] != "InProgress")

    def delete(self, name):
        """Deletes a stack, and waits until it is gone."""
        # An interrupted run may have begun it.
        if self.status(name) != "DELETE_IN_PROGRESS":
            self.run("aws", "cloudformation", "update-termination-protection", "--stack-name", name, "--no-enable-termination-protection")
            self.run("aws", "cloudformation", "delete-stack", "--stack-name", name)
        self.until(lambda: self.status(name) in (None, "DELETE_FAILED"))
        if self.status(name):
            raise Refused(f"the stack {name} was not deleted: {self.status(name)}")

    # ------------------------------------------------------------ deliveries

    def load(self, step):
        self.loads[step] = Load(self.url("load"), self.secret, step)
        return self.loads[step]

    def records(self, *filters):
        return self.told("list", "--limit", "10000", *filters)

    def settled(self, count, *filters, keys=None):
        """The records, or those of these keys, once there are so many and none waits, or when all patience is over."""
        def look():
            nonlocal records
            records = [record for record in self.records(*filters) if keys is None or record["key"] in keys]
            return len(records) >= count and all(record["state"] != "PENDING" for record in records)

        records = []
        self.until(look)
        return records

    def items(self):
        return self.aws("dynamodb", "scan", table_name=self.outputs["DomainTable"], consistent_read=True)["Items"]


def release_of(folder):
    """A release's version and processor."""
    template = json.loads((folder / "template.json").read_text("utf-8"))
    functions = [one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::Lambda::Function"]
    return {"version": template["Mappings"]["Release"]["Version"]["Text"], "processor": functions[0]["Architectures"][0],
            "sha256": hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest()}


def twin(release, folder):
    """The same release with other code: one more file in each zip."""
    shutil.copytree(release, folder)
    for path in folder.glob("*.zip"):
        with zipfile.ZipFile(path, "a") as package:
            package.writestr("twin", "the same release, packed again")
    sum_up(folder)
    return folder


def sum_up(folder):
    """Writes what the files of a release are now."""
    named = [line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text("utf-8").splitlines()]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in named]
    (folder / "SHA256SUMS").write_text("".join(sums), "utf-8")
