//! A stand-in for the services of an account that are no part of a local stack: `CloudFormation`, STS, `CloudWatch`
//! with its logs, Lambda, the queues of destinations, and the table of documents. Requests about other tables go on to the server of
//! the local stack.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::key::hex;
use hookonce_runtime::inbox::body::{compress, decompress};
use serde_json::{Value, json as object};
use sha2::{Digest as _, Sha256};

use crate::described::{
    DESCRIBING, NO_SERVER, alarms_of_the_template, description, environment_of, event_source, in_xml, refusal, relayed,
    role_of, root_of, with_policy,
};
use crate::support::{Workspace, listen, root, send_interrupt};

/// The caller's AWS identity.
pub(crate) const CALLER: &str = "arn:aws:sts::123456789012:assumed-role/Operator/ada";

/// The table of documents.
pub(crate) const DOCUMENTS_TABLE: &str = "documents";

/// How many items one page of a list has.
const PAGE: usize = 10;

/// Credentials in the environment, and a region.
pub(crate) const SIGNED_IN: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "local"), ("AWS_SECRET_ACCESS_KEY", "local"), ("AWS_REGION", "us-east-1")];

/// A request, and who signed it.
#[derive(Clone)]
pub(crate) struct ApiCall {
    pub(crate) operation: String,
    pub(crate) body: Value,
    pub(crate) authorization: String,
}

