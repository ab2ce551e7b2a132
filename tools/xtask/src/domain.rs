//! The domain table on DynamoDB Local, read past the product.

use std::path::Path;

use serde_json::{Value, json};

use crate::backends::{DYNAMODB_PORT, Running};
use crate::process::{Outcome, json, output, read};

/// DynamoDB Local reads the region and verifies nothing.
const SIGNED: &str = "authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, \
                      SignedHeaders=host, Signature=00";

/// Every item of the domain table of the stack in this folder.
pub(crate) fn items(servers: &Running, folder: &Path) -> Outcome<Vec<Value>> {
    let variables = read(&folder.join("functions.env"))?;
    let table = variables.lines().find_map(|line| line.strip_prefix("HOOKONCE_DOMAIN_TABLE="));
    let table = table.ok_or("no domain table is named")?;
    let mut scan = json!({ "TableName": table, "ConsistentRead": true });
    let mut items = Vec::new();
    loop {
        let mut curl = servers.command("curl");
        curl.args(["--silent", "--fail", "--max-time", "60", "--header", "x-amz-target: DynamoDB_20120810.Scan"]);
        curl.args(["--header", "content-type: application/x-amz-json-1.0", "--header", SIGNED]);
        curl.args(["--data", &scan.to_string(), &format!("http://127.0.0.1:{DYNAMODB_PORT}/")]);
        let page: Value = json(&output(&mut curl)?)?;
        items.extend(page.get("Items").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("LastEvaluatedKey") {
            Some(last) => scan = json!({ "TableName": table, "ConsistentRead": true, "ExclusiveStartKey": last }),
            None => return Ok(items),
        }
    }
}

/// The text of an attribute. Empty if there is none.
pub(crate) fn text<'a>(item: &'a Value, attribute: &str) -> &'a str {
    item.get(attribute).and_then(|value| value.get("S")).and_then(Value::as_str).unwrap_or_default()
}
