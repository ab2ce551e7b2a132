"""Writes what the examples take of a release: its template, stack policy and zip files, which hold nothing here, and the template as
`aws cloudformation package` writes it.

usage: release.py VERSION FOLDER

It needs the Python of the SAM command line."""

import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "scripts/releases"))
from template import released  # noqa: E402


def main():
    version, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    template = released("arm64", version)
    (folder / "template.json").write_text(json.dumps(template))
    shutil.copy(ROOT / "deploy/stack-policy.json", folder)
    for body in template["Resources"].values():
        if body["Type"] == "AWS::Lambda::Function":
            file = body["Properties"]["Code"]
            (folder / file).write_bytes(file.encode())
            body["Properties"]["Code"] = {"S3Bucket": "code", "S3Key": file}
    (folder / "packaged.json").write_text(json.dumps(template))


if __name__ == "__main__":
    main()
