"""Runs Terraform on a copy of the example of deploy/terraform, as docs/run/iac.md says to, but with the stand-in of
provider.py and so without `terraform init`."""

import json
import os
import pathlib
import shutil
import subprocess
import sys


PARAMETERS = '-var=parameters={"WorkerConcurrencyMax":"10"}'


class Refused(Exception):
    """A command that failed, with what it printed."""


class Example:
    """A folder with the example and a release. All that Terraform writes stays there."""

    def __init__(self, folder, release, text):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "home").mkdir(parents=True)
        provider = folder / "home" / "terraform-provider-aws"
        provider.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{pathlib.Path(__file__).with_name("provider.py")}" "$@"\n')
        provider.chmod(0o755)
        # Terraform then starts that program, and asks no registry: `terraform init` is not needed, and would fail.
        overrides = f'provider_installation {{\n  dev_overrides {{\n    "hashicorp/aws" = "{provider.parent}"\n  }}\n}}\n'
        (folder / "home" / "terraform.rc").write_text(overrides)
        (folder / "main.tf").write_text(text)
        shutil.copytree(release, folder / "hookonce")
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(provider.parent), "CHECKPOINT_DISABLE": "1",
            "TF_CLI_CONFIG_FILE": str(folder / "home" / "terraform.rc"),
        }

    def __call__(self, *words):
        done = subprocess.run(["terraform", *words], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            # Terraform draws a frame around a message, and breaks its lines.
            raise Refused(f"terraform {words[0]}: {' '.join((done.stderr or done.stdout).replace('│', ' ').split())}")
        return done.stdout

    def plan(self, *words):
        """What a plan would do to which resource."""
        self("plan", "-no-color", "-input=false", "-var=bucket=code", PARAMETERS, "-out=plan", *words)
        changes = json.loads(self("show", "-json", "plan")).get("resource_changes", [])
        return {body["address"]: body["change"]["actions"] for body in changes if body["change"]["actions"] not in (["no-op"], ["read"])}


def applied(folder, release, text):
    """What there is after `terraform apply` of two stages, what a new template changes, and what further plans would."""
    terraform = Example(folder, release, text)
    terraform("fmt", "-check", "-diff")
    terraform("validate", "-no-color")
    result = {"version": json.loads(terraform("version", "-json"))["terraform_version"], "stages": {}}
    for stage in ("staging", "prod"):
        terraform("workspace", "new", stage)
        terraform.plan()
        terraform("apply", "-no-color", "plan")
        values = json.loads(terraform("show", "-json"))["values"]
        result["stages"][stage] = {body["address"]: body["values"] for body in values["root_module"]["resources"]}
    result["outputs"] = {name: body["value"] for name, body in json.loads(terraform("output", "-json")).items()}
    with (folder / "hookonce/packaged.json").open("a") as file:
        file.write("\n")
    result["new template"] = terraform.plan()
    terraform("apply", "-no-color", "plan")
    result["again"] = terraform.plan()
    try:
        result["destroy"] = terraform.plan("-destroy")
    except Refused as refused:
        result["destroy"] = str(refused)
    return result
