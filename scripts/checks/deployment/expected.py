"""What the `aws` commands of the pages find on the mock of AWS, and what each of them must print or change there."""

import datetime
import fnmatch
import json
import operator
import pathlib
import re
import time
from typing import NamedTuple

import moto.awslambda.models
import moto.logs.models
import policies
from mock import ACCOUNT, ANSWERS, CODE, REGION, STACK, client, with_outputs
from moto.cloudformation.models import cloudformation_backends

SEEN, UNSEEN = "this line is to be read", "nobody asked for this line"
EMPTY = "0\t0\t0\n"
WAIT = f"hookonce/{STACK}/notice/DeadRecordsWait"
SILENT = f"hookonce/{STACK}/page/EndpointIsSilent-stripe"
SPARE = f"{STACK}-a-table-to-delete"
GONE = f"{STACK}-that-was-deleted"


class Row(NamedTuple):
    """What is expected of a command."""

    # What it prints, with the page's placeholders.
    prints: str = ""
    # What must hold on the stack afterwards.
    so: object = None
    # Why the mock cannot carry it out. Then its words and its query are checked on an answer that the command line invents.
    cannot: str = ""
    # Why nothing of it is run. Its text is the whole command: with one word more it needs a row of its own.
    mention: str = ""
    # Whether only version 2 of the command line knows it.
    two: bool = False
    # Who runs it: a role of deploy/policies, somebody else, or nobody, because AWS denies it.
    who: str = "reader"


def memory(stack):
    return client("lambda").get_function_configuration(FunctionName=stack.ids["WebhookFunction"])["MemorySize"]


def alarms(name):
    return client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]


def alarm(name):
    return alarms(name)[0]["StateValue"]


def filtered(stack, name):
    found = client("logs").describe_metric_filters(logGroupName=stack.ids["WebhookLogs"], filterNamePrefix=name)
    return found["metricFilters"]


def policy(stack):
    found = client("sqs").get_queue_attributes(QueueUrl=stack.ids["HintQueue"], AttributeNames=["Policy"])
    return found.get("Attributes", {}).get("Policy", "")


def kept(stack):
    """How long a queue keeps a message, how long it hides one, and how large one may be."""
    # Of another queue than the runbook's, which runs beside: the mock forgets a queue's policy when it sets anything else.
    found = client("sqs").get_queue_attributes(QueueUrl=stack.ids["SlowQueue"], AttributeNames=["All"])["Attributes"]
    return found["MessageRetentionPeriod"], found["VisibilityTimeout"], found["MaximumMessageSize"]


def timeout(stack):
    return client("lambda").get_function_configuration(FunctionName=stack.ids["WorkerFunction"])["Timeout"]


def backup():
    """The ARN of a backup."""
    return client("dynamodb").list_backups()["BackupSummaries"][0]["BackupArn"]


def first_source():
    return client("lambda").list_event_source_mappings()["EventSourceMappings"][0]


def source():
    """The id of an event source."""
    return first_source()["UUID"]


def subscriptions(name, value):
    """Whether a topic has a subscription with this attribute."""
    found = client("sns").list_subscriptions()["Subscriptions"]
    kept = [client("sns").get_subscription_attributes(SubscriptionArn=one["SubscriptionArn"])["Attributes"] for one in found]
    return any(one.get(name) == value for one in kept)


def items(table):
    return client("dynamodb").scan(TableName=table)["Items"]


def reserved(stack):
    return client("lambda").get_function_concurrency(FunctionName=stack.ids["WebhookFunction"]).get("ReservedConcurrentExecutions")


def stack_policy():
    return json.loads(client("cloudformation").get_stack_policy(StackName=STACK)["StackPolicyBody"])["Statement"]


def widgets(stack):
    """Whether the dashboard's graphs are those of the stack."""
    made, = client("cloudwatch").list_dashboards()["DashboardEntries"]
    body = client("cloudwatch").get_dashboard(DashboardName=made["DashboardName"])["DashboardBody"]
    queue = stack.ids["HintQueue"].rsplit("/", 1)[1]
    return json.loads(body)["widgets"] and "${" not in body and f'"{queue}"' in body and f'"{stack.ids["Gateway"]}"' in body


