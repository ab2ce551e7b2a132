"""Runs the command line on a stack that the mock of AWS has: what the project's own stand-ins take for granted, another
implementation of the services has to bear out. `HOOKONCE` names the binary."""

import hashlib
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import boto3  # noqa: E402
import calls  # noqa: E402
from mock import ACCOUNT, CODE, REGION, STACK, client, deployed, verdict, with_outputs  # noqa: E402
from moto.awslambda.models import LambdaFunction  # noqa: E402
from moto.awslambda.urls import url_paths  # noqa: E402
from moto.core.authorization import enable_iam_authentication  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from moto.sns.models import sns_backends  # noqa: E402
from waits import until  # noqa: E402

# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)

# The mock has no limits of accounts.
def account_settings(request, *_):
    calls.note(request.headers, "lambda", "GetAccountSettings")
    return 200, {}, '{"AccountLimit": {"ConcurrentExecutions": 25}}'


url_paths["{0}/2016-08-19/account-settings/$"] = account_settings
ZSTD = bytes.fromhex("28b52ffd")
SECRET = "whsec_0123456789abcdef"
KEY = "evt_1SampleInvoicePaid"
ROUTES = {"version": 1, "otherwise": "dead", "routes": [
    {"name": "paid", "consumer": "billing", "types": ["invoice.paid"], "forward": ["crm"]}]}
# The worker that is deployed has no handlers. On a laptop there are the samples.
SAMPLES = {"version": 1, "otherwise": "builtin", "routes": [
    {"name": "paid", "consumer": "billing", "types": ["invoice.paid"], "handler": {"builtin": "payments"}}]}
DONE, NO, USAGE = 0, 1, 2
# The commands that docs/run/deploy.md lets a reader run. Whoever tests a destination needs rights of that destination, too.
READS = {"audit", "console", "cost", "drill", "list", "route show", "show", "stats", "status"}
OF_OTHERS = {"destination test"}
WRITTEN = {"kind", "id", "document", "changed_at", "changed_by", "changed_with"}


class Commands:
    """Runs commands and keeps what did not go as it should."""

    def __init__(self, folder, url, stack):
        self.folder, self.count, self.found, self.documents = folder, 0, [], stack.ids["DocumentsTable"]
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": REGION, "USER": "ada"}
        self.usual = self.environment

    def run(self, *words, code=DONE, prints="", give=None, here=False):
        """Runs one command on the stack, or on this machine, and says what it printed."""
        words = [*words, *([] if here else ["--stack", STACK])]
        ran = subprocess.run([os.environ["HOOKONCE"], *words], cwd=self.folder, env=self.as_role(words, here), input=give or "",
                             capture_output=True, text=True, timeout=120, check=False)
        self.count += 1
        printed = ran.stdout + ran.stderr
        if ran.returncode != code or prints not in printed:
            self.found.append(f"{' '.join(words)}: exit {ran.returncode} instead of {code}, or no {prints!r} in:\n{printed}")
        return ran.stdout

    def as_role(self, words, here=False):
        """The environment of a command, with a key by which its calls are noted."""
        name = " ".join(words[:2]) if words[0] in ("destination", "endpoint", "route") else words[0]
        if here or name in OF_OTHERS or self.environment is not self.usual:
            return self.environment
        role = "reader" if name in READS else "operator"
        return {**self.environment, "AWS_ACCESS_KEY_ID": calls.key_of(role, f"hookonce {name}")}

    def item(self, kind, name):
        """A document as it is stored."""
        key = {"kind": {"S": kind}, "id": {"S": name}}
        return client("dynamodb").get_item(TableName=self.documents, Key=key, ConsistentRead=True).get("Item", {})

    def stored(self, kind, name):
        """The text of a document, if it is stored as the functions read it."""
        item = self.item(kind, name)
        types = {attribute: next(iter(value)) for attribute, value in item.items()}
        wanted = {attribute: "N" if attribute == "changed_at" else "S" for attribute in WRITTEN}
        self.expect(f"the attributes of the {kind} {name}", types, wanted)
        return item.get("document", {}).get("S", "{}")

    def expect(self, what, found, expected):
        if found != expected:
            self.found.append(f"{what} are {found!r} and should be {expected!r}")


