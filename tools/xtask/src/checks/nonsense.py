"""A handler whose answers mean nothing. Half of the events get an answer that is no plan, and the others one that asks for
more than any handler may see, which no further attempt can change."""

READS_MAX = 100


def lambda_handler(request: dict, context: object) -> dict:
    tenant, key = request["event"]["tenant"], request["event"]["key"]
    if sum(key.encode()) % 2 == 0:
        return {"done": True}
    reads = [{"key": f"{tenant}#nonsense#{number}"} for number in range(READS_MAX + 1)]
    return {"request": request["request"], "fact": key, "reads": reads}
