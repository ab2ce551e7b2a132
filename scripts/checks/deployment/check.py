"""Deploys template.yaml on a mock of AWS and checks what was created, then the same with the route of its own that
docs/run/deploy.md shows for one endpoint. Then breaks the template once for each kind of resource, and that page: each break must
be found.

What the mock's CloudFormation does not know is made with the call that CloudFormation would make, or listed."""

import ast
import graphlib
import json
import os
import pathlib
import re
import sys

from samtranslator.yaml_helper import yaml_parse

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from references import references  # noqa: E402
from mock import ACCOUNT, ANSWERS, REGION, STACK, client, deployed, verdict  # noqa: E402

DAY = 86_400


def tables(stack):
    dynamodb = client("dynamodb")
    indexes = {"InboxTable": {"due": ("due_shard", "due_at"), "journal": ("journal_shard", "received_at")}, "DomainTable": {},
               "DocumentsTable": {}}
    yield "the stack", "tables", sorted(stack.resources("AWS::DynamoDB::Table")), sorted(indexes)
    for logical, expected in indexes.items():
        of_documents = logical == "DocumentsTable"
        name = stack.ids[logical]
        table = dynamodb.describe_table(TableName=name)["Table"]
        found = {
            index["IndexName"]: tuple(key["AttributeName"] for key in index["KeySchema"])
            for index in table.get("GlobalSecondaryIndexes", []) if index["Projection"] == {"ProjectionType": "KEYS_ONLY"}}
        ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        yield logical, "key", [key["AttributeName"] for key in table["KeySchema"]], ["kind", "id"] if of_documents else ["pk"]
        yield logical, "indexes of keys only", found, expected
        yield logical, "billing", table["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST"
        # The mock's table has no key, so this reads the translation.
        yield logical, "key", stack.properties(logical)["SSESpecification"]["KMSMasterKeyId"], ANSWERS["DocumentKeyArn" if of_documents else "DataKeyArn"]
        yield logical, "deletion protection", table["DeletionProtectionEnabled"], True
        expires = {"TimeToLiveStatus": "ENABLED", "AttributeName": "hookonce_expires_at"}
        yield logical, "time to live", ttl, {"TimeToLiveStatus": "DISABLED"} if of_documents else expires
        recovery = backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
        yield logical, "point-in-time recovery", recovery, "ENABLED"
    policy = client("dynamodb").get_resource_policy(ResourceArn=stack.attribute(["DocumentsTable", "Arn"]))["Policy"]
    denied = [(item["Effect"], item["Principal"], action) for item in json.loads(policy)["Statement"] for action in item["Action"]]
    wanted = ["Scan", "PartiQLSelect", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete", "ExportTableToPointInTime"]
    yield "DocumentsTable", "what is denied to all", denied, [("Deny", "*", f"dynamodb:{action}") for action in wanted]


SOURCES_OF_DEAD_LETTERS = ("HintQueue", "SlowQueue", "EffectsQueue")


def queues(stack):
    found = {name: attributes(stack, name) for name in stack.resources("AWS::SQS::Queue")}
    redrive = {"deadLetterTargetArn": found["DeadLetterQueue"]["QueueArn"], "maxReceiveCount": 100}
    for logical in SOURCES_OF_DEAD_LETTERS:
        yield logical, "redrive", json.loads(found[logical].get("RedrivePolicy", "null")), redrive
    yield "DeadLetterQueue", "redrive", found["DeadLetterQueue"].get("RedrivePolicy"), None
    sources = {"redrivePermission": "byQueue", "sourceQueueArns": [found[name]["QueueArn"] for name in SOURCES_OF_DEAD_LETTERS]}
    # The mock's queues do not keep it, so this reads the translation.
    yield "DeadLetterQueue", "sources", stack.properties("DeadLetterQueue").get("RedriveAllowPolicy"), sources
    roles = {name: role_arn(stack, name) for name in stack.resources("AWS::IAM::Role")}
    of = lambda *names: [roles[f"{name}Role"] for name in names]
    users = {"HintQueue": of("Webhook", "Worker", "Relay"), "SlowQueue": of("Worker"), "DeadLetterQueue": of("Relay"),
             "EffectsQueue": of("Worker", "Relay", "Dispatcher")}
    yield "the stack", "queues", sorted(found), sorted(users)
    for logical, found in found.items():
        days = 14 if logical == "DeadLetterQueue" else 7
        yield logical, "retention", found["MessageRetentionPeriod"], str(days * DAY)
        yield logical, "visibility timeout", found["VisibilityTimeout"], "360"
        yield logical, "largest message", found["MaximumMessageSize"], "1048576"
        yield logical, "key", (found.get("KmsMasterKeyId"), found["SqsManagedSseEnabled"]), (ANSWERS["DataKeyArn"], "false")
        policy = json.loads(found.get("Policy", '{"Statement": []}'))
        yield logical, "policy's resources", {str(item["Resource"]) for item in policy["Statement"]}, {found["QueueArn"]}
        arns = [item["Condition"].get("ArnNotEquals", {}).get("aws:PrincipalArn") for item in policy["Statement"]]
        allowed = sorted(arn for entry in arns if entry for arn in entry)
        yield logical, "principals", allowed, sorted([*users[logical], ANSWERS["OperatorArn"]])


def attributes(stack, logical):
    return client("sqs").get_queue_attributes(QueueUrl=stack.ids[logical], AttributeNames=["All"])["Attributes"]


def role_arn(stack, logical):
    return client("iam").get_role(RoleName=stack.ids[logical])["Role"]["Arn"]


def functions(stack):
    expected = {"WebhookFunction": ("hookonce-webhook", 10), "WorkerFunction": ("hookonce-worker", 60),
                "RelayFunction": ("hookonce-relay", 60), "DispatcherFunction": ("hookonce-dispatcher", 60)}
    yield "the stack", "functions", sorted(stack.resources("AWS::Lambda::Function")), sorted(expected)
    groups = {group["logGroupName"] for group in client("logs").describe_log_groups()["logGroups"]}
    for logical, (handler, seconds) in expected.items():
        found = client("lambda").get_function(FunctionName=stack.ids[logical])["Configuration"]
        environment = found["Environment"]["Variables"]
        trusted = client("iam").get_role(RoleName=stack.ids[logical.replace("Function", "Role")])["Role"]
        yield logical, "binary", found["Handler"], handler
        yield logical, "runtime", found["Runtime"], "provided.al2023"
        yield logical, "timeout", found["Timeout"], seconds
        yield logical, "role", found["Role"], trusted["Arn"]
        service = [item["Principal"] for item in trusted["AssumeRolePolicyDocument"]["Statement"]]
        yield logical, "who may take the role", service, [{"Service": "lambda.amazonaws.com"}]
        yield logical, "inbox table", environment.get("HOOKONCE_INBOX_TABLE"), stack.ids["InboxTable"]
        yield logical, "domain table", environment.get("HOOKONCE_DOMAIN_TABLE"), stack.ids["DomainTable"]
        yield logical, "documents", environment.get("HOOKONCE_DOCUMENTS"), f"table:{stack.ids['DocumentsTable']}"
        yield logical, "queue", environment.get("HOOKONCE_QUEUE_URL"), stack.ids["HintQueue"]
        yield logical, "namespace of metrics", environment.get("HOOKONCE_METRICS_NAMESPACE"), f"hookonce/{STACK}"
        yield logical, "unresolved variables", [name for name, value in environment.items() if "${" in str(value)], []
        # The mock's functions keep neither of these two, so they are read from the template's translation.
        properties = stack.properties(logical)
        yield logical, "processor", properties["Architectures"] in (["arm64"], ["x86_64"]), True
        yield logical, "log group exists", properties["LoggingConfig"]["LogGroup"] in groups, True
        yield logical, "log format", properties["LoggingConfig"]["LogFormat"], "JSON"
    found = client("lambda").get_function(FunctionName=stack.ids["WebhookFunction"])["Configuration"]
    variables = [found["Environment"]["Variables"].get(name) for name in ("HOOKONCE_EDGE_PROOF_HASHES", "HOOKONCE_CLIENT_ADDRESS_HEADER")]
    yield "WebhookFunction", "proofs and address of the edge", variables, [ANSWERS["EdgeProofHashes"], ANSWERS["ClientAddressHeader"]]
    # `sam deploy --guided` asks for a hidden parameter without offering its default, and never ends if it is left empty.
    hidden = [name for name, body in stack.template["Parameters"].items() if body.get("NoEcho") and body.get("Default") == ""]
    yield "the stack", "hidden parameters that may stay empty", hidden, []


def roles(stack):
    """Each statement names things that exist in this stack."""
    # CloudFormation's name of a log group ends in `:*`, the mock's does not.
    known = {stack.attribute([name, "Arn"]).removesuffix(":*") for kind in ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
             for name in stack.resources(kind)}
    known |= {f"{stack.attribute(['InboxTable', 'Arn'])}/index/{name}" for name in ("due", "journal")}
    # What two roles are denied, whatever a managed policy allows.
    known |= {f"{stack.attribute(['DocumentsTable', 'Arn'])}/*"}
    # The policy that keeps two roles from invoking the stack's own functions.
    known |= {stack.attribute([name, "Arn"]) for name in stack.resources("AWS::Lambda::Function")}
    known |= {value for value in ANSWERS.values() if ":kms:" in value}
    for logical in stack.resources("AWS::IAM::Role"):
        name = stack.ids[logical]
        named = set()
        for policy in client("iam").list_role_policies(RoleName=name)["PolicyNames"]:
            document = client("iam").get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            # The mock hands back a policy that CloudFormation wrote as Python's text of it.
            document = ast.literal_eval(document) if isinstance(document, str) else document
            # And it keeps a place for a statement that its condition left out.
            for statement in filter(None, document["Statement"]):
                resources = statement["Resource"]
                named |= {resources} if isinstance(resources, str) else set(resources)
        yield logical, "is not empty", bool(named), True
        yield logical, "names what is not in this stack", sorted({name.removesuffix(":*") for name in named} - known), []


def event_sources(stack):
    found = {mapping["EventSourceArn"]: mapping for mapping in client("lambda").list_event_source_mappings()["EventSourceMappings"]}
    concurrency = int(ANSWERS["WorkerConcurrencyMax"])
    expected = {"HintQueue": ("WorkerFunction", concurrency),
                "SlowQueue": ("WorkerFunction", int(ANSWERS["SlowConcurrencyMax"])),
                "EffectsQueue": ("DispatcherFunction", int(ANSWERS["DispatcherConcurrencyMax"]))}
    yield "the stack", "event sources", len(found), len(expected)
    for queue, (function, concurrency) in expected.items():
        mapping = found.get(attributes(stack, queue)["QueueArn"], {})
        yield queue, "function", mapping.get("FunctionArn"), stack.attribute([function, "Arn"])
        yield queue, "batch", (mapping.get("BatchSize"), mapping.get("MaximumBatchingWindowInSeconds")), (10, 0)
        yield queue, "partial failures", mapping.get("FunctionResponseTypes"), ["ReportBatchItemFailures"]
        yield queue, "concurrency", mapping.get("ScalingConfig"), {"MaximumConcurrency": concurrency}
        yield queue, "state", mapping.get("State"), "Enabled"


def gateway(stack):
    api = {"ApiId": stack.ids["Gateway"]}
    routes = client("apigatewayv2").get_routes(**api)["Items"]
    yield "Gateway", "routes", [route["RouteKey"] for route in routes], ["ANY /webhooks/{endpoint}"]
    integration, = client("apigatewayv2").get_integrations(**api)["Items"]
    yield "Gateway", "payload", integration["PayloadFormatVersion"], "2.0"
    yield "Gateway", "timeout", integration["TimeoutInMillis"], 10_000
    webhook = stack.attribute(["WebhookFunction", "Arn"])
    yield "Gateway", "function", f"/{webhook}/" in integration["IntegrationUri"], True
    stage, = client("apigatewayv2").get_stages(**api)["Items"]
    yield "Gateway", "stage", (stage["StageName"], stage["AutoDeploy"]), ("$default", True)
    limits = {name: stage["DefaultRouteSettings"].get(name) for name in ("ThrottlingRateLimit", "ThrottlingBurstLimit")}
    yield "Gateway", "throttle", limits, {"ThrottlingRateLimit": 100.0, "ThrottlingBurstLimit": 500}
    yield "Gateway", "access log", stage["AccessLogSettings"]["DestinationArn"], stack.attribute(["GatewayLogs", "Arn"])
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    foreign = ("body", "query", "header", "path", "method", "domain", "agent")
    leaks = [value for value in logged.values() if any(word in value.lower() for word in foreign)]
    yield "Gateway", "what the log must not hold", leaks, []
    found = client("apigatewayv2").get_api(**api)
    yield "Gateway", "execute-api address is off", found.get("DisableExecuteApiEndpoint"), True
    mapping, = client("apigatewayv2").get_api_mappings(DomainName=ANSWERS["DomainName"])["Items"]
    yield "Gateway", "mapping of its domain", (mapping["ApiId"], mapping["Stage"]), (stack.ids["Gateway"], "$default")
    # The mock does not know the gateway's name when it makes the permission, so this reads the translation.
    permission = stack.properties("WebhookFunctionDeliveryPermission")
    source = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{stack.ids['Gateway']}/*/*/webhooks/*"
    granted = permission["Principal"], permission["FunctionName"], permission["SourceArn"]
    yield from cdn()
    yield "Gateway", "permission", granted, ("apigateway.amazonaws.com", stack.ids["WebhookFunction"], source)


def cdn():
    """CloudFront refuses an origin with a header of its own of these names."""
    with open("deploy/cloudfront.yaml", encoding="utf-8") as file:
        distribution = yaml_parse(file.read())["Resources"]["Distribution"]["Properties"]["DistributionConfig"]
    headers = [header["HeaderName"] for origin in distribution["Origins"] for header in origin["OriginCustomHeaders"]]
    yield "the CDN", "headers", len(headers), 1
    yield "the CDN", "headers that CloudFront cannot add", [name for name in headers if name.startswith(("x-edge-", "x-amz-"))], []


def noisy(stack):
    """An endpoint with limits of its own, as docs/run/deploy.md adds it."""
    api = {"ApiId": stack.ids["Gateway"]}
    routes = {route["RouteKey"]: route for route in client("apigatewayv2").get_routes(**api)["Items"]}
    yield "Gateway", "routes", sorted(routes), ["ANY /webhooks/{endpoint}", NOISY]
    webhook = stack.attribute(["WebhookFunction", "Arn"])
    for key, route in routes.items():
        integration = client("apigatewayv2").get_integration(IntegrationId=route["Target"].split("/")[1], **api)
        found = f"/{webhook}/" in integration["IntegrationUri"], integration["PayloadFormatVersion"], integration["TimeoutInMillis"]
        yield key, "function, payload and timeout", found, (True, "2.0", 10_000)
    # The mock keeps no settings of routes, so this reads the translation. API Gateway refuses those of a route that is missing.
    settings = [stack.properties(name).get("RouteSettings") for name in stack.resources("AWS::ApiGatewayV2::Stage")]
    limited = [sorted(limits) for limits in settings if limits]
    yield "Gateway", "routes with limits of their own", limited, [[NOISY]]
    limits = [settings[0].get(NOISY)] if limited else []
    yield NOISY, "limits", [sorted(limit) for limit in limits if limit], [["ThrottlingBurstLimit", "ThrottlingRateLimit"]]
    granted = [stack.properties(name)["SourceArn"] for name in stack.resources("AWS::Lambda::Permission") if "Noisy" in name]
    yield NOISY, "permission", granted, [f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{stack.ids['Gateway']}/*/POST/webhooks/noisy"]


def schedule(stack):
    rules = client("events").list_rules()["Rules"]
    yield "the schedule", "rules", [(rule["ScheduleExpression"], rule["State"]) for rule in rules], [("rate(1 minute)", "ENABLED")]
    targets = client("events").list_targets_by_rule(Rule=rules[0]["Name"])["Targets"]
    yield "the schedule", "target", [target["Arn"] for target in targets], [stack.attribute(["RelayFunction", "Arn"])]
    yield "the schedule", "input", [json.loads(target["Input"]) for target in targets], [{"dead_letters": stack.ids["DeadLetterQueue"]}]
    yield "the schedule", "retries", [target["RetryPolicy"]["MaximumRetryAttempts"] for target in targets], [0]
    invoked = client("lambda").get_function_event_invoke_config(FunctionName=stack.ids["RelayFunction"])
    yield "the schedule", "retries of Lambda", invoked["MaximumRetryAttempts"], 0
    policy = json.loads(client("lambda").get_policy(FunctionName=stack.ids["RelayFunction"])["Policy"])
    granted = [(item["Principal"], item["Condition"]["ArnLike"]["AWS:SourceArn"]) for item in policy["Statement"]]
    yield "the schedule", "permission", granted, [({"Service": "events.amazonaws.com"}, rules[0]["Arn"])]


def alarms(stack):
    """Each alarm reaches the topic, and each of its dimensions that names a resource names one of this stack."""
    found = client("cloudwatch").describe_alarms()["MetricAlarms"]
    yield "the stack", "alarms", len(found), len(stack.resources("AWS::CloudWatch::Alarm"))
    named = {"QueueName": {queue.rsplit("/", 1)[1] for queue in map(stack.ids.get, stack.resources("AWS::SQS::Queue"))},
             "FunctionName": {stack.ids[name] for name in stack.resources("AWS::Lambda::Function")},
             "ApiId": {stack.ids["Gateway"]}, "function": {"webhook", "worker", "relay", "dispatcher"}}
    filters = client("logs").describe_metric_filters()["metricFilters"]
    counted = {item["metricTransformations"][0]["metricName"] for item in filters}
    for alarm in found:
        name = alarm["AlarmName"]
        yield name, "topics", alarm["AlarmActions"] + [arn for arn in alarm["OKActions"] if arn not in alarm["AlarmActions"]], [ANSWERS["AlarmTopicArn"]]
        yield name, "names left open", sorted(set(re.findall(r"\$\{.*?\}", name + alarm["AlarmDescription"]))), []
        single = {key: alarm.get(key) for key in ("Namespace", "MetricName", "Dimensions")}
        metrics = [item["MetricStat"]["Metric"] for item in alarm["Metrics"] if "MetricStat" in item] or [single]
        for metric in metrics:
            own = metric["Namespace"] == f"hookonce/{STACK}"
            yield name, "namespace", own or metric["Namespace"].startswith("AWS/"), True
            # A function counts its own metrics, and tests/template looks at their names.
            yield name, "metric that nobody counts", [] if metric["Dimensions"] or metric["MetricName"] in counted else metric["MetricName"], []
            strange = [part for part in metric["Dimensions"] if part["Value"] not in named.get(part["Name"], {part["Value"]})]
            yield name, "dimensions of another stack", strange, []


def outputs(stack):
    same = ("InboxTable", "DomainTable", "DocumentsTable", "WebhookFunction", "WorkerFunction", "RelayFunction", "DispatcherFunction")
    queues = {"QueueUrl": "HintQueue", "SlowQueueUrl": "SlowQueue", "EffectsQueueUrl": "EffectsQueue",
              "DeadLetterQueueUrl": "DeadLetterQueue"}
    expected = {name: stack.ids[name] for name in same} | {name: stack.ids[queue] for name, queue in queues.items()}
    found = {name: stack.resolve(stack.template["Outputs"].get(name, {}).get("Value", "")) for name in expected}
    yield "the outputs", "values", found, expected
    for name, body in stack.template["Outputs"].items():
        resolved = stack.resolve(body["Value"])
        yield name, "is resolved", isinstance(resolved, str) and resolved != "" and "${" not in resolved, True
    address = stack.resolve(stack.template["Outputs"]["WebhookUrl"]["Value"])
    yield "WebhookUrl", "address", address, f"https://{ANSWERS['DomainName']}/webhooks/"


# What CloudWatch counts from the lines of each log group.
COUNTED = {
    "GatewayLogs": ["needs_a_look"],
    "WebhookLogs": ["needs_a_look"],
    "WorkerLogs": ["needs_a_look", "records_died"],
    "RelayLogs": ["needs_a_look", "records_died", "records_overdue"],
    "DispatcherLogs": ["needs_a_look", "records_died"],
}


def logs(stack):
    groups = client("logs").describe_log_groups()["logGroups"]
    yield "the stack", "log groups", len(groups), len(stack.resources("AWS::Logs::LogGroup"))
    # The mock's log groups have no keys, so this reads the translation.
    for logical in stack.resources("AWS::Logs::LogGroup"):
        yield logical, "key", stack.properties(logical).get("KmsKeyId"), ANSWERS["DataKeyArn"]
        filters = client("logs").describe_metric_filters(logGroupName=stack.ids[logical])["metricFilters"]
        counted = [item["metricTransformations"][0] for item in filters]
        yield logical, "metrics that are counted", sorted(item["metricName"] for item in counted), sorted(COUNTED[logical])
        yield logical, "namespaces of these", {item["metricNamespace"] for item in counted}, {f"hookonce/{STACK}"}
    for group in groups:
        yield group["logGroupName"], "retention in days", group.get("retentionInDays"), 30


def order(stack):
    """CloudFormation refuses a template whose resources wait for each other. The mock makes them all the same."""
    resources = stack.template["Resources"]
    waits = {}
    for name, resource in resources.items():
        after = resource.get("DependsOn", [])
        waits[name] = (references(resource.get("Properties"), ("Ref", "Fn::GetAtt", "Fn::Sub")) | set([after] if isinstance(after, str) else after)) & set(resources)
    circle = []
    try:
        graphlib.TopologicalSorter(waits).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]
    yield "the stack", "circle of resources that wait for each other", circle, []


KINDS = (order, tables, queues, functions, roles, event_sources, gateway, schedule, alarms, outputs, logs)

NOISY = "POST /webhooks/noisy"

# One break for each kind, and what must then be found.
BREAKS = {
    "order": ("[RelayFunction, DispatcherFunction]", "[RelayFunction, DispatcherFunction, OwnFunctionsPolicy]", "circle of resources"),
    "tables": ("AttributeName: hookonce_expires_at, Enabled: true", "AttributeName: expires, Enabled: true", "InboxTable: time to live"),
    "queues": ("                  - !GetAtt WorkerRole.Arn\n", "", "HintQueue: principals"),
    "functions": ("HOOKONCE_QUEUE_URL: !Ref HintQueue", "HOOKONCE_QUEUE_URL: !Ref DeadLetterQueue", "Function: queue"),
    "roles": ("Resource: !GetAtt RelayLogs.Arn", 'Resource: "*"', "RelayRole: names what is not"),
    "event_sources": ("[ReportBatchItemFailures]", "[]", "HintQueue: partial failures"),
    "gateway": ("Path: /webhooks/{endpoint}", "Path: /hooks/{endpoint}", "Gateway: routes"),
    "schedule": ("rate(1 minute)", "rate(5 minutes)", "the schedule: rules"),
    "alarms": ("Value: !Ref WebhookFunction }", "Value: Webhook }", "dimensions of another stack"),
    "outputs": ("    Value: !Ref HintQueue\n", "    Value: !Ref DeadLetterQueue\n", "the outputs: values"),
    "logs": ("      RetentionInDays: !Ref LogRetentionDays\n", "", "retention in days"),
}

# What is counted from log lines for one alarm each: without it that alarm is quiet for ever, or rings for ever.
COUNTED_BREAKS = [(f"MetricName: {metric}, MetricValue", f"MetricName: {metric}s, MetricValue", "metrics that are counted")
                  for metric in sorted({metric for metrics in COUNTED.values() for metric in metrics})]


# Breaks of the page about an endpoint with a route of its own, and what must then be found.
PAGE_BREAKS = (
    ("Path: /webhooks/noisy, Method: POST", "Path: /webhooks/noisy, Method: PUT", "Gateway: routes is"),
    ("        POST /webhooks/noisy: {", "        POST /webhooks/other: {", "routes with limits of their own"),
    ("ThrottlingBurstLimit: 25", "Burst: 25", "noisy: limits"),
    ("TimeoutInMillis: 10000", "TimeoutInMillis: 2900", "function, payload and timeout"),
)


def with_route(text, page):
    """The template with both snippets of the page where it says that they belong."""
    section = page.split("### A limit for one endpoint\n", 1)[1].split("\n### ", 1)[0]
    event, limits = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    head, function = text.split("\n  WebhookFunction:\n", 1)
    function = function.replace("\n      Events:\n", f"\n      Events:\n{event}", 1)
    head = head.replace("\n      DefaultRouteSettings:\n", f"\n{limits}      DefaultRouteSettings:\n", 1)
    return f"{head}\n  WebhookFunction:\n{function}"


def of_route(stack):
    return findings(stack, (noisy,))


def findings(stack, kinds=KINDS):
    found = []
    for kind in kinds:
        for what, rule, is_so, should_be in kind(stack):
            findings.count += 1
            if is_so != should_be:
                found.append(f"{what}: {rule} is {is_so!r} and should be {should_be!r}")
    return found, sorted(stack.made_by_hand), sorted(stack.not_made)


findings.count = 0


def main():
    with open("template.yaml", encoding="utf-8") as file:
        text = file.read()
    with open("docs/run/deploy.md", encoding="utf-8") as file:
        page = file.read()
    found, by_hand, not_made = deployed(text, findings)
    found += deployed(with_route(text, page), of_route)[0]
    rules = findings.count
    print(f"made with the call that CloudFormation would make: {', '.join(by_hand)}")
    print(f"NOT made, because the mock cannot: {', '.join(not_made) or 'nothing'}")
    print("NOT checked, because the mock forgets it: keys of tables and logs, processor and log group of functions (read from the translation)")
    print("NOT checked here: whether AWS takes each value, rights, roll-back of a deployment, sizes of policies")
    missed = [] if found else missed_breaks(text) + missed_page_breaks(text, page)
    return verdict("deployment", found + missed, rules=rules, broken=len(BREAKS) + len(COUNTED_BREAKS) + len(PAGE_BREAKS))


def missed_breaks(text):
    missed = [f"no break for {kind.__name__}" for kind in KINDS if kind.__name__ not in BREAKS]
    for kind, (old, new, expected) in [*BREAKS.items(), *(("logs", broken) for broken in COUNTED_BREAKS)]:
        if old not in text:
            missed.append(f"{kind}: the template has no {old!r}")
        elif not any(expected in finding for finding in deployed(text.replace(old, new, 1), findings)[0]):
            missed.append(f"{kind}: nothing is found after {old!r} became {new!r}")
    return missed


def missed_page_breaks(text, page):
    missed = []
    for old, new, expected in PAGE_BREAKS:
        if old not in page:
            missed.append(f"docs/run/deploy.md has no {old!r}")
        elif not any(expected in finding for finding in deployed(with_route(text, page.replace(old, new, 1)), of_route)[0]):
            missed.append(f"docs/run/deploy.md: nothing is found after {old!r} became {new!r}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