def endpoints(commands):
    run = commands.run
    run("endpoint", "add", "shop", "--provider", "stripe", "--secret", "-", give=SECRET, prints="/webhooks/shop")
    run("endpoint", "add", "shop", "--provider", "stripe", "--secret", "-", give=SECRET + "2", code=USAGE, prints="already exists")
    run("endpoint", "add", "other", "--provider", "stripe", code=USAGE, prints="Stripe shows the secret once the address is registered")
    run("endpoint", "list", prints="stripe")
    run("endpoint", "show", "shop", "--reveal", prints=SECRET)
    commands.expect("the secrets of an endpoint", json.loads(commands.stored("endpoint", "shop")).get("secrets"), [SECRET])
    run("endpoint", "rotate", "shop", "--secret", "-", give=SECRET + "2", prints="has 2 secrets")
    run("endpoint", "rotate", "shop", "--finish", code=NO, prints="less than a day ago")
    run("endpoint", "rotate", "shop", "--finish", "--yes", prints="1 older secret removed")
    entries = [{"id": f"shop-{number}", "provider": "stripe", "secrets": [SECRET]} for number in range(25)]
    with open(os.path.join(commands.folder, "endpoints.json"), "w", encoding="utf-8") as file:
        json.dump(entries, file)
    run("endpoint", "import", "endpoints.json", prints="25 endpoints imported")
    run("endpoint", "import", "endpoints.json", prints="0 endpoints imported, 25 existed already")
    run("endpoint", "check", prints="shop-24: valid")
    run("endpoint", "remove", "shop-24", "--yes", prints="is removed")
    commands.expect("the attributes of a removed endpoint", commands.item("endpoint", "shop-24"), {})
    run("endpoint", "list", prints="shop-23")
    # The webhook function makes it. No command does.
    commands.expect("the attributes of the message key", commands.item("key", "messages"), {})


def destinations(commands):
    run = commands.run
    run("destination", "add", "stripe", "--secret", "-", give="sk_live_0123456789", prints="destination stripe is keyed")
    run("destination", "add", "stripe", "--secret", "-", give="sk", code=USAGE, prints="already exists")
    run("destination", "add", "own", "--url", "https://localhost/in", "--class", "at_least_once", "--signed",
        prints="generated secret")
    run("destination", "list", prints="keyed")
    run("destination", "show", "stripe", prints="<hidden>")
    if "sk_live_0123456789" not in commands.stored("destination", "stripe"):
        commands.found.append("the document of a destination lacks its secret")
    run("destination", "check", prints="own: valid")
    run("destination", "rotate", "stripe", "--secret", "-", give="sk_live_other", prints="repeated with their keys")
    run("destination", "show", "stripe", "--reveal", prints="Bearer sk_live_other")
    # It never leaves: no function may call loopback.
    run("destination", "test", "own", "--yes", code=NO, prints="no address that a destination may have")
    run("destination", "remove", "own", code=USAGE, prints="pass --yes")
    run("destination", "remove", "own", "--yes", prints="is removed")
    run("list", "--kind", "effect", prints="0 records")


def queues(commands):
    """One probe reaches a queue, exactly as the dispatcher sends an effect."""
    run, sqs = commands.run, client("sqs")
    for destination, name, kind in (("jobs", "jobs", {}), ("ordered", "jobs.fifo", {"FifoQueue": "true"})):
        run("destination", "add", destination, "--queue", f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}", prints="at least once")
        run("destination", "test", destination, "--yes", code=NO, prints="there is no such queue")
        queue = sqs.create_queue(QueueName=name, Attributes=kind)["QueueUrl"]
        report = json.loads(run("destination", "test", destination, "--yes", "--json", prints='"outcome": "done"'))
        taken = [found for _ in range(2) for found in sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]).get("Messages", [])]
        event = f"in#hookonce-test#{report['key']}"
        attributes = {"hookonce-key": report["key"], "hookonce-event": event, "hookonce-hops": "1", "content-type": "application/json"}
        place = {"MessageGroupId": hashlib.sha256(event.encode()).hexdigest(), "MessageDeduplicationId": report["key"]} if kind else {}
        expected = [(report["answer_id"], '{"hookonce":"test"}', attributes, place)]
        found = [(message["MessageId"], message["Body"], texts(message["MessageAttributes"]),
                  {part: message["Attributes"].get(part) for part in place}) for message in taken]
        commands.expect(f"the messages of {name}", found, expected)
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MaximumMessageSize": "1024"})
        run("destination", "test", destination, "--yes", "--file", "long.json", code=NO, prints="MaximumMessageSize")


