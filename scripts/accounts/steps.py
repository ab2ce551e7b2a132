"""What a run does in an account, step by step. A step says with `expect` what it has seen and what it must see."""

import datetime
import functools
import json
import shutil
import statistics
import time
import zipfile
from typing import NamedTuple

from account import FUNCTIONS, HERE, TABLES, Refused, Skipped, twin
from load import body_of, found, post, signed

# How many events a step delivers, and how many each second.
EVENTS, EACH_SECOND, DEPLOYMENT_EACH_SECOND = 30, 5, 2
CALLEE, TOLD, UNWANTED = "callee", "invoice.finalized", "charge.refunded"
RESTORE_SECONDS, QUIET_SECONDS = 5400, 2
# How long a function is killed each second, and how long there is no webhook.
KILL_SECONDS, CLOSED_SECONDS = 10, 5
RELAY_MINUTES = 10
PAIR_ROUNDS, PAIR_EVENTS = 4, 25
# What the mock's tables do not keep, and its account is larger than queues may take.
MOCK_PROBLEMS = {"tables", "concurrency"}


class Step(NamedTuple):
    name: str
    does: str
    act: object


def compared(account, expect, load):
    """Waits until all that a step delivered is settled, and compares it."""
    records = account.settled(len(load.acknowledged), "--endpoint", "load", keys=load.acknowledged)
    seen, wanted = found(load, records, account.items())
    for what, value in seen.items():
        expect(what, value, wanted.get(what))
    audited = json.loads(account.hookonce("audit", "--scan", "--json").splitlines()[-1])["summary"]
    expect("violations that audit finds", audited["violations"], 0)


def under_load(account, expect, step, act, each_second=EACH_SECOND):
    """Does something while deliveries come in, and compares what became of them. If it fails, the load ends first."""
    load = account.load(step).start(EVENTS, each_second)
    try:
        act()
    except BaseException:
        load.gives_up = True
        raise
    finally:
        load.end()
    expect("events delivered", len(load.acknowledged), load.begun)
    expect("deliveries refused and sent again", sum(load.refused.values()))
    compared(account, expect, load)


def knows(account, expect, step):
    """An event that was applied before is a duplicate, and changes nothing."""
    load = account.loads[step]
    load.url = account.url("load")
    expect("answers to events that it knows", load.again(), {"duplicate": len(load.acknowledged)})
    items = account.items()
    for what in ("events applied twice", "the handler's own count"):
        seen, wanted = (side[what] for side in found(load, [], items))
        expect(what, seen, wanted)


def deploys(account, expect):
    folder = account.work / "handler"
    shutil.copytree(account.first, folder)
    shutil.copy(HERE / "handler.py", folder / "handler/handler.py")
    account.run("aws", "cloudformation", "deploy", "--stack-name", f"{account.name}-code", "--template-file", folder / "bucket.yaml")
    bucket = account.output_of(f"{account.name}-code")["Bucket"]
    account.run("aws", "cloudformation", "package", "--template-file", "handler.yaml", "--s3-bucket", bucket, "--output-template-file",
                "packaged.yaml", folder=folder)
    account.run("aws", "cloudformation", "deploy", "--stack-name", f"{account.name}-handler", "--template-file", folder / "packaged.yaml",
                "--capabilities", "CAPABILITY_IAM")
    topic = account.aws("sns", "create-topic", name=f"{account.name}-alarms")["TopicArn"]
    policy = account.output_of(f"{account.name}-handler")["HandlerPolicyArn"]
    account.parameters = {"HandlerPolicyArn": policy, "AlarmTopicArn": topic}
    expect("status", account.deploy(account.first, **account.parameters), "CREATE_COMPLETE")
    made = [kind for kind, _ in account.resources().values()]
    expect("functions", made.count("AWS::Lambda::Function"), 4)
    expect("queues", made.count("AWS::SQS::Queue"), 4)
    expect("tables", made.count("AWS::DynamoDB::Table"), 3)
    expect("termination protection", account.stack(account.name)["EnableTerminationProtection"], True)