/// What a request meets in place of its usual answer, or before it. It is no fault of the proofs: a service of AWS
/// answers with a code, and others change what it keeps.
pub(crate) enum Interception {
    /// Nothing.
    Passed,
    /// It is not carried out, and answered with this code.
    Answered(&'static str),
    /// Somebody presses Ctrl-C in this process first.
    Interrupted(u32),
    /// It is carried out and the connection breaks, so the client sends it again.
    ReplyLost,
    /// Another process stores this text under the same key first.
    Overtaken(String),
    /// Another process removes the document first.
    Removed,
}

/// An alarm of CloudWatch.
pub(crate) struct Alarm {
    pub(crate) name: String,
    pub(crate) description: String,
    /// In ALARM, not in OK.
    pub(crate) is_raised: bool,
    /// What it tells.
    pub(crate) actions: Vec<&'static str>,
}

impl Alarm {
    /// An alarm that tells a topic.
    pub(crate) fn new(name: &str, description: &str, is_raised: bool) -> Self {
        let (name, description) = (name.to_owned(), description.to_owned());
        Self { name, description, is_raised, actions: vec!["arn:aws:sns:us-east-1:123456789012:hookonce-alarms"] }
    }
}

/// The account.
#[derive(Default)]
pub(crate) struct Account {
    /// The outputs and parameters of the stack `inbox`, by name. None if there is no such stack.
    pub(crate) stack: Option<BTreeMap<String, String>>,
    /// The items of the table of documents, by kind and id.
    pub(crate) documents: BTreeMap<(String, String), Value>,
    /// The server of the local stack's tables.
    tables: Option<String>,
    /// That of its queues.
    queues: Option<String>,
    /// All requests.
    pub(crate) requests: Vec<ApiCall>,
    /// What the next requests of an operation meet.
    pub(crate) snags: VecDeque<(&'static str, Interception)>,
    /// The alarms, of every stack.
    pub(crate) alarms: Vec<Alarm>,
    /// The functions of Lambda.
    pub(crate) functions: Vec<&'static str>,
    /// The function of whose event sources one is switched off.
    pub(crate) off: Option<&'static str>,
    /// The states of event sources that somebody switched.
    pub(crate) switched: BTreeMap<String, &'static str>,
    /// The account's concurrent executions. None: a thousand, as most accounts have.
    pub(crate) executions: Option<u64>,
    /// The executions that are reserved for one function.
    pub(crate) reserved: Option<(&'static str, u64)>,
    /// When the relay last ran, in seconds since 1970.
    pub(crate) relay_ran_at: Option<u64>,
    /// How many requests the gateway had in its busiest minute.
    pub(crate) requests_of_minute: Option<u64>,
    /// The age of the oldest message of a queue, in seconds, by the queue's name.
    pub(crate) oldest_messages: BTreeMap<String, u64>,
    /// What a metric of the stack adds up to each day, by function and name.
    pub(crate) sums: BTreeMap<(&'static str, &'static str), Vec<f64>>,
    /// What is not as it should be, in the words of `described`.
    pub(crate) drift: Vec<&'static str>,
    /// A variable that somebody added to the environment of the webhook function.
    pub(crate) misspelt: Option<&'static str>,
    /// What a search in a log finds: rows of fields and values.
    pub(crate) logged: Vec<Vec<(&'static str, String)>>,
    /// When an endpoint last took a delivery, in seconds since 1970, as a search in a log finds it.
    pub(crate) taken: BTreeMap<&'static str, u64>,
    /// The values of a metric that a series of it has, all in its last period, by function and name.
    pub(crate) series: BTreeMap<(&'static str, &'static str), f64>,
    /// How many requests went on to the server of the tables.
    pub(crate) relayed: usize,
    /// How many seconds the service's clock is ahead.
    pub(crate) ahead_seconds: u64,
}

#[expect(clippy::disallowed_methods, reason = "a stand-in has a clock of its own")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Account {
    /// Stores a document as another process would.
    pub(crate) fn put(&mut self, kind: &str, id: &str, text: &str) {
        let mut item =
            object!({ "kind": {"S": kind}, "id": {"S": id}, "changed_at": {"N": (now() * 1_000).to_string()} });
        if kind == "routes" {
            let stored = STANDARD.encode(compress(text.as_bytes()).unwrap());
            item["document"] = object!({ "B": stored });
            item["sha256"] = object!({ "S": hex(&Sha256::digest(text.as_bytes()).into()) });
        } else {
            item["document"] = object!({ "S": text });
        }
        self.documents.insert((kind.to_owned(), id.to_owned()), item);
    }

    /// The text of a document.
    pub(crate) fn document(&self, kind: &str, id: &str) -> Option<String> {
        let document = &self.documents.get(&(kind.to_owned(), id.to_owned()))?["document"];
        let unpacked =
            |stored: &str| String::from_utf8(decompress(&STANDARD.decode(stored).unwrap()).unwrap()).unwrap();
        document["S"].as_str().map(str::to_owned).or_else(|| document["B"].as_str().map(unpacked))
    }

    pub(crate) fn remove(&mut self, kind: &str, id: &str) {
        self.documents.remove(&(kind.to_owned(), id.to_owned()));
    }

    /// Sets when a document was changed, this long ago.
    pub(crate) fn age(&mut self, kind: &str, id: &str, seconds: u64) {
        let at = ((now() - seconds) * 1_000).to_string();
        self.documents.get_mut(&(kind.to_owned(), id.to_owned())).unwrap()["changed_at"] = object!({ "N": at });
    }

    /// The ids of all documents of a kind.
    pub(crate) fn ids(&self, kind: &str) -> Vec<String> {
        self.documents.keys().filter(|(of, _)| of == kind).map(|(_, id)| id.clone()).collect()
    }

    /// The server of the tables, for one more request.
    fn server_of_tables(&mut self) -> Option<String> {
        self.relayed += 1;
        self.tables.clone()
    }

    /// How many requests of an operation came.
    pub(crate) fn count(&self, operation: &str) -> usize {
        self.requests.iter().filter(|request| request.operation == operation).count()
    }

    /// Answers a request about the table of documents.
    fn dynamodb(&mut self, operation: &str, body: &Value) -> Result<Value, Value> {
        match operation {
            "GetItem" => {
                assert_eq!(body["ConsistentRead"], true);
                Ok(self.documents.get(&key_of(body)).map_or_else(|| object!({}), |item| object!({ "Item": item })))
            }
            "PutItem" => {
                self.check(body)?;
                self.documents.insert(key_of(body), body["Item"].clone());
                Ok(object!({}))
            }
            "DeleteItem" => {
                self.check(body)?;
                self.documents.remove(&key_of(body));
                Ok(object!({}))
            }
            "Query" => Ok(self.query(body)),
            other if DESCRIBING.contains(&other) => description(&self.drift, other, body),
            other => panic!("{other} is not played"),
        }
    }

    fn query(&self, body: &Value) -> Value {
        assert_eq!(body["ConsistentRead"], true);
        let kind = body["ExpressionAttributeValues"][":kind"]["S"].as_str().unwrap();
        let after = body["ExclusiveStartKey"]["id"]["S"].as_str().unwrap_or_default();
        let wanted = |(of, id): &&(String, String)| of == kind && id.as_str() > after;
        let keys: Vec<_> = self.documents.keys().filter(wanted).take(PAGE + 1).collect();
        let items: Vec<_> = keys.iter().take(PAGE).map(|key| &self.documents[*key]).collect();
        let mut answer = object!({ "Items": items });
        if keys.len() > PAGE {
            let (kind, id) = keys[PAGE - 1];
            answer["LastEvaluatedKey"] = object!({ "kind": {"S": kind}, "id": {"S": id} });
        }
        answer
    }

    /// The conditions of the adapter: there is no item, or an attribute has this value, or either.
    fn check(&self, body: &Value) -> Result<(), Value> {
        let (found, condition) = (self.documents.get(&key_of(body)), body["ConditionExpression"].as_str().unwrap());
        let names = &body["ExpressionAttributeNames"];
        let may_be_absent = condition.contains("attribute_not_exists(#kind)");
        let is_read = |item: &Value| {
            let version = names["#version"].as_str().map(|name| &item[name]);
            condition.contains("#version = :read") && version == Some(&body["ExpressionAttributeValues"][":read"])
        };
        if found.map_or(may_be_absent, is_read) {
            return Ok(());
        }
        let mut refused = object!({ "__type": "ConditionalCheckFailedException", "message": "" });
        if let (Some(found), "ALL_OLD") =
            (found, body["ReturnValuesOnConditionCheckFailure"].as_str().unwrap_or_default())
        {
            refused["Item"] = found.clone();
        }
        Err(refused)
    }

    /// Answers `DescribeStacks` for the only stack.
    fn described(&self, stack: &str) -> (&'static str, String) {
        let Some(values) = self.stack.as_ref().filter(|_| stack == "inbox") else {
            return refusal(DESCRIBE, &format!("ValidationError: Stack with id {stack} does not exist"));
        };
        let entry = |kind: &str, name: &str, value: &str| {
            format!("<member><{kind}Key>{name}</{kind}Key><{kind}Value>{value}</{kind}Value></member>")
        };
        let all = |kind: &str| {
            let of_kind =
                values.iter().filter(|(name, _)| PARAMETERS.contains(&name.as_str()) == (kind == "Parameter"));
            of_kind.map(|(name, value)| entry(kind, name, value)).collect::<String>()
        };
        let (outputs, parameters) = (all("Output"), all("Parameter"));
        let protection = !self.drift.contains(&"termination");
        let protection = format!("<EnableTerminationProtection>{protection}</EnableTerminationProtection>");
        let lists = format!("<Parameters>{parameters}</Parameters><Outputs>{outputs}</Outputs>");
        let stack = format!("<member>{lists}{protection}{}</member>", root_of(&self.drift));
        let result = format!("<DescribeStacksResult><Stacks>{stack}</Stacks></DescribeStacksResult>");
        ("200 OK", format!("<DescribeStacksResponse xmlns=\"http://cloudformation\">{result}</DescribeStacksResponse>"))
    }

    fn lambda(&mut self, operation: &str, function: &str, body: &Value) -> (&'static str, String) {
        if operation == "GetAccountSettings" {
            let limit = self.executions.unwrap_or(1_000);
            return ("200 OK", object!({ "AccountLimit": { "ConcurrentExecutions": limit } }).to_string());
        }
        if operation == "GetFunctionConcurrency" {
            let reserved = self.reserved.filter(|(name, _)| *name == function).map(|(_, reserved)| reserved);
            return ("200 OK", object!({ "ReservedConcurrentExecutions": reserved }).to_string());
        }
        if operation == "ListEventSourceMappings" {
            let state = if self.off == Some(function) { "Disabled" } else { "Enabled" };
            let names =
                if function.ends_with("worker") { ["QueueUrl", "SlowQueueUrl"] } else { ["EffectsQueueUrl"; 2] };
            let outputs = self.stack.clone().unwrap_or_default();
            let mappings = [("0", "Enabled", names[0]), ("1", state, names[1])].map(|(number, usual, output)| {
                let uuid = format!("{function}-{number}");
                let state = self.switched.get(&uuid).copied().unwrap_or(usual);
                // It takes Lambda a while.
                match state {
                    "Disabling" => self.switched.insert(uuid.clone(), "Disabled"),
                    "Enabling" => self.switched.insert(uuid.clone(), "Enabled"),
                    _ => None,
                };
                event_source(&self.drift, &uuid, state, outputs.get(output).map_or("", String::as_str))
            });
            return ("200 OK", object!({ "EventSourceMappings": mappings }).to_string());
        }
        if operation == "UpdateEventSourceMapping" {
            let state = if body["Enabled"].as_bool().unwrap() { "Enabling" } else { "Disabling" };
            self.switched.insert(function.to_owned(), state);
            return ("202 Accepted", object!({ "UUID": function, "State": state }).to_string());
        }
        if !self.functions.contains(&function) {
            return refusal(operation, &format!("ResourceNotFoundException: Function not found: {function}"));
        }
        if operation == "Invoke" {
            return (INVOKED, String::new());
        }
        let (hash, at) = (format!("hash-of-{function}"), "2026-11-22T14:00:00.000+0000");
        let mut environment = environment_of(&self.drift, &self.stack.clone().unwrap_or_default());
        if let Some(name) = self.misspelt.filter(|_| function == "inbox-webhook") {
            environment["Variables"][name] = "1".into();
        }
        let found = object!({ "FunctionName": function, "LastModified": at, "CodeSha256": hash, "Environment": environment, "Role": role_of(function), "Timeout": if self.drift.contains(&"timeout") { 300 } else { 60 } });
        ("200 OK", found.to_string())
    }
}

/// Where Lambda lists the event sources of a function.
const MAPPINGS: &str = "/2015-03-31/event-source-mappings/?FunctionName=";

/// Where Lambda tells what an account may have.
const SETTINGS: &str = "/2016-08-19/account-settings/";

/// Where Lambda changes an event source.
const MAPPING: &str = "/2015-03-31/event-source-mappings/";

/// The operation that a request to Lambda is for, and its function, or its event source.
fn function_called(path: &str) -> Option<(&'static str, String)> {
    let of_path = |end| path.strip_prefix("/2015-03-31/functions/")?.strip_suffix(end);
    let (operation, name) = (path.strip_prefix(MAPPINGS).map(|name| ("ListEventSourceMappings", name)))
        .or_else(|| Some(("GetFunctionConfiguration", of_path("/configuration")?)))
        .or_else(|| Some(("Invoke", of_path("/invocations")?)))
        .or_else(|| Some(("GetAccountSettings", path.strip_prefix(SETTINGS)?)))
        .or_else(|| {
            Some(("GetFunctionConcurrency", path.strip_prefix("/2019-09-30/functions/")?.strip_suffix("/concurrency")?))
        })
        .or_else(|| Some(("UpdateEventSourceMapping", path.strip_prefix(MAPPING)?)))?;
    Some((operation, name.replace("%3A", ":").replace("%24", "$")))
}

/// The ids that SQS gives to a message, and Lambda to an invocation.
pub(crate) const MESSAGE_ID: &str = "5fea7756-0ea4-451a-a703-a558b933e274";
pub(crate) const REQUEST_ID: &str = "b7c1a0f2-6b1a-4a7e-9d0e-1f2a3b4c5d6e";
const INVOKED: &str = "202 Accepted\r\nx-amzn-requestid: b7c1a0f2-6b1a-4a7e-9d0e-1f2a3b4c5d6e";

/// What `CloudFormation` tells of a stack.
pub(crate) const DESCRIBE: &str = "DescribeStacks";

/// What is no output of the stack.
const PARAMETERS: [&str; 3] = ["OperatorArn", "RequestsPerSecondMax", "Tables"];

/// Kind and id of the item that a request is about.
fn key_of(body: &Value) -> (String, String) {
    let key = if body["Item"].is_null() { &body["Key"] } else { &body["Item"] };
    let text = |name: &str| key[name]["S"].as_str().unwrap_or_default().to_owned();
    (text("kind"), text("id"))
}

/// The stand-in, served on loopback.
pub(crate) struct Aws {
    pub(crate) url: String,
    account: Arc<Mutex<Account>>,
}

impl Aws {
    /// An account without a stack.
    pub(crate) fn start() -> Self {
        let account = Arc::<Mutex<Account>>::default();
        let served = Arc::clone(&account);
        let address = listen(move |stream| answer(&mut BufReader::new(stream), &served));
        Self { url: format!("http://{address}"), account }
    }

    /// An account with a stack that is called `inbox`.
    pub(crate) fn with_stack(values: BTreeMap<String, String>) -> Self {
        let aws = Self::start();
        aws.account().stack = Some(values);
        aws.account().functions.extend(["inbox-webhook", "inbox-worker", "inbox-relay", "inbox-dispatcher"]);
        let alarms = alarms_of_the_template().into_iter();
        aws.account().alarms.extend(alarms.map(|name| Alarm::new(&name, "See docs/run/runbook.md", false)));
        aws
    }

    /// An account in which the stack that runs in a folder is called `inbox`, with these parts of its own. Returns the
    /// environment of the commands on it, too.
    pub(crate) fn of_running(workspace: &Workspace, parts: &[(&str, &str)]) -> (Self, Vec<(String, String)>) {
        let running = workspace.environment();
        let aws = Self::with_stack(outputs_of(&running, parts));
        let tables = running.iter().find(|(name, _)| name == "AWS_ENDPOINT_URL_DYNAMODB").unwrap().1.clone();
        aws.account().put("routes", "set", r#"{"version":1,"otherwise":"ignore","routes":[]}"#);
        let server = |url: &str| Some(url.trim_start_matches("http://").trim_end_matches('/').to_owned());
        aws.account().tables = server(&tables);
        aws.account().queues = server(&running.iter().find(|(name, _)| name == "AWS_ENDPOINT_URL_SQS").unwrap().1);
        let variables = [running, aws.environment(&[("AWS_ENDPOINT_URL_SQS", &aws.url)])].concat();
        (aws, variables)
    }

    /// An account that refuses to describe stacks.
    pub(crate) fn refusing(code: &'static str) -> Self {
        let aws = Self::start();
        aws.account().snags.extend((0..20).map(|_| (DESCRIBE, Interception::Answered(code))));
        aws
    }

    /// The account, to look at and to change.
    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// The environment that points the SDK to it, with these variables added.
    pub(crate) fn environment(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = [
            ("AWS_ENDPOINT_URL_CLOUDFORMATION", self.url.as_str()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.url.as_str()),
            ("AWS_ENDPOINT_URL_STS", self.url.as_str()),
            ("AWS_ENDPOINT_URL_CLOUDWATCH", self.url.as_str()),
            ("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", self.url.as_str()),
            ("AWS_ENDPOINT_URL_LAMBDA", self.url.as_str()),
            ("AWS_ENDPOINT_URL_SNS", self.url.as_str()),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_SHARED_CREDENTIALS_FILE", "none"),
            ("AWS_CONFIG_FILE", "none"),
        ];
        own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The same, signed in.
    pub(crate) fn signed_in(&self) -> Vec<(String, String)> {
        self.environment(&SIGNED_IN)
    }
}

/// An account with a stack, and a folder to run commands on it in.
pub(crate) struct Deployed {
    pub(crate) aws: Aws,
    pub(crate) workspace: Workspace,
    /// What every command begins with.
    pub(crate) word: Option<&'static str>,
    pub(crate) variables: Vec<(String, String)>,
}

impl Deployed {
    /// An empty stack with these parts, for commands that begin with the same word.
    pub(crate) fn new(word: &'static str, parts: &[(&str, &str)]) -> Self {
        let aws = Aws::with_stack(of_the_template(parts));
        let variables = aws.environment(&[&SIGNED_IN[..], &[("AWS_ENDPOINT_URL_SQS", aws.url.as_str())]].concat());
        Self { aws, workspace: Workspace::new(), word: Some(word), variables }
    }

    /// The stack that runs in another folder, with these parts of its own.
    pub(crate) fn of(running: &Workspace, parts: &[(&str, &str)]) -> Self {
        let (aws, variables) = Aws::of_running(running, parts);
        Self { aws, workspace: Workspace::new(), word: None, variables }
    }

    /// Runs a command on the stack.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let arguments = [self.word.as_slice(), arguments, &["--stack", "inbox"]].concat();
        self.workspace.run_with_environment(&arguments, &self.variables)
    }
}

/// Answers requests with JSON until the test's process ends. Returns the address.
pub(crate) fn answering(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> SocketAddr {
    listen(move |stream| {
        let mut stream = BufReader::new(stream);
        while let Some(request) = Request::read(&mut stream) {
            let answer = answer(&request);
            // In one write: the second of two small ones would wait for the other side.
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
            if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) head: Vec<u8>,
    pub(crate) path: String,
    target: String,
    authorization: String,
    invocation: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The name of the operation; empty for services that have it in the body.
    pub(crate) fn operation(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or_default()
    }

    /// Whether it is about a table that has no documents.
    fn is_of_another_table(&self) -> bool {
        let table = |body: Value| body["TableName"] == DOCUMENTS_TABLE;
        let describes = DESCRIBING.contains(&self.operation());
        self.target.starts_with("DynamoDB") && !describes && !serde_json::from_slice(&self.body).is_ok_and(table)
    }

    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        // The client may open a connection and not use it.
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut head = line.clone().into_bytes();
        let (mut length, mut authorization, mut target, mut invocation) =
            (0, String::new(), String::new(), String::new());
        line.clear();
        while stream.read_line(&mut line).ok()? > 2 {
            head.extend_from_slice(line.as_bytes());
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("authorization", value)) => value.clone_into(&mut authorization),
                Some(("x-amz-target", value)) => value.clone_into(&mut target),
                Some(("x-amz-invocation-type", value)) => value.clone_into(&mut invocation),
                Some(_) | None => {}
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some(Self { head, path, target, authorization, invocation, body })
    }
}

/// What the servers of queues and tables answer, if the request is for one of them.
fn answered_elsewhere(request: &Request, account: &Mutex<Account>) -> Option<Vec<u8>> {
    let queues = account.lock().unwrap().queues.clone().filter(|_| request.target.starts_with("AmazonSQS"));
    if let Some(server) = queues {
        let answer = relayed(request, &server);
        return Some(with_policy(&account.lock().unwrap().drift, request, &answer));
    }
    request.is_of_another_table().then(|| {
        let server = account.lock().unwrap().server_of_tables();
        server.map_or_else(|| NO_SERVER.to_vec(), |server| relayed(request, &server))
    })
}

fn answer(stream: &mut BufReader<TcpStream>, account: &Mutex<Account>) {
    let Some(request) = Request::read(stream) else { return };
    if let Some(answer) = answered_elsewhere(&request, account) {
        let _ = stream.get_mut().write_all(&answer);
        return;
    }
    let form: BTreeMap<_, _> = form_urlencoded::parse(&request.body).into_owned().collect();
    let mut account = account.lock().unwrap();
    let of_function = function_called(&request.path);
    let operation = match (request.operation(), &of_function) {
        ("", Some((operation, _))) => operation,
        ("", None) => form.get("Action").map_or("", String::as_str),
        (operation, _) => operation,
    };
    let (operation, function) = (operation.to_owned(), of_function.map(|(_, function)| function));
    let sent: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let body = match &function {
        Some(function) if operation == "Invoke" => {
            object!({ "FunctionName": function, "InvocationType": request.invocation, "Payload": sent })
        }
        Some(mapping) if operation == "UpdateEventSourceMapping" => {
            object!({ "UUID": mapping, "Enabled": sent["Enabled"] })
        }
        Some(function) => object!({ "FunctionName": function }),
        None if operation == DESCRIBE => object!({ "StackName": form["StackName"] }),
        None => sent,
    };
    let target = request.target;
    let authorization = request.authorization;
    account.requests.push(ApiCall { operation: operation.clone(), body: body.clone(), authorization });
    let next = account.snags.iter().position(|(of, _)| *of == operation);
    let met = next.and_then(|at| account.snags.remove(at)).map(|(_, snag)| snag);
    match &met {
        Some(Interception::Overtaken(value)) => {
            let (kind, id) = key_of(&body);
            account.put(&kind, &id, value);
        }
        Some(Interception::Removed) => drop(account.documents.remove(&key_of(&body))),
        Some(Interception::Interrupted(process)) => send_interrupt(*process),
        _ => {}
    }
    let (status, answer) = if let Some(Interception::Answered(code)) = met {
        refusal(&operation, code)
    } else if let Some(function) = function {
        account.lambda(&operation, &function, &body)
    } else if target.starts_with("Granite") {
        ("200 OK", account.cloudwatch(&operation, &body).to_string())
    } else if target.starts_with("Logs_") {
        ("200 OK", account.logs(&operation, &body).to_string())
    } else if operation == "SendMessage" {
        ("200 OK", object!({ "MessageId": MESSAGE_ID }).to_string())
    } else if operation == "GetCallerIdentity" {
        let result = format!("<GetCallerIdentityResult><Arn>{CALLER}</Arn></GetCallerIdentityResult>");
        ("200 OK", format!("<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>"))
    } else if operation == DESCRIBE {
        account.described(&form["StackName"])
    } else if let Some(answer) = in_xml(&account.drift, &operation) {
        answer
    } else {
        match account.dynamodb(&operation, &body) {
            Ok(answer) => ("200 OK", answer.to_string()),
            Err(refused) => ("400 Bad Request", refused.to_string()),
        }
    };
    if let Some(Interception::ReplyLost) = met {
        return;
    }
    let date = jiff::Timestamp::from_second(i64::try_from(now() + account.ahead_seconds).unwrap()).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT");
    let head = format!("HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-length: {}\r\nconnection: close", answer.len());
    let _ = stream.get_mut().write_all(format!("{head}\r\n\r\n{answer}").as_bytes());
}

/// The outputs and parameters of a stack with these parts. What is not named is the template's own.
pub(crate) fn of_the_template(parts: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = [
        ("Version", env!("CARGO_PKG_VERSION")),
        ("InboxTable", "inbox"),
        ("DomainTable", "domain"),
        ("DocumentsTable", DOCUMENTS_TABLE),
        ("QueueUrl", "http://127.0.0.1:9/queue"),
        ("SlowQueueUrl", "http://127.0.0.1:9/slow"),
        ("EffectsQueueUrl", "http://127.0.0.1:9/effects"),
        ("DeadLetterQueueUrl", "http://127.0.0.1:9/dead"),
        ("WebhookUrl", "http://127.0.0.1:9/webhooks/"),
        ("WebhookLogs", "/aws/lambda/inbox-webhook"),
        ("Tables", ""),
        ("OperatorArn", ""),
        ("RequestsPerSecondMax", "100"),
        ("Gateway", "gateway-of-inbox"),
        ("WebhookFunction", "inbox-webhook"),
        ("WorkerFunction", "inbox-worker"),
        ("RelayFunction", "inbox-relay"),
        ("DispatcherFunction", "inbox-dispatcher"),
    ];
    own.iter().chain(parts).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The stand-in has the outputs and parameters of the template, and no others.
#[test]
fn the_template_has_every_output_and_parameter_that_the_command_line_reads() {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let (parameters, outputs) = template.split_once("\nOutputs:\n").unwrap();
    for name in of_the_template(&[]).keys() {
        let section = if PARAMETERS.contains(&name.as_str()) { parameters } else { outputs };
        assert!(section.contains(&format!("\n  {name}:\n")) || section.starts_with(&format!("  {name}:\n")), "{name}");
    }
}

/// A stack of an earlier release can be read: what the command line needs of it, the template of every release has.
#[test]
fn every_release_has_each_output_that_the_command_line_reads() {
    let releases = std::fs::read_dir(root().join("tests/stored")).unwrap().map(|entry| entry.unwrap().path());
    let releases: Vec<_> = releases.filter(|path| path.is_dir()).collect();
    assert!(!releases.is_empty());
    for release in releases {
        let template = std::fs::read(release.join("template.json")).unwrap();
        let has: Vec<String> = serde_json::from_slice(&template).unwrap();
        for name in of_the_template(&[]).keys().filter(|name| !PARAMETERS.contains(&name.as_str())) {
            assert!(has.contains(&format!("output {name}")), "{}: {name}", release.display());
        }
    }
}

/// The same of a stack whose tables and queue are those of the running one.
pub(crate) fn outputs_of(running: &[(String, String)], more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let value = |name: &str| running.iter().find(|(it, _)| it == name).unwrap().1.as_str();
    let own = [
        ("InboxTable", value("HOOKONCE_INBOX_TABLE")),
        ("DomainTable", value("HOOKONCE_DOMAIN_TABLE")),
        ("QueueUrl", value("HOOKONCE_QUEUE_URL")),
        ("SlowQueueUrl", value("HOOKONCE_SLOW_QUEUE_URL")),
        ("EffectsQueueUrl", value("HOOKONCE_EFFECTS_QUEUE_URL")),
        ("DeadLetterQueueUrl", &format!("{}-dead", value("HOOKONCE_QUEUE_URL"))),
    ];
    of_the_template(&[&own[..], more].concat())
}
