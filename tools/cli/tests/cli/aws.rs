//! A stand-in for the services of an account that are no part of a local stack: Parameter Store, STS, CloudWatch,
//! Lambda, and the queues of destinations.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json as object};

use crate::support::{Workspace, listen, root};

/// Whom STS takes the caller for.
pub(crate) const CALLER: &str = "arn:aws:sts::123456789012:assumed-role/Operator/ada";

/// The KMS key of endpoints and destinations, where a stack has one.
pub(crate) const KEY: &str = "arn:aws:kms:us-east-1:123456789012:key/endpoints";

/// The largest value of a standard parameter, in bytes.
const STANDARD_BYTES_MAX: usize = 4_096;

/// The largest value of an advanced parameter, in bytes.
const ADVANCED_BYTES_MAX: usize = 8_192;

/// Credentials in the environment, and a region.
pub(crate) const SIGNED_IN: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "local"), ("AWS_SECRET_ACCESS_KEY", "local"), ("AWS_REGION", "us-east-1")];

/// One version of a parameter.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) value: String,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) is_advanced: bool,
    /// In seconds since 1970.
    pub(crate) changed_at: u64,
}

/// A request, and who signed it.
#[derive(Clone)]
pub(crate) struct Asked {
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
    /// It is carried out and the connection breaks, so the client sends it again.
    ReplyLost,
    /// Another process stores this value under the same name first.
    Overtaken(String),
    /// Another process removes the parameter first.
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
    /// All versions of each parameter, the oldest first.
    pub(crate) parameters: BTreeMap<String, Vec<Version>>,
    /// All requests.
    pub(crate) asked: Vec<Asked>,
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
    /// When the relay last ran, in seconds since 1970.
    pub(crate) relay_ran_at: Option<u64>,
    /// The age of the oldest message of a queue, in seconds, by the queue's name.
    pub(crate) oldest_messages: BTreeMap<String, u64>,
    /// How many seconds the service's clock is ahead.
    pub(crate) ahead_seconds: u64,
}