def sets_up(account, expect):
    account.hookonce("endpoint", "add", "load", "--provider", "stripe", "--secret", "-", given=account.secret)
    callee = account.hookonce("endpoint", "add", CALLEE, "--provider", "standard_webhooks").strip().splitlines()[-1]
    private = ["--allow-private"] if account.mock else []
    account.hookonce("destination", "add", CALLEE, "--url", account.url(CALLEE), "--class", "at_least_once", "--signed", "--secret", "-",
                     *private, given=callee)
    routes = {"version": 1, "otherwise": "dead", "routes": [
        {"name": "load", "consumer": "load", "endpoints": ["load"], "types": ["invoice.paid"], "handler": {"lambda": f"{account.name}-handler"}},
        {"name": "told", "consumer": "told", "endpoints": ["load"], "types": [TOLD], "forward": [CALLEE]},
        {"name": "callee", "endpoints": [CALLEE], "ignore": True}]}
    file = account.work / "routes.json"
    file.write_text(json.dumps(routes), "utf-8")
    account.hookonce("route", "deploy", file)
    examined(account, expect)


def examined(account, expect):
    # What alarms there are, `warn` looks at: that of the relay is raised until the relay has run for ten minutes. Their topic tells nobody.
    problems = {line["check"] for line in account.told("doctor") if not line["ok"]} - {"alarms", "alarm topics"}
    # There is one command line, and with --before two releases: that of the other one is no problem.
    other = ["outputs"] if account.run("hookonce", "--version").strip() != f"hookonce {account.outputs['Version']}" else []
    expect("problems that doctor finds", sorted(problems - MOCK_PROBLEMS if account.mock else problems), other)


def refuses(account, expect):
    body = body_of("evt_refused", "refuse")
    for what, endpoint, headers, wanted in (
            ("without a signature", "load", {}, 401), ("with a wrong one", "load", signed("whsec_another", body), 401),
            ("for an endpoint that is not there", "nobody", signed(account.secret, body), 404)):
        expect(what, post(account.url(endpoint), body, headers)[0], wanted)
    expect("records", account.records(), [])


def delivers(account, expect):
    sent = account.run("hookonce", "trigger", "stripe.invoice.paid", "--id", "evt_first", "--set", "data.object.step=first", "--set",
                       "data.object.pause_ms=0", "--copies", "3", "--concurrency", "3", "--url", account.url("load"), "--secret", "-", "--json",
                       given=account.secret)
    answers = sorted(one["answer"] for one in json.loads(sent)["deliveries"])
    expect("answers to one event, delivered three times", answers, ["accepted", "duplicate", "duplicate"])
    load = account.load("deliver").run(EVENTS, EACH_SECOND)
    expect("events delivered", len(load.acknowledged), EVENTS)
    # Whose answer is lost on its way is sent again, and is a duplicate then. Without such, each is accepted once.
    again = sum(load.refused.values())
    expect("deliveries refused and sent again", again)
    once = min(EVENTS, max(EVENTS - again, load.answers["accepted"]))
    expect("answers", dict(load.answers), {"accepted": once, "duplicate": 3 * EVENTS - once})
    compared(account, expect, load)
    # `restore` goes back to this moment.
    account.quiet = time.time() + 1
    time.sleep(QUIET_SECONDS)


def accepted(account, body):
    """What the webhook says of a delivery."""
    status, text = post(account.url("load"), body, signed(account.secret, body))
    return json.loads(text)["status"] if status == 200 else f"{status} {text}"


def tells(account, expect):
    expect("answer", accepted(account, body_of("evt_told", "tell", kind=TOLD)), "accepted")
    if account.mock:
        raise Skipped("the mock has no address that a release calls")
    effects = account.settled(1, "--kind", "effect")
    expect("effects", [effect["outcome"] or effect["last_error"] for effect in effects], ["DELIVERED"])
    received = account.settled(1, "--endpoint", CALLEE)
    expect("calls that the callee got", [record["outcome"] for record in received], ["IGNORED"])


