//! The console of a deployed stack: it shows, and changes only what a person allowed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Output};

use serde_json::json;

use crate::aws::{Alarm, Deployed, now};
use crate::destinations::receiver;
use crate::outages::Line;
use crate::stacks::Stack;
use crate::support::{Ended, Workspace, interrupt, text, wait_until};

/// A running console, and what its first address gave the browser.
struct Opened {
    /// `None` once it was stopped.
    child: Option<Child>,
    host: String,
    /// The path of all pages.
    base: String,
    cookie: String,
}

impl Opened {
    fn of(deployed: &Deployed, more: &[&str]) -> Self {
        let arguments = [&["console", "--stack", "inbox", "--port", "0"], more].concat();
        let mut child = deployed.workspace.start_with_environment(&arguments, &deployed.variables);
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        Self::entered(Some(child), &address)
    }

    /// The console that `dev` serves.
    fn of_dev(stack: &Workspace) -> Self {
        let address = stack.run(&["console"]).exits(0).stdout;
        Self::entered(None, std::str::from_utf8(&address).unwrap())
    }

    fn entered(child: Option<Child>, address: &str) -> Self {
        let (host, target) = address.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (base, token) = target.split_once("/?").unwrap();
        let mut opened = Self { child, host: host.to_owned(), base: format!("/{base}"), cookie: String::new() };
        let let_in = opened.ask("GET", &format!("/?{token}"), "");
        let cookie = let_in.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        opened.cookie = cookie.split(';').next().unwrap().to_owned();
        opened
    }

    fn stop(mut self) -> Output {
        interrupt(self.child.take().unwrap()).exits(0)
    }

