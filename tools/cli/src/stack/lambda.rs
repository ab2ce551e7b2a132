//! What Lambda knows of functions: whether one exists, what code runs, and whether the queues reach those that take
//! messages.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use error_reporter::Report;
use futures::future::{try_join_all, try_join3};
use hookonce_aws::SignedService;
use hookonce_protocol::time::EpochMs;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::stack::account::{exchange, refused};
use crate::stack::connection::FunctionNames;
use crate::stack::watch::{Looking, list};

const LAMBDA: SignedService = SignedService { name: "lambda", id: "Lambda" };

/// How many messages an event source gives a function at once.
pub(crate) const BATCH_SIZE: u64 = 10;

/// The version of Lambda's API that has most of it.
const API: &str = "2015-03-31";

/// The functions of a deployed stack.
#[derive(Debug)]
pub(crate) struct DeployedFunctions {
    /// The code of each function, if everything is looked at.
    pub(crate) codes: Vec<Code>,
    /// Whether hints reach the worker.
    pub(crate) worker_is_on: bool,
    /// Whether hints of effects reach the dispatcher.
    pub(crate) dispatcher_is_on: bool,
    /// How many executions their event sources take at most; [`u64::MAX`] if nothing bounds one of them.
    pub(crate) executions_max: u64,
    /// The event sources of the worker.
    pub(crate) worker: Vec<Mapping>,
    /// The event sources of the dispatcher.
    pub(crate) dispatcher: Vec<Mapping>,
}

/// The code that a function runs.
#[derive(Debug)]
pub(crate) struct Code {
    /// What the function is for.
    pub(crate) role: &'static str,
    /// When its code or its configuration was last changed.
    pub(crate) changed_at: Option<EpochMs>,
    /// The hash of its code, in base64. Two deployments of one release differ in it if their code does.
    pub(crate) sha256: String,
    /// After how many seconds Lambda ends an execution of it.
    pub(crate) timeout_seconds: Option<i64>,
    /// The variables in its environment, or the code of Lambda that says why it does not tell them.
    pub(crate) variables: Result<BTreeMap<String, String>, String>,
    /// The role of IAM that it runs with.
    rights: String,
}

/// One event source of a function.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Its id.
    pub(crate) uuid: String,
    /// `Enabled`, `Disabling` and so on.
    pub(crate) state: String,
    /// The name of the queue that it reads.
    pub(crate) queue: String,
    /// How many messages the function gets at most.
    pub(crate) batch_size: u64,
    /// For how many seconds Lambda may let messages wait for more of them.
    pub(crate) window_seconds: u64,
    /// Whether the function answers which messages of a batch failed. Otherwise SQS deletes them with the others.
    pub(crate) reports_failures: bool,
    /// Whether the function gets only messages that match a filter. Lambda deletes the others.
    pub(crate) is_filtered: bool,
    /// How many executions it takes at most; [`u64::MAX`] if nothing bounds it.
    executions_max: u64,
}

/// How many executions run at the same time.
#[derive(Debug)]
pub(crate) struct Concurrency {
    /// In the account and its region.
    pub(crate) limit: u64,
    /// Of them, those that the queues and the schedule of a stack take at most.
    pub(crate) taken_max: u64,
    /// How many more the worker's handlers in other languages take at most.
    pub(crate) handlers_max: u64,
    /// The functions whose reservation is less than what they take: who it is, and how much.
    pub(crate) narrow: Vec<String>,
}

impl Concurrency {
    /// Asks Lambda about the account of a stack, and about what is reserved for its functions.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when Lambda refuses or does not answer.
    pub(crate) async fn of(
        config: &SdkConfig,
        names: &FunctionNames,
        functions: &DeployedFunctions,
    ) -> Result<Self, Failure> {
        let settings = settings(config).await?;
        let limit = settings.pointer("/AccountLimit/ConcurrentExecutions").and_then(Value::as_u64).unwrap_or(0);
        let FunctionNames { webhook, worker, relay, dispatcher } = names;
        // A function that a request or the schedule starts needs one.
        let needs =
            [(webhook, 1), (worker, taken(&functions.worker)), (relay, 1), (dispatcher, taken(&functions.dispatcher))];
        let narrow = needs.map(|(name, needed)| async move {
            // A source without a bound takes what there is.
            let needed = if needed == u64::MAX { 1 } else { needed };
            let reserved = reserved(config, name).await?.filter(|reserved| *reserved < needed);
            Ok(reserved.map(|reserved| format!("{name} has {reserved} and takes {needed}")))
        });
        let narrow = try_join_all(narrow).await?.into_iter().flatten().collect();
        // The schedule starts one.
        let taken_max = functions.executions_max.saturating_add(1);
        // It calls those of a batch side by side.
        let handlers_max = taken(&functions.worker).saturating_mul(BATCH_SIZE);
        Ok(Self { limit, taken_max, handlers_max, narrow })
    }
}

