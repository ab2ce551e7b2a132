//! Commands on tables of 100,000 records: how much they read, and how much they hold.
//!
//! The records are made when they are read, each from one that a running stack wrote, so that none has to be stored.

use std::collections::BTreeMap;
use std::process::Output;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use hookonce_protocol::record::journal_shard;
use hookonce_protocol::time::EpochMs;
use serde_json::{Value, json as object};

use crate::aws::{Request, answering, now};
use crate::outages::Line;
use crate::stacks::{Stack, Tables, as_json, summary};
use crate::support::{Ended, PATIENCE, Workspace, json, text};

const RECORDS: usize = 100_000;
const SHARDS: u16 = 16;

/// The records came over six hours, one each so many milliseconds.
fn step(records: usize) -> i64 {
    6 * 3_600_000 / i64::try_from(records).unwrap()
}

/// How long a read that must not come is waited for.
const ONE_MORE: Duration = Duration::from_millis(500);

/// Holds the reads of an index back until so many are in flight, and keeps the most that ever were.
#[derive(Default)]
struct InFlight {
    /// How many must be in flight at one moment before any is answered. None by default.
    wanted: usize,
    /// How many are now, the most that were, and whether nobody waits for one more.
    reads: Mutex<(usize, usize, bool)>,
    changed: Condvar,
}

impl InFlight {
    fn read<T>(&self, answer: impl FnOnce() -> T) -> T {
        let mut reads = self.reads.lock().unwrap();
        reads.0 += 1;
        reads.1 = reads.1.max(reads.0);
        self.changed.notify_all();
        let too_few = |(_, most, _): &mut (usize, usize, bool)| *most < self.wanted;
        let (reads, _) = self.changed.wait_timeout_while(reads, PATIENCE, too_few).unwrap();
        let one_more = |(_, most, over): &mut (usize, usize, bool)| *most == self.wanted && !*over;
        let (mut reads, _) = self.changed.wait_timeout_while(reads, ONE_MORE, one_more).unwrap();
        reads.2 = true;
        reads.0 -= 1;
        self.changed.notify_all();
        drop(reads);
        answer()
    }

    fn most(&self) -> usize {
        self.reads.lock().unwrap().1
    }
}

/// Two tables with many records that are alike, served on loopback.
struct Many {
    records: usize,
    /// An applied record and its domain key, as text in which `evt_0` and `in_0` name it.
    record: String,
    domain_key: String,
    begin: i64,
    /// Whether one record of each thousand is of the endpoint `few`. All others are of `stripe`.
    has_few: bool,
    /// The numbers of the records in each partition of the journal, the latest last.
    journal: BTreeMap<String, Vec<usize>>,
    /// The reads of the index of due records, or of the hours of the journal before the two last ones.
    in_flight: InFlight,
    /// The process of the command, and the most memory that it has had, in KB.
    process: AtomicU32,
    memory_kb: AtomicU64,
}

impl Many {
    fn of(stack: &Stack, records: usize) -> Self {
        let tables = Tables::of(stack);
        let record = as_json(&tables.items(&tables.inbox)[0]).to_string();
        let keys = tables.items(&tables.domain);
        let domain_key = keys.iter().find(|item| item.contains_key("record")).map(|item| as_json(item).to_string());
        let begin = i64::try_from(now()).unwrap() * 1_000 - 6 * 3_600_000;
        let mut journal = BTreeMap::<_, Vec<_>>::new();
        for number in 0..records {
            let at = EpochMs(begin + i64::try_from(number).unwrap() * step(records));
            let shard = u16::try_from(number % usize::from(SHARDS)).unwrap();
            journal.entry(journal_shard(at, shard)).or_default().push(number);
        }
        let domain_key = domain_key.unwrap();
        let (process, memory_kb, in_flight) = (AtomicU32::new(0), AtomicU64::new(0), InFlight::default());
        Self { records, record, domain_key, begin, has_few: false, journal, in_flight, process, memory_kb }
    }

    fn answer(&self, request: &Request) -> String {
        let operation = request.operation();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let answer = match operation {
            "Query" if is_early(&body) => self.in_flight.read(|| self.query(&body)),
            "Query" => self.query(&body),
            "GetQueueAttributes" => object!({ "Attributes": {} }),
            // Nothing is paused.
            "BatchGetItem" if body["RequestItems"]["domain"].is_object() => object!({ "Responses": {} }),
            "BatchGetItem" => self.batch(&body),
            "Scan" => return self.scan(&body),
            "DescribeTable" => {
                object!({ "Table": { "ItemCount": self.records, "TableSizeBytes": self.records * 1_000 } })
            }
            other => panic!("{other} is not played"),
        };
        answer.to_string()
    }