def made_policies():
    """The statements of the policies that the page has made."""
    made = {one["PolicyName"].removeprefix(f"{STACK}-"): one for one in client("iam").list_policies(Scope="Local")["Policies"]}
    versions = {name: client("iam").get_policy_version(PolicyArn=one["Arn"], VersionId="v1")["PolicyVersion"] for name, one in made.items()}
    return {name: version["Document"]["Statement"] for name, version in versions.items()}


def table_names():
    return client("dynamodb").list_tables()["TableNames"]


def packaged():
    """Whether the code of a release is in the bucket of the page."""
    return client("s3").list_objects_v2(Bucket=CODE, Prefix="")["KeyCount"] > 1


def copied(stack):
    """The copy that the page restores."""
    return f"{stack.ids['DomainTable']}-copy"


NO_DRIFT = "the mock looks at no resource"
NO_LIMITS = "the mock has no limits of accounts"

# A command of a page belongs to the first row whose words it has.
ROWS = {
    "aws sso login": Row(mention="it opens a browser"),
    "aws login": Row(mention="it opens a browser"),
    "account=$(aws sts get-caller-identity": Row(),
    "aws sts get-caller-identity": Row('"Account"'),
    "aws iam create-policy": Row(f"arn:aws:iam::{ACCOUNT}:policy/{STACK}-deployer", so=lambda stack: made_policies() == policies.of_all(), who="other"),
    "aws cloudformation describe-stacks --stack-name NAME": Row("DISPATCHER_LOGS"),
    "OutputKey=='WebhookUrl'": Row(f"https://{ANSWERS['DomainName']}/webhooks/"),
    "aws cloudformation list-stacks": Row(f"stack/{GONE}/", who="deployer"),
    'aws cloudformation describe-stacks --stack-name "$id"': Row(f"|  AlarmTopicArn |  {GONE}", who="deployer"),
    "aws cloudformation set-stack-policy": Row(so=lambda stack: stack_policy(), who="deployer"),
    "aws cloudformation continue-update-rollback --stack-name NAME": Row(mention="the mock lacks it"),
    "aws cloudformation package": Row("Successfully packaged", so=lambda stack: packaged(), who="deployer"),
    "aws cloudformation update-termination-protection": Row(mention="the mock lacks it"),
    "aws cloudformation deploy --region us-east-1": Row("Successfully created", who="other"),
    'outputs=$(aws cloudformation describe-stacks --stack-name "$stack"': Row(),
    'aws cloudformation deploy --stack-name "$stack-dashboard"': Row("Successfully created", so=lambda stack: widgets(stack), who="deployer"),
    "$.body_mismatch > 0": Row("needs_a_look in ", two=True),
    "$.destination_unknown > 0": Row("needs_a_look in DispatcherLogs", two=True),
    '$.status = "413" ||': Row('"429"', two=True),
    "aws logs tail LOG_GROUP": Row(SEEN, two=True),
    "aws logs tail RELAY_LOGS": Row(f"{SEEN} in RelayLogs", two=True),
    "aws logs tail WORKER_LOGS --since 1h": Row("platform.report", two=True),
    "aws logs tail WORKER_LOGS": Row(f"{SEEN} in WorkerLogs", two=True),
    "aws logs tail WEBHOOK_LOGS --since 15m": Row(f"{SEEN} in WebhookLogs", two=True),
    "aws logs tail WEBHOOK_LOGS --since 1h": Row("of the body", two=True),
    "aws logs tail DISPATCHER_LOGS": Row("platform.report", two=True),
    "aws logs tail GATEWAY_LOGS --since 15m": Row('"401"', two=True),
    "aws logs tail GATEWAY_LOGS --since 1h": Row('"401"', two=True),
    "aws logs tail": Row(mention="the sentence names it only"),
    "--table-name hookonce-domain-own-orders": Row('"Items"', who="other"),
    "aws logs start-query": Row('"queryId"'),
    "aws logs get-query-results": Row('"status"'),
    "aws lambda put-function-concurrency": Row(so=lambda stack: reserved(stack) == 300, who="deployer"),
    "aws lambda delete-function-concurrency": Row(so=lambda stack: reserved(stack) is None, who="deployer"),
    "--memory-size 576": Row(so=lambda stack: memory(stack) == 576, who="operator"),
    "aws lambda wait function-updated-v2": Row(who="operator"),
    "--memory-size 512": Row(so=lambda stack: memory(stack) == stack.properties("WebhookFunction")["MemorySize"], who="operator"),
    "',UsePreviousValue=true'": Row(who="deployer"),
    "--deployment-mode REVERT_DRIFT": Row('"StackId"', cannot=NO_DRIFT, who="deployer"),
    'aws cloudformation wait change-set-create-complete --stack-name "$stack" --change-set-name drift': Row(mention="the mock has no such change set"),
    'aws cloudformation describe-change-set --stack-name "$stack" --change-set-name drift --output text \\\n'
    '  --query "Changes[].ResourceChange.[Action, LogicalResourceId, Replacement]"': Row(mention="the mock has no such change set"),
    "aws cloudformation execute-change-set": Row(cannot=NO_DRIFT, who="deployer"),
    "aws cloudformation delete-change-set": Row(cannot=NO_DRIFT, who="deployer"),
    "aws lambda get-account-settings --query": Row("0", cannot=NO_LIMITS),
    "aws lambda invoke": Row('"StatusCode": 200', so=lambda stack: json.loads(event_file()) in INVOKED, two=True, who="other"),
    "aws service-quotas list-service-quotas": Row("QuotaName\t", cannot=NO_LIMITS),
    "aws service-quotas request-service-quota-increase": Row('"Status"', cannot=NO_LIMITS),
    "aws cloudwatch get-metric-statistics --namespace hookonce/NAME": Row('"Sum": 5.0'),
    "aws cloudwatch get-metric-statistics --namespace AWS/Lambda": Row('"Maximum": 7.0'),
    "aws cloudwatch list-metrics": Row('"store_unavailable"'),
    "aws cloudwatch set-alarm-state --alarm-name hookonce/inbox/notice/DeadRecordsWait": Row(so=lambda stack: alarm(WAIT) == "ALARM", who="operator"),
    "aws logs put-metric-filter": Row(so=lambda stack: filtered(stack, "taken-stripe"), who="deployer"),
    "aws cloudwatch put-metric-alarm": Row(so=lambda stack: alarms(SILENT), who="deployer"),
    "aws cloudwatch delete-alarms": Row(so=lambda stack: not alarms(SILENT), who="deployer"),
    "aws sns create-topic": Row(so=lambda stack: client("sns").list_topics()["Topics"], who="deployer"),
    "--protocol email": Row('"SubscriptionArn"', so=lambda stack: subscriptions("Protocol", "email"), who="deployer"),
    "aws sns subscribe": Row('"SubscriptionArn"', so=lambda stack: subscriptions("FilterPolicyScope", "MessageBody"), who="deployer"),
    "aws sqs get-queue-attributes --queue-url URL": Row(so=policy),
    "--attributes VisibilityTimeout=": Row(so=lambda stack: kept(stack) == ("604800", "360", "1048576"), who="deployer"),
    "aws lambda update-event-source-mapping": Row('"ReportBatchItemFailures"', so=lambda stack: not first_source()["FilterCriteria"], who="deployer"),
    "--timeout 60": Row('"Timeout": 60', so=lambda stack: timeout(stack) == 60, who="operator"),
    "--attributes Policy=": Row(so=lambda stack: not policy(stack), who="deployer"),
    "aws sqs set-queue-attributes": Row(so=lambda stack: json.loads(policy(stack))["Statement"], who="deployer"),
    "aws sqs get-queue-attributes": Row(EMPTY),
    'aws dynamodb delete-item --table-name "$documents"': Row(so=lambda stack: not items(stack.ids["DocumentsTable"]), who="operator"),
    "aws dynamodb restore-table-to-point-in-time": Row("-copy", so=lambda stack: copied(stack) in table_names(), who="other"),
    "aws dynamodb list-backups": Row(f"table/{SPARE}/backup/", who="other"),
    "aws dynamodb restore-table-from-backup": Row(SPARE, so=lambda stack: SPARE in table_names(), who="other"),
    'aws dynamodb wait table-exists --table-name "$table"': Row(so=lambda stack: SPARE in table_names(), who="other"),
    "aws dynamodb wait table-exists": Row(so=lambda stack: copied(stack) in table_names(), who="operator"),
    "aws dynamodb put-item": Row(mention="the page leaves out what to write"),
    "aws dynamodb update-time-to-live": Row('"AttributeName": "hookonce_expires_at"', who="deployer"),
    "aws dynamodb update-continuous-backups": Row('"PointInTimeRecoveryStatus": "ENABLED"', who="deployer"),
    "aws dynamodb put-resource-policy": Row('"RevisionId"', who="deployer"),
    " --deletion-protection-enabled": Row('"DeletionProtectionEnabled": true', who="deployer"),
    "aws dynamodb list-tables": Row(f'"{STACK}-InboxTable-', who="deployer"),
    "aws dynamodb update-table": Row('"DeletionProtectionEnabled": false', who="deployer"),
    "aws dynamodb delete-table": Row(so=lambda stack: SPARE not in table_names(), who="deployer"),
}

