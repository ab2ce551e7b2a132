"""The webhook function's job with Powertools for Python, as its documentation says: verify, then send behind `idempotent_function`."""

import hashlib
import hmac
import json
import os
import time

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function

TOLERANCE_SECONDS = 300
logger = Logger(service="peer")
sqs = boto3.client("sqs")
config = IdempotencyConfig(event_key_jmespath="id", expires_after_seconds=35 * 86_400)
layer = DynamoDBPersistenceLayer(table_name=os.environ["HOOKONCE_INBOX_TABLE"])


@idempotent_function(data_keyword_argument="record", config=config, persistence_store=layer)
def send(record):
    sqs.send_message(QueueUrl=os.environ["HOOKONCE_QUEUE_URL"], MessageBody=record["body"])
    return {"status": "accepted"}


def handler(event, context):
    config.register_lambda_context(context)
    body = event["body"]
    signed = dict(part.split("=", 1) for part in event["headers"]["stripe-signature"].split(","))
    expected = hmac.new(os.environ["PEER_SECRET"].encode(), f"{signed['t']}.{body}".encode(), hashlib.sha256).hexdigest()
    if abs(time.time() - int(signed["t"])) > TOLERANCE_SECONDS or not hmac.compare_digest(expected, signed["v1"]):
        return {"statusCode": 401}
    answer = send(record={"id": json.loads(body)["id"], "body": body})
    logger.info("accepted", extra={"request": context.aws_request_id})
    return {"statusCode": 200, "body": json.dumps(answer)}