    fn query(&self, body: &Value) -> Value {
        let partition = partition(body);
        let all = self.journal.get(partition).map_or(&[][..], Vec::as_slice);
        if body["Select"] == "COUNT" {
            return object!({ "Count": all.len(), "ScannedCount": all.len() });
        }
        let limit = usize::try_from(body["Limit"].as_u64().unwrap()).unwrap();
        let after = body["ExclusiveStartKey"]["pk"]["S"].as_str().map(number);
        let rest: Vec<_> = all.iter().rev().filter(|number| after.is_none_or(|after| **number < after)).collect();
        let entry =
            |number: usize| object!({ "pk": { "S": self.pk(number) }, "received_at": self.received_at(number) });
        let items: Vec<_> = rest.iter().take(limit).map(|number| entry(**number)).collect();
        let last = if rest.len() > limit { items.last() } else { None };
        object!({ "Items": items, "Count": items.len(), "ScannedCount": items.len(), "LastEvaluatedKey": last })
    }

    fn received(&self, number: usize) -> Value {
        let mut item = item(number, &self.record);
        item["pk"] = object!({ "S": self.pk(number) });
        item["received_at"] = self.received_at(number);
        item
    }

    fn received_at(&self, number: usize) -> Value {
        object!({ "N": (self.begin + i64::try_from(number).unwrap() * step(self.records)).to_string() })
    }

    fn pk(&self, number: usize) -> String {
        let endpoint = if self.has_few && number % 1_000 == 7 { "few" } else { "stripe" };
        format!("in#{endpoint}#evt_{number}")
    }

    fn batch(&self, body: &Value) -> Value {
        let (table, table_request) = body["RequestItems"].as_object().unwrap().iter().next().unwrap();
        let numbers =
            table_request["Keys"].as_array().unwrap().iter().map(|key| number(key["pk"]["S"].as_str().unwrap()));
        let items: Vec<_> = numbers.map(|number| self.received(number)).collect();
        object!({ "Responses": { table.as_str(): items }, "UnprocessedKeys": {} })
    }

    /// A page, as text: to read and write each item again would take most of a test's time.
    fn scan(&self, body: &Value) -> String {
        let is_inbox = body["TableName"] == "inbox";
        let template = if is_inbox { &self.record } else { &self.domain_key };
        let after = body["ExclusiveStartKey"]["pk"]["S"].as_str().map(|key| number(key) + 1).unwrap_or_default();
        let until = (after + usize::try_from(body["Limit"].as_u64().unwrap()).unwrap()).min(self.records);
        let items: Vec<_> = (after..until).map(|number| item_text(number, template)).collect();
        let (count, items) = (items.len(), items.join(","));
        let page = format!(r#""Items":[{items}],"Count":{count},"ScannedCount":{count}"#);
        if until == self.records {
            self.weigh();
            return format!("{{{page}}}");
        }
        let last = object!({ "pk": item(until - 1, template)["pk"] });
        format!(r#"{{{page},"LastEvaluatedKey":{last}}}"#)
    }

    /// Reads how much memory the command has had.
    fn weigh(&self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.load(Ordering::SeqCst)));
        let peak = status.ok().and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmHWM"))?.to_owned();
            line.split_whitespace().nth(1)?.parse().ok()
        });
        self.memory_kb.fetch_max(peak.unwrap_or(0), Ordering::SeqCst);
    }
}

/// The partition of an index that a query reads.
fn partition(query: &Value) -> &str {
    let values = &query["ExpressionAttributeValues"];
    [":partition", ":shard"].iter().find_map(|name| values[name]["S"].as_str()).unwrap()
}

/// Whether a query reads another index than the journal, or an hour of it before the two last ones.
fn is_early(query: &Value) -> bool {
    let hour = partition(query).split('#').next().unwrap().parse::<u64>();
    hour.map_or(true, |hour| hour + 1 < now() / 3_600)
}

/// What stands for a record in place of `evt_0`.
fn item(number: usize, template: &str) -> Value {
    serde_json::from_str(&item_text(number, template)).unwrap()
}

fn item_text(number: usize, template: &str) -> String {
    template.replace("evt_0", &format!("evt_{number}")).replace("in_0", &format!("in_{number}"))
}

/// The number at the end of a key.
fn number(key: &str) -> usize {
    key.rsplit('_').next().unwrap().parse().unwrap()
}

/// A folder in which commands find these tables.
fn workspace_of(many: &Arc<Many>) -> Workspace {
    let (served, workspace) = (Arc::clone(many), Workspace::new());
    let url = format!("http://key@{}", answering(move |request| served.answer(request)));
    let state = object!({
        "url": url, "public_url": null, "console_url": url, "dynamodb_url": url, "sqs_url": url, "queue_url": url,
        "slow_queue_url": url, "effects_queue_url": url, "inbox_table": "inbox",
        "domain_table": "domain", "tables": {}, "pid": 1, "version": env!("CARGO_PKG_VERSION"),
    });
    std::fs::create_dir_all(workspace.path(".hookonce/endpoints")).unwrap();
    std::fs::write(workspace.path(".hookonce/stack.json"), state.to_string()).unwrap();
    workspace
}