    /// The whole answer to a request, as a browser sends it from the console's own pages.
    fn ask(&self, method: &str, target: &str, form: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let Self { host, base, cookie, .. } = self;
        let length = form.len();
        write!(
            stream,
            "{method} {base}{target} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\nsec-fetch-site: same-origin\r\n\
             cookie: {cookie}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{form}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn status(&self, method: &str, target: &str, form: &str) -> u16 {
        self.ask(method, target, form).split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// A test that fails leaves no server behind.
impl Drop for Opened {
    fn drop(&mut self) {
        self.child.iter_mut().for_each(|child| child.kill().unwrap());
    }
}

/// What a form sends along.
fn field(page: &str, name: &str) -> String {
    let input = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
    input.split('"').next().unwrap().to_owned()
}

const DRY_RUN: &str = "/orders/new?operation=retry&state=DEAD";

#[test]
fn a_client_that_sends_half_a_request_is_cut_off() {
    let stack = Stack::with(1, 1);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &[]);
    let mut slow = TcpStream::connect(&console.host).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: ").unwrap();
    let mut answer = Vec::new();
    // Without an end, the test's own limit ends it.
    slow.set_read_timeout(Some(std::time::Duration::from_mins(1))).unwrap();
    slow.read_to_end(&mut answer).unwrap();
}

#[test]
fn the_console_of_a_deployed_stack_shows_it_and_changes_nothing() {
    let stack = Stack::with(1, 1);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &[]);
    let now = console.ask("GET", "/", "");
    assert!(now.contains("INVOICE_UNREADABLE") && now.contains("read only") && now.contains("evt_1"), "{now}");
    assert!(console.ask("GET", "/records?state=DEAD", "").contains("INVOICE_UNREADABLE"));
    let record = console.ask("GET", "/records/stripe/evt_1?plan=1", "");
    assert!(record.contains("INVOICE_UNREADABLE") && !record.contains("Plan today") && !record.contains("Dry run"));
    assert!(record.contains("hookonce pull stripe evt_1 --stack inbox"), "{record}");
    let order = "operation=retry&state=DEAD&agreed=1&token=00&reason=x";
    for (method, target, form) in
        [("GET", DRY_RUN, ""), ("POST", "/orders", order), ("GET", "/send", ""), ("POST", "/send", "event=x")]
    {
        assert_eq!(console.status(method, target, form), 403, "{method} {target}");
    }
    assert_eq!(stack.list("DEAD").len(), 1);
    console.stop();
}

/// The number that stands before a word of the page's footer.
fn cost(page: &str, word: &str) -> u64 {
    let before = page.rsplit_once(word).unwrap().0.trim_end();
    before.rsplit([' ', '>']).next().unwrap().replace(',', "").parse().unwrap()
}

/// The first page asks the tables, the documents, the queues, the alarms and the functions. All of it counts, and the
/// footer says it: what reaches the stand-in and the queues' server is no more.
#[test]
fn the_first_page_of_a_deployed_stack_takes_at_most_100_calls_and_says_how_many() {
    let stack = Stack::with(3, 3);
    let deployed = Deployed::of(&stack, &[]);
    {
        let mut account = deployed.aws.account();
        for number in 0..8 {
            account.put(
                "endpoint",
                &format!("shop{number}"),
                r#"{"provider": "github", "secrets": ["0123456789abcdef"]}"#,
            );
        }
        for number in 0..20 {
            account.alarms.push(Alarm::new(&format!("hookonce/inbox/notice/{number}"), "x", number % 2 == 0));
        }
    }
    let console = Opened::of(&deployed, &[]);
    let reached = || {
        let account = deployed.aws.account();
        account.requests.len() + account.relayed
    };
    for (page, pause) in [("the first", 0), ("a later one", 2_100)] {
        // By then, the tables are asked for arrivals again.
        std::thread::sleep(std::time::Duration::from_millis(pause));
        let before = reached();
        let now = console.ask("GET", "/", "");
        assert!(now.contains("INVOICE_UNREADABLE") && now.contains("shop7"), "{now}");
        let (calls, units) = (cost(&now, " calls · "), cost(&now, " read units"));
        let reached = u64::try_from(reached() - before).unwrap();
        // The queues have a server of their own.
        assert!((reached..=reached + 5).contains(&calls), "{page}: {calls} calls, and {reached} came");
        assert!(calls <= 100 && (1..=2_100).contains(&units), "{page}: {calls} calls, {units} read units");
    }
    console.stop();
}

/// However many tabs keep up, what needs a person is read once, and only after something changed.
#[test]
fn what_needs_a_person_is_read_once_for_all_tabs_after_a_change() {
    let stack = Stack::with(0, 1);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &[]);
    let reached = || {
        let account = deployed.aws.account();
        account.requests.len() + account.relayed
    };
    let reads = || deployed.aws.account().count("DescribeAlarms");
    let by = |work: &dyn Fn()| {
        let before = reads();
        work();
        reads() - before
    };
    assert!(by(&|| assert!(console.ask("GET", "/", "").contains("INVOICE_UNREADABLE"))) > 0, "a page is new");
    // Each shows what needed a person before all arrivals, so it gets what does now.
    let tab = || assert!(console.ask("GET", "/arrivals?snapshot=0", "").contains("INVOICE_UNREADABLE"));
    let tabs = || [(), ()].into_iter().for_each(|()| tab());
    wait_until("nothing changed, and nobody reads", || by(&tabs) == 0);
    stack.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    wait_until("it is read again", || by(&tab) > 0);
    // On a busy machine, these moments may be over before the second tab asks.
    wait_until("two tabs in the moments after another one ask nothing, of arrivals either", || {
        tab();
        let before = reached();
        tabs();
        reached() == before
    });
    console.stop();
}

/// Where a page asks for what has changed since.
fn next(page: &str) -> String {
    let address = page.split_once("data-poll=\"").unwrap().1.split('"').next().unwrap();
    format!("/{}", address.replace("&amp;", "&"))
}

/// What it showed before is not shown as if it were still so.
#[test]
fn a_page_does_not_keep_up_while_nothing_can_be_read() {
    let servers = Stack::new();
    let state = servers.announced();
    let [store, queues] = ["dynamodb_url", "sqs_url"].map(|name| Line::to(state[name].as_str().unwrap()));
    let (workspace, prefix) = (Workspace::new(), format!("console-{}", std::process::id()));
    let dev = ["dev", "--port", "0", "--dynamodb-url", &store.url, "--sqs-url", &queues.url, "--prefix", &prefix];
    let _stack = workspace.dev(&dev);
    workspace.run(&["trigger", "stripe.invoice.paid"]).exits(0);
    workspace.wait_for("APPLIED", 1);
    let console = Opened::of_dev(&workspace);
    let address = next(&console.ask("GET", "/", ""));
    for line in [&store, &queues] {
        line.cut();
    }
    wait_until("it is told", || console.status("GET", &address, "") == 503);
    assert_eq!(console.status("GET", &address, ""), 503, "and not only once");
    for line in [&store, &queues] {
        line.mend();
    }
    wait_until("it has what it needs again", || console.ask("GET", &address, "").contains("id=\"needs\""));
}