def warns(account, expect):
    named = {"alarm_name_prefix": f"hookonce/{account.name}/"}
    alarms = account.aws("cloudwatch", "describe-alarms", **named)["MetricAlarms"]
    # The relay has not run for long enough.
    raised = [alarm["AlarmName"].rsplit("/", 1)[1] for alarm in alarms if alarm["StateValue"] == "ALARM"]
    expect("alarms that are raised", [name for name in raised if name != "RelayDoesNotRun"], [])
    if account.mock:
        raise Skipped("the mock keeps no history of what an alarm did")
    name = f"hookonce/{account.name}/page/RecordsDied"
    account.run("aws", "cloudwatch", "set-alarm-state", "--alarm-name", name, "--state-value", "ALARM", "--state-reason", "a trial")
    history = account.until(
        lambda: account.aws("cloudwatch", "describe-alarm-history", alarm_name=name, history_item_type="Action")["AlarmHistoryItems"])
    expect("what the alarm told its topic", sorted({one["HistorySummary"].split(" arn:")[0] for one in history}), ["Successfully executed action"])


def gives_up(account, expect):
    expect("answer", accepted(account, body_of("evt_unwanted", "give up", kind=UNWANTED)), "accepted")
    dead = account.settled(1, "--state", "DEAD")
    expect("dead records", [record["last_error"] for record in dead], ["UNROUTED"])
    account.hookonce("discard", "--key", "load", dead[0]["key"], "--by", "scripts/account", "--reason", "a trial", "--yes")
    expect("dead records then", account.records("--state", "DEAD"), [])


def denies(account, expect):
    if account.mock:
        raise Skipped("the mock evaluates no policy of a table")
    for what, words in (
            ("a scan of the documents", ("dynamodb", "scan", "--table-name", account.outputs["DocumentsTable"], "--select", "COUNT")),
            ("a message to the worker's queue", ("sqs", "send-message", "--queue-url", account.outputs["QueueUrl"], "--message-body", "{}"))):
        try:
            account.run("aws", *words)
            said = "allowed"
        except Refused as refused:
            said = "denied" if "explicit deny" in str(refused) else str(refused)
        expect(what, said, "denied")


def killed(account, expect, step, function):
    """Nobody can kill a function on AWS from outside, and it ends by itself before its time is over. So its code is replaced for a
    while by the same program with a script beside it, which kills it each second."""
    begun, file = datetime.datetime.now(datetime.timezone.utc), account.first / f"{function.removesuffix('Function').lower()}.zip"

    def act():
        try:
            account.code(function, mortal(account, file))
            time.sleep(KILL_SECONDS)
        finally:
            account.code(function, file)

    under_load(account, expect, step, act)
    expect("it was killed at its work", bool(account.until(functools.partial(errors, account, account.outputs[function], begun))), True)


def kills(account, expect):
    killed(account, expect, "kill", "WorkerFunction")


def cuts(account, expect):
    if account.mock:
        raise Skipped("a record without a hint waits four minutes for the relay, and the check does not")
    killed(account, expect, "cut", "WebhookFunction")


def closes(account, expect):
    webhook = account.outputs["WebhookFunction"]

    def act():
        try:
            account.aws("lambda", "put-function-concurrency", function_name=webhook, reserved_concurrent_executions="0")
            time.sleep(CLOSED_SECONDS)
        finally:
            account.run("aws", "lambda", "delete-function-concurrency", "--function-name", webhook)

    under_load(account, expect, "close", act)
    expect("a delivery was refused", sum(account.loads["close"].refused.values()) > 0, True)


MORTAL = """#!/bin/sh
"$LAMBDA_TASK_ROOT/program" &
program=$!
sleep 1
kill -9 $program
exit 1
"""


def mortal(account, file):
    """The same program, which a script kills after a second of its life."""
    changed = account.work / f"mortal-{file.name}"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for name, text in (("program", old.read("bootstrap")), ("bootstrap", MORTAL)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o755 << 16
            new.writestr(entry, text)
    return changed


def errors(account, function, begun):
    """How many invocations of a function failed since then. A time-out is one."""
    counted = account.aws("cloudwatch", "get-metric-statistics", namespace="AWS/Lambda", metric_name="Errors", statistics="Sum", period="60",
                          dimensions=f"Name=FunctionName,Value={function}", start_time=(begun - datetime.timedelta(minutes=1)).isoformat(),
                          end_time=(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=1)).isoformat())
    return sum(point["Sum"] for point in counted["Datapoints"])