# What a command may write in capitals.
WORDS = {
    "ACCOUNT", "ALARM", "AWS", "BOUNDARY", "CAPABILITY_IAM", "COUNT", "DELETE_COMPLETE", "ERROR", "EXIT", "JSON", "REGION", "REVERT_DRIFT", "STACK",
    "SYSTEM", "WARN",
}


def moment(minutes):
    now = datetime.datetime.now(datetime.timezone.utc)
    return f"{now + datetime.timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


# What a person puts in place of these words.
PLACEHOLDERS = {
    "NAME": lambda stack: STACK,
    "WORKER": lambda stack: stack.ids["WorkerFunction"],
    "DISPATCHER": lambda stack: stack.ids["DispatcherFunction"],
    "WEBHOOK": lambda stack: stack.ids["WebhookFunction"],
    "FUNCTION": lambda stack: stack.ids["WebhookFunction"],
    "LOG_GROUP": lambda stack: stack.ids["RelayLogs"],
    "RELAY_LOGS": lambda stack: stack.ids["RelayLogs"],
    "WORKER_LOGS": lambda stack: stack.ids["WorkerLogs"],
    "WEBHOOK_LOGS": lambda stack: stack.ids["WebhookLogs"],
    "DISPATCHER_LOGS": lambda stack: stack.ids["DispatcherLogs"],
    "GATEWAY_LOGS": lambda stack: stack.ids["GatewayLogs"],
    "URL": lambda stack: stack.ids["HintQueue"],
    "ENDPOINT": lambda stack: "stripe",
    "TOPIC": lambda stack: f"arn:aws:sns:{REGION}:{ACCOUNT}:{STACK}-alarms",
    "QUERY": lambda stack: client("logs").describe_queries(logGroupName=stack.ids["RelayLogs"])["queries"][-1]["queryId"],
    "FROM": lambda stack: moment(-60),
    "MOMENT": lambda stack: moment(-5),
    "TO": lambda stack: moment(1),
}


