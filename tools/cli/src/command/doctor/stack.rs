//! `hookonce doctor --stack`: checks a deployed stack and the caller's permissions, with calls that change nothing.

use aws_config::SdkConfig;
use error_reporter::Report;
use hookonce_aws::{DynamoStore, IndexQuery, dynamodb_client};
use hookonce_protocol::call::Unavailable;
use hookonce_protocol::effect::DestinationId;
use hookonce_protocol::key::{EndpointId, RecordKey};
use hookonce_protocol::record::dead_shard;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::timing::Timing;
use hookonce_protocol::write::Table;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::config::unknown_variables;
use hookonce_runtime::port::Store as _;
use hookonce_runtime::routes::{Offered, RouteSet};
use roxmltree::Document;
use serde_json::Value;

use super::filters::filters;
use super::queues::queues;
use super::tables::tables;
use super::topics::topics;
use super::{Check, REPAIR, documents, routes};
use crate::command::deploy::policy;
use crate::dev::handlers;
use crate::documents::{route_needs, route_set};
use crate::failure::Failure;
use crate::output;
use crate::stack::account::{CALL_MAX, refused, region};
use crate::stack::connection::{Connection, Deployed, FunctionNames, OWN_VERSION, Outputs, StackParts, is_earlier};
use crate::stack::lambda::{BATCH_SIZE, Code, Concurrency, DeployedFunctions, Mapping};
use crate::stack::query::{CLOUDFORMATION, text_below};
use crate::stack::status::RELAY_AWAY;
use crate::stack::watch::{Alarms, Looking, fetch_alarms, no_alarms, relay_ran_at};

/// What leaves more executions for deliveries.
const LOWER: &str = "lower WorkerConcurrencyMax, SlowConcurrencyMax or DispatcherConcurrencyMax, or ask AWS for more: \
                     docs/run/deploy.md#executions";

/// An endpoint and a key that no provider uses.
const NOBODY: (&str, &str) = ("hookonce-doctor", "nothing");

/// All checks. Each one that needs what an earlier one did not find is left out.
pub(super) async fn checks(deployed: &Deployed, stack: &Connection) -> Vec<Check> {
    let config = match deployed.account().await {
        Ok(config) => config,
        Err(failure) => return vec![Check::new("credentials", Err(failure))],
    };
    let mut checks = vec![Check::new("credentials", deployed.caller().await)];
    let is_own = deployed.outputs().await.is_ok_and(|outputs| outputs.parts.version == OWN_VERSION);
    checks.extend(cloudwatch(config, &deployed.name, is_own).await);
    let outputs = match deployed.outputs().await {
        Ok(outputs) => outputs,
        Err(failure) => {
            checks.push(Check::new("outputs", Err(failure)));
            return checks;
        }
    };
    let (inbox_table, domain_table) = (&outputs.parts.inbox_table, &outputs.parts.domain_table);
    let store = DynamoStore::new(dynamodb_client(config, CALL_MAX), inbox_table, domain_table);
    checks.extend([
        Check::new("outputs", complete(&outputs.parts, &region(config))),
        protection(config, &deployed.name, outputs).await,
        Check::new("inbox table", inbox(&store).await),
        Check::new("domain table", domain(&store).await),
        tables(store.client(), outputs).await,
    ]);
    let functions_found = DeployedFunctions::of(config, &outputs.functions, Looking::Whole).await;
    checks.extend(Box::pin(queues(config, outputs, functions_found.as_ref().ok())).await);
    match functions_found {
        Ok(found) => {
            checks.extend([
                Check::new("functions", functions(&found, outputs)),
                Check::new("event sources", event_sources(&found, &outputs.parts)),
                concurrency(config, &outputs.functions, &found, stack).await,
            ]);
        }
        Err(failure) => checks.push(Check::new("functions", Err(failure))),
    }
    checks.extend([
        Check::new("metrics", metrics(config, &deployed.name).await),
        address(&outputs.webhook_url),
        super::endpoints(stack).await,
        Check::new("destinations", documents::<DestinationId>(stack, "; their effects wait").await),
        Check::new("routes", routes(stack).await),
        // What only a call that changes something could tell.
        Check::new(
            "writes",
            Ok("not tried, because doctor changes nothing: docs/run/deploy.md#rights lists what you need".to_owned()),
        ),
    ]);
    checks
}

