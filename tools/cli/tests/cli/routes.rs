//! `hookonce route`: what a set does, before and after it is in use.

use serde_json::{Value, json as object};

use crate::aws::{Aws, Interception, written_by_the_template};
use crate::support::{Ended, Workspace, json, text, wait_until};

const FILE: &str = "events/deliveries/stripe-invoice-paid.json";

const SET: &str = r#"{"version": 1, "otherwise": "dead", "routes": [
  {"name": "small", "types": ["invoice.paid"], "when": {"data": {"object": {"amount_paid": [{"numeric": ["<", 100]}]}}}, "ignore": true},
  {"name": "crm", "consumer": "crm", "endpoints": ["chat*"], "handler": {"builtin": "messages"}},
  {"name": "paid", "consumer": "billing", "types": ["invoice.*"], "fact": ["$.data.object.id"], "handler": {"builtin": "payments"}},
  {"name": "late", "consumer": "late", "handler": {"builtin": "payments"}}
]}"#;

#[test]
fn a_set_is_checked_explained_and_deployed() {
    let workspace = Workspace::new();
    let good = workspace.write("good.json", SET.as_bytes());
    workspace.run(&["route", "check", &good]).exits(0).says("valid, 4 route(s)");
    let bad = workspace.write("bad.json", SET.replace("payments", "payment").replace("$.data", "data").as_bytes());
    let checked = workspace.run(&["route", "check", &bad, "--json"]).exits(1);
    let places: Vec<_> =
        json(&checked)["faults"].as_array().unwrap().iter().map(|fault| fault["place"].clone()).collect();
    assert_eq!(places, ["routes[2].handler.builtin", "routes[2].fact[0]", "routes[3].handler.builtin"]);
    workspace.run(&["route", "deploy", &bad]).exits(2).says("routes[2].fact[0]");
    assert_eq!(workspace.run(&["route", "show"]).status.code(), Some(1), "nothing was deployed");

    let explain =
        ["route", "explain", "--endpoint", "stripe", "--provider", "stripe", "--file", FILE, "--routes", &good];
    let explained = json(&workspace.run(&[&explain[..], &["--json"]].concat()));
    let event = &explained[0];
    assert_eq!((&event["route"], &event["outcome"]), (&object!("paid"), &object!({ "handled_for": "billing" })));
    assert_eq!(event["domain_key"], object!("#dk#stripe#billing#%type#invoice.paid#in_1SampleInvoice"));
    let why: Vec<&Value> = event["routes"].as_array().unwrap().iter().map(|route| &route["why"]).collect();
    let field = object!("when.data.object.amount_paid does not fit");
    assert_eq!(why, [&field, &object!("is not for the endpoint stripe"), &Value::Null, &Value::Null]);
    workspace.run(&explain).exits(0).says("route \"paid\" takes it");

    let of = |routes: &str, more: &str| {
        let explain = format!("route explain --routes {routes} {more}");
        workspace.run(&explain.split(' ').collect::<Vec<_>>())
    };
    let push =
        "--endpoint github --provider github --header X-GitHub-Event:push --file events/deliveries/github-push.json";
    of(&good, push).exits(0).says("does not sign the type");
    let dead = workspace.write("dead.json", br#"{"version": 1, "otherwise": "dead", "routes": []}"#);
    of(&dead, &format!("--endpoint e --provider stripe --file {FILE}")).exits(1).says("UNROUTED");

    assert!(workspace.run(&["route", "deploy", &good]).status.success());
    let shown = workspace.run(&["route", "show"]);
    assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).unwrap(), serde_json::from_str::<Value>(SET).unwrap());
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
    let told = workspace.run(&explain);
    assert!(text(&told).contains("goes to crm, n8n"), "{}", text(&told));
}

#[test]
fn a_set_of_a_deployed_stack_is_deployed_shown_and_explained() {
    let workspace = Workspace::new();
    let aws = Aws::with_stack(&written_by_the_template(&[]));
    let run = |arguments: &[&str]| {
        workspace.run_with_environment(&[&["route"], arguments, &["--stack", "inbox"]].concat(), &aws.signed_in())
    };
    let explain = ["explain", "--endpoint", "shop", "--file", FILE];
    run(&explain).exits(2).says("has no route set");
    let set = workspace.write("routes.json", SET.as_bytes());
    run(&["deploy", &set]).exits(0).says("set 1 with 1 part(s)");
    let shown = run(&["show"]);
    assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).unwrap(), serde_json::from_str::<Value>(SET).unwrap());

    run(&explain).exits(2).says("no endpoint shop");
    let document = r#"{"provider": "stripe", "tenant": "acme", "secrets": ["whsec_a_signing_secret"]}"#;
    aws.account().put("/hookonce/inbox/endpoints/shop", document);
    let explained = json(&run(&[&explain[..], &["--json"]].concat()));
    assert_eq!(explained[0]["route"], "paid");
    assert_eq!(explained[0]["domain_key"], "#dk#acme#billing#%type#invoice.paid#in_1SampleInvoice");
    // A worker that finds no pointer knows that there was one.
    assert!(aws.account().value("/hookonce/inbox/routes-deployed").is_some());
}