def variables(stack):
    """What the shell of each page knows, because a sentence of the page says so."""
    return {"stack": STACK, "bucket": CODE, "queue": stack.ids["SlowQueue"], "source": source(), "id": gone().stack_id, "backup": backup(), "table": SPARE, "original": stack.ids["DomainTable"], "documents": stack.ids["DocumentsTable"], "copy": stack.ids["InboxTable"], "arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{stack.ids['DocumentsTable']}", "boundary": policies.PLACEHOLDERS["BOUNDARY"], "pager_url": "https://pager.example.com/alarms"}


def event_file():
    """The event of docs/use/submit.md."""
    page = pathlib.Path("docs/use/submit.md").read_text("utf-8")
    return page.split("## Without the gateway\n", 1)[1].split("```json\n", 1)[1].split("```", 1)[0]


class Pattern:
    """The kinds of filter patterns that the pages have: fields of a JSON line, one text, and words of which one is in the line."""

    def __init__(self, pattern):
        fields = re.fullmatch(r"\{ (.+) \}", pattern or "")
        self.fields = [re.fullmatch(r'\$\.([\w.]+) (=|>|>=) ("[^"]*"|\d+)', one).groups() for one in fields[1].split(" || ")] if fields else []
        self.words = [] if fields else [quoted or word for quoted, word in re.findall(r'\?(?:"([^"]+)"|(\w+))', pattern or "")]
        if alone := re.fullmatch('"([^"]+)"', pattern or ""):
            self.words = [alone[1]]
        elif pattern and not self.fields and " ".join(f'?"{word}"' if " " in word else f"?{word}" for word in self.words) != pattern:
            raise ValueError(f"no such pattern: {pattern}")

    def matches(self, line):
        if self.fields:
            read = json.loads(line) if line.startswith("{") else {}
            return any(self.has(read.get(name), sign, json.loads(value)) for name, sign, value in self.fields)
        return not self.words or any(word in line for word in self.words)

    @staticmethod
    def has(found, sign, wanted):
        if not isinstance(found, type(wanted)):
            return False
        return {"=": fnmatch.fnmatchcase, ">": operator.gt, ">=": operator.ge}[sign](found, wanted)