/// A tab that shows all of it gets nothing, and one more row is all that is new.
#[test]
fn a_page_that_keeps_up_gets_what_changed() {
    let stack = Stack::with(0, 1);
    let console = Opened::of_dev(&stack);
    let now = console.ask("GET", "/", "");
    let mut address = next(&now);
    wait_until("nothing changes any more", || {
        let answer = console.ask("GET", &address, "");
        let is_empty = answer.starts_with("HTTP/1.1 204");
        if !is_empty {
            address = next(&answer);
        }
        is_empty
    });
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "evt_later"]).exits(0);
    let mut changed = String::new();
    wait_until("it has a row more", || {
        changed = console.ask("GET", &address, "");
        changed.contains("evt_later")
    });
    assert_eq!(changed.matches("<tr class=\"new\">").count(), 1, "{changed}");
    assert!(changed.contains("evt_0"), "the list is whole: {changed}");
    wait_until("the endpoints follow", || {
        let answer = console.ask("GET", &address, "");
        answer.contains("id=\"endpoints\"") && answer.contains("data-title=\"1 thing needs you · hookonce\"")
    });
}

#[test]
fn a_page_of_the_stack_on_this_machine_takes_at_most_100_calls_too() {
    let stack = Stack::with(1, 1);
    let console = Opened::of_dev(&stack);
    let listed = ["/records", "/records?since=35d&type=invoice.paid", "/records?state=DEAD", "/records?kind=effect"];
    for target in listed.into_iter().chain(["/", "/records/stripe/evt_0", "/find?key=nobody"]) {
        let page = console.ask("GET", target, "");
        let (calls, units) = (cost(&page, " calls · "), cost(&page, " read unit"));
        assert!((1..=100).contains(&calls) && units <= 2_100, "{target}: {calls} calls, {units} read units");
    }
    let record = console.ask("GET", "/records/stripe/evt_0", "");
    assert!(record.contains("#dk#stripe#payments#") && record.contains("No plan is stored"), "{record}");
    let listed = console.ask("GET", "/records", "");
    assert!(listed.contains("evt_0") && listed.contains("Look further back"), "{listed}");
}

/// No function says what a person did since.
#[test]
fn a_record_that_a_person_discarded_is_not_dead_on_the_first_page() {
    let stack = Stack::with(0, 1);
    let console = Opened::of_dev(&stack);
    let is_dead = || console.ask("GET", "/", "").contains("✕</span> dead</span>");
    wait_until("it is shown as dead", is_dead);
    stack.run(&["discard", "--state", "DEAD", "--reason", "a test", "--by", "ada", "--yes", "1"]).exits(0);
    wait_until("it is shown as discarded", || !is_dead());
}

/// A cookie and an origin let a page of this console in. Its forms also hold a token, each for its own order.
#[test]
fn a_form_that_sends_or_stops_needs_the_token_of_its_own_page() {
    let stack = Stack::with(0, 60);
    let console = Opened::of_dev(&stack);
    let form = field(&console.ask("GET", "/send", ""), "token");
    let dry_run = console.ask("GET", DRY_RUN, "");
    let [until, token, name] = ["ended-until", "token", "dry-run"].map(|it| field(&dry_run, it));
    let event = "event=stripe/stripe.invoice.paid";
    for wrong in [event.to_owned(), format!("{event}&token={token}"), format!("{event}&token=00")] {
        assert_eq!(console.status("POST", "/send", &wrong), 400, "{wrong}");
    }
    for odd in ["signature=odd", "copies=99", "copies=0", "copies=x"] {
        assert_eq!(console.status("POST", "/send", &format!("{event}&token={form}&{odd}")), 400, "{odd}");
    }
    assert_eq!(stack.list("APPLIED").len(), 0);
    assert_eq!(console.status("POST", "/send", &format!("{event}&token={form}")), 303);
    let order =
        format!("operation=retry&state=DEAD&ended-until={until}&agreed=60&token={token}&dry-run={name}&reason=");
    for nobody in ["&by=ada", "%20&by=ada", "mended&by=", "mended&by=%20"] {
        assert_eq!(console.status("POST", "/orders", &format!("{order}{nobody}")), 400, "{nobody}");
    }
    assert_eq!(console.status("POST", "/orders", &format!("{order}mended&by=ada")), 303);
    let stop = field(&console.ask("GET", "/orders/1", ""), "token");
    for wrong in ["", "token=00", &format!("token={form}"), &format!("token={token}")] {
        assert_eq!(console.status("POST", "/orders/1/stop", wrong), 400, "{wrong}");
    }
    wait_until("it has begun", || !console.ask("GET", "/orders/1", "").contains("Replay: 0 of"));
    assert_eq!(console.status("POST", "/orders/1/stop", &format!("token={stop}")), 303);
    wait_until("it ends", || !console.ask("GET", "/orders/1", "").contains("looked at"));
    let ended = console.ask("GET", "/orders/1", "");
    assert!(ended.contains("Replay: stopped"), "{ended}");
    // Those that were replayed die again: the rest is what had died before.
    let (_, rest) =
        ended.split_once("Go on: dry run of the rest").map(|(before, _)| before.rsplit_once("<a").unwrap()).unwrap();
    assert!(rest.contains("&amp;ended-until=") && rest.contains(&until.replace(':', "%3A")), "{rest}");
}