/// How many executions these event sources take at most; [`u64::MAX`] if nothing bounds one of them.
fn taken(sources: &[Mapping]) -> u64 {
    sources.iter().map(|source| source.executions_max).fold(0, u64::saturating_add)
}

/// How many executions are reserved for a function. `None` if it takes what is left of the account's.
async fn reserved(config: &SdkConfig, function: &str) -> Result<Option<u64>, Failure> {
    let action = "lambda:GetFunctionConcurrency";
    let found = get(config, action, &format!("2019-09-30/functions/{function}/concurrency")).await?;
    let found = found.ok_or_else(|| refused(action, None, &format!("there is no function {function}")))?;
    Ok(found.get("ReservedConcurrentExecutions").and_then(Value::as_u64))
}

async fn settings(config: &SdkConfig) -> Result<Value, Failure> {
    let action = "lambda:GetAccountSettings";
    let found = get(config, action, "2016-08-19/account-settings/").await?;
    found.ok_or_else(|| refused(action, None, &"there are none"))
}

impl DeployedFunctions {
    /// Asks Lambda about a stack's functions.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when Lambda refuses or does not answer, or does not know one of them.
    pub(crate) async fn of(config: &SdkConfig, names: &FunctionNames, looking: Looking) -> Result<Self, Failure> {
        let FunctionNames { webhook, worker, relay, dispatcher } = names;
        let all = [("webhook", webhook), ("worker", worker), ("relay", relay), ("dispatcher", dispatcher)];
        let wanted = all.into_iter().filter(|_| looking == Looking::Whole);
        let codes = try_join_all(wanted.map(|(role, name)| code(config, role, name)));
        let (codes, worker, dispatcher) =
            try_join3(codes, mappings(config, worker), mappings(config, dispatcher)).await?;
        Ok(Self {
            codes,
            worker_is_on: are_on(&worker),
            dispatcher_is_on: are_on(&dispatcher),
            executions_max: taken(&worker).saturating_add(taken(&dispatcher)),
            worker,
            dispatcher,
        })
    }
}

impl DeployedFunctions {
    /// The role of IAM that a function runs with. Empty if the functions were not looked at.
    pub(crate) fn role_of(&self, function: &str) -> &str {
        self.codes.iter().find(|code| code.role == function).map_or("", |code| &code.rights)
    }
}

async fn code(config: &SdkConfig, role: &'static str, name: &str) -> Result<Code, Failure> {
    let found = configuration(config, name).await?;
    let fields = found.ok_or_else(|| refused(CONFIGURATION, None, &format!("there is no function {name}")))?;
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let sha256 = text("CodeSha256").unwrap_or_default().to_owned();
    let variables = fields.pointer("/Environment/Variables").and_then(Value::as_object).into_iter().flatten();
    let variables = variables.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
    let unread = fields.pointer("/Environment/Error").map(|error| error["ErrorCode"].as_str().unwrap_or_default());
    let variables = unread.map_or_else(|| Ok(variables.collect()), |code| Err(code.to_owned()));
    let rights = text("Role").unwrap_or_default().to_owned();
    let changed_at = text("LastModified").and_then(moment);
    let timeout_seconds = fields.get("Timeout").and_then(Value::as_i64);
    Ok(Code { role, changed_at, sha256, timeout_seconds, variables, rights })
}

/// Whether every event source of a function is on, or about to be.
fn are_on(sources: &[Mapping]) -> bool {
    let is_off = |mapping: &Mapping| matches!(mapping.state.as_str(), "Disabled" | "Disabling" | "Deleting");
    !sources.is_empty() && !sources.iter().any(is_off)
}

/// The event sources of a function.
///
/// # Errors
/// [`Failure::Unavailable`] when Lambda refuses or does not answer, or does not know the function.
pub(crate) async fn mappings(config: &SdkConfig, name: &str) -> Result<Vec<Mapping>, Failure> {
    let action = "lambda:ListEventSourceMappings";
    let found = get(config, action, &format!("{API}/event-source-mappings/?FunctionName={name}")).await?;
    let found = found.ok_or_else(|| refused(action, None, &format!("there is no function {name}")))?;
    let text = |mapping: &Value, name: &str| mapping.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |found: &Value, name: &str| found.get(name).and_then(Value::as_u64).unwrap_or(0);
    let most = |found: &Value| found.pointer("/ScalingConfig/MaximumConcurrency").and_then(Value::as_u64);
    // The filters of a key that the caller may not use are an error in their place.
    let is_filtered = |found: &Value| {
        list(&found["FilterCriteria"], "Filters").next().is_some() || !found["FilterCriteriaError"].is_null()
    };
    let mapping = |found: &Value| Mapping {
        uuid: text(found, "UUID"),
        state: text(found, "State"),
        queue: text(found, "EventSourceArn").rsplit(':').next().unwrap_or_default().to_owned(),
        batch_size: number(found, "BatchSize"),
        window_seconds: number(found, "MaximumBatchingWindowInSeconds"),
        reports_failures: list(found, "FunctionResponseTypes").any(|it| it == "ReportBatchItemFailures"),
        is_filtered: is_filtered(found),
        executions_max: most(found).unwrap_or(u64::MAX),
    };
    Ok(list(&found, "EventSourceMappings").map(mapping).collect())
}