INVOKED = []


def invoke(backend, function_name, qualifier, body, headers, response_headers):
    """What the mock would run in Docker, for a call and for each message of a queue."""
    INVOKED.append(json.loads(body))
    return b'{"statusCode": 200}'


moto.awslambda.models.LambdaBackend.invoke = invoke
# The mock lets every line through a pattern that begins with a brace or a question mark.
moto.logs.models.EventMessageFilter = Pattern


def prepare(stack):
    """What the commands find on the stack."""
    with_outputs(stack)
    for logical in stack.resources("AWS::Logs::LogGroup"):
        write_lines(stack.ids[logical], lines(stack, logical))
    count(f"hookonce/{STACK}", "relay_due", {"function": "relay"}, 5 * [1])
    count(f"hookonce/{STACK}", "delivery_retry_please", {"function": "webhook", "code": "store_unavailable"}, [1])
    count("AWS/Lambda", "ConcurrentExecutions", {}, [3, 7])
    # What somebody changed, and a page sets back.
    client("sqs").set_queue_attributes(QueueUrl=stack.ids["SlowQueue"], Attributes={"VisibilityTimeout": "30", "MessageRetentionPeriod": "3600", "MaximumMessageSize": "262144"})
    client("lambda").update_function_configuration(FunctionName=stack.ids["WorkerFunction"], Timeout=300)
    client("lambda").update_event_source_mapping(UUID=source(), FilterCriteria={"Filters": [{"Pattern": '{"body": {"ref": ["in"]}}'}]})
    client("dynamodb").put_item(TableName=stack.ids["DocumentsTable"], Item={"kind": {"S": "key"}, "id": {"S": "messages"}})
    # The second one is a table of a laptop, which has no account.
    for name in (SPARE, "hookonce-domain-own-orders"):
        client("dynamodb").create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST", DeletionProtectionEnabled=True,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}], AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
    # AWS makes it when the table is deleted.
    client("dynamodb").create_backup(TableName=SPARE, BackupName=f"{SPARE}$DeletedTableBackup")
    deleted_stack()


def deleted_stack():
    """A stack that had the name of this one. The mock needs another name to make it."""
    template = {"Parameters": {"AlarmTopicArn": {"Type": "String"}}, "Resources": {}}
    client("cloudformation").create_stack(
        StackName=GONE, TemplateBody=json.dumps(template), Parameters=[{"ParameterKey": "AlarmTopicArn", "ParameterValue": GONE}])
    client("cloudformation").delete_stack(StackName=GONE)
    gone().name = STACK


def gone():
    gone, = cloudformation_backends[ACCOUNT][REGION].deleted_stacks.values()
    return gone


