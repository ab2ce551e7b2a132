//! `hookonce route`: what a set does, before and after it is in use.

use hookonce_protocol::key::hex;
use serde_json::{Value, json as object};
use sha2::{Digest as _, Sha256};

use crate::aws::{Deployed, Interception};
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, json, text, wait_until};

const FILE: &str = "events/deliveries/stripe-invoice-paid.json";

const SET: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
  {"name": "small", "types": ["invoice.paid"], "when": {"data": {"object": {"amount_paid": [{"numeric": ["<", 100]}]}}}, "ignore": true},
  {"name": "crm", "consumer": "crm", "endpoints": ["chat*"], "handler": {"builtin": "messages"}},
  {"name": "paid", "consumer": "billing", "types": ["invoice.*"], "fact": ["$.data.object.id"], "handler": {"builtin": "payments"}},
  {"name": "late", "consumer": "late", "handler": {"builtin": "payments"}}
]}"#;

/// The same for a stack, whose worker has no samples.
fn deployed_set() -> String {
    SET.replace("builtin", "lambda")
}

/// A stack with the functions that the set names.
fn deployed(parts: &[(&str, &str)]) -> Deployed {
    let stack = Deployed::new("route", parts);
    stack.aws.account().functions.extend(["messages", "payments"]);
    stack
}

