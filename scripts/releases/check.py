"""Installs a release where no compiler can be seen, runs the demo from it, and follows the pages that tell how to use it, on a mock of
AWS that runs the functions of the release. Beside the pages it runs scripts/account on another one.

usage: check.py VERSION FILES AWS MINISTACK

FILES is the folder that scripts/release wrote, AWS the command line of AWS, MINISTACK the Python that has MiniStack. The files are those
for x86_64."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time

import proof
from page import WIDTH, Shell, breaks, follow
from providers import Gateway, changed, github, meta, stripe

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/checks"))
from waits import until  # noqa: E402

PLACE = ROOT / "target/dist/check"
PAGE, NIGHT = ROOT / "docs/run/fifteen-minutes.md", ROOT / "docs/run/first-night.md"
# What CloudShell has of what the pages and deploy.sh use.
TOOLS = ("bash", "cat", "cut", "dirname", "grep", "gzip", "head", "mktemp", "rm", "sed", "sha256sum", "sleep", "sort", "tar", "touch", "tr")
# What is otherwise here than on a page: the processor, and a subscription, which the mock confirms itself.
DIFFERS = {"-aws-arm64": "-aws-x86_64", "pending confirmation": "arn:aws:sns:…"}
# Functions read the route set again after a minute.
LATER, MINUTE_SECONDS = "a minute later, ", 62
MOCK = {"AWS_ACCESS_KEY_ID": "mock", "AWS_SECRET_ACCESS_KEY": "mock"}
DEMO_LINES = ("applied twice  0", "lost           0", "booked twice   0", "not booked     0")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def cloud(python, place):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(place), "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "AWS_ENDPOINT_URL": url,
                 "LAMBDA_EXECUTOR": "local", "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0", "HELD_SECONDS": "8",
                 "TMPDIR": str(place / "tmp")}
    (place / "tmp").mkdir(parents=True)
    with open(place / "cloud.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([python, ROOT / "scripts/releases/cloud.py"], env=variables, stdout=log, stderr=subprocess.STDOUT)
    try:
        until("the mock of AWS", lambda: "Running on" in (place / "cloud.log").read_text(), place)
        yield url
    finally:
        process.terminate()
        process.wait()


def prefix(aws):
    """A folder with the tools that there are, and no compiler among them."""
    folder = PLACE / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    script = folder / "aws"
    script.write_text(f'#!/bin/sh\nexec "{aws}" "$@"\n')
    script.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(PLACE / "home"), "TERM": "dumb", "LANG": "C.UTF-8", "COLUMNS": str(WIDTH), "AWS_PAGER": "", "USER": "ada"}


class Others:
    """What somebody else does while a person follows a page."""

    def __init__(self, url, environment):
        self.gateway, self.environment, self.wrong, self.sent = Gateway(url), environment, [], 0

    def hookonce(self, *words):
        command = [*words, "--json", "--stack", "hookonce"]
        return json.loads(subprocess.run(["hookonce", *command], env=self.environment, capture_output=True, text=True, check=True).stdout)

    def act(self, shell, words):
        if words.startswith(LATER):
            time.sleep(MINUTE_SECONDS)
            words = words.removeprefix(LATER)
        who, does, *rest = words.split()
        if does == "shows":
            shell.answers = " ".join(rest).split(", then ")
            return
        endpoint = {"github": "github", "stripe": "stripe", "meta": "whatsapp"}[who]
        document = self.hookonce("endpoint", "show", endpoint, "--reveal")
        address, secret = self.address(endpoint), document["secrets"][0]
        if does == "verifies":
            word = document["settings"]["verify_token"]
            answer = self.gateway.ask(f"{address}?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={word}")
            self.expect(words, answer, (200, b"1158201444"))
            return
        body = changed((ROOT / "events/deliveries" / rest[0]).read_bytes(), words)
        sign = {"github": lambda: github(secret, body, rest[2]), "stripe": lambda: stripe(secret, body), "meta": lambda: meta(secret, body)}
        self.expect(words, self.gateway.ask(address, body, sign[who]())[0], 200)

    def address(self, endpoint):
        listed = subprocess.run(["aws", "cloudformation", "describe-stacks", "--stack-name", "hookonce", "--output", "text", "--query",
                                 "Stacks[0].Outputs[?OutputKey=='WebhookUrl'].OutputValue"], env=self.environment, capture_output=True,
                                text=True, check=True)
        return listed.stdout.strip() + endpoint

    def expect(self, what, found, wanted):
        self.sent += 1
        if found != wanted:
            self.wrong.append(f"{what}: {found!r} and should be {wanted!r}")


def here(page):
    text = page.read_text("utf-8")
    for there, instead in DIFFERS.items():
        text = text.replace(there, instead)
    return text


def pages(version, url, environment):
    """Both pages. The night is in another terminal, with the lines typed that the first page asks for there, and comes before everything is
    removed."""
    environment = {**environment, **MOCK, "AWS_ENDPOINT_URL": url}
    first, end = here(PAGE).split("\n## 9. Remove\n")
    folder = pathlib.Path(environment["HOME"])
    tools = {**environment, "PATH": f"{folder / f'hookonce-{version}-linux-x86_64'}:{environment['PATH']}", "AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "eu-central-1"}
    # CloudShell names the region in which somebody opened it, in both ways.
    others, opened = Others(url, tools), {**environment, "AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "us-west-2"}
    wrong, count, seconds, shell = [], 0, {}, Shell(folder, opened)
    try:
        for name, page in ((PAGE.name, first), (NIGHT.name, here(NIGHT)), (PAGE.name, "## Remove\n" + end)):
            if name == NIGHT.name:
                shell.end()
                shell = Shell(folder, opened)
                shell.type_in("\n".join(re.findall(r"^export .*", first, re.MULTILINE)))
            if page.startswith("## Remove"):
                wrong += updates(tools)
            found, typed, durations = follow(name, page, shell, others.act)
            wrong, count = [*wrong, *found], count + typed
            seconds.update({f"{name}: {section}": round(duration, 1) for section, duration in durations.items()})
            if wrong:
                break
    finally:
        shell.end()
    return [*wrong, *others.wrong], count, others.sent, seconds


# Templates that cost a table. MiniStack works out what CloudFormation would replace.
def rekeyed(template):
    template["Resources"]["InboxTable"]["Properties"]["KeySchema"][0]["AttributeName"] = "due_shard"


def retyped(template):
    template["Resources"]["InboxTable"]["Properties"]["AttributeDefinitions"][0]["AttributeType"] = "N"


def renamed(template):
    written = json.dumps(template).replace('"InboxTable"', '"Inbox2"').replace("InboxTable.", "Inbox2.")
    template.update(json.loads(written))


def named(template):
    template["Resources"]["EffectsQueue"]["Properties"]["QueueName"] = "another"


DANGERS = {rekeyed: "InboxTable", retyped: "InboxTable", renamed: "InboxTable would be removed", named: "EffectsQueue"}


def updates(environment):
    """The release itself changes nothing. A template that would cost a table or a queue is refused, and the stack is as before."""

    def run(*words):
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    def stack():
        described = run("aws", "cloudformation", "describe-stacks", "--stack-name", "hookonce", "--query", "Stacks[0].[StackStatus,LastUpdatedTime]")
        return described.stdout

    value = "Stacks[0].Outputs[?OutputKey=='{}'].OutputValue"
    outputs = ("aws", "cloudformation", "describe-stacks", "--stack-name", "hookonce-code", "--output", "text", "--query")
    bucket, address = (run(*outputs, value.format(name)).stdout.strip() for name in ("Bucket", "Address"))
    key = json.loads(run("aws", "s3api", "list-objects-v2", "--bucket", bucket, "--query", "sort_by(Contents[?ends_with(Key, '.json')], &LastModified)[].Key").stdout)[-1]
    file = PLACE / "template.json"
    run("aws", "s3api", "get-object", "--bucket", bucket, "--key", key, str(file))
    template, before, wrong = json.loads(file.read_text()), stack(), []
    for change, says in ((None, "is as the template says"), *DANGERS.items()):
        changed = json.loads(json.dumps(template))
        if change:
            change(changed)
        file.write_text(json.dumps(changed))
        run("aws", "s3api", "put-object", "--bucket", bucket, "--key", "changed.json", "--body", str(file))
        ended = run("hookonce", "deploy", "--template", f"{address}/changed.json")
        if ended.returncode != (2 if change else 0) or says not in ended.stderr or stack() != before:
            wrong.append(f"{change.__name__ if change else 'the same template'}: {ended.returncode} {ended.stdout}{ended.stderr}{stack()}")
    return wrong


def demo(environment, folder):
    begun = time.monotonic()
    ran = subprocess.run([folder / "hookonce", "demo"], cwd=environment["HOME"], env=environment, capture_output=True, text=True, check=False)
    printed = ran.stdout + ran.stderr
    lacks = [f"the demo does not print {line!r}:\n{printed}" for line in DEMO_LINES if line not in printed]
    return lacks if ran.returncode == 0 else [f"the demo ends with {ran.returncode}:\n{printed}"], round(time.monotonic() - begun, 1)


def sums(files):
    """What SHA256SUMS says of the files."""
    lines = (files / "SHA256SUMS").read_text().splitlines()
    named = {line.split("  ")[1]: line.split("  ")[0] for line in lines}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files.iterdir() if path.name != "SHA256SUMS"}
    return [] if named == found else [f"SHA256SUMS has {sorted(set(named.items()) ^ set(found.items()))}"]


def guards(template, policy):
    """What the stack policy lets an update replace or remove, though it holds what cannot be brought back."""
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    precious = {kind for kind in kinds if kind.endswith(("::Table", "::Queue", "::Api", "::DomainName"))}
    denied = [statement for statement in policy["Statement"] if statement["Effect"] == "Deny" and statement["Resource"] == "*"
              and {"Update:Replace", "Update:Delete"} <= set(statement["Action"])]
    held = {kind for statement in denied for kind in statement["Condition"]["StringEquals"]["ResourceType"]}
    return [f"an update may replace {kind}" for kind in sorted(precious - held)] + [f"the policy names {kind}" for kind in sorted(held - kinds)]


def dead(names, read):
    """Links of the archive's pages that lead to no file of it."""
    wrong = []
    for page in (name for name in names if re.fullmatch(r"[^/]+/docs/.*\.md", name)):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(page)):
            target = os.path.normpath(os.path.join(os.path.dirname(page), link))
            if not any(name == target or name.startswith(f"{target}/") for name in names):
                wrong.append(f"{page} links to {link}, which is not in the archive")
    return wrong