def lines(stack, logical):
    """Lines as the gateway and the functions write them."""
    if logical == "GatewayLogs":
        form = stack.properties("GatewayApiGatewayDefaultStage")["AccessLogSettings"]["Format"]
        answered = lambda status: re.sub(r"\$context\.\w+", "-", form.replace("$context.status", status).replace("$context.requestId", "ID"))
        return [answered("401").replace("ID", SEEN), answered("429"), answered("200").replace("ID", UNSEEN)]
    written = [{"level": "WARN", "message": f"{SEEN} in {logical}", "request": "in#stripe#evt_1"}, {"level": "INFO", "message": UNSEEN}]
    counted = {"WebhookLogs": "key_fallback", "WorkerLogs": "routes_refused", "RelayLogs": "write_invalid", "DispatcherLogs": "destination_unknown"}
    written += [{counted[logical]: 1, "endpoint": f"needs_a_look in {logical}"}, {counted[logical]: 0, "endpoint": UNSEEN}]
    if logical == "WebhookLogs":
        written.append({"code": "signature_mismatch", "endpoint": "stripe", "body_sha256": "of the body"})
    if logical in ("DispatcherLogs", "WorkerLogs"):
        written.append({"type": "platform.report", "record": {"requestId": "a request", "status": "timeout"}})
    return [json.dumps(line) for line in written]


def write_lines(group, some):
    client("logs").create_log_stream(logGroupName=group, logStreamName="an instance")
    now = int(time.time() * 1000)
    client("logs").put_log_events(
        logGroupName=group, logStreamName="an instance", logEvents=[{"timestamp": now - 1_000, "message": line} for line in some])


def count(namespace, metric, dimensions, values):
    when = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=3)
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    data = [{"MetricName": metric, "Dimensions": named, "Timestamp": when, "Value": float(value)} for value in values]
    client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)


NOT_ON_THE_MOCK = "how AWS reads a filter pattern: expected.py reads it in its place; what a query of log lines finds"


class Break(NamedTuple):
    """A change of a page, and what must then be found."""

    page: str
    old: str
    new: str
    expected: str
    two: bool = False


BREAKS = (
    Break("docs/run/runbook.md", "--memory-size 576", "--memory-sizes 576", "has no row for it"),
    Break("docs/run/runbook.md", "[QuotaName,Value]", "[Name,Value]", "no 'QuotaName"),
    Break("docs/run/runbook.md", "--service-code dynamodb", "--code dynamodb", "it fails"),
    Break("docs/run/runbook.md", "--function-name WEBHOOK --memory", "--function-name HOOK --memory", "nothing is known for HOOK"),
    Break("docs/run/runbook.md", "--metric-name relay_due", "--metric-name relay_duo", "no '\"Sum"),
    Break("docs/run/runbook.md", '{ $.status = "401" }', '{ $.state = "401" }', "no '\"401\"'", two=True),
    Break("docs/run/runbook.md", "|| $.destination_unknown > 0 ||", "|| $.destination_known > 0 ||", "has a row for '$.destination_unknown > 0'", two=True),
    Break("docs/run/runbook.md", "|| $.key_fallback > 0", "|| $.key_fallbacks > 0", "no 'needs_a_look in '", two=True),
    Break("docs/run/runbook.md", "WORKER_LOGS --since 30m", "WORKER_LOGS --last 30m", "it fails", two=True),
    Break("docs/run/deploy.md", '--stack-name "$stack" --output text', '--stack-name "$stacks" --output text', "unbound variable"),
    Break("docs/run/upgrade.md", '"$copy" --deletion', '"$copy --deletion', "a shell cannot read it"),
    Break("docs/run/upgrade.md", "aws dynamodb put-resource-policy", "hookonce policy", "has a row for 'aws dynamodb put-resource-policy'"),
    Break("docs/run/deploy.md", "aws dynamodb delete-table --table", "aws dynamodb drop-table --table", "has no row for it"),
    Break("docs/run/deploy.md", "-concurrent-executions 300", "-concurrent-executions 30", "the stack is not as it should be"),
)