#[test]
fn a_deployed_stack_has_its_day_once_somebody_asks_and_is_asked_once_a_minute() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let at = ((now() - 3_600) * 1_000).to_string();
    {
        let mut account = deployed.aws.account();
        account.put("endpoint", "stripe", r#"{"provider": "github", "secrets": ["0123456789abcdef"]}"#);
        let text = |text: &str| text.to_owned();
        account.logged = vec![
            vec![
                ("endpoint", text("stripe")),
                ("answer", text("none")),
                ("accepted", text("1234")),
                ("last_accepted", at.clone()),
                ("last", at.clone()),
            ],
            vec![
                ("endpoint", text("stripe")),
                ("answer", text("signature_mismatch")),
                ("requests", text("56")),
                ("last", at),
            ],
        ];
        account.series.insert(("worker", "event_applied"), 7_890.0);
        account.series.insert(("webhook", "delivery_duration_ms"), 12.4);
    }
    let counted = || ["StartQuery", "GetMetricData"].map(|operation| deployed.aws.account().count(operation));
    let console = Opened::of(&deployed, &[]);
    let now = console.ask("GET", "/", "");
    assert!(now.contains("Ask CloudWatch for the last 24 hours") && !now.contains("Last accepted"), "{now}");
    let before = counted();
    assert_eq!(before[0], 0);
    for _ in 0..2 {
        let day = console.ask("GET", "/?day=1", "");
        for part in [
            "1,234",
            "56",
            "signature_mismatch",
            "In 24 hours 1234 accepted, 0 duplicate, 56 refused",
            "7,890",
            "<td class=\"num\">12</td>",
        ] {
            assert!(day.contains(part), "{part}: {day}");
        }
    }
    assert_eq!(counted()[0], 1);
    console.stop();
}

/// It takes a search in a log, which is billed: so it is known once somebody asks, and stays on pages that keep up.
#[test]
fn a_deployed_stack_has_its_silent_endpoints_once_somebody_asks() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let expecting = r#"{"provider": "github", "secrets": ["0123456789abcdef"], "expect_every": "26h"}"#;
    deployed.aws.account().put("endpoint", "shop", expecting);
    deployed.aws.account().age("endpoint", "shop", 400_000);
    let silent = "the endpoint shop is silent: it expects a delivery every 1day 2h, and none came in that time";
    let console = Opened::of(&deployed, &[]);
    assert!(!console.ask("GET", "/", "").contains("is silent"));
    assert_eq!(deployed.aws.account().count("StartQuery"), 0);
    for page in ["/?day=1", "/", "/arrivals?snapshot=99"] {
        let shown = console.ask("GET", page, "");
        assert!(shown.contains(silent) && shown.contains("hookonce endpoint list"), "{page}: {shown}");
    }
    assert_eq!(deployed.aws.account().count("StartQuery"), 2, "one for the counts, one for this");
    console.stop();
}

#[test]
fn what_a_person_allowed_needs_the_agreement_of_a_dry_run() {
    let stack = Stack::with(0, 1);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &["--allow-changes"]);
    let page = console.ask("GET", DRY_RUN, "");
    let [until, token, name] = ["ended-until", "token", "dry-run"].map(|it| field(&page, it));
    let order = |operation: &str, agreed: &str| {
        format!(
            "operation={operation}&state=DEAD&ended-until={until}&agreed={agreed}&token={token}&dry-run={name}&reason=mended"
        )
    };
    for (operation, agreed) in [("discard", "1"), ("retry", "2")] {
        assert_eq!(console.status("POST", "/orders", &order(operation, agreed)), 400, "{operation} {agreed}");
    }
    assert_eq!(stack.list("DEAD").len(), 1);
    assert_eq!(console.status("POST", "/orders", &order("retry", "1")), 303);
    // The handler still cannot read it.
    wait_until("the order is done", || console.ask("GET", "/orders/1", "").contains("1 record done"));
    assert_eq!(console.status("GET", "/send", ""), 403, "events are sent to a stack on this machine alone");
    console.stop();
}