/// Whether the template belongs to this release.
fn complete(parts: &StackParts, region: &str) -> Result<String, Failure> {
    let version = &parts.version;
    if version == OWN_VERSION {
        return Ok(format!("release {version} in {region}"));
    }
    Err(Failure::usage(
        format!("the stack is of release {version}, this command of {OWN_VERSION}"),
        if is_earlier(version) {
            "use the hookonce of the deployed release, or deploy this one"
        } else {
            "use the hookonce of the deployed release"
        },
    ))
}

/// The clocks agree, the alarms can be read, and somebody gets them. Which alarms there should be, is known of a stack of
/// this release.
async fn cloudwatch(config: &SdkConfig, stack: &str, is_own: bool) -> Vec<Check> {
    let answer = match fetch_alarms(config, stack).await {
        Ok(answer) => answer,
        Err(failure) => {
            let unknown = Failure::unavailable("could not read the clock of AWS", "fix the check `alarms` first");
            return vec![Check::new("clock", Err(unknown)), Check::new("alarms", Err(failure))];
        }
    };
    let clock = answer.date.map_or_else(no_clock, |theirs| clock(theirs, System.moment().now));
    let found = answer.outcome.map(|fields| Alarms::read(&fields, stack));
    let arns = found.as_ref().map_or_else(|_| Vec::new(), |found| found.topics.clone());
    let alarms = found.and_then(|found| alarms(&found, stack, is_own));
    let mut checks = vec![Check::new("clock", clock), Check::new("alarms", alarms)];
    if !arns.is_empty() {
        checks.push(topics(config, &arns).await);
    }
    if is_own {
        checks.push(Check::new("metric filters", filters(config, stack).await));
    }
    checks
}

/// All alarms are there, and each tells somebody. Those that are raised are named.
fn alarms(alarms: &Alarms, stack: &str, is_own: bool) -> Result<String, Failure> {
    if alarms.count == 0 {
        return Err(no_alarms(stack));
    }
    let raised: Vec<_> = alarms.raised.iter().map(|alarm| format!("{}/{}", alarm.severity(), alarm.name)).collect();
    let raised = match raised.as_slice() {
        [] => "none is raised".to_owned(),
        raised => format!("raised: {}; `hookonce status` shows what to do", raised.join(", ")),
    };
    if is_own && !alarms.missing.is_empty() {
        return Err(Failure::usage(
            format!("alarms of the template are missing: {}; {raised}", alarms.missing.join(", ")),
            "make them again: docs/run/alerts.md#an-alarm-is-missing",
        ));
    }
    if alarms.mute.is_empty() {
        return Ok(format!("{} alarms, {raised}", alarms.count));
    }
    Err(Failure::usage(
        format!("{} of {} alarms notify nobody: {}; {raised}", alarms.mute.len(), alarms.count, alarms.mute.join(", ")),
        "deploy with the parameter AlarmTopicArn: docs/run/alerts.md#the-topic. Where somebody disabled what an alarm does, \
         `aws cloudwatch enable-alarm-actions --alarm-names ALARM` brings it back",
    ))
}

fn no_clock() -> Result<String, Failure> {
    Err(Failure::unavailable("AWS's answer has no time", "check for a proxy between this machine and AWS"))
}

/// The service tells whole seconds.
fn clock(theirs: EpochMs, ours: EpochMs) -> Result<String, Failure> {
    let (earlier, later) = if theirs < ours { (theirs, ours) } else { (ours, theirs) };
    let apart = output::between(earlier, later);
    if later.0 - earlier.0 <= Timing::standard().clock_skew_max.0 {
        return Ok(format!("{apart} off AWS's"));
    }
    Err(Failure::usage(
        format!("this machine's clock is {apart} off AWS's"),
        "set the clock, for instance with NTP: AWS rejects requests that are five minutes off, and --since selects the \
         wrong records",
    ))
}

