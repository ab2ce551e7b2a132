"""Translates template.yaml for one processor into the plain CloudFormation of a release: its functions are zip files beside it.

It needs the Python of the SAM command line."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "deploy"))
from translate import translated, yaml_parse  # noqa: E402


def released(processor, version, source=None):
    """PROCESSOR is arm64 or x86_64. The source is that of this folder, or what was read of another release."""
    source = source or yaml_parse((ROOT / "template.yaml").read_text("utf-8"))
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
