"""A sample handler that lacks something until the file that READY names is there. HANDLER names the sample."""

import importlib
import os

sample = importlib.import_module(os.environ["HANDLER"]).lambda_handler


def lambda_handler(request: dict, context: object) -> dict:
    if os.path.exists(os.environ["READY"]):
        return sample(request, context)
    return {"request": request["request"], "error": {"code": "NOT_READY", "retryable": True}}