/// The index and the table can be read.
async fn inbox(store: &DynamoStore) -> Result<String, Failure> {
    let query = IndexQuery::due(dead_shard(0));
    store.index_page(&query, None, 1).await.map_err(|_| unread(Table::Inbox))?;
    let endpoint = EndpointId::parse(NOBODY.0).map_err(|_| unread(Table::Inbox))?;
    let key = RecordKey::delivery(&endpoint, NOBODY.1);
    match store.read_each(&[key]).await.pop() {
        Some(Ok(_)) => Ok("its index and its records can be read".to_owned()),
        Some(Err(Unavailable)) | None => Err(unread(Table::Inbox)),
    }
}

async fn domain(store: &DynamoStore) -> Result<String, Failure> {
    let read = store.read_items(&[NOBODY.0.into()]).await;
    read.map(|_| "it can be read".to_owned()).map_err(|_| unread(Table::Domain))
}

fn unread(table: Table) -> Failure {
    let (name, actions) = match table {
        Table::Inbox => ("inbox", "dynamodb:Query on its indexes and dynamodb:BatchGetItem"),
        Table::Domain | Table::Own(_) => ("domain", "dynamodb:BatchGetItem"),
    };
    Failure::unavailable(
        format!("the {name} table cannot be read"),
        format!("ask for the permission {actions} on it; RUST_LOG=info shows what DynamoDB answered"),
    )
}

/// What keeps the stack from being deleted, and an update from replacing what it holds. Who deploys with another tool sets
/// both by hand, so their absence is a warning.
async fn protection(config: &SdkConfig, name: &str, outputs: &Outputs) -> Check {
    let is_open = match stack_policy(config, name).await {
        Ok(found) => found != serde_json::from_str::<Value>(&policy(&[])).ok(),
        Err(failure) => return Check::new("protection", Err(failure)),
    };
    let warnings = [
        (!outputs.is_protected).then(|| {
            format!(
                "nothing keeps the stack from being deleted: `aws cloudformation update-termination-protection \
                 --enable-termination-protection --stack-name {}`",
                // CloudFormation protects a nested stack with the outermost one alone.
                outputs.root.as_deref().unwrap_or(name)
            )
        }),
        is_open.then(|| {
            "the stack policy is not that of this release, so an update may replace or remove a table, a queue, the \
             gateway or its domain name: docs/run/deploy.md#update sets it"
                .to_owned()
        }),
    ];
    let operator = outputs.operator.as_deref().filter(|arn| !arn.is_empty());
    let emergency = operator
        .map(|arn| format!("{arn} may read and write the queues: deploy with OperatorArn= once the emergency is over"));
    let warnings: Vec<_> = warnings.into_iter().flatten().chain(emergency).collect();
    let seen = if warnings.is_empty() { "termination protection and stack policy are on" } else { "not complete" };
    Check { warnings, ..Check::new("protection", Ok(seen.to_owned())) }
}

/// The policy that the stack has. `None` if it has none.
async fn stack_policy(config: &SdkConfig, name: &str) -> Result<Option<Value>, Failure> {
    let action = "cloudformation:GetStackPolicy";
    let answer = CLOUDFORMATION.call(config, "GetStackPolicy", &[("StackName", name)]).await;
    let answer = answer.map_err(|cause| refused(action, None, &Report::new(&*cause)))?;
    let answer = answer.map_err(|refusal| refused(action, Some(&refusal.code), &refusal.message))?;
    let answer = Document::parse(&answer).map_err(|error| refused(action, None, &Report::new(&error)))?;
    Ok(text_below(answer.root(), "StackPolicyBody").and_then(|body| serde_json::from_str(body).ok()))
}

