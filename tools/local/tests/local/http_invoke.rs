//! Invoking a function behind Lambda's invoke API, for which the gateway stands in.

use std::time::Duration;

use hookonce_local::gateway::{Gateway, GatewayConfig};
use hookonce_local::invoke::{HttpInvoke, Invoke, InvokeError, invoke_fn};
use serde_json::{Value, json};

use crate::support::ambient;

const LONG: Duration = Duration::from_secs(30);

/// An invoke API that answers with what the event asks for.
async fn invoke_api() -> Gateway {
    let function = invoke_fn(|request: Value| async move {
        assert_eq!(request["rawPath"], json!("/2015-03-31/functions/worker/invocations"));
        assert_eq!(request["requestContext"]["http"]["method"], json!("POST"));
        let event: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        Ok(event["answer"].clone())
    });
    let config = GatewayConfig { port: 0, integration_timeout: LONG, function_timeout: LONG, public_host: None };
    Gateway::start(function, config, ambient()).await.unwrap()
}

#[tokio::test]
async fn the_response_or_the_error_of_the_function_is_returned() {
    let api = invoke_api().await;
    let worker = HttpInvoke::new(&format!("{}/", api.url()), "worker").unwrap();
    let invoke = async |answer: Value| worker.invoke(json!({ "answer": answer })).await;

    let response = json!({ "batchItemFailures": [] });
    let answer = json!({ "statusCode": 200, "body": response.to_string() });
    assert_eq!(invoke(answer).await.unwrap(), response);
    assert_eq!(invoke(json!({ "statusCode": 200 })).await.unwrap(), Value::Null);

    let broken = invoke(json!({ "statusCode": 200, "body": "{" })).await;
    assert!(matches!(broken, Err(InvokeError::NotJson { .. })), "{broken:?}");

    let document = json!({ "errorType": "Boom", "errorMessage": "it broke" }).to_string();
    let marked = json!({ "statusCode": 200, "headers": { "X-Amz-Function-Error": "Unhandled" }, "body": document });
    let failed = json!({ "statusCode": 500, "body": document });
    for answer in [marked, failed] {
        let error = invoke(answer).await.unwrap_err();
        assert!(matches!(&error, InvokeError::Failed { error_type, .. } if error_type == "Boom"), "{error}");
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unreachable() {
    let api = invoke_api().await;
    let worker = HttpInvoke::new(&api.url(), "worker").unwrap();
    api.shutdown().await;
    let error = worker.invoke(Value::Null).await.unwrap_err();
    assert!(matches!(error, InvokeError::Unreachable { .. }), "{error}");
}