def upgrades(account, expect):
    account.second = account.second or twin(account.first, account.work / "twin")
    before = account.hashes()
    account.before = before
    changes(account, expect, "upgrade", account.second)
    expect("functions with other code", sum(was != code for was, code in zip(before, account.hashes())), len(FUNCTIONS))


def rolls_back(account, expect):
    changes(account, expect, "roll back", account.first, ["Release"])
    expect("functions with the code of before", sum(was == code for was, code in zip(account.before, account.hashes())), len(FUNCTIONS))


def changes(account, expect, step, release, allow=()):
    under_load(account, expect, step, lambda: expect("status", account.deploy(release, allow), "UPDATE_COMPLETE"),
               # The mock deploys in seconds.
               EACH_SECOND if account.mock else DEPLOYMENT_EACH_SECOND)
    knows(account, expect, "deliver")


def relays(account, expect):
    if account.mock:
        raise Skipped("the mock reads no metrics from logs")
    now = datetime.datetime.now(datetime.timezone.utc)
    counted = account.aws("cloudwatch", "get-metric-statistics", namespace=f"hookonce/{account.name}", metric_name="relay_ran",
                          statistics="SampleCount", period="300", dimensions="Name=function,Value=relay",
                          start_time=(now - datetime.timedelta(minutes=RELAY_MINUTES + 2)).isoformat(),
                          end_time=(now - datetime.timedelta(minutes=2)).isoformat())
    runs = sum(point["SampleCount"] for point in counted["Datapoints"])
    expect(f"runs of the relay in {RELAY_MINUTES} minutes", runs)
    expect("it runs every minute", RELAY_MINUTES - 2 <= runs <= RELAY_MINUTES + 2, True)


def pairs(account, expect):
    """Both builds of the webhook in turn, so that what changes with time meets both."""
    if not account.pair:
        raise Skipped("there is no --pair")
    if account.mock:
        raise Skipped("the mock does not say how long a function took as Lambda does")
    durations, zips = {"first": [], "pair": []}, {"first": account.first / "webhook.zip", "pair": account.pair / "webhook.zip"}
    logs = account.outputs["WebhookLogs"]
    account.configure("WebhookFunction", logging_config=f"LogFormat=JSON,SystemLogLevel=INFO,ApplicationLogLevel=TRACE,LogGroup={logs}")
    for number in range(PAIR_ROUNDS):
        for build, file in zips.items():
            account.code("WebhookFunction", file)
            begun = int(time.time() * 1000)
            account.load(f"pair-{build}-{number}").run(PAIR_EVENTS, EACH_SECOND)
            time.sleep(20)
            logged = account.aws("logs", "filter-log-events", log_group_name=logs, start_time=str(begun),
                                 filter_pattern='{ $.type = "platform.report" }')["events"]
            durations[build] += warm(logged)
    for build, measured in durations.items():
        expect(f"warm deliveries of {build}", len(measured))
        expect(f"median of {build}, ms", round(statistics.median(measured), 2) if measured else None)
    expect("enough of each to compare", min(map(len, durations.values())) >= PAIR_ROUNDS * PAIR_EVENTS, True)


def warm(events):
    """The milliseconds that Lambda measured of each call that did not start the function."""
    metrics = [json.loads(event["message"])["record"]["metrics"] for event in events]
    return [one["durationMs"] for one in metrics if "initDurationMs" not in one]


def recovers(account, expect):
    account.names = {f"{table}Name": account.outputs[table] for table in TABLES}
    account.delete(account.name)
    left = [name for name in account.aws("dynamodb", "list-tables")["TableNames"] if name.startswith(f"{account.name}-")]
    expect("tables that are left", len(set(left) & set(account.names.values())), len(TABLES))
    expect("status", account.deploy(account.first, **account.parameters, **account.names), "CREATE_COMPLETE")
    expect("tables that it makes", sum(kind == "AWS::DynamoDB::Table" for kind, _ in account.resources().values()), 0)
    examined(account, expect)
    knows(account, expect, "deliver")
    load = account.load("recover").run(EVENTS, EACH_SECOND)
    compared(account, expect, load)