def texts(attributes):
    return {name: value["StringValue"] for name, value in attributes.items() if value["DataType"] == "String"}


def function(commands, stack):
    """One asynchronous invocation reaches a function. The mock would run it in a container, so what it gets is noted instead."""
    run, invoked = commands.run, []
    LambdaFunction.invoke = lambda made, body, headers, _: invoked.append(
        (made.function_name, headers["X-Amz-Invocation-Type"], json.loads(body))) or ""
    run("destination", "add", "billing", "--function", "billing:live")
    run("destination", "test", "billing", "--yes", code=NO, prints="there is no such function")
    role = client("iam").get_role(RoleName=stack.ids["DispatcherRole"])["Role"]["Arn"]
    client("lambda").create_function(FunctionName="billing", Runtime="python3.12", Role=role, Handler="billing.handle",
                                     Code={"S3Bucket": CODE, "S3Key": "function.zip"}, Publish=True)
    run("destination", "test", "billing", "--yes", code=NO, prints="there is no such function, version or alias")
    client("lambda").create_alias(FunctionName="billing", Name="live", FunctionVersion="1")
    report = json.loads(run("destination", "test", "billing", "--yes", "--json", prints='"status": 202'))
    event = {"key": report["key"], "event": f"in#hookonce-test#{report['key']}", "hops": 1, "content_type": "application/json",
             "payload": {"hookonce": "test"}}
    commands.expect("the invocations", invoked, [("billing", "Event", event)])


