"""Translates a packaged template into plain CloudFormation, for tools that do not know SAM: CDK, Terraform.

usage: translate.py PACKAGED OUTPUT

PACKAGED is what `sam package` wrote, OUTPUT receives JSON. Run it with the Python of the SAM command line, which holds
AWS's own translator. Parameters stay parameters: nothing of a deployment is fixed here."""

import json
import logging
import os
import sys

# The translator asks for a region, and asks no account.
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402


class NoManagedPolicies:
    """The template names no managed policy by its short name, so nothing has to be looked up."""

    def load(self):
        return {}


def translated(template):
    """The template, whose code is in S3, without SAM."""
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function" and not str(resource["Properties"].get("CodeUri")).startswith("s3://"):
            sys.exit(f"translate: the code of {name} is not in S3. Run `sam build`, then `sam package`, and pass what it wrote.")
    # The translator misses its own metrics and says so.
    logging.disable(logging.ERROR)
    return transform(template, {}, NoManagedPolicies())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    _, packaged, output = sys.argv
    with open(packaged, encoding="utf-8") as file:
        template = translated(yaml_parse(file.read()))
    with open(output, "w", encoding="utf-8") as file:
        json.dump(template, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
