//! The route set in Parameter Store: what is deployed is what is read, and two deployments never mix.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hookonce_protocol::time::Millis;
use hookonce_runtime::aws::{DeployRoutesError, SsmRoutes};
use hookonce_runtime::route::{Fetched, RouteSource as _};
use serde_json::json;

use super::parameters::ssm;
use super::{AMPLE, Case, SHORT, error, failing, refusal};
use crate::scripted::{HttpMessage, Reaction, ScriptedServer};

const SERVICE: &str = "com.amazonaws.ssm";
const POINTER: &str = "/hookonce/test/routes";
const MARKER: &str = "/hookonce/test/routes-deployed";

/// Value and version by name.
pub(super) type Parameters = BTreeMap<String, (String, i64)>;

/// The few operations of Parameter Store that routes need, as AWS documents them. Each request is first shown to
/// `instead`, which may react in their place.
pub(super) async fn store(
    instead: impl Fn(&mut Parameters, &HttpMessage) -> Option<Reaction> + Send + Sync + 'static,
) -> (ScriptedServer, Arc<Mutex<Parameters>>) {
    let parameters = Arc::new(Mutex::new(Parameters::new()));
    let shared = Arc::clone(&parameters);
    let server = ScriptedServer::start(move |_, request| {
        let mut parameters = shared.lock().unwrap();
        instead(&mut parameters, request).unwrap_or_else(|| carry_out(&mut parameters, request))
    })
    .await;
    (server, parameters)
}

fn carry_out(parameters: &mut Parameters, request: &HttpMessage) -> Reaction {
    let asked = request.json();
    let names = || asked["Names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    let answer = match request.operation().unwrap() {
        "GetParameters" => {
            let found = |name: String| {
                let (value, version) = parameters.get(&name)?;
                let name = name.split(':').next()?;
                Some(json!({ "Name": name, "Type": "String", "Value": value, "Version": version }))
            };
            assert!(names().count() <= 10, "a call names ten parameters at most");
            json!({ "Parameters": names().filter_map(found).collect::<Vec<_>>(), "InvalidParameters": [] })
        }
        "PutParameter" => {
            let (name, value) = (asked["Name"].as_str().unwrap(), asked["Value"].as_str().unwrap());
            assert!(value.len() <= 4_096, "a standard parameter holds 4 KB");
            if parameters.contains_key(name) && asked["Overwrite"] != json!(true) {
                return refusal(SERVICE, "ParameterAlreadyExists");
            }
            json!({ "Version": put(parameters, name, value), "Tier": "Standard" })
        }
        "DeleteParameters" => {
            assert!(names().count() <= 10, "a call names ten parameters at most");
            names().for_each(|name| drop(parameters.remove(&name)));
            json!({})
        }
        other => panic!("{other} is not called"),
    };
    answer.into()
}

fn put(parameters: &mut Parameters, name: &str, value: &str) -> i64 {
    let entry = parameters.entry(name.to_owned()).or_default();
    *entry = (value.to_owned(), entry.1 + 1);
    let version = entry.1;
    // Each version stays, and has a name of its own.
    parameters.insert(format!("{name}:{version}"), (value.to_owned(), version));
    version
}

pub(super) fn routes(server: &ScriptedServer) -> SsmRoutes {
    SsmRoutes::new(ssm(server.url(), AMPLE), POINTER)
}

/// A set of many parts: hashes compress badly.
fn large(seed: u64) -> String {
    use std::fmt::Write as _;
    let mut state = seed;
    (0..6_000).fold(String::new(), |mut text, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        write!(text, "{state:x}").unwrap();
        text
    })
}

async fn text(routes: &SsmRoutes) -> Option<String> {
    match routes.fetch(None).await.unwrap() {
        Fetched::Text { text, .. } => Some(text),
        Fetched::Absent => None,
        Fetched::Unchanged => panic!("nothing is held"),
    }
}

