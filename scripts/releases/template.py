"""Translates template.yaml for one processor into the plain CloudFormation of a release: its functions are zip files beside it.

usage: template.py PROCESSOR VERSION OUTPUT

PROCESSOR is arm64 or x86_64. Run it with the Python of the SAM command line."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "deploy"))
from translate import translated, yaml_parse  # noqa: E402


def released(processor, version):
    source = yaml_parse((ROOT / "template.yaml").read_text("utf-8"))
    text = source["Mappings"]["Release"]["Version"]["Text"]
    if text != version:
        sys.exit(f"template: template.yaml is of release {text}, and not of {version}")
    source["Globals"]["Function"]["Architectures"] = [processor]
    # Only `sam build` reads it.
    del source["Parameters"]["WorkerCode"]
    zips = {}
    for name, resource in source["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            zips[name] = f"{name.removesuffix('Function').lower()}.zip"
            resource["Properties"]["CodeUri"] = f"s3://release/{zips[name]}"
    template = translated(source)
    for name, file in zips.items():
        template["Resources"][name]["Properties"]["Code"] = file
    return template


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    _, processor, version, output = sys.argv
    text = json.dumps(released(processor, version), indent=1)
    pathlib.Path(output).write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