def rights(commands):
    """The mock verifies signatures and rights, too: those of a person who may read the documents and nothing else, at first."""
    iam = client("iam")
    iam.create_user(UserName="ada")
    key = iam.create_access_key(UserName="ada")["AccessKey"]
    before = commands.environment
    for name, actions, code, of_queue, of_function in (
            ("read", ["cloudformation:DescribeStacks", "dynamodb:GetItem"], NO, "need sqs:SendMessage", "need lambda:InvokeFunction"),
            ("send", ["sqs:SendMessage", "lambda:InvokeFunction", "lambda:Invoke"], DONE, "is DELIVERED", "is DELIVERED")):
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
        iam.put_user_policy(UserName="ada", PolicyName=name, PolicyDocument=json.dumps(policy))
        commands.environment = {**before, "AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        with enable_iam_authentication():
            commands.run("destination", "test", "jobs", "--yes", code=code, prints=of_queue)
            commands.run("destination", "test", "billing", "--yes", code=code, prints=of_function)
        commands.environment = before


def no_samples(commands):
    """A set that needs the samples is refused by each of its places, and one that forwards is not."""
    commands.run("route", "check", "samples.json", here=True)
    for place in ("otherwise: `builtin` asks the handlers of this build, and it has none",
                  "routes[0].handler.builtin: this build has no handler `payments`, nor any other"):
        commands.run("route", "deploy", "samples.json", code=USAGE, prints=place)
    commands.run("route", "deploy", "routes.json", prints="is in use")


def routes(commands):
    commands.run("route", "check", "routes.json", code=NO, prints="crm")
    commands.run("route", "deploy", "routes.json", prints="in use")
    item = commands.item("routes", "set")
    types = {attribute: next(iter(value)) for attribute, value in item.items()}
    wanted = {attribute: "S" for attribute in WRITTEN} | {"document": "B", "changed_at": "N", "sha256": "S"}
    commands.expect("the attributes of the route set", types, wanted)
    if types == wanted:
        # Python reads zstd only from 3.14 on, so this looks at the number with which each frame begins.
        commands.expect("the first bytes of the route set", item["document"]["B"][:4], ZSTD)
        commands.expect("the digits of its hash", len(item["sha256"]["S"]), 64)
    sample = "events/deliveries/stripe-invoice-paid.json"
    commands.run("route", "explain", "--endpoint", "shop", "--file", sample, prints="the consumer billing remembers it")
    if json.loads(commands.run("route", "show")) != ROUTES:
        commands.found.append("route show: another set than the one that was deployed")


def record(commands):
    """A record as the functions write it, with its domain key, taken from a stack on this machine, where a sample books it."""
    dev = subprocess.Popen([os.environ["HOOKONCE"], "dev", "--port", "0"], cwd=commands.folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        state = os.path.join(commands.folder, ".hookonce", "stack.json")
        until("the stack on this machine", lambda: os.path.exists(state), commands.folder)
        commands.run("send", "--provider", "stripe", "--file", "events/deliveries/stripe-invoice-paid.json", here=True)
        until("the effect of the event", lambda: "APPLIED" in commands.run("list", here=True), commands.folder)
        with open(state, encoding="utf-8") as file:
            here = json.load(file)
        scheme, rest = here["dynamodb_url"].split("://")
        key, address = rest.split("@")
        local = boto3.client("dynamodb", endpoint_url=f"{scheme}://{address}", aws_access_key_id=key,
                             aws_secret_access_key="local", region_name="us-east-1")
        return [local.scan(TableName=here[table])["Items"] for table in ("inbox_table", "domain_table")]
    finally:
        dev.kill()
        dev.wait()


def records(commands, stack, tables):
    run = commands.run
    for logical, items in zip(("InboxTable", "DomainTable"), tables):
        for item in items:
            client("dynamodb").put_item(TableName=stack.ids[logical], Item=item)
    run("list", prints="APPLIED")
    run("show", "stripe", KEY, prints="processed: APPLIED")
    run("stats", prints="APPLIED")
    # The routes of the stack remember another fact than the sample does.
    run("drill", "--state", "APPLIED", code=NO, prints="1 differs")
    run("audit", "--scan", prints="0 violations")
    run("replay", "--force", "--key", "stripe", KEY, "--reason", "a test", "--yes", prints="1 record done")
    run("list", "--state", "PENDING", prints=KEY)
    run("redact", "--key", "stripe", KEY, "--reason", "a test", "--yes", code=NO, prints="refused 1 record")
    run("show", "stripe", KEY, prints="a test")
    run("discard", "--state", "DEAD", "--reason", "a test", code=NO, prints="no record matches")
    run("doubt", "--state", "APPLIED", "--reason", "a test", code=NO, prints="no record matches")
    run("cost", code=USAGE, prints="CloudWatch has no metric")


def pauses(commands, stack):
    """The event sources of a function go off and on, with a reason that `status` shows."""
    run = commands.run
    for function, logical in (("worker", "WorkerFunction"), ("dispatcher", "DispatcherFunction")):
        def states():
            found = client("lambda").list_event_source_mappings(FunctionName=stack.ids[logical])["EventSourceMappings"]
            return {mapping["State"] for mapping in found}

        run("pause", function, "--reason", "a test", code=USAGE, prints="pass --yes")
        commands.expect(f"the event sources of the {function}", states(), {"Enabled"})
        run("pause", function, "--reason", "a test", "--yes", prints=f"the {function} is paused")
        commands.expect(f"the paused event sources of the {function}", states(), {"Disabled"})
        run("status", code=NO, prints=f"  hookonce resume {function} --stack {STACK}\n")
        run("resume", function, prints=f"the {function} runs")
        commands.expect(f"the resumed event sources of the {function}", states(), {"Enabled"})


def drift(commands, stack):
    """`doctor` finds a queue, an event source and a function that somebody changed, and a stack without its policy."""
    run, url = commands.run, stack.ids["SlowQueue"]
    run("doctor", prints="each queue has one, which takes batches and gives back what failed")
    source = next(one for one in client("lambda").list_event_source_mappings()["EventSourceMappings"] if one["EventSourceArn"].endswith("-slow"))
    for seconds, size, code, found in ((30, 10, NO, "VisibilityTimeout is 30, not 360"), (360, 1, NO, "takes 1 messages, not 10"), (360, 10, DONE, "")):
        client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(seconds)})
        client("lambda").update_event_source_mapping(UUID=source["UUID"], BatchSize=size)
        run("doctor", code=code, prints=found)
    for seconds, code, found in ((300, NO, "Timeout of the worker is 300 seconds, not 60"), (60, DONE, "")):
        client("lambda").update_function_configuration(FunctionName=stack.ids["WorkerFunction"], Timeout=seconds)
        run("doctor", code=code, prints=found)
    logs, group = client("logs"), stack.ids["RelayLogs"]
    overdue = next(one for one in logs.describe_metric_filters(logGroupName=group)["metricFilters"] if "overdue" in str(one))
    logs.delete_metric_filter(logGroupName=group, filterName=overdue["filterName"])
    run("doctor", code=NO, prints="records_overdue has 0 of its 1")
    logs.put_metric_filter(logGroupName=group, **{name: overdue[name] for name in ("filterName", "filterPattern", "metricTransformations")})
    run("doctor", prints="9 count what alarms watch")
    run("doctor", prints="the stack policy is not that of this release")
    policy = pathlib.Path("deploy/stack-policy.json").read_text("utf-8")
    client("cloudformation").set_stack_policy(StackName=STACK, StackPolicyBody=policy)
    if "the stack policy is not" in json.dumps(json.loads(run("doctor", "--json"))):
        commands.found.append("doctor: the policy of a release is not that of this release")