#[expect(clippy::disallowed_methods, reason = "a stand-in has a clock of its own")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Account {
    /// Stores a value as a person would with the AWS command line.
    pub(crate) fn put(&mut self, name: &str, value: &str) {
        let version = Version {
            value: value.to_owned(),
            kind: "SecureString".to_owned(),
            key: None,
            is_advanced: false,
            changed_at: now(),
        };
        self.parameters.entry(name.to_owned()).or_default().push(version);
    }

    /// The newest value of a parameter.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        Some(self.parameters.get(name)?.last()?.value.as_str())
    }

    /// How many requests of an operation came.
    pub(crate) fn count(&self, operation: &str) -> usize {
        self.asked.iter().filter(|asked| asked.operation == operation).count()
    }

    fn get(&self, body: &Value) -> Result<Value, &'static str> {
        let named = body["Name"].as_str().unwrap();
        let (name, version) = named.split_once(':').unwrap_or((named, ""));
        let versions = self.parameters.get(name).ok_or("ParameterNotFound")?;
        let number = version.parse().unwrap_or(versions.len());
        let version = versions.get(number - 1).ok_or("ParameterVersionNotFound")?;
        Ok(object!({ "Parameter": described(name, version, number) }))
    }

    fn put_parameter(&mut self, body: &Value) -> Result<Value, &'static str> {
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let (name, value) = (text("Name").unwrap(), text("Value").unwrap());
        let is_advanced = text("Tier").as_deref() == Some("Advanced");
        if value.len() > if is_advanced { ADVANCED_BYTES_MAX } else { STANDARD_BYTES_MAX } {
            return Err("ValidationException");
        }
        let versions = self.parameters.entry(name).or_default();
        if versions.last().is_some_and(|last| last.is_advanced) && !is_advanced {
            return Err("ValidationException: This parameter uses the advanced-parameter tier.");
        }
        if !versions.is_empty() && body["Overwrite"] != true {
            return Err("ParameterAlreadyExists");
        }
        let kind = text("Type").or_else(|| Some(versions.last()?.kind.clone())).unwrap();
        versions.push(Version { value, kind, key: text("KeyId"), is_advanced, changed_at: now() });
        Ok(object!({ "Version": versions.len(), "Tier": "Standard" }))
    }

    fn by_path(&self, body: &Value) -> Value {
        let path = format!("{}/", body["Path"].as_str().unwrap().trim_end_matches('/'));
        let from = body["NextToken"].as_str().map_or(0, |token| token.parse().unwrap());
        let below = |name: &&String| name.strip_prefix(&path).is_some_and(|rest| !rest.contains('/'));
        let names: Vec<_> = self.parameters.keys().filter(below).collect();
        let page = usize::try_from(body["MaxResults"].as_u64().unwrap_or(10)).unwrap().min(10);
        let describe = |name: &&String| {
            let versions = &self.parameters[*name];
            described(name, versions.last().unwrap(), versions.len())
        };
        let shown: Vec<_> = names.iter().skip(from).take(page).map(describe).collect();
        let next = (from + page < names.len()).then(|| (from + page).to_string());
        object!({ "Parameters": shown, "NextToken": next })
    }

    fn ssm(&mut self, operation: &str, body: &Value) -> Result<Value, &'static str> {
        match operation {
            "GetParameter" => self.get(body),
            "PutParameter" => self.put_parameter(body),
            "GetParametersByPath" => Ok(self.by_path(body)),
            "GetParameters" => {
                let names: Vec<_> = body["Names"].as_array().unwrap().iter().collect();
                let (found, missing): (Vec<_>, Vec<_>) =
                    names.into_iter().partition(|name| self.parameters.contains_key(name.as_str().unwrap()));
                let parameter = |name: &Value| self.get(&object!({ "Name": name })).unwrap()["Parameter"].clone();
                let found: Vec<_> = found.into_iter().map(parameter).collect();
                Ok(object!({ "Parameters": found, "InvalidParameters": missing }))
            }
            "DeleteParameter" => {
                let gone = self.parameters.remove(body["Name"].as_str().unwrap());
                gone.map(|_| object!({})).ok_or("ParameterNotFound")
            }
            other => panic!("{other} is not played"),
        }
    }

    fn lambda(&mut self, operation: &str, function: &str, body: &Value) -> (&'static str, String) {
        if operation == "ListEventSourceMappings" {
            let state = if self.off == Some(function) { "Disabled" } else { "Enabled" };
            let mappings = [("0", "Enabled"), ("1", state)].map(|(number, usual)| {
                let uuid = format!("{function}-{number}");
                let state = self.switched.get(&uuid).copied().unwrap_or(usual);
                // It takes Lambda a while.
                match state {
                    "Disabling" => self.switched.insert(uuid.clone(), "Disabled"),
                    "Enabling" => self.switched.insert(uuid.clone(), "Enabled"),
                    _ => None,
                };
                object!({ "UUID": uuid, "State": state })
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
        ("200 OK", object!({ "FunctionName": function, "LastModified": at, "CodeSha256": hash }).to_string())
    }

    fn cloudwatch(&self, operation: &str, body: &Value) -> Value {
        match operation {
            "DescribeAlarms" => {
                let prefix = body["AlarmNamePrefix"].as_str().unwrap();
                assert_eq!(body, &object!({ "AlarmNamePrefix": prefix, "MaxRecords": 100 }));
                let alarm = |alarm: &Alarm| {
                    object!({
                        "AlarmName": alarm.name, "AlarmDescription": alarm.description, "ActionsEnabled": true,
                        "AlarmActions": alarm.actions, "StateValue": if alarm.is_raised { "ALARM" } else { "OK" },
                        "StateTransitionedTimestamp": now() - 630,
                    })
                };
                let found = self.alarms.iter().filter(|alarm| alarm.name.starts_with(prefix));
                object!({ "MetricAlarms": found.map(alarm).collect::<Vec<_>>() })
            }
            "GetMetricStatistics" => {
                let of = &body["Dimensions"][0];
                let points: Vec<Value> =
                    match (body["Namespace"].as_str().unwrap(), body["MetricName"].as_str().unwrap()) {
                        ("hookonce/inbox", "relay_due") => {
                            assert_eq!(of, &object!({ "Name": "function", "Value": "relay" }));
                            self.relay_ran_at
                                .map(|at| object!({ "Timestamp": at, "SampleCount": 1.0 }))
                                .into_iter()
                                .collect()
                        }
                        ("AWS/SQS", "ApproximateAgeOfOldestMessage") => {
                            assert_eq!(of["Name"], "QueueName");
                            let age = self.oldest_messages.get(of["Value"].as_str().unwrap());
                            let point = |age: &u64, before| object!({ "Timestamp": now() - before, "Maximum": age });
                            // In no order, as CloudWatch has them.
                            age.into_iter().flat_map(|age| [point(age, 60), point(&0, 120)]).collect()
                        }
                        other => panic!("{other:?} is not played"),
                    };
                object!({ "Datapoints": points })
            }
            other => panic!("{other} is not played"),
        }
    }
}

/// Where Lambda lists the event sources of a function.
const MAPPINGS: &str = "/2015-03-31/event-source-mappings/?FunctionName=";

/// Where Lambda changes an event source.
const MAPPING: &str = "/2015-03-31/event-source-mappings/";

/// The operation that a request to Lambda is for, and its function, or its event source.
fn function_asked(path: &str) -> Option<(&'static str, String)> {
    let of_path = |end| path.strip_prefix("/2015-03-31/functions/")?.strip_suffix(end);
    let (operation, name) = (path.strip_prefix(MAPPINGS).map(|name| ("ListEventSourceMappings", name)))
        .or_else(|| Some(("GetFunctionConfiguration", of_path("/configuration")?)))
        .or_else(|| Some(("Invoke", of_path("/invocations")?)))
        .or_else(|| Some(("UpdateEventSourceMapping", path.strip_prefix(MAPPING)?)))?;
    Some((operation, name.replace("%3A", ":").replace("%24", "$")))
}

/// The ids that SQS gives to a message, and Lambda to an invocation.
pub(crate) const MESSAGE_ID: &str = "5fea7756-0ea4-451a-a703-a558b933e274";
pub(crate) const REQUEST_ID: &str = "b7c1a0f2-6b1a-4a7e-9d0e-1f2a3b4c5d6e";
const INVOKED: &str = "202 Accepted\r\nx-amzn-requestid: b7c1a0f2-6b1a-4a7e-9d0e-1f2a3b4c5d6e";

fn described(name: &str, version: &Version, number: usize) -> Value {
    object!({
        "Name": name, "Type": version.kind, "Value": version.value, "Version": number,
        "LastModifiedDate": version.changed_at,
    })
}

/// The stand-in, served on loopback.
pub(crate) struct Aws {
    pub(crate) url: String,
    account: Arc<Mutex<Account>>,
}

impl Aws {
    /// An account without parameters.
    pub(crate) fn start() -> Self {
        let account = Arc::<Mutex<Account>>::default();
        let served = Arc::clone(&account);
        let address = listen(move |stream| answer(&mut BufReader::new(stream), &served));
        Self { url: format!("http://{address}"), account }
    }

    /// An account with a stack that is called `inbox`.
    pub(crate) fn with_stack(outputs: &str) -> Self {
        let aws = Self::start();
        aws.account().put("/hookonce/inbox/outputs", outputs);
        aws.account().functions.extend(["inbox-webhook", "inbox-worker", "inbox-relay", "inbox-dispatcher"]);
        let alarm = Alarm::new("hookonce/inbox/page/RecordsDied", "See docs/runbook.md#records-died", false);
        aws.account().alarms.push(alarm);
        aws
    }

    /// An account in which the stack that runs in a folder is called `inbox`, with these parts of its own. Returns the
    /// environment of the commands on it, too.
    pub(crate) fn of_running(workspace: &Workspace, parts: &[(&str, &str)]) -> (Self, Vec<(String, String)>) {
        let running = workspace.environment();
        let aws = Self::with_stack(&outputs_of(&running, parts));
        let variables = [running, aws.environment(&[])].concat();
        (aws, variables)
    }

    /// An account that refuses every request to Parameter Store.
    pub(crate) fn refusing(code: &'static str) -> Self {
        let aws = Self::start();
        aws.account().snags.extend((0..20).map(|_| ("GetParameter", Interception::Answered(code))));
        aws
    }

    /// The account, to look at and to change.
    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// The environment that points the SDK to it, with these variables added.
    pub(crate) fn environment(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = [
            ("AWS_ENDPOINT_URL_SSM", self.url.as_str()),
            ("AWS_ENDPOINT_URL_STS", self.url.as_str()),
            ("AWS_ENDPOINT_URL_CLOUDWATCH", self.url.as_str()),
            ("AWS_ENDPOINT_URL_LAMBDA", self.url.as_str()),
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
        let aws = Aws::with_stack(&written_by_the_template(parts));
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
    path: String,
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

    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        // The client may open a connection and not use it.
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        let (mut length, mut authorization, mut target, mut invocation) =
            (0, String::new(), String::new(), String::new());
        line.clear();
        while stream.read_line(&mut line).ok()? > 2 {
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
        Some(Self { path, target, authorization, invocation, body })
    }
}

fn answer(stream: &mut BufReader<TcpStream>, account: &Mutex<Account>) {
    let Some(request) = Request::read(stream) else { return };
    let mut account = account.lock().unwrap();
    let of_function = function_asked(&request.path);
    let operation = match (request.operation(), &of_function) {
        ("", Some((operation, _))) => operation,
        ("", None) => "GetCallerIdentity",
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
        None => sent,
    };
    let is_cloudwatch = request.target.starts_with("Granite");
    let authorization = request.authorization;
    account.asked.push(Asked { operation: operation.clone(), body: body.clone(), authorization });
    let next = account.snags.iter().position(|(of, _)| *of == operation);
    let met = next.and_then(|at| account.snags.remove(at)).map(|(_, snag)| snag);
    if let Some(Interception::Overtaken(value)) = &met {
        // A version may be named behind a colon.
        account.put(body["Name"].as_str().unwrap().split(':').next().unwrap(), value);
    }
    if let Some(Interception::Removed) = &met {
        account.parameters.remove(body["Name"].as_str().unwrap());
    }
    let (status, answer) = if let Some(Interception::Answered(code)) = met {
        refusal(&operation, code)
    } else if let Some(function) = function {
        account.lambda(&operation, &function, &body)
    } else if is_cloudwatch {
        ("200 OK", account.cloudwatch(&operation, &body).to_string())
    } else if operation == "SendMessage" {
        ("200 OK", object!({ "MessageId": MESSAGE_ID }).to_string())
    } else if operation == "GetCallerIdentity" {
        let result = format!("<GetCallerIdentityResult><Arn>{CALLER}</Arn></GetCallerIdentityResult>");
        ("200 OK", format!("<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>"))
    } else {
        match account.ssm(&operation, &body) {
            Ok(answer) => ("200 OK", answer.to_string()),
            Err(code) => refusal(&operation, code),
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

/// A refusal in the form of the service. A message may follow the code.
fn refusal(operation: &str, refusal: &str) -> (&'static str, String) {
    let (code, message) = refusal.split_once(": ").unwrap_or((refusal, ""));
    if ["GetFunctionConfiguration", "Invoke", "ListEventSourceMappings", "UpdateEventSourceMapping"]
        .contains(&operation)
    {
        // As Lambda names it: in a header.
        let status = match code {
            "ResourceNotFoundException" => "404 Not Found\r\nx-amzn-errortype: ResourceNotFoundException",
            "RequestTooLargeException" => "413 -\r\nx-amzn-errortype: RequestTooLargeException",
            "AccessDenied" | "AccessDeniedException" => "403 Forbidden\r\nx-amzn-errortype: AccessDeniedException",
            other => panic!("{other} is not played"),
        };
        return (status, object!({ "Message": message }).to_string());
    }
    let answer = if operation == "GetCallerIdentity" {
        format!("<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>")
    } else {
        object!({ "__type": code, "message": message }).to_string()
    };
    ("400 Bad Request", answer)
}

/// The value that the template writes for a stack with these parts. What is not named is the template's own.
pub(crate) fn written_by_the_template(parts: &[(&str, &str)]) -> String {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let (_, resource) = template.split_once("Name: !Sub /hookonce/${AWS::StackName}/outputs").unwrap();
    let (_, value) = resource.split_once("Value: !Sub\n        - '").unwrap();
    let (value, _) = value.split_once('\'').unwrap();
    let own = [
        ("Version", env!("CARGO_PKG_VERSION")),
        ("InboxTable", "inbox"),
        ("DomainTable", "domain"),
        ("HintQueue", "http://127.0.0.1:9/queue"),
        ("SlowQueue", "http://127.0.0.1:9/slow"),
        ("EffectsQueue", "http://127.0.0.1:9/effects"),
        ("WebhookUrl", "http://127.0.0.1:9/webhooks/"),
        ("EndpointKeyArn", ""),
        ("IndexShards", "16"),
        ("IndexShardsRead", "16"),
        ("DeliveryRetentionDays", "35"),
        ("EffectRetentionDays", "95"),
        ("Tables", ""),
        ("WebhookFunction", "inbox-webhook"),
        ("WorkerFunction", "inbox-worker"),
        ("RelayFunction", "inbox-relay"),
        ("DispatcherFunction", "inbox-dispatcher"),
    ];
    parts.iter().chain(&own).fold(value.to_owned(), |value, (name, part)| value.replace(&format!("${{{name}}}"), part))
}

/// The outputs of a stack whose tables and queue are those of the running one.
pub(crate) fn outputs_of(running: &[(String, String)], more: &[(&str, &str)]) -> String {
    let value = |name: &str| running.iter().find(|(it, _)| it == name).unwrap().1.as_str();
    let own = [
        ("InboxTable", value("HOOKONCE_INBOX_TABLE")),
        ("DomainTable", value("HOOKONCE_DOMAIN_TABLE")),
        ("HintQueue", value("HOOKONCE_QUEUE_URL")),
        ("SlowQueue", value("HOOKONCE_SLOW_QUEUE_URL")),
        ("EffectsQueue", value("HOOKONCE_EFFECTS_QUEUE_URL")),
    ];
    written_by_the_template(&[more, &own[..]].concat())
}