#[tokio::test]
async fn what_is_deployed_is_read_and_older_parts_go() {
    let (server, parameters) = store(|_, _| None).await;
    let routes = routes(&server);
    assert_eq!(text(&routes).await, None);
    for number in 1..=4 {
        let set = large(number);
        let deployed = routes.deploy(&set).await.unwrap();
        assert!(deployed.number == number && deployed.parts > 10 && deployed.left_behind.is_empty(), "{deployed:?}");
        let Fetched::Text { version, text } = routes.fetch(None).await.unwrap() else { panic!("no set") };
        assert_eq!(text, set);
        assert_eq!(routes.fetch(Some(&version)).await.unwrap(), Fetched::Unchanged);
    }
    let kept: std::collections::BTreeSet<String> = {
        let parameters = parameters.lock().unwrap();
        parameters
            .keys()
            .filter(|name| !name.contains(':'))
            .map(|name| name.split('/').take(4).collect::<Vec<_>>().join("/"))
            .collect()
    };
    // A reader may still follow the pointer before the last one.
    assert_eq!(kept, [POINTER, "/hookonce/test/routes-3", "/hookonce/test/routes-4", MARKER].map(str::to_owned).into());
}

/// A worker that starts after somebody deleted the pointer must not take that for a stack without routes.
#[tokio::test]
async fn a_pointer_that_was_lost_is_not_taken_for_no_set() {
    let (server, parameters) = store(|_, _| None).await;
    let routes = routes(&server);
    assert!(routes.deploy("{}").await.unwrap().is_marked);
    parameters.lock().unwrap().remove(POINTER);
    assert!(routes.fetch(None).await.is_err());
    assert!(routes.deploy("[]").await.unwrap().is_marked, "it was marked before");
    assert_eq!(text(&routes).await.as_deref(), Some("[]"));
    parameters.lock().unwrap().retain(|name, _| name != POINTER && name != MARKER);
    assert_eq!(text(&routes).await, None, "whoever deletes all of it wants no set");
}