def topic(commands):
    """The alarms tell a topic, which must reach somebody."""
    sns, run = client("sns"), commands.run
    run("doctor", code=NO, prints=f"{STACK}-alarms is gone")
    arn = sns.create_topic(Name=f"{STACK}-alarms")["TopicArn"]
    run("doctor", code=NO, prints="nobody subscribes to")
    # The mock counts none of them.
    made = sns_backends[ACCOUNT][REGION].get_topic(arn)
    made.subscriptions_pending = 1
    run("doctor", code=NO, prints="tells nobody: 1 subscription to be confirmed")
    made.subscriptions_pending, made.subscriptions_confimed = 0, 1
    run("doctor", code=NO, prints="1 topic with 1 confirmed subscription")


def console(commands):
    """Opens each page that shows something."""
    words = ["console", "--stack", STACK, "--port", "0"]
    process = subprocess.Popen([os.environ["HOOKONCE"], *words], cwd=commands.folder, env=commands.as_role(words), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.addheaders = [("sec-fetch-site", "none")]
        with browser.open(process.stdout.readline().strip(), timeout=120) as first:
            base = first.url
        for page in ("", "?day=1", "records", f"records/stripe/{KEY}"):
            with browser.open(base + page, timeout=120) as answer:
                text = answer.read().decode()
            # A reader may not read the endpoints, which the first page lists.
            if answer.status != 200 or "not known: " in text.lower() or ("dynamodb:Query" in text) != (page in ("", "?day=1")):
                commands.found.append(f"console: {page!r} answers {answer.status} {text}")
    finally:
        process.terminate()
        process.wait()


def look(stack):
    # Where the command line finds everything.
    with_outputs(stack)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with tempfile.TemporaryDirectory() as folder:
            commands = Commands(folder, f"http://{host}:{port}", stack)
            os.symlink(os.path.abspath("events"), os.path.join(folder, "events"))
            with open(os.path.join(folder, "long.json"), "w", encoding="utf-8") as file:
                json.dump(2_000 * "a", file)
            commands.run("list", prints="0 records")
            for name, text in (("routes", ROUTES), ("samples", SAMPLES)):
                with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
                    json.dump(text, file)
            topic(commands)
            commands.run("doctor", code=NO, prints="there is no route set: all events wait")
            no_samples(commands)
            commands.run("doctor", prints=" 0 messages")
            commands.run("doctor", prints="queues and relay take at most 13 of the account's 25 executions")
            drift(commands, stack)
            endpoints(commands)
            destinations(commands)
            queues(commands)
            function(commands, stack)
            rights(commands)
            records(commands, stack, record(commands))
            routes(commands)
            console(commands)
            pauses(commands, stack)
            # No function runs on the mock, and its alarms have no data: a person is needed.
            commands.run("status", code=NO, prints="PENDING")
            return commands
    finally:
        server.stop()


def main():
    with open("template.yaml", encoding="utf-8") as file:
        commands = deployed(file.read(), look)
    calls.write()
    return verdict("operate", commands.found, commands=commands.count)


if __name__ == "__main__":
    sys.exit(main())
