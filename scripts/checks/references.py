"""What a part of a CloudFormation template refers to."""

import re


def references(value, kinds=("Ref", "Fn::GetAtt")):
    """The names that a part of a template refers to, in these ways."""
    if isinstance(value, list):
        return {name for item in value for name in references(item, kinds)}
    if not isinstance(value, dict):
        return set()
    names = {name for item in value.values() for name in references(item, kinds)}
    for kind in kinds:
        if kind in value:
            target = value[kind] if isinstance(value[kind], str) else value[kind][0]
            names |= set(re.findall(r"\$\{([^}!.]+)", target)) if kind == "Fn::Sub" else {target.split(".")[0]}
    return names