/// The functions can be looked at.
fn functions(found: &DeployedFunctions, outputs: &Outputs) -> Result<String, Failure> {
    let DeployedFunctions { codes, worker_is_on, .. } = found;
    // First, because queues give messages again before an execution with a longer time-out has ended.
    let timeouts = codes.iter().filter_map(timeout_drift);
    let drift: Vec<_> = timeouts.chain(codes.iter().flat_map(|code| variable_drift(code, outputs))).collect();
    if !drift.is_empty() {
        return Err(Failure::usage(drift.join("; "), REPAIR));
    }
    let unknown = |code: &Code| {
        let names: Vec<_> = code.variables.iter().flat_map(|all| all.keys().cloned()).collect();
        let names = unknown_variables(&names).join(", ");
        (!names.is_empty()).then(|| format!("the {} ignores {names}", code.role))
    };
    let ignored: Vec<_> = codes.iter().filter_map(unknown).collect();
    if !ignored.is_empty() {
        return Err(Failure::usage(
            format!("variables that this release does not know: {}", ignored.join("; ")),
            "correct their names in template.yaml, or deploy this release there: until then they have no effect",
        ));
    }
    let (unread, broken): (Vec<_>, Vec<_>) = codes
        .iter()
        .filter_map(|code| Some((code.role, code.variables.as_ref().err()?)))
        .partition(|(_, code)| code.starts_with("AccessDenied"));
    if !broken.is_empty() {
        let broken: Vec<_> = broken.into_iter().map(|(role, code)| format!("those of the {role}: {code}")).collect();
        let problem = format!("Lambda cannot read variables: {}", broken.join("; "));
        return Err(Failure::usage(
            problem,
            "enable the KMS key that encrypts them, and let the function's role use it",
        ));
    }
    let roles: Vec<_> = unread.into_iter().map(|(role, _)| role).collect();
    let unread = match roles.as_slice() {
        [] => String::new(),
        roles => format!("; you may not decrypt the variables of {}", roles.join(", ")),
    };
    let worker = if *worker_is_on { "are on" } else { "are not all on: docs/run/runbook.md#containment" };
    Ok(format!("{} functions; the worker's event sources {worker}{unread}", codes.len()))
}

/// What of a function's time-out is not as the template says. The times after which a queue gives a message again follow
/// from those of the worker and the dispatcher.
fn timeout_drift(code: &Code) -> Option<String> {
    let timing = Timing::standard();
    let wanted = match code.role {
        "worker" => timing.worker_timeout,
        "dispatcher" => timing.dispatcher_timeout,
        _ => return None,
    };
    let wanted = wanted.0 / 1_000;
    let found = code.timeout_seconds.filter(|found| *found != wanted)?;
    Some(format!("Timeout of the {} is {found} seconds, not {wanted}", code.role))
}

/// The variables of a function that are gone, or name other tables or queues than the stack has.
fn variable_drift(code: &Code, outputs: &Outputs) -> Vec<String> {
    let Ok(variables) = &code.variables else { return Vec::new() };
    let parts = &outputs.parts;
    let wanted = [
        ("HOOKONCE_INBOX_TABLE", parts.inbox_table.clone()),
        ("HOOKONCE_DOMAIN_TABLE", parts.domain_table.clone()),
        ("HOOKONCE_DOCUMENTS", format!("table:{}", outputs.documents_table)),
        ("HOOKONCE_QUEUE_URL", parts.queue_url.clone()),
    ];
    let effects = ("HOOKONCE_EFFECTS_QUEUE_URL", &parts.effects_queue_url);
    let of_role = match code.role {
        "worker" => vec![("HOOKONCE_SLOW_QUEUE_URL", &parts.slow_queue_url), effects],
        "relay" | "dispatcher" => vec![effects],
        _ => Vec::new(),
    };
    let drift = |(name, wanted): (&str, &String)| match variables.get(name).filter(|found| !found.is_empty()) {
        None => Some(format!("the {} lacks {name}", code.role)),
        Some(found) => (found != wanted).then(|| format!("{name} of the {} is {found}, not {wanted}", code.role)),
    };
    wanted.iter().map(|(name, wanted)| (*name, wanted)).chain(of_role).filter_map(drift).collect()
}

