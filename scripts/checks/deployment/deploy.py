"""Runs deploy.sh of a release on the mock of AWS, as a deployer, kills it after each call that writes, lets an update fail at each resource
that it changes, and then removes everything as docs/run/fifteen-minutes.md does: it notes what a deployer calls. `HOOKONCE` names the
binary, `AWS_ONE` a command line of AWS of version 1."""

import collections
import copy
import hashlib
import io
import itertools
import json
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import zipfile

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path += [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2] / "releases")]

import calls  # noqa: E402
import changes  # noqa: E402
from mock import ACCOUNT, REGION, STACK, client, verdict  # noqa: E402
from moto import mock_aws  # noqa: E402
from moto.cloudformation.models import CloudFormationBackend, Event  # noqa: E402
from moto.cloudformation.responses import CloudFormationResponse  # noqa: E402
from moto.core.responses import ActionResult  # noqa: E402
from moto.moto_server.werkzeug_app import DomainDispatcherApplication  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402
from template import released  # noqa: E402

PAGE = pathlib.Path("docs/run/fifteen-minutes.md")
VERSION = tomllib.loads(pathlib.Path("Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
POLICY = json.loads(pathlib.Path("deploy/stack-policy.json").read_text("utf-8"))
# The mock knows two outputs.
OUTPUTS = ("Version", "InboxTable")
# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)


def termination_protection(request):
    """The mock lacks it."""
    name = request._get_param("StackName")
    protected.add(name)
    return f"<UpdateTerminationProtectionResponse><UpdateTerminationProtectionResult><StackId>{name}</StackId></UpdateTerminationProtectionResult></UpdateTerminationProtectionResponse>"


def continue_update_rollback(request):
    """The mock lacks it. Here nothing is in its way any more."""
    stack = next(one for one in request.cloudformation_backend.stacks.values() if one.name == request._get_param("StackName"))
    assert stack.status == "UPDATE_ROLLBACK_FAILED", stack.status
    stack.template, stack.resource_map.resolved_parameters = stack.before
    stack.parameters = dict(stack.resource_map.resolved_parameters)
    stack.status = "UPDATE_ROLLBACK_COMPLETE"
    settle(stack)
    stack._add_stack_event(stack.status)
    return "<ContinueUpdateRollbackResponse><ContinueUpdateRollbackResult></ContinueUpdateRollbackResult></ContinueUpdateRollbackResponse>"


class Fault:
    """At which of its resources a change set fails, in the order of their names, and whether its roll-back fails there, too. Or whether
    each alarm rings that a change set has for its roll-back, and which those are."""

    at, is_final, rings, alarms = None, False, False, {}


def create(backend, **asked):
    """The mock's own, which keeps a stack that has only a name, and makes another one of that name."""
    for stack_id, stack in list(backend.stacks.items()):
        if (stack.name, stack.status, asked["change_set_type"]) == (asked["stack_name"], "REVIEW_IN_PROGRESS", "CREATE"):
            del backend.stacks[stack_id]
    made = create_change_set(backend, **asked)
    change_set = backend.change_sets[made[0]]
    if asked["change_set_type"] == "UPDATE" and change_set.status != "FAILED":
        # It names no property, and knows of no condition.
        change_set.changes = list(changes.between(template_of(change_set.stack), template_after(change_set)))
    return made


def template_of(stack):
    return changes.Evaluated(yaml_parse(stack.template), stack.parameters)


def template_after(change_set):
    return changes.Evaluated(yaml_parse(change_set.template), {**change_set.stack.parameters, **change_set.parameters})


def execute(backend, change_set_name, stack_name=None):
    """The mock's own, which never fails, makes no outputs, and leaves the stack its other change sets."""
    change_set_id, change_set = next((name, one) for name, one in backend.change_sets.items() if change_set_name in (name, one.change_set_name))
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ExecuteChangeSet.html
    for other in [name for name, one in backend.change_sets.items() if one.stack_name == change_set.stack_name and name != change_set_id]:
        del backend.change_sets[other]
    if change_set.stack_name == STACK and (change_set.change_set_type == "UPDATE" or Fault.at is not None):
        carry_out(change_set)
    else:
        execute_change_set(backend, change_set_name, stack_name)
    if change_set.stack.status == "ROLLBACK_COMPLETE" or change_set.stack.status == "ROLLBACK_FAILED":
        return
    # Those that were not named have their defaults.
    change_set.stack.parameters = dict(change_set.stack.resource_map.resolved_parameters)
    for stack in backend.stacks.values():
        settle(stack)


def settle(stack):
    """What the mock keeps twice."""
    stack.template_dict = json.loads(stack.template) if stack.template.startswith("{") else yaml_parse(stack.template)
    stack.resource_map._template = stack.template_dict
    stack.resource_map.load_mapping()
    stack.output_map = stack._create_output_map()


def carry_out(change_set):
    """What CloudFormation says of a change set: one resource after the other, and back where one fails or the stack's policy denies it. The
    mock cannot update what it made, so here only the template and the parameters change. Until a roll-back has ended they are the new ones."""
    stack, kind = change_set.stack, change_set.change_set_type
    all_changes = sorted(change_set.changes, key=lambda one: one.logical_resource_id)
    words = {"Add": "CREATE", "Modify": "UPDATE", "Remove": "DELETE"}

    def tell(change, status, reason=None):
        name = change.logical_resource_id
        stack.events.append(Event(stack.stack_id, stack.name, name, name, change.resource_type, status, reason, None))

    stack.before = stack.template, dict(stack.resource_map.resolved_parameters)
    stack.resource_map.resolved_parameters.update(change_set.parameters)
    stack.template = change_set.template
    stack._add_stack_event(f"{kind}_IN_PROGRESS")
    for at, change in enumerate(all_changes):
        word = words[change.action]
        tell(change, f"{word}_IN_PROGRESS")
        reason = changes.denial(stack.policy, change) or ("it was meant to fail" if at == Fault.at else None)
        if reason:
            tell(change, f"{word}_FAILED", reason)
            stack.status, change_set.execution_status = back(stack, kind, all_changes[: at + 1], tell), "EXECUTE_FAILED"
            break
        tell(change, f"{word}_COMPLETE")
    else:
        if Fault.rings and (alarm := Fault.alarms.get(change_set.change_set_name)):
            reason = f"the alarm {alarm} is on"
            stack.status, change_set.execution_status = back(stack, kind, all_changes, tell, reason), "EXECUTE_FAILED"
            stack._add_stack_event(stack.status)
            return
        stack.status, change_set.execution_status = f"{kind}_COMPLETE", "EXECUTE_COMPLETE"
    stack._add_stack_event(stack.status)


def back(stack, kind, done, tell, reason=None):
    """Rolls these changes back. The state in which that ends."""
    word, state = ("UPDATE", "UPDATE_ROLLBACK") if kind == "UPDATE" else ("DELETE", "ROLLBACK")
    stack._add_stack_event(f"{state}_IN_PROGRESS", resource_status_reason=reason)
    for change in reversed(done):
        if Fault.is_final:
            tell(change, f"{word}_FAILED", "it cannot go back either")
            return f"{state}_FAILED"
        tell(change, f"{word}_COMPLETE")
    stack.template, stack.resource_map.resolved_parameters = stack.before
    return f"{state}_COMPLETE"


def described(request):
    """The mock's own, in pages of three changes."""
    whole = request.cloudformation_backend.describe_change_set(change_set_name=request._get_param("ChangeSetName"))
    page, start = copy.copy(whole), int(request._get_param("NextToken") or 0)
    page.changes, page.next_token = whole.changes[start : start + 3], str(start + 3) if start + 3 < len(whole.changes) else None
    return ActionResult(page)


def events(request):
    """The mock's own, in pages of ten events."""
    newest = request.cloudformation_backend.describe_stack_events(request._get_param("StackName"))[::-1]
    start = int(request._get_param("NextToken") or 0)
    return ActionResult({"StackEvents": newest[start : start + 10], "NextToken": str(start + 10) if start + 10 < len(newest) else None})


class Death:
    """A command is killed once the mock has done the first of its writing calls at which none was killed before. The answer never comes."""

    victim, met, made = None, set(), collections.Counter()

    @classmethod
    def may_come(cls, call):
        """Calls of CloudFormation that are alike are told apart within a run, uploads are not."""
        cls.made[call] += 1
        named = call if call.startswith("S3") else f"{call} {cls.made[call]}"
        if cls.victim and named not in cls.met:
            cls.met.add(named)
            victim, cls.victim = cls.victim, None
            os.killpg(victim.pid, signal.SIGKILL)


def writing(environ):
    """The name of a call that writes to CloudFormation or to a bucket."""
    signed = re.search(r"Credential=[^/]+/\w+/[\w-]+/([\w-]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    service = signed[1] if signed else ""
    if service == "cloudformation":
        form = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(form)
        fields = dict(urllib.parse.parse_qsl(form.decode()))
        if alarm := fields.get("RollbackConfiguration.RollbackTriggers.member.1.Arn"):
            Fault.alarms[fields["ChangeSetName"]] = alarm
        reads = fields["Action"].startswith(("Describe", "Get", "List", "Validate"))
        return None if reads else f"{fields['Action']} {fields.get('StackName', '')}"
    return f"S3 {pathlib.Path(environ['PATH_INFO']).suffix}" if service == "s3" and environ["REQUEST_METHOD"] not in ("GET", "HEAD") else None


class Bucket:
    """The calls about what is in the bucket that do not name whose it should be, and how many do. The mock does not compare it."""

    named, nameless = 0, []

    @classmethod
    def note(cls, environ):
        # What the check itself asks is signed with another key. To empty the bucket, people type `aws s3 rm`, which takes no owner.
        if environ["REQUEST_METHOD"] != "DELETE" and re.search(r"Credential=deployer\d+/[^,]*/s3/", environ.get("HTTP_AUTHORIZATION", "")) and pathlib.Path(environ["PATH_INFO"]).suffix in (".json", ".zip"):
            if environ.get("HTTP_X_AMZ_EXPECTED_BUCKET_OWNER") == ACCOUNT:
                cls.named += 1
            else:
                cls.nameless.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")


def served(application, environ, start_response):
    """The mock's own, with a death between what it does and what it says."""
    Bucket.note(environ)
    call = writing(environ)
    said = dispatch(application, environ, start_response)
    if call:
        Death.may_come(call)
    return said


protected = set()
dispatch, DomainDispatcherApplication.__call__ = DomainDispatcherApplication.__call__, served
CloudFormationResponse.update_termination_protection = termination_protection
CloudFormationResponse.continue_update_rollback = continue_update_rollback
CloudFormationResponse.describe_change_set, CloudFormationResponse.describe_stack_events = described, events
create_change_set, CloudFormationBackend.create_change_set = CloudFormationBackend.create_change_set, create
execute_change_set, CloudFormationBackend.execute_change_set = CloudFormationBackend.execute_change_set, execute


def template():
    made = released("arm64", VERSION)
    return {**made, "Outputs": {name: made["Outputs"][name] for name in OUTPUTS}}


def release(folder):
    """The archive, with code that is no code."""
    folder.mkdir()
    (folder / "template.json").write_text(json.dumps(template()))
    for name in ("deploy.sh", "bucket.yaml", "stack-policy.json"):
        shutil.copy(f"deploy/{name}", folder)
    pack(folder, "first")


def pack(folder, build):
    """The zips of a build."""
    for name in ("webhook", "worker", "relay", "dispatcher"):
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as package:
            package.writestr("bootstrap", f"{build} {name}")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir()) if path.suffix]
    (folder / "SHA256SUMS").write_text("".join(sums))


class Deployer:
    """Runs commands in the folder of the release, and keeps what did not go as it should."""

    def __init__(self, folder, url):
        self.folder, self.found, self.count = folder, [], 0
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": REGION, "HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}",
                            "AWS_PAGER": "", "TMPDIR": str(folder.parent)}
        self.place("aws", f'exec "{os.environ["AWS_ONE"]}" --endpoint-url "$AWS_ENDPOINT_URL" "$@"')
        # What the deployment ends with is an operator's, and finds nothing here that runs.
        self.place("hookonce", f'[ "$1" != doctor ] || exit 0; exec "{os.environ["HOOKONCE"]}" "$@"')

    def place(self, name, line):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, what, text, prints, status=0, role="deployer"):
        with self.begin(what, text, role) as ran:
            printed = ran.communicate(timeout=300)[0]
        if ran.returncode != status or prints not in printed:
            self.found.append(f"{what}: exit {ran.returncode}, or no {prints!r} in:\n{printed}")
        return printed

    def begin(self, what, text, role="deployer"):
        self.count += 1
        environment = {**self.environment, "AWS_ACCESS_KEY_ID": calls.key_of(role, what)}
        return subprocess.Popen(["bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def dies(self, what, text):
        """The name of the call after which a command was killed, or none if it met its death at each of them before."""
        Death.made.clear()
        before = set(Death.met)
        with self.begin(f"{what}, and dies", text) as ran:
            Death.victim = ran
            printed = ran.communicate(timeout=300)[0]
        Death.victim = None
        call = next(iter(Death.met - before), None)
        if ran.returncode != (-signal.SIGKILL if call else 0):
            self.found.append(f"{what}: exit {ran.returncode} after {call}:\n{printed}")
        return call


def removal():
    """The block with which the page removes everything, for this stack. No handler was deployed here."""
    block = PAGE.read_text("utf-8").split("\n## 9. Remove\n", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
    lines = [line for line in block.splitlines() if "hookonce-pushes" not in line]
    return "\n".join(re.sub("(stack-name |--name )hookonce", rf"\1{STACK}", line) for line in lines)


def state():
    """What an update that failed must leave as it was."""
    cloud = client("cloudformation")
    stack = cloud.describe_stacks(StackName=STACK)["Stacks"][0]
    template = json.dumps(cloud.get_template(StackName=STACK)["TemplateBody"], sort_keys=True)
    policy = json.loads(cloud.get_stack_policy(StackName=STACK)["StackPolicyBody"])
    return sorted((one["ParameterKey"], one["ParameterValue"]) for one in stack["Parameters"]), template, policy


def code():
    """The bucket with the code, and its address."""
    outputs = {one["OutputKey"]: one["OutputValue"] for one in client("cloudformation").describe_stacks(StackName=f"{STACK}-code")["Stacks"][0]["Outputs"]}
    return outputs["Bucket"], outputs["Address"]


def deploy(key=None):
    """What deploy.sh ends with, for a template of the bucket: the newest of a release, or this one."""
    bucket, address = code()
    kept = sorted(client("s3").list_objects_v2(Bucket=bucket)["Contents"], key=lambda one: one["LastModified"])
    key = key or [one["Key"] for one in kept if re.fullmatch(r"[0-9a-f]{64}\.json", one["Key"])][-1]
    return f"hookonce deploy --stack {STACK} --template {address}/{key}"


def deaths_of_creation(deployer):
    """Kills deploy.sh after each writing call, and begins it again in what is there. What comes after the bucket runs without deploy.sh,
    which takes longer. How many died."""
    Death.met.clear()
    while (call := deployer.dies("deploy.sh", f"./deploy.sh --stack {STACK}")) and call != f"CreateChangeSet {STACK} 1":
        continue
    plans_of_creation(deployer)
    faults_of_creation(deployer)
    if call:
        while deployer.dies("hookonce deploy", deploy()):
            continue
    bucket, _ = code()
    for one in client("s3").list_objects_v2(Bucket=bucket)["Contents"]:
        body = client("s3").get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        if one["Key"] not in [f"{hashlib.sha256(body).hexdigest()}.{kind}" for kind in ("json", "zip")]:
            deployer.found.append(f"after a death the bucket has {one['Key']}, which is something else")
    ends(deployer, "a new stack", "info")
    return len(Death.met)


def plans_of_creation(deployer):
    """A plan leaves no stack that has only a name, but for one that another deployment made."""
    cloud = client("cloudformation")
    for what, states in (("a plan of what died", ["REVIEW_IN_PROGRESS"]), ("a plan of nothing", [])):
        deployer.run(what, f"{deploy()} --plan", "InboxTable")
        found = [one["StackStatus"] for one in cloud.describe_stacks()["Stacks"] if one["StackName"] == STACK]
        if found != states:
            deployer.found.append(f"{what}: the stack is {found}")
        cloud.delete_stack(StackName=STACK)


def way_out(deployer, printed, command):
    """Runs the command that the failed deployment named."""
    found = re.search(f"`(aws cloudformation {command} [^`]*)`", printed)
    if not found:
        deployer.found.append(f"nothing names {command}:\n{printed}")
        return
    # Nothing is made or changed before.
    deployer.run(f"hookonce deploy before {command}", deploy(), found[1], status=2)
    deployer.run(command, found[1], "")


def faults_of_creation(deployer):
    """Lets a new stack fail at the first resource of each type. What is left of it must be deleted before it is made again."""
    first = {}
    for at, (name, resource) in enumerate(sorted(template()["Resources"].items())):
        first.setdefault(resource["Type"], (at, name))
    places = [*first.values()]
    for number, (Fault.at, resource) in enumerate(places):
        Fault.is_final = number == 1
        ended = "ROLLBACK_FAILED" if Fault.is_final else "ROLLBACK_COMPLETE"
        printed = deployer.run(f"a new stack with a fault at {resource}", deploy(), f"{resource}: CREATE_FAILED: it was meant to fail", status=3)
        if f"is not deployed: {ended}\n" not in printed:
            deployer.found.append(f"a new stack with a fault at {resource}: nothing says {ended}:\n{printed}")
        if number < 2:
            way_out(deployer, printed, "delete-stack")
        else:
            client("cloudformation").delete_stack(StackName=STACK)
    Fault.at, Fault.is_final = None, False


def replacements(deployer):
    """Changes each property that a schema has of a type that the policy holds. What would make the resource anew, or may, is refused, and
    the policy denies it to whoever passes the command by. Everything else passes."""
    kinds = POLICY["Statement"][1]["Condition"]["StringEquals"]["ResourceType"]
    refused = 0
    domain = "DomainName=hooks.example.com CertificateArn=arn:aws:acm:eu-central-1:123456789012:certificate/1"
    deployer.run("a domain name", f"{deploy()} {domain}", f"the stack {STACK} is deployed: UPDATE_COMPLETE")
    for kind in kinds:
        logical = next(name for name, one in sorted(template()["Resources"].items()) if one["Type"] == kind)
        schema = changes.schema(kind)
        names = [name for name in sorted(schema["properties"]) if f"/properties/{name}" not in schema["readOnlyProperties"]]
        listed = [*schema.get("createOnlyProperties", []), *schema.get("conditionalCreateOnlyProperties", [])]
        anew = [name for name in names if f"/properties/{name}" in listed]
        if not anew:
            deployer.found.append(f"the schema of {kind} has nothing that makes a resource anew")
        passing = [name for name in names if name not in anew and name != "AttributeDefinitions"]
        other = put(template(), {logical: {name: "changed" for name in passing}})
        deployer.run(f"{logical} with {len(passing)} other properties", f"{deploy(other)} --plan", f" {logical} ")
        for name in anew:
            is_refused(deployer, f"another {name} of {logical}", put(template(), {logical: {name: "changed"}}), logical, "replaced")
        removed, renamed = template(), template()
        del removed["Resources"][logical]
        renamed["Resources"]["Another"] = renamed["Resources"].pop(logical)
        is_refused(deployer, f"no {logical}", put(removed), logical, "would be removed")
        is_refused(deployer, f"{logical} by another name", put(renamed), logical, "would be removed")
        refused += len(anew) + 2
    keys = put(template(), {"InboxTable": {"AttributeDefinitions": []}})
    deployer.run("keys of another type", deploy(keys), "nothing is changed: InboxTable would get keys of another type", status=2)
    deployer.run("a table that exists", f"{deploy()} InboxTableName=mine", "nothing is changed: InboxTable would be removed", status=2)
    deployer.run("no domain name", f"{deploy()} DomainName= CertificateArn=", "nothing is changed: GatewayDomain would be removed", status=2)
    allowed(deployer)
    return refused + 3


def put(made, changed=()):
    """Puts a template into the bucket, with these properties of its resources. Its key."""
    for logical, properties in dict(changed).items():
        made["Resources"][logical]["Properties"].update(properties)
    body = json.dumps(made)
    key = f"changed-{hashlib.sha256(body.encode()).hexdigest()}.json"
    client("s3").put_object(Bucket=code()[0], Key=key, Body=body)
    return key


def is_refused(deployer, what, key, logical, why):
    """Whether the command refuses a template, and CloudFormation does with whatever tool."""
    before, cloud = state(), client("cloudformation")
    printed = deployer.run(what, deploy(key), f"nothing is changed: {logical} ", status=2)
    if why not in printed:
        deployer.found.append(f"{what}: it is refused, and not because it {why}:\n{printed}")
    kept = [{"ParameterKey": name, "UsePreviousValue": True} for name, _ in before[0]]
    cloud.create_change_set(StackName=STACK, ChangeSetName=f"other-{key[8:40]}", ChangeSetType="UPDATE", TemplateURL=f"{code()[1]}/{key}", Parameters=kept,
                            Capabilities=["CAPABILITY_IAM"])
    cloud.execute_change_set(StackName=STACK, ChangeSetName=f"other-{key[8:40]}")
    failed = [one for one in cloud.describe_stack_events(StackName=STACK)["StackEvents"] if one["ResourceStatus"].endswith("_FAILED")]
    if not failed or failed[0]["LogicalResourceId"] != logical or "denied by stack policy" not in failed[0]["ResourceStatusReason"]:
        deployer.found.append(f"{what}: the policy does not deny it to another tool")
    if state() != before:
        deployer.found.append(f"{what}: the stack is not as it was after another tool has tried it")


def allowed(deployer):
    """Only what is named may go, and from then on nothing."""
    key = put(template(), {"InboxTable": {"TableName": "another"}})
    deployer.run("a table that is not the one that is named", f"{deploy(key)} --allow DomainTable", "nothing is changed: InboxTable would be replaced", status=2)
    for what, text in (("the table that is named", deploy(key)), ("the same table again", deploy())):
        deployer.run(what, f"{text} --allow InboxTable", f"the stack {STACK} is deployed: UPDATE_COMPLETE")
        if state()[2] != POLICY:
            deployer.found.append(f"{what}: its policy is not closed again")


def deaths_of_update(deployer):
    """Kills an update that may lose a table after each writing call. The next one does not allow it. How many died."""
    Death.met.clear()
    changed = put(template(), {"InboxTable": {"TableName": "another"}})
    for level in itertools.cycle(("warn", "info")):
        call = deployer.dies("an update", f"{deploy()} --allow InboxTable LogLevel={level}")
        if call == f"SetStackPolicy {STACK} 1":
            deployer.run("one that is refused", deploy(changed), "nothing is changed: InboxTable", status=2)
            if state()[2] != POLICY:
                deployer.found.append("what an update that died would allow is still allowed after one that was refused")
        if call:
            deployer.run(f"the same update after {call}", f"{deploy()} LogLevel={level}", f"the stack {STACK} is")
        ends(deployer, f"an update that died after {call}", level)
        if not call:
            return len(Death.met)


def ends(deployer, what, level):
    """Whether the stack is as it was deployed, and nothing can change it any more."""
    parameters, _, policy = state()
    sets = client("cloudformation").list_change_sets(StackName=STACK)["Summaries"]
    waiting = [one["ChangeSetName"] for one in sets if one["ExecutionStatus"] == "AVAILABLE"]
    stacks = [one["StackName"] for one in client("cloudformation").describe_stacks()["Stacks"]]
    found = dict(parameters)["LogLevel"], policy, STACK in protected, waiting, sorted(stacks)
    if found != (level, POLICY, True, [], [STACK, f"{STACK}-code"]):
        deployer.found.append(f"{what}: {found}")
    protected.clear()


def faults(deployer, plan):
    """Lets an update fail at each of the resources that it changes, and then succeed."""
    update, before = f"./deploy.sh --stack {STACK} LogLevel=debug", state()
    changed = sorted(re.findall(r"^ modify +(\w+)", plan, re.MULTILINE))
    for at, resource in enumerate(changed):
        Fault.at = at
        # Without deploy.sh, which takes longer.
        printed = deployer.run(f"a fault at {resource}", f"{deploy()} LogLevel=debug", f"{resource}: UPDATE_FAILED: it was meant to fail", status=3)
        if "is not deployed: UPDATE_ROLLBACK_COMPLETE; it is as it was before" not in printed:
            deployer.found.append(f"a fault at {resource}: nothing says that the stack is as it was:\n{printed}")
        if state() != before:
            deployer.found.append(f"a fault at {resource}: the stack is not as it was")
        Fault.is_final = True
        printed = deployer.run(f"a fault at {resource}, and no way back", f"{deploy()} LogLevel=debug", "is not deployed: UPDATE_ROLLBACK_FAILED\n", status=3)
        way_out(deployer, printed, "continue-update-rollback")
        Fault.is_final = False
        if state() != before:
            deployer.found.append(f"a fault at {resource}, and no way back: the stack is not as it was in the end")
    Fault.at = None
    deployer.run("the same update without a fault", update, f"the stack {STACK} is deployed: UPDATE_COMPLETE")
    if ("LogLevel", "debug") not in state()[0]:
        deployer.found.append("the update without a fault changed nothing")
    if not changed:
        deployer.found.append(f"the plan of an update names no resource:\n{plan}")
    return len(changed)


def canary(deployer):
    """Lets the webhook fail after an update from an earlier release: it goes back, and the alarm is named."""
    earlier = template()
    earlier["Mappings"]["Release"]["Version"]["Text"] = "0.0.9"
    deployer.run("an earlier release", deploy(put(earlier)), f"the stack {STACK} is deployed: UPDATE_COMPLETE")
    # The mock makes no alarm of a template.
    alarm = f"hookonce/{STACK}/page/WebhookFails"
    client("cloudwatch").put_metric_alarm(AlarmName=alarm, MetricName="Errors", Namespace="AWS/Lambda", Statistic="Sum", Period=300, Threshold=0,
                                          EvaluationPeriods=1, ComparisonOperator="GreaterThanThreshold")
    before, Fault.rings = state(), True
    printed = deployer.run("an update after which the webhook fails", deploy(), f"alarm:{alarm} is on\n", status=3)
    if "is not deployed: UPDATE_ROLLBACK_COMPLETE; it is as it was before" not in printed or state() != before:
        deployer.found.append(f"an update after which the webhook fails: the stack is not as it was:\n{printed}")
    Fault.rings = False
    deployer.run("the same update, after which it does not", deploy(), f"the stack {STACK} is deployed: UPDATE_COMPLETE")
    client("cloudwatch").delete_alarms(AlarmNames=[alarm])


def look(deployer):
    deaths = deaths_of_creation(deployer)
    deployer.run("deploy.sh", f"./deploy.sh --stack {STACK}", f"the stack {STACK} is as the template says")
    pack(deployer.folder, "second")
    plan = deployer.run("deploy.sh --plan", f"./deploy.sh --stack {STACK} --plan LogLevel=debug", "RelayFunction")
    positions = faults(deployer, plan)
    deaths += deaths_of_update(deployer)
    refused = replacements(deployer)
    canary(deployer)
    other = f"cp -r . ../other && cd ../other && sed -i 's/\"Text\": \"{VERSION}\"/\"Text\": \"0.0.9\"/' template.json"
    deployer.run("deploy.sh with its stack last", f"./deploy.sh --plan --stack {STACK}", "--stack NAME comes first", status=2)
    deployer.run("deploy.sh of another release", f"{other} && ./deploy.sh --stack {STACK}", "try: put the hookonce of release 0.0.9 into", status=2)
    cloud, others = client("cloudformation"), f"{STACK}-shop-code"
    cloud.create_stack(StackName=others, TemplateBody="Resources: { Topic: { Type: AWS::SNS::Topic } }")
    for words in ("", " --plan"):
        deployer.run("deploy.sh beside another's stack", f"./deploy.sh --stack {STACK}-shop{words}", f"{others} is not one of hookonce", status=2)
    if [one["ResourceType"] for one in cloud.describe_stack_resources(StackName=others)["StackResources"]] != ["AWS::SNS::Topic"]:
        deployer.found.append("the stack of somebody else was changed")
    cloud.delete_stack(StackName=others)
    # CloudFormation writes a bucket's name in small letters, and cuts it. The policies name no such stack.
    other = f"{STACK}-OfThePaymentsTeam-in-the-account-for-production"
    for what in ("deploy.sh of a long name", "deploy.sh of a long name, again"):
        deployer.run(what, f"./deploy.sh --stack {other} --plan", "InboxTable", role="other")
    cloud.delete_stack(StackName=f"{other}-code")
    deployer.run(f"{PAGE}, Remove", removal(), f"{STACK}-DocumentsTable-")
    if Bucket.nameless or not Bucket.named:
        deployer.found.append(f"calls that name no owner of the bucket, beside {Bucket.named} that do: {sorted(set(Bucket.nameless))}")
    left = client("dynamodb").list_tables()["TableNames"], [one["StackName"] for one in client("cloudformation").describe_stacks()["Stacks"]]
    if left != ([], []):
        deployer.found.append(f"{PAGE}: what is left after everything is removed: {left}")
    return positions, deaths, refused


def main():
    with mock_aws(), tempfile.TemporaryDirectory() as place:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            folder = pathlib.Path(place, "release")
            release(folder)
            deployer = Deployer(folder, f"http://{host}:{port}")
            positions, deaths, refused = look(deployer)
        finally:
            server.stop()
    calls.write()
    return verdict("deploy", deployer.found, commands=deployer.count, faults=positions, deaths=deaths, refused=refused)


if __name__ == "__main__":
    sys.exit(main())