#[test]
fn a_set_is_checked_explained_and_deployed() {
    let workspace = Workspace::new();
    let good = workspace.write("good.json", SET.as_bytes());
    workspace.run(&["route", "check", &good]).exits(0).prints("valid, 4 routes");
    let bad = workspace.write("bad.json", SET.replace("payments", "payment").replace("$.data", "data").as_bytes());
    let checked = workspace.run(&["route", "check", &bad, "--json"]).exits(1);
    let places: Vec<_> =
        json(&checked)["faults"].as_array().unwrap().iter().map(|fault| fault["place"].clone()).collect();
    assert_eq!(places, ["routes[2].fact[0]", "routes[2].handler.builtin", "routes[3].handler.builtin"]);
    workspace.run(&["route", "deploy", &bad]).exits(2).prints("routes[2].fact[0]");
    // Nothing was deployed.
    workspace.run(&["route", "show"]).exits(1);

    let explain =
        ["route", "explain", "--endpoint", "stripe", "--provider", "stripe", "--file", FILE, "--routes", &good];
    let explained = json(&workspace.run(&[&explain[..], &["--json"]].concat()));
    let event = &explained[0];
    assert_eq!((&event["route"], &event["outcome"]), (&object!("paid"), &object!({ "handled_for": "billing" })));
    assert_eq!(event["domain_key"], object!("#dk#stripe#billing#%type#invoice.paid#in_1SampleInvoice"));
    let why: Vec<&Value> = event["routes"].as_array().unwrap().iter().map(|route| &route["why"]).collect();
    let field = object!("when.data.object.amount_paid does not fit");
    assert_eq!(why, [&field, &object!("is not for the endpoint stripe"), &Value::Null, &Value::Null]);
    workspace.run(&explain).exits(0).prints("route \"paid\" takes it");

    let of = |routes: &str, more: &str| {
        let explain = format!("route explain --routes {routes} {more}");
        workspace.run(&explain.split(' ').collect::<Vec<_>>())
    };
    let push =
        "--endpoint github --provider github --header X-GitHub-Event:push --file events/deliveries/github-push.json";
    of(&good, push).exits(0).prints("does not sign the type");
    let dead = workspace.write("dead.json", br#"{"version": 1, "otherwise": "dead", "routes": []}"#);
    of(&dead, &format!("--endpoint e --provider stripe --file {FILE}")).exits(1).prints("UNROUTED");

    workspace.run(&["route", "deploy", &good]).exits(0);
    assert_eq!(json(&workspace.run(&["route", "show"])), serde_json::from_str::<Value>(SET).unwrap());
}

#[test]
fn a_forwarded_event_is_explained_with_its_destinations_and_its_fact() {
    let workspace = Workspace::new();
    let route = r#"{"name": "out", "consumer": "crm", "forward": ["crm", "n8n"]}"#;
    let set = format!(r#"{{"version": 1, "otherwise": "dead", "routes": [{route}]}}"#);
    let set = workspace.write("forward.json", set.as_bytes());
    let explain =
        ["route", "explain", "--endpoint", "stripe", "--provider", "stripe", "--file", FILE, "--routes", &set];
    let explained = json(&workspace.run(&[&explain[..], &["--json"]].concat()));
    assert_eq!(explained[0]["forward"], object!(["crm", "n8n"]));
    let key = explained[0]["domain_key"].as_str().unwrap();
    assert!(key.starts_with("#dk#stripe#crm#%fact#key#stripe#evt_"), "{key}");
    workspace.run(&explain).prints("goes to crm, n8n");
}

#[test]
fn a_set_of_a_deployed_stack_is_deployed_shown_and_explained() {
    let stack = deployed(&[]);
    let explain = ["explain", "--endpoint", "shop", "--file", FILE];
    stack.run(&explain).exits(2).prints("has no route set");
    let text = deployed_set();
    let set = stack.workspace.write("routes.json", text.as_bytes());
    stack.run(&["deploy", &set]).exits(0).prints("in use within a minute");
    assert_eq!(json(&stack.run(&["show"])), serde_json::from_str::<Value>(&text).unwrap());

    stack.run(&explain).exits(1).prints("no endpoint shop");
    let document = r#"{"provider": "stripe", "tenant": "acme", "secrets": ["whsec_a_signing_secret"]}"#;
    stack.aws.account().put("endpoint", "shop", document);
    let explained = json(&stack.run(&[&explain[..], &["--json"]].concat()));
    assert_eq!(explained[0]["route"], "paid");
    assert_eq!(explained[0]["domain_key"], "#dk#acme#billing#%type#invoice.paid#in_1SampleInvoice");

    // Somebody else deploys between the read and the write: nothing of theirs is lost.
    let other = text.replace("billing", "billing-2");
    stack.aws.account().snags.push_back(("PutItem", Interception::Overtaken(other.clone())));
    stack.run(&["deploy", &set]).exits(3).prints("somebody else deployed a route set at the same moment");
    assert_eq!(stack.aws.account().document("routes", "set"), Some(other));
    stack.aws.account().snags.push_back(("PutItem", Interception::ReplyLost));
    stack.run(&["deploy", &set]).exits(0);
}

/// The worker that the template deploys has none of them: their events would wait.
#[test]
fn the_samples_are_taken_on_a_laptop_and_refused_for_a_stack() {
    let stack = Deployed::new("route", &[]);
    let set = stack.workspace.write("samples.json", SET.replace("\"dead\"", "\"builtin\"").as_bytes());
    let faults = [
        "otherwise: `builtin` asks the handlers of this build, and it has none: the samples run on a laptop only",
        "routes[2].handler.builtin: this build has no handler `payments`, nor any other: the samples run on a laptop only",
    ];
    stack.run(&["check", &set]).exits(1).prints_all(&faults);
    stack.run(&["deploy", &set]).exits(2).prints_all(&faults);
    assert_eq!(stack.aws.account().count("PutItem"), 0);
    // A set that is in use all the same, because another command wrote it.
    stack.aws.account().put("routes", "set", &SET.replace("\"dead\"", "\"builtin\""));
    let explain = ["explain", "--endpoint", "e", "--provider", "github", "--header", "X-GitHub-Event:push"];
    let push = [&explain[..], &["--file", "events/deliveries/github-push.json"]].concat();
    stack.run(&push).exits(1).prints("it waits: this build has no handler `payments`");
    stack.workspace.run(&["route", "check", &set]).exits(0);
}

/// Every worker reads the set once a minute.
#[test]
fn a_set_that_the_table_does_not_keep_is_neither_valid_nor_deployed() {
    let kind = |number: usize| hex(&Sha256::digest(number.to_string()).into());
    let route = |number: usize| {
        let kinds: Vec<_> = (0..4).map(|kind_of| kind(4 * number + kind_of)).collect();
        object!({ "name": number.to_string(), "consumer": "c", "types": kinds, "forward": ["crm"] })
    };
    let routes: Vec<_> = (0..900).map(route).collect();
    let set = object!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    let stack = Deployed::new("route", &[]);
    let file = stack.workspace.write("routes.json", set.as_bytes());
    for (command, exit) in [("check", 1), ("deploy", 2)] {
        stack.run(&[command, &file]).exits(exit).prints_all(&["the set: it takes", "and 65536 are allowed"]);
    }
    assert_eq!(stack.aws.account().count("PutItem"), 0);
}

/// Its events would wait; so the set is refused before it is in use.
#[test]
fn a_set_that_names_a_table_which_the_stack_lacks_is_neither_valid_nor_deployed() {
    let set = deployed_set().replace(r#""fact""#, r#""tables": ["orders"], "fact""#);
    for (tables, check, deploy, why) in [
        ("stock=shop-stock", 1, 2, "routes[2].tables: the worker has no table `orders`"),
        ("", 1, 2, "routes[2].tables: the worker has no table `orders`"),
        ("orders=inbox", 2, 2, "the stack's parameter Tables is faulty: orders stands for a table of the stack itself"),
        ("orders=shop-orders", 0, 0, ""),
    ] {
        for (command, code) in [("check", check), ("deploy", deploy)] {
            let stack = deployed(&[("Tables", tables)]);
            let done = stack.run(&[command, &stack.workspace.write("routes.json", set.as_bytes())]);
            assert_eq!(done.status.code(), Some(code), "{command} {tables}: {}", text(&done));
            done.prints(why);
        }
    }
}

/// A set may be deployed before what it names, so it stays valid. But nobody should wait for a day to learn of a
/// misspelling.
#[test]
fn a_destination_or_function_that_is_not_there_is_named_before_the_set_is_in_use() {
    const BILLING: &str = "arn:aws:lambda:eu-west-1:123456789012:function:billing:live";
    let stack = Deployed::new("route", &[]);
    let set = object!({"version": 1, "otherwise": "dead", "routes": [
        {"name": "paid", "consumer": "a", "types": ["invoice.paid"], "handler": {"lambda": BILLING}, "destinations": ["mail"]},
        {"name": "rest", "consumer": "b", "handler": {"lambda": "rest"}, "forward": ["crm"]},
        {"name": "more", "consumer": "c", "handler": {"lambda": "rest"}, "forward": ["crm", "mail"]},
    ]});
    let set = stack.workspace.write("routes.json", set.to_string().as_bytes());
    let destination = r#"{"kind": "http", "url": "https://example.com", "class": "at_least_once"}"#;
    stack.aws.account().put("destination", "mail", destination);
    stack.aws.account().functions.push(BILLING);
    let checked = stack.run(&["check", &set, "--json"]).exits(1);
    let missing = object!([
        { "place": "routes[1].forward", "kind": "destination", "name": "crm" },
        { "place": "routes[1].handler.lambda", "kind": "function", "name": "rest" },
    ]);
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": missing, "unchecked": [] }));
    assert_eq!(stack.aws.account().count("GetFunctionConfiguration"), 2, "each is asked about once");

    let denied = || ("GetFunctionConfiguration", Interception::Answered("AccessDeniedException: not authorized"));
    stack.aws.account().snags.extend([denied(), denied()]);
    stack.run(&["deploy", &set]).exits(0).prints_all(&[
        "in use within a minute",
        "routes[1].forward: there is no destination crm: events that need it wait until it exists",
        &format!("the function {BILLING} is not checked: lambda:GetFunctionConfiguration failed: not authorized"),
        "the function rest is not checked: lambda:GetFunctionConfiguration failed: not authorized",
    ]);

    stack.aws.account().put("destination", "crm", destination);
    stack.aws.account().functions.push("rest");
    stack.run(&["check", &set]).exits(0).omits("there is no");
}

/// What nobody looked at is not silently valid. A running stack knows its own handlers.
#[test]
fn what_a_set_names_is_unchecked_until_a_local_stack_runs() {
    let workspace = Workspace::new();
    let set = object!({"version": 1, "otherwise": "dead", "routes": [
        {"name": "paid", "consumer": "a", "handler": {"lambda": "billing:live"}, "tables": ["orders"], "forward": ["crm"]},
        {"name": "rest", "consumer": "b", "handler": {"lambda": "rest"}},
    ]});
    let set = workspace.write("routes.json", set.to_string().as_bytes());
    let (table, destination) = (
        object!({ "place": "routes[0].tables", "kind": "table", "name": "orders" }),
        object!({ "place": "routes[0].forward", "kind": "destination", "name": "crm" }),
    );
    let function =
        |index, name| object!({ "place": format!("routes[{index}].handler.lambda"), "kind": "function", "name": name });
    let all = object!([table, destination, function(0, "billing:live"), function(1, "rest")]);
    let checked = workspace.run(&["route", "check", &set, "--json"]).exits(0);
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": [], "unchecked": all }));
    let parts = ["no stack is running", "table orders (routes[0].tables)", "function rest (routes[1].handler.lambda)"];
    let printed = text(&workspace.run(&["route", "check", &set]).prints_all(&parts));
    assert_eq!(printed.matches("not checked").count(), 1, "{printed}");

    let tables = ["--table", "orders=pk:S"];
    let handlers = ["--handler", "billing=bash handler.bash"];
    let _running = workspace.dev(&[&["dev", "--port", "0"], &tables[..], &handlers].concat());
    let checked = workspace.run(&["route", "check", &set, "--json"]).exits(1);
    let missing = object!([destination, function(1, "rest")]);
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": missing, "unchecked": [] }));
}

/// A set that checks and fits into no parameters would fail only when it is deployed.
#[test]
fn a_set_that_is_too_long_to_be_stored_does_not_check() {
    let workspace = Workspace::new();
    let mut state = 7_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}{:016x}", state.rotate_left(29))
    };
    let routes: Vec<_> = (0..220)
        .map(|number| {
            let values: Vec<_> = (0..100).map(|_| noise()).collect();
            let (name, types) = (format!("route {number}"), [format!("type.{number}")]);
            object!({ "name": name, "types": types, "ignore": true, "when": { "id": values } })
        })
        .collect();
    let set = object!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    assert!(set.len() < 1_024 * 1_024, "{}", set.len());
    let checked = workspace.run(&["route", "check", &workspace.write("set.json", set.as_bytes()), "--json"]).exits(1);
    assert_eq!(json(&checked)["faults"][0]["place"], "the set");
}

#[test]
fn a_running_stack_takes_a_changed_set_over() {
    let stack = Stack::new();
    let set = stack.write("routes.json", SET.as_bytes());
    stack.run(&["route", "deploy", &set]).exits(0);
    let nothing = stack.write("nothing.json", br#"{"version": 1, "otherwise": "ignore", "routes": []}"#);
    stack.run(&["route", "deploy", &nothing]).exits(0);
    // Until the stack has looked again, an earlier set may take an event.
    let mut number = 0;
    wait_until("the set is in use", || {
        number += 1;
        stack.deliver(number, true).exits(0);
        !stack.list("IGNORED").is_empty()
    });
    stack.wait_for("PENDING", 0);
    let key = format!("evt_{number}");

    // Once a route wants it, an ignored event is brought back, in its own generation.
    stack.run(&["route", "deploy", &set]).exits(0);
    let replay = ["replay", "--state", "ignored"];
    stack.run(&replay).prints_all(&["would retry", "IGNORED", "decide again"]);
    wait_until("the event is applied", || {
        // Until the stack has looked again, it may end as IGNORED once more.
        let replayed = stack.run(&[&replay[..], &["--yes", "--by", "ada"]].concat());
        assert!(replayed.status.code().is_some_and(|code| code <= 1), "{}", text(&replayed));
        stack.list("APPLIED").iter().any(|record| record["key"] == *key)
    });
    let shown = stack.show(&key);
    assert_eq!((&shown["generation"], &shown["operations"][0]["operation"]), (&object!(0), &object!("retry")));
    assert_eq!(shown["operations"][0]["from"], "IGNORED");
}

/// A user table on the laptop: created once, known to the routes, to the functions' environment and to `show`.
#[test]
fn a_user_table_is_created_and_routes_may_list_it() {
    let workspace = Workspace::new();
    for faulty in ["orders", "Orders=shop:S", "orders=shop", "orders=shop:X", "orders=:S", "orders=a:S,b:N,c:B"] {
        workspace.run(&["dev", "--port", "0", "--table", faulty]).exits(2);
    }
    let named = |alias: &str| SET.replace(r#""fact""#, &format!(r#""tables": ["{alias}"], "fact""#));
    let set = workspace.write("set.json", named("orders").as_bytes());
    workspace.run(&["route", "deploy", &set]).exits(0);
    let dev = ["dev", "--port", "0", "--table"];
    let running = workspace.dev(&[&dev[..], &["orders=shop:S,order:N"]].concat());
    let environment = workspace.read(".hookonce/functions.env");
    assert!(environment.contains("HOOKONCE_TABLES=orders=hookonce-domain-own-orders\n"), "{environment}");
    let other = workspace.write("other.json", named("order").as_bytes());
    workspace.run(&["route", "deploy", &other]).prints("has no table `order`");
    workspace.run(&["send", "--provider", "stripe", "--file", FILE]).exits(0);
    workspace.wait_for("APPLIED", 1);
    let shown = workspace.show("evt_1SampleInvoicePaid");
    assert!(shown["writes"].as_array().is_some_and(|writes| writes.len() == 2), "{shown}");
    drop(running);
    workspace.run(&[&dev[..], &["orders=shop:S"]].concat()).exits(3).prints("exists with a different key");
}
