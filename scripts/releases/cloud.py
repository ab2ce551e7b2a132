"""AWS for the check of a release: MiniStack, in this process. It runs the functions, too. Its own variables say where and how.

Seven things that it lacks are added: a number in a template may be a text, as CloudFormation hands every parameter on, the
routes of a gateway may be in its body, the address of a template may name its bucket first, only another protocol replaces a
gateway, a function that is updated ends its call first, a call that failed is counted, and HELD_SECONDS says when the messages of
a batch that was killed come again: six minutes, as the template has it, are too long for a check."""

import os
import re
import sys
import threading
import time

from ministack.app import main
from ministack.core import lambda_runtime
from ministack.services import apigateway, lambda_svc, sqs
from ministack.services.cloudformation import helpers, provisioners

GATEWAY = provisioners._RESOURCE_HANDLERS["AWS::ApiGatewayV2::Api"]
make_gateway, concurrency_of = GATEWAY["create"], lambda_svc._sqs_esm_concurrency
read_document, execute, receive = helpers._resolve_document, lambda_svc._execute_function_dispatch, sqs._receive_messages_for_esm
kill, ENDS_SECONDS = lambda_runtime.kill_workers, 5


def gateway(logical, properties, stack):
    body = properties["Body"]
    made, attributes = make_gateway(logical, {"Name": body["info"]["title"], **properties}, stack)
    for path, methods in body["paths"].items():
        for method, operation in methods.items():
            asked = operation["x-amazon-apigateway-integration"]
            known = set(apigateway._integrations[made])
            apigateway._create_integration(made, {"integrationUri": asked["uri"], "payloadFormatVersion": asked["payloadFormatVersion"]})
            integration, = set(apigateway._integrations[made]) - known
            verb = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
            apigateway._create_route(made, {"routeKey": f"{verb} {path}", "target": f"integrations/{integration}"})
    return made, attributes


def concurrency(mapping, *others):
    scaling = mapping.get("ScalingConfig") or {}
    if "MaximumConcurrency" in scaling:
        scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
    return concurrency_of(mapping, *others)


def document(params, body_key, url_key, label):
    """`https://BUCKET.s3.REGION.amazonaws.com/KEY` as `https://s3.amazonaws.com/BUCKET/KEY`."""
    url = re.sub(r"^https://([^./]+)\.s3\.[^/]+/", r"https://s3.amazonaws.com/\1/", helpers._p(params, url_key))
    return read_document({**params, url_key: url}, body_key, url_key, label)


def invoked(func, config, event, request_id, started):
    result = execute(func, config, event, request_id, started)
    if result.get("error"):
        lambda_svc._emit_lambda_metrics(config["FunctionName"], duration_ms=(time.time() - started) * 1000, error=True, throttle=False)
    return result


def later(workers):
    try:
        threading.Timer(ENDS_SECONDS, kill, [workers]).start()
    except RuntimeError:
        # The mock ends.
        kill(workers)


def held(queue_url, max_number):
    messages = receive(queue_url, max_number)
    for message in messages:
        message["visible_at"] = min(message["visible_at"], time.time() + float(os.environ["HELD_SECONDS"]))
    return messages


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-apigatewayv2-api.html
provisioners._REPLACING_PROPERTIES["AWS::ApiGatewayV2::Api"] = ("ProtocolType",)
helpers._resolve_document = document
GATEWAY["create"] = gateway
lambda_svc._sqs_esm_concurrency = concurrency
lambda_svc._execute_function_dispatch = invoked
sqs._receive_messages_for_esm = held
lambda_runtime.kill_workers = later

if __name__ == "__main__":
    sys.exit(main())
