"""Deploys a stack on the mock of AWS, lets its webhook function take an event, deletes the stack and deploys it again with the
tables that are left. The event that comes again must be a duplicate. `HOOKONCE` and `WEBHOOK` name the binaries."""

import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(AWS_ACCESS_KEY_ID="mock", AWS_SECRET_ACCESS_KEY="mock", AWS_DEFAULT_REGION="eu-central-1")

sys.path.append(str(pathlib.Path(__file__).parents[1]))

import rig  # noqa: E402
from mock import ANSWERS, REGION, STACK, Deployed, client, verdict, with_outputs  # noqa: E402
from moto import mock_aws  # noqa: E402
from moto.awslambda.models import LambdaFunction  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

# The mock would run the functions that queues wake, in a container.
LambdaFunction.invoke = lambda *_: ""
# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)

TABLES = ("InboxTable", "DomainTable", "DocumentsTable")


def taken(stack, url):
    """The metrics that the webhook function of this stack counts while it takes the one event."""
    made = client("lambda").get_function(FunctionName=stack.ids["WebhookFunction"])["Configuration"]
    # The gateway of the mock has no proof of a CDN.
    own = {name: value for name, value in made["Environment"]["Variables"].items() if not name.startswith(("HOOKONCE_EDGE", "HOOKONCE_CLIENT"))}
    queue = own["HOOKONCE_QUEUE_URL"].rsplit("/", 2)
    own["HOOKONCE_QUEUE_URL"] = f"{url}/{queue[1]}/{queue[2]}"
    variables = {
        **own, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "mock", "AWS_SECRET_ACCESS_KEY": "mock", "AWS_ENDPOINT_URL_DYNAMODB": url,
        "AWS_ENDPOINT_URL_SQS": url,
    }
    lines = rig.run(os.environ["WEBHOOK"], events=rig.deliveries(1), variables=variables).log.decode().splitlines()
    counted = [json.loads(line) for line in lines if '"CloudWatchMetrics"' in line]
    return sorted({name for line in counted for name in line if name.startswith("delivery_") and name != "delivery_duration_ms"})


def doctor(url, folder):
    """What the command line says of the tables."""
    environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": REGION, "HOME": folder}
    ran = subprocess.run([os.environ["HOOKONCE"], "doctor", "--json", "--stack", STACK], cwd=folder, env=environment, capture_output=True,
                         text=True, timeout=120, check=False)
    lines = [line for line in json.loads(ran.stdout or "[]") if line["check"] == "tables"]
    return [line.get("seen") or line.get("problem") for line in lines]


def delete(stack):
    """What CloudFormation deletes, and what the mock's does not know."""
    client("cloudformation").delete_stack(StackName=STACK)
    client("apigatewayv2").delete_api_mapping(ApiMappingId=stack.ids["GatewayMapping"], DomainName=ANSWERS["DomainName"])
    client("apigatewayv2").delete_domain_name(DomainName=ANSWERS["DomainName"])


def recover(text, url, folder, named):
    found = []

    def expect(what, is_so, should_be):
        expect.count += 1
        if is_so != should_be:
            found.append(f"{what} is {is_so!r} and should be {should_be!r}")

    expect.count = 0
    first = Deployed(text)
    names = {logical: first.ids[logical] for logical in TABLES}
    document = {"kind": {"S": "endpoint"}, "id": {"S": "stripe"}, "document": rig.DOCUMENTS["endpoint"]}
    client("dynamodb").put_item(TableName=names["DocumentsTable"], Item=document)
    expect("what the first stack counts", taken(first, url), ["delivery_accepted"])
    expect("what it counts of the same event", taken(first, url), ["delivery_duplicate"])
    delete(first)
    expect("the tables that are left", sorted(client("dynamodb").list_tables()["TableNames"]), sorted(names.values()))
    kept = dict(ANSWERS)
    ANSWERS.update({f"{logical}Name": name for logical, name in names.items() if named})
    try:
        again = Deployed(text)
        expect("the tables that the second stack makes", [logical for logical in TABLES if logical in again.ids], [])
        outputs = {logical: again.resolve(again.template["Outputs"][logical]["Value"]) for logical in TABLES}
        expect("the tables in its outputs", outputs, names)
        if not named:
            client("dynamodb").put_item(TableName=outputs["DocumentsTable"], Item=document)
        expect("what it counts of the old event", taken(again, url), ["delivery_duplicate"])
        with_outputs(again)
        expect("what doctor says", doctor(url, folder), ["keys, indexes, time to live, recovery and protection are as they should be"])
        client("dynamodb").update_table(TableName=names["InboxTable"], DeletionProtectionEnabled=False)
        expect("what doctor says then", doctor(url, folder), ["inbox table: no deletion protection"] if named else [])
    finally:
        ANSWERS.clear()
        ANSWERS.update(kept)
    return found, expect.count


def main():
    text = pathlib.Path("template.yaml").read_text("utf-8")
    runs = []
    for named in (True, False):
        with mock_aws():
            server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
            server.start()
            try:
                host, port = server.get_host_and_port()
                with tempfile.TemporaryDirectory() as folder:
                    runs.append(recover(text, f"http://{host}:{port}", folder, named))
            finally:
                server.stop()
    (found, rules), (without, _) = runs
    # Without the names the event takes effect again, and this must be found.
    if not any("of the old event is ['delivery_accepted']" in one for one in without):
        found.append(f"nothing is found where the second stack makes its own tables: {without}")
    return verdict("recover", found, rules=rules, broken=1)


if __name__ == "__main__":
    sys.exit(main())