/// A worker would refuse the set as a whole, and alarm; so it is refused before it is in use.
#[test]
fn a_set_that_names_a_table_which_the_stack_lacks_is_neither_valid_nor_deployed() {
    let workspace = Workspace::new();
    let set = SET.replace(r#""fact""#, r#""tables": ["orders"], "fact""#);
    let set = workspace.write("routes.json", set.as_bytes());
    let run = |command: &str, tables: &str| {
        let aws = Aws::with_stack(&written_by_the_template(&[("Tables", tables)]));
        workspace.run_with_environment(&["route", command, &set, "--stack", "inbox"], &aws.signed_in())
    };
    for (tables, check, deploy, why) in [
        ("stock=shop-stock", 1, 2, "routes[2].tables: HOOKONCE_TABLES has no table `orders`"),
        ("", 1, 2, "routes[2].tables: HOOKONCE_TABLES has no table `orders`"),
        ("orders=inbox", 2, 2, "the stack's parameter Tables is faulty: orders stands for a table of the stack itself"),
        ("orders=shop-orders", 0, 0, ""),
    ] {
        for (command, code) in [("check", check), ("deploy", deploy)] {
            let done = run(command, tables);
            assert_eq!(done.status.code(), Some(code), "{command} {tables}: {}", text(&done));
            assert!(text(&done).contains(why), "{command} {tables}: {}", text(&done));
        }
    }
}

/// A set may be deployed before what it names, so it stays valid. But nobody should wait for a day to learn of a
/// misspelling.
#[test]
fn a_destination_or_function_that_is_not_there_is_named_before_the_set_is_in_use() {
    const BILLING: &str = "arn:aws:lambda:eu-west-1:123456789012:function:billing:live";
    let workspace = Workspace::new();
    let set = object!({"version": 1, "otherwise": "dead", "routes": [
        {"name": "paid", "consumer": "a", "types": ["invoice.paid"], "handler": {"lambda": BILLING}, "destinations": ["mail"]},
        {"name": "rest", "consumer": "b", "handler": {"lambda": "rest"}, "forward": ["crm"]},
        {"name": "more", "consumer": "c", "handler": {"lambda": "rest"}, "forward": ["crm", "mail"]},
    ]});
    let set = workspace.write("routes.json", set.to_string().as_bytes());
    let aws = Aws::with_stack(&written_by_the_template(&[]));
    let run = |command: &[&str]| {
        workspace.run_with_environment(&[&["route"], command, &[&set, "--stack", "inbox"]].concat(), &aws.signed_in())
    };
    let destination = r#"{"kind": "http", "url": "https://example.com", "class": "at_least_once"}"#;
    aws.account().put("/hookonce/inbox/destinations/mail", destination);
    aws.account().functions.push(BILLING);
    let checked = run(&["check", "--json"]).exits(1);
    let missing = object!([
        { "place": "routes[1].forward", "kind": "destination", "name": "crm" },
        { "place": "routes[1].handler.lambda", "kind": "function", "name": "rest" },
    ]);
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": missing, "unchecked": [] }));
    assert_eq!(aws.account().count("GetFunctionConfiguration"), 2, "each is asked about once");

    let denied = || ("GetFunctionConfiguration", Interception::Answered("AccessDeniedException: not authorized"));
    aws.account().snags.extend([denied(), denied()]);
    let deployed = run(&["deploy"]);
    let told = text(&deployed);
    assert!(deployed.status.success() && told.contains("set 1 with 1 part(s)"), "{told}");
    for line in [
        "routes[1].forward: there is no destination crm: events that need it wait until it exists".to_owned(),
        format!("the function {BILLING} is not checked: lambda:GetFunctionConfiguration failed: not authorized"),
        "the function rest is not checked: lambda:GetFunctionConfiguration failed: not authorized".to_owned(),
    ] {
        assert!(told.contains(&line), "{line} is not in {told}");
    }

    aws.account().put("/hookonce/inbox/destinations/crm", destination);
    aws.account().functions.push("rest");
    let checked = run(&["check"]);
    assert!(checked.status.success() && !text(&checked).contains("there is no"), "{}", text(&checked));
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
    let checked = workspace.run(&["route", "check", &set, "--json"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": [], "unchecked": all }));
    let told = text(&workspace.run(&["route", "check", &set]));
    assert_eq!(told.matches("not checked").count(), 1, "{told}");
    for part in ["no stack is running", "table orders (routes[0].tables)", "function rest (routes[1].handler.lambda)"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }

    let tables = ["--table", "orders=pk:S"];
    let handlers = ["--handler", "billing=bash handler.bash"];
    let _running = workspace.dev(&[&["dev", "--port", "0"], &tables[..], &handlers].concat());
    let checked = workspace.run(&["route", "check", &set, "--json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    let missing = object!([destination, function(1, "rest")]);
    assert_eq!(json(&checked), object!({ "valid": true, "faults": [], "missing": missing, "unchecked": [] }));
}

/// A set that checks and fits into no parameters would fail only when it is deployed.
#[test]
fn a_set_that_is_too_long_for_parameters_does_not_check() {
    let workspace = Workspace::new();
    let mut state = 7_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}{:016x}", state.rotate_left(29))
    };
    let routes: Vec<_> = (0..220)
        .map(|number| {
            let values: Vec<_> = (0..100).map(|_| noise()).collect();
            object!({ "name": format!("route {number}"), "ignore": true, "when": { "id": values } })
        })
        .collect();
    let set = object!({ "version": 1, "otherwise": "dead", "routes": routes }).to_string();
    assert!(set.len() < 1_024 * 1_024, "{}", set.len());
    let checked = workspace.run(&["route", "check", &workspace.write("set.json", set.as_bytes()), "--json"]).exits(1);
    assert_eq!(json(&checked)["faults"][0]["place"], "the set");
}

#[test]
fn a_running_stack_takes_a_changed_set_over() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    let set = workspace.write("routes.json", SET.as_bytes());
    assert!(workspace.run(&["route", "deploy", &set]).status.success());
    let nothing = workspace.write("nothing.json", br#"{"version": 1, "otherwise": "ignore", "routes": []}"#);
    assert!(workspace.run(&["route", "deploy", &nothing]).status.success());
    // Until the stack has looked again, an earlier set may take an event.
    let mut number = 0;
    wait_until("the set is in use", || {
        number += 1;
        let body = std::fs::read_to_string(workspace.path(FILE)).unwrap().replace("evt_1", &format!("evt_{number}"));
        let file = workspace.write("event.json", body.replace("in_1", &format!("in_{number}")).as_bytes());
        assert!(workspace.run(&["send", "--provider", "stripe", "--file", &file]).status.success());
        json(&workspace.run(&["list", "--json"]))
            .as_array()
            .unwrap()
            .iter()
            .any(|record| record["outcome"] == "IGNORED")
    });
    wait_until("each is settled", || json(&workspace.run(&["list", "--json", "--state", "PENDING"])) == object!([]));

    // Once a route wants it, an ignored event is brought back, in its own generation.
    assert!(workspace.run(&["route", "deploy", &set]).status.success());
    let replay = ["replay", "--state", "ignored"];
    let dry = text(&workspace.run(&replay));
    for expected in ["would retry", "IGNORED", "decide again"] {
        assert!(dry.contains(expected), "{expected} in {dry}");
    }
    let applied = || {
        let listed = json(&workspace.run(&["list", "--json", "--state", "applied"]));
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|record| record["key"] == object!(format!("evt_{number}SampleInvoicePaid")))
    };
    wait_until("the event is applied", || {
        // Until the stack has looked again, it may end as IGNORED once more.
        let replayed = workspace.run(&[&replay[..], &["--yes", "--by", "ada"]].concat());
        assert!(replayed.status.code().is_some_and(|code| code <= 1), "{}", text(&replayed));
        applied()
    });
    let shown = json(&workspace.run(&["show", "stripe", &format!("evt_{number}SampleInvoicePaid"), "--json"]));
    assert_eq!((&shown["generation"], &shown["operations"][0]["operation"]), (&object!(0), &object!("retry")));
    assert_eq!(shown["operations"][0]["from"], "IGNORED");
}

/// A user table on the laptop: created once, known to the routes, to the functions' environment and to `show`.
#[test]
fn a_user_table_is_created_and_routes_may_list_it() {
    let workspace = Workspace::new();
    for faulty in ["orders", "Orders=shop:S", "orders=shop", "orders=shop:X", "orders=:S", "orders=a:S,b:N,c:B"] {
        let refused = workspace.run(&["dev", "--port", "0", "--table", faulty]);
        assert_eq!(refused.status.code(), Some(2), "{faulty}: {}", text(&refused));
    }
    let named = |alias: &str| SET.replace(r#""fact""#, &format!(r#""tables": ["{alias}"], "fact""#));
    let set = workspace.write("set.json", named("orders").as_bytes());
    assert!(workspace.run(&["route", "deploy", &set]).status.success());
    let dev = ["dev", "--port", "0", "--table"];
    let running = workspace.dev(&[&dev[..], &["orders=shop:S,order:N"]].concat());
    let environment = workspace.read(".hookonce/functions.env");
    assert!(environment.contains("HOOKONCE_TABLES=orders=hookonce-domain-own-orders\n"), "{environment}");
    let other = workspace.write("other.json", named("order").as_bytes());
    let refused = text(&workspace.run(&["route", "deploy", &other]));
    assert!(refused.contains("has no table `order`"), "{refused}");
    assert!(workspace.run(&["send", "--provider", "stripe", "--file", FILE]).status.success());
    let show = ["show", "stripe", "evt_1SampleInvoicePaid", "--json"];
    wait_until("the event is applied", || json(&workspace.run(&show))["outcome"] == "APPLIED");
    assert!(json(&workspace.run(&show))["writes"].as_array().is_some_and(|writes| writes.len() == 2));
    drop(running);
    workspace.run(&[&dev[..], &["orders=shop:S"]].concat()).exits(3).says("exists with a different key");
}
