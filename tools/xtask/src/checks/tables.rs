//! The tables of a stack on this machine, read past the product.

use std::fs;
use std::path::Path;
use std::process::Command as Program;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// Writes the documents in this folder into the stack's table of them, as they are stored on AWS.
pub(crate) fn put_documents(curl: impl Fn() -> Program, folder: &Path) -> Outcome {
    let variables = read(&folder.join("functions.env"))?;
    let variable = |name| variable(&variables, name);
    let (url, key) = (variable("AWS_ENDPOINT_URL_DYNAMODB")?, variable("AWS_ACCESS_KEY_ID")?);
    let table = variable("HOOKONCE_INBOX_TABLE")?.replace("-inbox", "-documents");
    let put = |kind: &str, id: &str, document: Value| {
        let item = json!({ "kind": { "S": kind }, "id": { "S": id }, "document": document });
        call(curl(), url, key, "PutItem", &json!({ "TableName": table, "Item": item })).map(drop)
    };
    for (kind, files) in [("endpoint", "endpoints"), ("destination", "destinations")] {
        for file in fs::read_dir(folder.join(files)).into_iter().flatten().flatten().map(|file| file.path()) {
            let id = file.file_stem().unwrap_or_default().to_string_lossy();
            put(kind, &id, json!({ "S": read(&file)? }))?;
        }
    }
    let routes = folder.join("routes.json");
    let built_in = r#"{"version":1,"otherwise":"builtin","routes":[]}"#.to_owned();
    let routes = if routes.exists() { read(&routes)? } else { built_in };
    put("routes", "set", json!({ "B": STANDARD.encode(frame(routes.as_bytes())) }))
}

/// A text as zstd keeps one that it cannot compress: a frame of one raw block.
fn frame(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    let [block @ .., _] = (u32::from_le_bytes(length) << 3 | 1).to_le_bytes();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0][..], &length, &block, text].concat()
}

/// Every item of a table of the server at this address, which takes this key.
pub(crate) fn scan(curl: impl Fn() -> Program, url: &str, key: &str, table: &str) -> Outcome<Vec<Value>> {
    let mut scan = json!({ "TableName": table, "ConsistentRead": true });
    let mut items = Vec::new();
    loop {
        let page: Value = json(&call(curl(), url, key, "Scan", &scan)?)?;
        items.extend(page.get("Items").and_then(Value::as_array).into_iter().flatten().cloned());
        match page.get("LastEvaluatedKey") {
            Some(last) => scan = json!({ "TableName": table, "ConsistentRead": true, "ExclusiveStartKey": last }),
            None => return Ok(items),
        }
    }
}

/// The answer of a server of tables.
fn call(mut curl: Program, url: &str, key: &str, operation: &str, request: &Value) -> Outcome<String> {
    // DynamoDB Local reads the region, the embedded table the key, and neither verifies a signature.
    let signed = format!(
        "authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/dynamodb/aws4_request, \
         SignedHeaders=host, Signature=00"
    );
    let target = format!("x-amz-target: DynamoDB_20120810.{operation}");
    curl.args(["--silent", "--fail", "--max-time", "60", "--header", &target]);
    curl.args(["--header", "content-type: application/x-amz-json-1.0", "--header", &signed]);
    curl.args(["--data", &request.to_string(), url]);
    output(&mut curl)
}

/// The text of an attribute. Empty if there is none.
pub(crate) fn text<'a>(item: &'a Value, attribute: &str) -> &'a str {
    item.get(attribute).and_then(|value| value.get("S")).and_then(Value::as_str).unwrap_or_default()
}
