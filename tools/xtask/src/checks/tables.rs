//! The tables of a stack on this machine, read past the product.

use std::path::Path;
use std::process::Command as Program;

use serde_json::{Value, json};

use crate::process::{Outcome, json, output, read};

/// Every item of the domain table of the stack in this folder. `curl` runs where the table can be reached.
pub(crate) fn domain(curl: impl Fn() -> Program, folder: &Path) -> Outcome<Vec<Value>> {
    let variables = read(&folder.join("functions.env"))?;
    let variable = |name| variable(&variables, name);
    let (url, key) = (variable("AWS_ENDPOINT_URL_DYNAMODB")?, variable("AWS_ACCESS_KEY_ID")?);
    scan(curl, url, key, variable("HOOKONCE_DOMAIN_TABLE")?)
}

/// The value of a variable in the environment of the functions.
fn variable<'a>(variables: &'a str, name: &str) -> Outcome<&'a str> {
    let mut values = variables.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.next().ok_or_else(|| format!("no {name} is named"))
}

/// Every item of a table of the server at this address, which takes this key.
pub(crate) fn scan(curl: impl Fn() -> Program, url: &str, key: &str, table: &str) -> Outcome<Vec<Value>> {
    // DynamoDB Local reads the region, the embedded table the key, and neither verifies a signature.
    let signed = format!(
        "authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/dynamodb/aws4_request, \
         SignedHeaders=host, Signature=00"
    );
    let mut scan = json!({ "TableName": table, "ConsistentRead": true });
    let mut items = Vec::new();
    loop {
        let mut curl = curl();
        curl.args(["--silent", "--fail", "--max-time", "60", "--header", "x-amz-target: DynamoDB_20120810.Scan"]);
        curl.args(["--header", "content-type: application/x-amz-json-1.0", "--header", &signed]);
        curl.args(["--data", &scan.to_string(), url]);
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
