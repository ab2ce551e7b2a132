"""Checks what the SAM command line makes of projects that `hookonce new` wrote: it finds every function's code, in the
checkout or in the project, and the templates are valid.

usage: check.py DIR..."""

import json
import logging
import os
import pathlib
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")

from samcli.lib.providers.sam_function_provider import SamFunctionProvider  # noqa: E402
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider  # noqa: E402

logging.disable(logging.WARNING)

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The functions of the inbox, and where their code is.
STOCK = {"Inbox/WebhookFunction": ROOT / "functions/webhook", "Inbox/WorkerFunction": ROOT / "functions/worker",
         "Inbox/RelayFunction": ROOT / "functions/relay",
         "Inbox/DispatcherFunction": ROOT / "functions/dispatcher"}


def expected(project):
    own = dict(STOCK)
    if (project / "worker").is_dir():
        own["Inbox/WorkerFunction"] = project / "worker"
    if (project / "handler").is_dir() or (project / "package.json").is_file():
        own["InvoicesFunction"] = project
    return {name: str(folder) for name, folder in own.items()}


def found(project):
    stacks, remote = SamLocalStackProvider.get_stacks(str(project / "template.yaml"))
    functions = {function.full_path: str((project / function.codeuri).resolve()) for function in SamFunctionProvider(stacks).get_all()}
    inbox, = [stack for stack in stacks if stack.stack_id == "Inbox"]
    unknown = sorted(set(inbox.parameters) - set(inbox.template_dict["Parameters"]))
    return functions, unknown + remote


def main():
    wrong = 0
    for project in map(pathlib.Path, sys.argv[1:]):
        functions, unknown = found(project.resolve())
        if functions != expected(project.resolve()) or unknown:
            wrong += 1
            print(f"{project}: {functions}, unknown: {unknown}")
    print(json.dumps({"part": "projects", "projects": len(sys.argv) - 1, "violations": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