/// What nobody knows the outcome of is replayed by one who says that it was not done, on the page and by its command.
#[test]
fn a_call_that_may_have_been_made_is_replayed_for_one_who_accepts_that() {
    let routes =
        r#"{"version": 1, "otherwise": "dead", "routes": [{"name": "out", "consumer": "crm", "forward": ["crm"]}]}"#;
    let workspace = Workspace::routed(routes);
    let url = format!("http://127.0.0.1:{}/in", receiver(500));
    let document = json!({ "kind": "http", "url": url, "class": "at_most_once", "allow_private": true });
    workspace.write(".hookonce/destinations/crm.json", document.to_string().as_bytes());
    let stack = Stack::of(workspace);
    stack.run(&["trigger", "stripe.invoice.paid", "--id", "a"]).exits(0);
    wait_until("nobody knows the outcome", || stack.list("DEAD").len() == 1);
    let console = Opened::of_dev(&stack);
    let key = stack.list("DEAD")[0]["key"].as_str().unwrap().replace('#', "%23");
    let page = console.ask("GET", &format!("/records/stripe/{key}"), "");
    assert!(page.contains("It was not done: replay…") && page.contains(" --accept-duplicate"), "{page}");
    let one = format!("operation=retry&endpoint=stripe&key={key}");
    assert!(console.ask("GET", &format!("/orders/new?{one}"), "").contains("0 records would be replayed"));
    let accepting = format!("{one}&accept-duplicate=1");
    let dry_run = console.ask("GET", &format!("/orders/new?{accepting}"), "");
    assert!(dry_run.contains("1 record would be replayed") && dry_run.contains("done twice"), "{dry_run}");
    let (token, name) = (field(&dry_run, "token"), field(&dry_run, "dry-run"));
    let order = |fields: &str| format!("{fields}&agreed=1&token={token}&dry-run={name}&reason=asked&by=ada");
    assert_eq!(console.status("POST", "/orders", &order(&one)), 400, "nobody agreed to this");
    assert_eq!(console.status("POST", "/orders", &order(&accepting)), 303);
    assert_eq!(console.status("POST", "/orders", &order(&accepting)), 400, "a form that is sent twice is one order");
    wait_until("the order is done", || console.ask("GET", "/orders/1", "").contains("1 record done"));

    stack.run(&["show", "stripe", "evt_a", "--html", "story.html"]).exits(0);
    let file = std::fs::read_to_string(stack.path("story.html")).unwrap();
    for part in ["forward:crm to the destination crm", &url, "Idempotency key", "status 500"] {
        assert!(file.contains(part), "{part}: {file}");
    }
    let dry_run = console.ask("GET", "/records/stripe/evt_a?plan=1", "");
    assert!(dry_run.contains("call forward:crm to crm") && !dry_run.contains("Test case"), "{dry_run}");
    // What a person did since is what the first page shows.
    wait_until("it is called again", || stack.list("DEAD").len() == 1);
    let key = stack.list("DEAD")[0]["key"].as_str().unwrap().to_owned();
    stack.run(&["discard", "--key", "stripe", &key, "--by", "ada", "--reason", "not needed", "--yes"]).exits(0);
    wait_until("it is shown as discarded", || console.ask("GET", "/", "").contains("discarded"));
}

#[test]
fn ctrl_c_ends_a_running_order_between_two_records_and_says_how_far_it_came() {
    let stack = Stack::with(0, 60);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &["--allow-changes"]);
    let page = console.ask("GET", DRY_RUN, "");
    let [until, token, name] = ["ended-until", "token", "dry-run"].map(|it| field(&page, it));
    let order =
        format!("operation=retry&state=DEAD&ended-until={until}&agreed=60&token={token}&dry-run={name}&reason=mended");
    assert_eq!(console.status("POST", "/orders", &order), 303);
    assert!(console.ask("GET", "/records?state=APPLIED", "").contains("Look at order 1"));
    let printed = text(&console.stop());
    assert!(printed.contains("order 1 of the console: Replay: stopped"), "{printed}");
}