/// The client sends the write of the pointer again, which then seems to be another deployment's.
#[tokio::test]
async fn a_deployment_whose_reply_was_lost_is_not_told_as_overtaken() {
    for (has_set, lost) in [(false, 1), (true, 1), (true, 2), (false, 9), (true, 9)] {
        let writes = AtomicUsize::new(0);
        let (server, parameters) = store(move |parameters, request| {
            let is_lost = is_write_of(request, POINTER) && writes.fetch_add(1, Ordering::Relaxed) < lost;
            is_lost.then(|| {
                carry_out(parameters, request);
                Reaction::Close
            })
        })
        .await;
        if has_set {
            put(&mut parameters.lock().unwrap(), POINTER, r#"{"number":3,"parts":1,"sha256":"00"}"#);
        }
        let deployed = routes(&server).deploy("{}").await;
        assert!(deployed.is_ok(), "{has_set} {lost}: {deployed:?}");
        assert_eq!(text(&routes(&server)).await.as_deref(), Some("{}"));
    }
}

#[tokio::test]
async fn an_unfinished_deployment_is_passed_over() {
    let (server, parameters) = store(|_, _| None).await;
    put(&mut parameters.lock().unwrap(), "/hookonce/test/routes-1/0", "left behind");
    assert_eq!(routes(&server).deploy("{}").await.unwrap().number, 2);
    assert_eq!(text(&routes(&server)).await.as_deref(), Some("{}"));
    let parts: Vec<_> = (1..=30).map(|number| format!("/hookonce/test/routes-{number}/0")).collect();
    for name in &parts {
        put(&mut parameters.lock().unwrap(), name, "left behind");
    }
    assert!(matches!(routes(&server).deploy("[]").await, Err(DeployRoutesError::NoNumber)));
}

fn is_write_of(request: &HttpMessage, name: &str) -> bool {
    request.asks_for("PutParameter") && request.json()["Name"] == json!(name)
}

/// The names of the first parts that there are.
fn parts(parameters: &Mutex<Parameters>) -> Vec<String> {
    let parameters = parameters.lock().unwrap();
    parameters.keys().filter(|name| name.ends_with("/0")).cloned().collect()
}

/// "Nothing has changed" is said only if that is known: the write may have come through, and the pointer does not tell.
#[tokio::test]
async fn a_deployment_of_which_nobody_can_tell_says_so() {
    let refused = || refusal(SERVICE, "AccessDeniedException");
    for (name, reaction, readable) in [
        ("the write never comes, and the pointer cannot be read", Reaction::Close, false),
        ("the write never comes, and may be on its way", Reaction::Close, true),
        ("the service breaks", error(500, &format!("{SERVICE}#InternalServerError")), true),
        ("the service refuses, and the pointer cannot be read", refused(), false),
        ("the service refuses", refused(), true),
    ] {
        let (server, parameters) = store(move |_, request| {
            let asks_for_version =
                request.asks_for("GetParameters") && request.json()["Names"][0] == json!(format!("{POINTER}:1"));
            if is_write_of(request, POINTER) {
                Some(reaction.clone())
            } else {
                (asks_for_version && !readable).then_some(Reaction::Close)
            }
        })
        .await;
        let deployed = routes(&server).deploy("{}").await;
        if name == "the service refuses" {
            assert!(matches!(deployed, Err(DeployRoutesError::Unavailable(_))), "{name}: {deployed:?}");
            assert!(parts(&parameters).is_empty(), "{name}");
        } else {
            assert!(matches!(deployed, Err(DeployRoutesError::Unknown(_))), "{name}: {deployed:?}");
            assert!(!parts(&parameters).is_empty(), "{name}: the set may be in use");
        }
    }
}

/// A number that was given up is never used again, so its parts go with the next deployments.
#[tokio::test]
async fn the_parts_of_an_abandoned_number_do_not_stay() {
    // The first part is free, a later one is not.
    let (server, parameters) = store(|_, _| None).await;
    put(&mut parameters.lock().unwrap(), "/hookonce/test/routes-1/2", "left behind");
    assert_eq!(routes(&server).deploy(&large(1)).await.unwrap().number, 2);
    assert_eq!(parts(&parameters), ["/hookonce/test/routes-2/0"]);
    // The next deployment clears what the last one has passed over.
    assert_eq!(routes(&server).deploy("{}").await.unwrap().left_behind, Vec::<String>::new());
    assert!(!parameters.lock().unwrap().contains_key("/hookonce/test/routes-1/2"));
    assert!(parameters.lock().unwrap().contains_key("/hookonce/test/routes-2/0"), "a reader may still follow it");

    // A part is refused in the middle.
    let (server, parameters) = store(|_, request| {
        is_write_of(request, "/hookonce/test/routes-1/3").then(|| refusal(SERVICE, "ParameterLimitExceeded"))
    })
    .await;
    assert!(matches!(routes(&server).deploy(&large(2)).await, Err(DeployRoutesError::Unavailable(_))));
    let left = parameters.lock().unwrap().keys().find(|name| !name.contains(':')).cloned();
    assert_eq!(left, None);
}

/// Whatever a deployment could not delete, wherever it stopped, a later one does.
#[tokio::test]
async fn what_could_not_be_deleted_goes_with_a_later_deployment() {
    for deletions in 0..2 {
        let allowed = Arc::new(AtomicUsize::new(usize::MAX));
        let left = Arc::clone(&allowed);
        let (server, parameters) = store(move |_, request| {
            let spend = |left: usize| left.checked_sub(1);
            let is_refused = request.asks_for("DeleteParameters")
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err();
            is_refused.then(|| refusal(SERVICE, "AccessDeniedException"))
        })
        .await;
        let routes = routes(&server);
        for number in 1..=2 {
            routes.deploy(&large(number)).await.unwrap();
        }
        allowed.store(deletions, Ordering::Relaxed);
        for number in 3..=4 {
            let left_behind = routes.deploy(&large(number)).await.unwrap().left_behind;
            assert!(left_behind.contains(&"/hookonce/test/routes-1/0".to_owned()), "{left_behind:?}");
        }
        allowed.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(routes.deploy("{}").await.unwrap().left_behind, Vec::<String>::new());
        assert_eq!(parts(&parameters), ["/hookonce/test/routes-4/0", "/hookonce/test/routes-5/0"]);
        // The store keeps each version under a name of its own.
        let of = |set: &str| parameters.lock().unwrap().keys().any(|name| name.starts_with(set) && !name.contains(':'));
        let stay = ["routes-1/", "routes-2/", "routes-3/"].map(|set| of(&format!("/hookonce/test/{set}")));
        assert_eq!(stay, [false; 3], "after {deletions} calls that deleted");
    }
}

/// Another deployment changes the pointer before this one looks again, or between that and its write.
#[tokio::test]
async fn a_deployment_that_was_overtaken_is_told() {
    let other = r#"{"number":9,"parts":1,"sha256":"00"}"#;
    for has_set in [false, true] {
        let (server, parameters) = store(move |parameters, request| {
            if request.asks_for("PutParameter") && !is_write_of(request, POINTER) {
                put(parameters, POINTER, other);
            }
            None
        })
        .await;
        if has_set {
            put(&mut parameters.lock().unwrap(), POINTER, r#"{"number":3,"parts":1,"sha256":"00"}"#);
        }
        assert!(matches!(routes(&server).deploy("{}").await, Err(DeployRoutesError::Overtaken)));
        let is_written = server.requests().iter().any(|request| is_write_of(request, POINTER));
        assert!(!is_written, "it does not write over what it has not seen");
        assert!(parts(&parameters).is_empty());

        let (server, parameters) = store(move |parameters, request| {
            if is_write_of(request, POINTER) && parameters.get(POINTER).is_none_or(|(text, _)| text != other) {
                // More often than one call could ask for.
                for _ in 0..12 {
                    put(parameters, POINTER, other);
                }
            }
            None
        })
        .await;
        if has_set {
            put(&mut parameters.lock().unwrap(), POINTER, r#"{"number":3,"parts":1,"sha256":"00"}"#);
        }
        match routes(&server).deploy("{}").await {
            // Without a pointer, creating it is conditional.
            Err(DeployRoutesError::Overtaken) => assert!(!has_set),
            Err(DeployRoutesError::Raced) => assert!(has_set),
            other => panic!("{other:?}"),
        }
    }
}

/// A set of which a part is missing, or is of another set, is not read. Nothing is guessed.
#[tokio::test]
async fn half_a_set_is_none() {
    let (server, parameters) = store(|_, _| None).await;
    let routes = routes(&server);
    routes.deploy(&large(7)).await.unwrap();
    let whole = parameters.lock().unwrap().clone();
    let part = "/hookonce/test/routes-1/3";
    for (name, value) in [
        (part, None),
        (part, Some("AAAA")),
        (POINTER, Some("{}")),
        (POINTER, Some(r#"{"number":1,"parts":9999,"sha256":""}"#)),
    ] {
        parameters.lock().unwrap().clone_from(&whole);
        match value {
            Some(value) => drop(parameters.lock().unwrap().insert(name.to_owned(), (value.to_owned(), 1))),
            None => drop(parameters.lock().unwrap().remove(name)),
        }
        assert!(routes.fetch(None).await.is_err(), "{name}: {value:?}");
    }
}

#[tokio::test]
async fn no_answer_is_taken_for_no_set() {
    for Case { name, answer, .. } in failing(SERVICE, &()) {
        let server = ScriptedServer::start(move |_, _| answer.clone()).await;
        assert!(routes(&server).fetch(None).await.is_err(), "{name}");
        assert!(matches!(routes(&server).deploy("{}").await, Err(DeployRoutesError::Unavailable(_))), "{name}");
    }
    let server = ScriptedServer::start(|_, _| Reaction::Silence).await;
    assert!(SsmRoutes::new(ssm(server.url(), SHORT), POINTER).fetch(None).await.is_err());
    let server = ScriptedServer::start(|_, _| json!({ "Parameters": [] })).await;
    assert_eq!(routes(&server).fetch(None).await.unwrap(), Fetched::Absent);
}

#[tokio::test]
async fn a_worker_looks_for_another_set_once_a_minute() {
    let server = ScriptedServer::start(|_, _| (200, "{}")).await;
    assert_eq!((routes(&server).pause(), routes(&server).is_local()), (Millis::seconds(60), false));
}
