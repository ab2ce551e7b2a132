//! Invoking a function behind Lambda's invoke API, for which the gateway stands in.

use hookonce_local::gateway::Gateway;
use hookonce_local::invoke::{HttpInvoke, Invoke, InvokeError, invoke_fn};
use serde_json::{Value, json};

use crate::gateway::gateway;

/// An invoke API that answers with what the event asks for.
async fn invoke_api() -> Gateway {
    gateway(invoke_fn(|request: Value| async move {
        assert_eq!(request["rawPath"], json!("/2015-03-31/functions/worker/invocations"));
        assert_eq!(request["requestContext"]["http"]["method"], json!("POST"));
        let event: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        Ok(event["answer"].clone())
    }))
    .await
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
    let undocumented = json!({ "statusCode": 500, "body": "<html>" });
    for (answer, expected) in [(marked, "Boom"), (failed, "Boom"), (undocumented, "Unhandled")] {
        let error = invoke(answer).await.unwrap_err();
        assert!(matches!(&error, InvokeError::Failed { error_type, .. } if error_type == expected), "{error}");
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