def restores(account, expect):
    """The three tables as they were when the first events were applied, and nothing came in."""
    moment = datetime.datetime.fromtimestamp(account.quiet, datetime.timezone.utc).isoformat()
    copies = {name: f"{table}-copy" for name, table in account.names.items()}
    for name, table in account.names.items():
        account.aws("dynamodb", "restore-table-to-point-in-time", source_table_name=table, target_table_name=copies[name],
                    restore_date_time=moment)
    for function in ("worker", "dispatcher"):
        account.hookonce("pause", function, "--reason", "a restore", "--yes")
    arns = {name: restored(account, copy) for name, copy in copies.items()}
    policy = json.loads((account.first / "template.json").read_text("utf-8"))["Resources"]["DocumentsTable"]["Properties"]["ResourcePolicy"]
    account.aws("dynamodb", "put-resource-policy", resource_arn=arns["DocumentsTableName"], policy=json.dumps(policy["PolicyDocument"]))
    tables = ("--table", copies["InboxTableName"], "--domain-table", copies["DomainTableName"])
    waiting = account.records("--state", "PENDING", *tables)
    # The mock's copy is of this moment, and has the effect that nobody there can deliver.
    expect("records of the copy that wait", [record for record in waiting if not (account.mock and record.get("effect"))], [])
    audited = json.loads(account.hookonce("audit", "--scan", "--json", *tables).splitlines()[-1])["summary"]
    expect("violations that audit finds in the copy", audited["violations"], 0)
    expect("status", account.deploy(account.first, [name.removesuffix("Name") for name in copies], **copies), "UPDATE_COMPLETE")
    for function in ("worker", "dispatcher"):
        account.hookonce("resume", function)
    examined(account, expect)
    knows(account, expect, "deliver")
    load = account.load("restore").run(EVENTS, EACH_SECOND)
    compared(account, expect, load)


def restored(account, copy):
    """Waits for a copy, and gives it back what a restore leaves out. Its ARN."""
    def look():
        return account.aws("dynamodb", "describe-table", table_name=copy)["Table"]["TableStatus"] == "ACTIVE"

    if not account.until(look, RESTORE_SECONDS):
        raise Refused(f"{copy} is not restored after {RESTORE_SECONDS} s")
    if "DocumentsTable" not in copy:
        account.aws("dynamodb", "update-time-to-live", table_name=copy,
                    time_to_live_specification="Enabled=true,AttributeName=hookonce_expires_at")
    account.aws("dynamodb", "update-continuous-backups", table_name=copy,
                point_in_time_recovery_specification="PointInTimeRecoveryEnabled=true")
    account.run("aws", "dynamodb", "update-table", "--table-name", copy, "--deletion-protection-enabled")
    account.until(look)
    return account.aws("dynamodb", "describe-table", table_name=copy)["Table"]["TableArn"]


STEPS = (
    Step("deploy", "deploy.sh makes a new stack, with a handler in Python beside it", deploys),
    Step("set up", "an endpoint, a callee, routes; doctor finds no problem", sets_up),
    Step("refuse", "unsigned, wrongly signed and unknown deliveries are refused", refuses),
    Step("deliver", f"{EVENTS} events, each three times at once: each is applied once", delivers),
    Step("tell", "an effect leaves the stack and reaches its callee", tells),
    Step("warn", "no alarm is raised, and one that is set reaches its topic", warns),
    Step("give up", "an event without a route dies, and is discarded", gives_up),
    Step("deny", "nobody scans the documents or writes to a queue", denies),
    Step("close", "under load: there is no webhook for a while, and providers come again", closes),
    Step("kill", "under load: the worker is killed each second", kills),
    Step("cut", "under load: the webhook is killed each second", cuts),
    Step("upgrade", "under load: deploy.sh of the other release", upgrades),
    Step("roll back", "under load: deploy.sh of the release before", rolls_back),
    Step("relay", "the relay runs every minute", relays),
    Step("pair", "two builds of the webhook in turn, by the time that Lambda measures", pairs),
    Step("recover", "the stack is deleted and made again with the tables that are left", recovers),
    Step("restore", "the stack gets copies of its tables from an earlier moment", restores),
)