/// Each queue has an event source, which gives the function batches as the template says, and gets back what failed.
fn event_sources(found: &DeployedFunctions, parts: &StackParts) -> Result<String, Failure> {
    let (worker, dispatcher) = (("worker", &found.worker), ("dispatcher", &found.dispatcher));
    let wanted = [(&parts.queue_url, worker), (&parts.slow_queue_url, worker), (&parts.effects_queue_url, dispatcher)];
    let drift = |(url, (role, sources)): (&String, (&str, &Vec<Mapping>))| {
        let queue = url.rsplit('/').next().unwrap_or_default();
        let Some(source) = sources.iter().find(|source| source.queue == queue) else {
            return vec![format!("{queue} has none at the {role}")];
        };
        let size = (source.batch_size != BATCH_SIZE)
            .then(|| format!("that of {queue} takes {} messages, not 10", source.batch_size));
        let window = (source.window_seconds != 0)
            .then(|| format!("that of {queue} lets messages wait {} seconds for more, not 0", source.window_seconds));
        let report = (!source.reports_failures).then(|| format!("that of {queue} lacks ReportBatchItemFailures"));
        let filter =
            source.is_filtered.then(|| format!("that of {queue} has a filter: Lambda deletes what does not match"));
        [size, window, report, filter].into_iter().flatten().collect()
    };
    let drift: Vec<_> = wanted.into_iter().flat_map(drift).collect();
    if drift.is_empty() {
        return Ok("each queue has one, which takes batches and gives back what failed".to_owned());
    }
    Err(Failure::usage(drift.join("; "), REPAIR))
}

/// What the queues and the schedule take at most leaves something for the webhook function, and no function is kept from
/// what it takes.
async fn concurrency(
    config: &SdkConfig,
    names: &FunctionNames,
    functions: &DeployedFunctions,
    stack: &Connection,
) -> Check {
    let Concurrency { limit, taken_max, handlers_max, narrow } = match Concurrency::of(config, names, functions).await {
        Ok(found) => found,
        Err(failure) => return Check::new("concurrency", Err(failure)),
    };
    if !narrow.is_empty() {
        let problem = format!("reserved concurrency is too low: {}", narrow.join("; "));
        let hint = "remove it with `aws lambda delete-function-concurrency --function-name FUNCTION`, or raise it";
        return Check::new("concurrency", Err(Failure::usage(problem, hint)));
    }
    let left = limit.saturating_sub(taken_max);
    if left == 0 {
        let problem = format!(
            "queues and relay may take all of the account's {limit} executions, so deliveries get an error meanwhile"
        );
        return Check::new("concurrency", Err(Failure::usage(problem, LOWER)));
    }
    let seen = format!("queues and relay take at most {taken_max} of the account's {limit} executions");
    let mut check = Check::new("concurrency", Ok(seen));
    if handlers_max >= left && calls_functions(stack).await {
        check.warnings.push(format!(
            "the route set calls functions, {handlers_max} at most at one time, and {left} are left: beyond the limit \
             deliveries get an error, which providers that do not retry lose. docs/run/deploy.md#executions"
        ));
    } else if left < limit.div_ceil(2) {
        check.warnings.push(format!(
            "the webhook function and handlers in other languages have {} left: docs/run/deploy.md#executions shows how to \
             get more",
            output::number_of(&left, "execution")
        ));
    }
    check
}

/// Whether a handler of the route set is a function of Lambda.
async fn calls_functions(stack: &Connection) -> bool {
    let Ok(Some(text)) = route_set::stored(stack).await else { return false };
    let offered = Offered { handlers: &handlers::of(stack).names(), urls: false, tables: None };
    RouteSet::parse(&text, offered).is_ok_and(|set| route_needs::calls_functions(&set))
}

/// Whether the address that providers call can be moved.
fn address(url: &str) -> Check {
    let mut check = Check::new("address", Ok(url.to_owned()));
    if url.contains(".execute-api.") {
        check.warnings.push(
            "it belongs to this stack and can never be moved. With a DomainName, providers need not be told of another \
             stack, region or account: docs/run/deploy.md#your-own-domain-name"
                .to_owned(),
        );
    }
    check
}

/// Metrics can be read.
async fn metrics(config: &SdkConfig, stack: &str) -> Result<String, Failure> {
    let now = System.moment().now;
    let ran = relay_ran_at(config, stack, now).await?;
    if let Some(at) = ran.filter(|at| now.0 - at.0 > RELAY_AWAY.0) {
        let problem = format!("the relay last ran {}: its schedule is off, or it fails", output::ago(at, now));
        return Err(Failure::usage(problem, "docs/run/runbook.md#the-relay-does-not-run"));
    }
    Ok(ran.map_or_else(
        || "they can be read; none says that the relay ran: docs/run/runbook.md#the-relay-does-not-run".to_owned(),
        |at| format!("the relay ran {}", output::ago(at, now)),
    ))
}
