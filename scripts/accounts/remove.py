"""Removes all that a run has made, whatever there is of it, and says what is left."""

from account import NAME, Refused

BUSY_SECONDS = 3600
ENDED = ("_COMPLETE", "_FAILED", "REVIEW_IN_PROGRESS")


def tables(account):
    return [name for name in account.aws("dynamodb", "list-tables")["TableNames"] if name.startswith(f"{account.name}-")]


def stacks(account):
    """Those of the run that there are, the bucket's last: CloudFormation may need the code until then."""
    names = (account.name, f"{account.name}-handler", f"{account.name}-code")
    return [name for name in names if account.status(name)]


def topics(account):
    arns = [one["TopicArn"] for one in account.aws("sns", "list-topics").get("Topics", [])]
    return [arn for arn in arns if arn.endswith(f":{account.name}-alarms")]


def groups(account):
    """Lambda makes one of its own for a function that names none, or whose group is not there yet."""
    prefixes = (f"/aws/lambda/{account.name}-", f"{account.name}-")
    listed = [account.aws("logs", "describe-log-groups", log_group_name_prefix=prefix)["logGroups"] for prefix in prefixes]
    return [one["logGroupName"] for some in listed for one in some]


KINDS = {"table": tables, "stack": stacks, "topic": topics, "log group": groups}


def left(account):
    """What there is of the run, as texts. What cannot be looked at is named, too."""
    found = []
    for kind, look in KINDS.items():
        try:
            found += [f"{kind} {name}" for name in look(account)]
        except Refused as refused:
            found.append(f"{kind}s: not looked at: {refused}")
    return found


def remove(account):
    """All of it. Each part is tried, even if another cannot be removed. What went wrong, as texts."""
    assert NAME.fullmatch(account.name), account.name
    wrong = []

    def attempt(act, *parts):
        try:
            return act(account, *parts)
        except Exception as error:  # noqa: BLE001, the rest is tried
            wrong.append(f"{act.__name__}: {error}")
            return []

    for name in attempt(stacks):
        attempt(remove_stack, name)
    for kind, act in ((tables, remove_table), (topics, remove_topic), (groups, remove_group)):
        for name in attempt(kind):
            attempt(act, name)
    return wrong


def remove_stack(account, name):
    # One that is still deployed, after Ctrl-C, cannot be deleted.
    account.until(lambda: account.status(name).endswith(ENDED), BUSY_SECONDS)
    if name == f"{account.name}-code":
        account.run("aws", "s3", "rm", f"s3://{account.output_of(name)['Bucket']}", "--recursive", "--quiet")
    account.delete(name)


def remove_table(account, name):
    def is_active():
        return account.aws("dynamodb", "describe-table", table_name=name)["Table"]["TableStatus"] == "ACTIVE"

    account.until(is_active, BUSY_SECONDS)
    account.run("aws", "dynamodb", "update-table", "--table-name", name, "--no-deletion-protection-enabled")
    account.until(is_active)
    account.run("aws", "dynamodb", "delete-table", "--table-name", name)
    account.until(lambda: name not in tables(account))


def remove_topic(account, arn):
    account.run("aws", "sns", "delete-topic", "--topic-arn", arn)


def remove_group(account, name):
    account.run("aws", "logs", "delete-log-group", "--log-group-name", name)