/// Asks Lambda to switch an event source on or off. It is still changing when this returns.
///
/// # Errors
/// [`Failure::Unavailable`] when Lambda refuses or does not answer.
pub(crate) async fn update_mapping(config: &SdkConfig, uuid: &str, enabled: bool) -> Result<(), Failure> {
    let action = "lambda:UpdateEventSourceMapping";
    let body = json!({ "Enabled": enabled }).to_string().into_bytes();
    let answer = call(config, ("PUT", action), &format!("{API}/event-source-mappings/{uuid}"), body).await?;
    match answer {
        // Somebody else changes it at the same moment: it is looked at again.
        Answer::Busy | Answer::Found(_) => Ok(()),
        Answer::Nothing => Err(refused(action, None, &format!("there is no event source {uuid}"))),
    }
}

/// Whether there is a function of this name or ARN, with its version or alias.
///
/// # Errors
/// [`Failure::Unavailable`] when Lambda refuses or does not answer.
pub(crate) async fn exists(config: &SdkConfig, function: &str) -> Result<bool, Failure> {
    // The only characters of a name that a path must not hold as they are.
    let function = function.replace(':', "%3A").replace('$', "%24");
    Ok(configuration(config, &function).await?.is_some())
}

const CONFIGURATION: &str = "lambda:GetFunctionConfiguration";

async fn configuration(config: &SdkConfig, function: &str) -> Result<Option<Value>, Failure> {
    get(config, CONFIGURATION, &format!("{API}/functions/{function}/configuration")).await
}

/// Reads what is at a path. `None` if there is nothing.
async fn get(config: &SdkConfig, action: &str, path: &str) -> Result<Option<Value>, Failure> {
    match call(config, ("GET", action), path, Vec::new()).await? {
        Answer::Found(fields) => Ok(Some(fields)),
        Answer::Nothing => Ok(None),
        Answer::Busy => Err(refused(action, Some("TooManyUpdates"), &"it is being changed")),
    }
}

/// What Lambda answers.
enum Answer {
    /// With these fields.
    Found(Value),
    /// There is no such thing.
    Nothing,
    /// Another change is not done yet.
    Busy,
}

async fn call(
    config: &SdkConfig,
    (method, action): (&str, &str),
    path: &str,
    body: Vec<u8>,
) -> Result<Answer, Failure> {
    let broken = |cause: &dyn std::error::Error| refused(action, None, &Report::new(cause));
    let path = format!("/{path}");
    let headers: &[_] = if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
    let request = LAMBDA.request(config, method, &path, headers, body).await.map_err(|error| broken(&*error))?;
    let response = exchange(request).await.map_err(|error| broken(&*error))?;
    let fields: Value = serde_json::from_slice(response.body().bytes().unwrap_or_default()).unwrap_or_default();
    match response.status().as_u16() {
        200 | 202 => Ok(Answer::Found(fields)),
        404 => Ok(Answer::Nothing),
        409 => Ok(Answer::Busy),
        status => {
            // `AccessDeniedException`, or the same with a link behind a colon.
            let code = response.headers().get("x-amzn-errortype").and_then(|code| code.split(':').next());
            let reason = ["Message", "message"].iter().find_map(|name| fields.get(name)?.as_str());
            Err(refused(action, code, &reason.map_or_else(|| format!("status {status}"), str::to_owned)))
        }
    }
}

/// Reads a time as Lambda writes it: `2026-11-23T10:00:00.000+0000`.
fn moment(text: &str) -> Option<EpochMs> {
    let at = jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M:%S%.f%z", text).ok()?.to_timestamp().ok()?;
    Some(EpochMs(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_change_is_read() {
        assert_eq!(moment("2026-11-22T14:00:00.250+0000"), Some(EpochMs(1_795_356_000_250)));
        assert_eq!(moment("2026-11-22T15:00:00.000+0100"), Some(EpochMs(1_795_356_000_000)));
        assert_eq!(moment("yesterday"), None);
    }
}