/// An order says how many records it changes, so its dry run has to read all of them: it says so, and what that cost.
#[test]
fn a_dry_run_shows_its_cost_and_that_it_read_everything() {
    let stack = Stack::with(0, 3);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &["--allow-changes"]);
    let page = console.ask("GET", DRY_RUN, "");
    assert!(page.contains("read every record that the filter finds"), "{page}");
    assert!(cost(&page, " calls · ") >= 16 && cost(&page, " read units") >= 3, "{page}");
    console.stop();
}

#[test]
fn a_record_shows_why_its_route_takes_it_also_where_nothing_may_be_changed() {
    let stack = Stack::with(1, 0);
    let deployed = Deployed::of(&stack, &[]);
    let refunds = r#"{"name": "refunds", "types": ["charge.refunded"], "ignore": true}"#;
    let rest = r#"{"name": "rest", "ignore": true}"#;
    let set = format!(r#"{{"version": 1, "otherwise": "dead", "routes": [{refunds}, {rest}]}}"#);
    deployed.aws.account().put("routes", "set", &set);
    let console = Opened::of(&deployed, &[]);
    let record = console.ask("GET", "/records/stripe/evt_0", "");
    for part in ["Today&#39;s routes", "is not for the type invoice.paid", "takes it"] {
        assert!(record.replace("Today's", "Today&#39;s").contains(part), "{part}: {record}");
    }
    assert!(!record.contains("Plan today"), "no handler is asked: {record}");
    deployed.aws.account().put("routes", "set", "{");
    let unknown = console.ask("GET", "/records/stripe/evt_0", "");
    assert!(unknown.contains("Not known") && unknown.contains("evt_0"), "{unknown}");
    console.stop();
    stack.run(&["show", "stripe", "evt_0", "--html", "story.html"]).exits(0);
    let file = std::fs::read_to_string(stack.path("story.html")).unwrap();
    assert!(file.contains("Today's routes") && file.contains("takes it"), "{file}");
}

#[test]
fn what_is_counted_on_a_page_of_many_is_of_those_shown_and_the_buttons_know_all() {
    let stack = Stack::with(0, 60);
    let deployed = Deployed::of(&stack, &[]);
    let console = Opened::of(&deployed, &["--allow-changes"]);
    let dead = console.ask("GET", "/records?state=DEAD", "");
    for part in ["of the 50 shown", "Replay 60…", "Discard 60…"] {
        assert!(dead.contains(part), "{part}: {dead}");
    }
    let part = console.ask("GET", "/records?state=DEAD&endpoint=stripe", "");
    assert!(part.contains("Replay…") && part.contains("of the 50 shown"), "the index does not count these: {part}");
    assert!(console.ask("GET", "/", "").contains("Replay…"));
    console.stop();
}

#[test]
fn what_people_call_a_fact_finds_the_record_that_applied_it() {
    let stack = Stack::with(2, 0);
    let console = Opened::of_dev(&stack);
    for key in ["in_1", "evt_1"] {
        let found = console.ask("GET", &format!("/find?key={key}"), "");
        assert!(found.contains("303 See Other") && found.contains("/records/stripe/evt_1"), "{found}");
    }
    let missing = console.ask("GET", "/find?key=in_7", "");
    assert!(
        missing.contains("404 Not Found") && missing.contains("No record has the key or the fact in_7"),
        "{missing}"
    );
}

#[test]
fn why_an_endpoint_refuses_is_one_click_from_what_needs_a_person() {
    let stack = Stack::new();
    for _ in 0..3 {
        let forged = ["trigger", "stripe.invoice.paid", "--secret", "-"];
        stack.run_with_input(&forged, "whsec_another_secret_of_enough_bytes").exits(1);
    }
    let console = Opened::of_dev(&stack);
    wait_until("the need", || {
        console.ask("GET", "/arrivals?snapshot=99", "").contains("href=\"refused?endpoint=stripe\"")
    });
    let page = console.ask("GET", "/refused?endpoint=stripe", "");
    for part in ["The latest refusal at stripe", "No secret matches", "stripe-signature"] {
        assert!(page.contains(part), "lacks {part}: {page}");
    }
    assert!(!page.contains("whsec_"), "{page}");
    assert!(console.ask("GET", "/refused?endpoint=github", "").contains("refused request of github is kept"));
    let strange = console.ask("GET", "/refused?endpoint=%3Cscript%3E", "");
    assert!(strange.starts_with("HTTP/1.1 4") && !strange.contains("<script>"), "{strange}");
}
