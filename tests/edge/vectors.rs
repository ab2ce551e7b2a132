//! Every conformance vector through the whole function: status, content type, allowed methods and body are those that the
//! vector states.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::Millis;
use hookonce_providers::{CapturedRequest, Catalog, Provider, Received};
use hookonce_webhook::answer::{self, Denial};
use hookonce_webhook::gateway::Outbound;
use serde_json::{Map, Value, json};

use crate::support::samples::vectors;
use crate::support::{Harness, Script};

/// Vectors of a scheme that only an endpoint takes that lists it.
const LISTED: [(&str, &str); 1] = [("adyen-platform-header", "platform")];

/// What a sender sees of an answer, in the form of a vector. JSON is compared as JSON.
fn stated(status: &Value, header: impl Fn(&str) -> Option<Value>, body: &str) -> Value {
    let body = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
    json!({ "status": status, "content_type": header("content-type"), "allow": header("allow"), "body": body })
}

/// The answer that the vector states.
fn wanted(vector: &Value) -> Value {
    let response = &vector["expected"]["response"];
    let header = |name: &str| response.get(name.replace('-', "_")).cloned();
    stated(&response["status"], header, response["body"].as_str().unwrap_or("no body is stated"))
}

/// The event of a load balancer, which hands over headers as they came, even if two share a name.
fn event(endpoint: &str, vector: &Value) -> Value {
    let headers = vector["headers"].as_object().unwrap().iter();
    let listed = |value: &Value| if value.is_array() { value.clone() } else { json!([value]) };
    let mut headers: Map<_, _> = headers.map(|(name, value)| (name.clone(), listed(value))).collect();
    headers.insert("x-forwarded-for".to_owned(), json!(["203.0.113.9"]));
    let query = vector["url"].as_str().unwrap().split_once('?').map_or("", |(_, query)| query);
    let mut parameters = Map::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        parameters.entry(name).or_insert_with(|| json!([])).as_array_mut().unwrap().push(json!(value));
    }
    json!({
        "requestContext": { "elb": { "targetGroupArn": "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/a/b" } },
        "httpMethod": vector["method"],
        "path": format!("/webhooks/{endpoint}"),
        "multiValueQueryStringParameters": parameters,
        "multiValueHeaders": headers,
        "body": vector["body_base64"],
        "isBase64Encoded": true,
    })
}

/// What the function answers at an endpoint that holds what the vector says.
async fn answered(harness: &Harness, endpoint: &str, vector: &Value, captured: &CapturedRequest) -> Value {
    let mut settings = vector["settings"].as_object().cloned().unwrap_or_default();
    if let Some(topics) = captured.settings.get("topic_arns") {
        settings.insert("topic_arns".to_owned(), json!(topics));
    }
    if vector["method"] == "POST" {
        settings.entry("public_url").or_insert_with(|| vector["url"].clone());
    }
    let mut document = json!({ "provider": vector["provider"], "secrets": vector["secrets"], "settings": settings });
    if let Some((_, scheme)) = LISTED.iter().find(|(id, _)| vector["id"] == *id) {
        document["schemes"] = json!([scheme]);
    }
    harness.endpoints.put(endpoint, document.to_string());
    let now = vector["now_unix"].as_i64().unwrap();
    harness.clock.advance(Millis((now - harness.clock.seconds().0) * 1_000));
    let body = STANDARD.decode(vector["body_base64"].as_str().unwrap()).unwrap();
    if let Ok(message) = serde_json::from_slice::<Value>(&body)
        && let Some(url) = message["SubscribeURL"].as_str()
    {
        harness.materials.put(url, "<ConfirmSubscriptionResponse/>");
    }
    let answer = harness.webhook(&Script::none()).invoke(event(endpoint, vector)).await;
    let headers = [&answer["multiValueHeaders"], &answer["headers"]];
    let header = |name: &str| {
        let value = headers.iter().find_map(|headers| headers.get(name))?;
        Some(value.get(0).unwrap_or(value).clone())
    };
    assert_eq!(answer["isBase64Encoded"], false, "{answer}");
    stated(&answer["statusCode"], header, answer["body"].as_str().unwrap_or_default())
}

/// The same for a vector that was recorded with a secret so short, or settings so incomplete, that no endpoint may have
/// them: what the function makes of the verdict.
fn answer_to_verdict(provider: &Provider, endpoint: &str, captured: &CapturedRequest) -> Value {
    let keyring = provider.keyring(&captured.secrets).unwrap();
    let received =
        provider.receive(&captured.request(), &keyring, &captured.settings, captured.tolerance, captured.now);
    let Outbound { status, headers, body } = match received {
        Err(refusal) => Denial::refused(refusal, provider).outbound(),
        Ok(Received::Handshake(handshake)) => answer::handshake(handshake),
        Ok(Received::Delivery(delivery)) => {
            let key = delivery.record_key(&EndpointId::parse(endpoint).unwrap());
            answer::report(provider.answers_to(&delivery)[0], "accepted", key.parts().1)
        }
        Ok(Received::NeedsMaterial(_)) => panic!("every vector holds the key that it needs"),
    };
    let header = |name: &str| headers.get(name).map(|value| json!(value));
    stated(&json!(status), header, &String::from_utf8(body).unwrap())
}

/// A vector that states no body, or another one than a sender gets, is a mistake, whatever its verdict.
#[tokio::test]
async fn every_vector_states_what_the_function_answers() {
    let harness = Harness::new().await;
    let (mut sent, mut judged, mut wrong) = (0, 0, 0);
    for provider in Catalog::built_in().iter() {
        for mut vector in vectors(provider.id()) {
            vector["provider"] = json!(provider.id());
            let mut request = vector.clone();
            let fields =
                ["id", "case", "reason", "notes", "expected", "sdk", "signature_origin", "signature_origin_detail"];
            request.as_object_mut().unwrap().retain(|name, _| !fields.contains(&name.as_str()));
            let captured: CapturedRequest = serde_json::from_value(request).unwrap();
            let endpoint = format!("vector-{}", sent + judged);
            let is_possible = provider.configure(&captured.secrets, captured.settings.clone(), &[]).is_ok();
            let found = if is_possible {
                sent += 1;
                answered(&harness, &endpoint, &vector, &captured).await
            } else {
                judged += 1;
                answer_to_verdict(provider, &endpoint, &captured)
            };
            if wanted(&vector) != found {
                println!("{}: stated {}, but it is {found}", vector["id"], wanted(&vector));
                wrong += 1;
            }
        }
    }
    println!("{sent} answers of the function, {judged} of verdicts");
    assert_eq!(wrong, 0, "vectors state another answer");
    assert!(sent > 1_300 && judged < 60, "{sent} answers of the function, {judged} of verdicts");
}