/// Runs a command on tables with this many records.
fn run(template: &Stack, records: usize, arguments: &[&str]) -> (Output, Arc<Many>) {
    let many = Arc::new(Many::of(template, records));
    let workspace = workspace_of(&many);
    let child = workspace.start_with_environment(arguments, &[]);
    many.process.store(child.id(), Ordering::SeqCst);
    (child.wait_with_output().unwrap(), many)
}

/// At most two hours are read, each in all its partitions: one page of the index, and the records that it names.
#[test]
fn the_first_page_of_a_list_takes_a_few_reads_of_a_server_that_has_many_records() {
    const STORED: usize = 2_000;
    let stack = Stack::with(1, 0);
    let tables = Tables::of(&stack);
    tables.copy("in#stripe#evt_0", STORED, |index, item| {
        let hour = item["journal_shard"].as_s().unwrap().split_once('#').unwrap().0;
        let shard = AttributeValue::S(format!("{hour}#{}", index % usize::from(SHARDS)));
        item.insert("journal_shard".to_owned(), shard);
    });
    let (mut state, looking) = (stack.announced(), Workspace::new());
    let line = Line::to(state["dynamodb_url"].as_str().unwrap());
    state["dynamodb_url"] = object!(line.url);
    std::fs::create_dir(looking.path(".hookonce")).unwrap();
    looking.write(".hookonce/stack.json", state.to_string().as_bytes());
    let listed = looking.run(&["list", "--json"]);
    assert_eq!(json(&listed).as_array().map(Vec::len), Some(50), "{}", text(&listed));
    let calls = line.calls();
    println!("calls for the first page of {STORED} stored records: {calls}");
    // The shards of one more hour are asked if it began meanwhile.
    assert!((2..=5 * usize::from(SHARDS)).contains(&calls), "{calls}");
}

/// A stack with many shards must not take minutes to look at, and must not be flooded either.
#[test]
fn shards_are_read_side_by_side_and_never_more_than_a_few() {
    let template = Stack::with(1, 0);
    // The status asks about four states of each shard, eight shards at a time.
    for (command, at_once) in [("status", 32), ("list", 32), ("stats", 32)] {
        let in_flight = InFlight { wanted: at_once, ..InFlight::default() };
        let many = Arc::new(Many { in_flight, ..Many::of(&template, 1) });
        workspace_of(&many).run(&[command, "--json"]).exits(0);
        assert_eq!(many.in_flight.most(), at_once, "{command}");
    }
}

#[test]
fn an_audit_holds_a_few_bytes_of_each_record() {
    let template = Stack::with(1, 0);
    let mut memory_kb = Vec::new();
    for records in [RECORDS / 20, RECORDS / 2] {
        let (audited, many) = run(&template, records, &["audit", "--scan", "--json", "--rate", "100000"]);
        let report = summary(&audited);
        assert_eq!((audited.status.code(), &report["records"]), (Some(0), &object!(records)), "{}", text(&audited));
        assert_eq!((&report["domain_keys"], &report["violations"]), (&object!(records), &object!(0)));
        memory_kb.push(many.memory_kb.load(Ordering::SeqCst));
    }
    println!("the most memory of an audit of 5,000 and of 50,000 records, in KB: {memory_kb:?}");
    // Eight bytes for each domain key, in a set that doubles; the records themselves would be some 50 MB.
    if cfg!(target_os = "linux") {
        assert!(memory_kb[0] > 0 && memory_kb[1].saturating_sub(memory_kb[0]) < 4 * 1_024, "{memory_kb:?}");
    }
}

/// The index has the deliveries of all endpoints. Those of one are found among far more than are its own.
#[test]
fn a_rotation_is_finished_beside_endpoints_that_have_many_deliveries() {
    let template = Stack::with(1, 0);
    // More than one rotation reads of one endpoint.
    let many = Arc::new(Many { has_few: true, ..Many::of(&template, 25_000) });
    let workspace = workspace_of(&many);
    let secrets = ["whsec_0123456789abcdef", "whsec_fedcba9876543210"];
    let rotated = |id: &str| {
        let path = workspace.path(&format!(".hookonce/endpoints/{id}.json"));
        std::fs::write(&path, object!({ "provider": "stripe", "secrets": secrets }).to_string()).unwrap();
        let before = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now() - 2 * 86_400);
        std::fs::File::options().append(true).open(path).unwrap().set_modified(before).unwrap();
        workspace.run(&["endpoint", "rotate", id, "--finish"])
    };
    rotated("quiet").prints("no delivery came for a day");
    rotated("few").exits(0).prints_all(&["25 deliveries used the newest secret", "1 older secret removed"]);
    let busy = "deliveries used the newest secret, and the rest of the day was not read: look";
    rotated("stripe").exits(1).prints(busy);
}