def main():
    version, files, aws, python = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), os.path.abspath(sys.argv[3]), os.path.abspath(sys.argv[4])
    shutil.rmtree(PLACE, ignore_errors=True)
    home = PLACE / "home"
    home.mkdir(parents=True)
    environment = prefix(aws)
    wrong = sums(files)
    for name in (f"hookonce-{version}-linux-x86_64", f"hookonce-{version}-aws-x86_64"):
        shutil.copy(files / f"{name}.tar.gz", home)
    with tarfile.open(home / f"hookonce-{version}-linux-x86_64.tar.gz") as archive:
        archive.extractall(PLACE / "demo", filter="data")
    folder = PLACE / f"demo/hookonce-{version}-linux-x86_64"
    wrong += [f"{tool} can be seen" for tool in ("cargo", "rustc", "cc", "python3") if shutil.which(tool, path=environment["PATH"])]
    found, demo_seconds = demo(environment, folder)
    wrong += found
    with tarfile.open(home / f"hookonce-{version}-aws-x86_64.tar.gz") as archive:
        read = {name: json.load(archive.extractfile(f"hookonce-{version}-aws-x86_64/{name}")) for name in ("template.json", "stack-policy.json")}
        archive.extractall(PLACE / "account", filter="data")
        wrong += dead(archive.getnames(), lambda name: archive.extractfile(name).read().decode())
    wrong += guards(read["template.json"], read["stack-policy.json"])
    blocks = sent = planted = 0
    account = PLACE / f"account/hookonce-{version}-aws-x86_64"
    # The night goes back to it.
    proof.earlier(account, home / f"hookonce-{proof.EARLIER}-aws-x86_64", folder / "hookonce")
    for found, count in (proof.breaks(), breaks(PLACE / "demo", environment)):
        wrong, planted = [*wrong, *found], planted + count
    seconds = {}
    if not wrong:
        with cloud(python, PLACE) as url, cloud(python, PLACE / "account") as other:
            process, wrong = proof.start(other, {**environment, "PATH": f"{folder}:{environment['PATH']}"}, account, PLACE / "account")
            try:
                found, blocks, sent, seconds = pages(version, url, environment)
                wrong += found
            finally:
                found, seconds["scripts/account"] = proof.end(process, account)
                wrong += found
    for one in wrong:
        print(one)
    for section, duration in seconds.items():
        print(f"{duration:>6} s  {section}")
    print(json.dumps({"part": "release", "demo_seconds": demo_seconds, "blocks": blocks, "deliveries": sent, "planted": planted, "violations": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
