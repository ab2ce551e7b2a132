//! `hookonce deploy`: brings a stack to a packaged template. Nothing passes that may cost a table, a queue or the
//! address, unless it is allowed by name.

mod change;
mod stack;

use std::collections::BTreeMap;

use clap::Args;
use hookonce_runtime::ambient::{Ambient as _, System};

use self::change::Change;
pub(super) use self::change::policy;
use self::stack::{Before, Planned, Stack, blocked};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt::Stop;
use crate::stack::account::{region, signed_in};
use crate::stack::connection::{OWN_VERSION, check_name, is_earlier};
use crate::stack::watch::{fetch_alarms, list};

/// How long CloudFormation watches a stack of a new release before it is done, in minutes: one period of the alarm.
const WATCH_MINUTES: &str = "5";

/// What to do where an update would cost something.
const KEEP: &str = "take the release and the parameters that the stack has, or pass --allow RESOURCE if it may be lost";

/// What to do where a new stack would not have the tables of an earlier one.
const GIVE: &str = "add one parameter for each table (docs/run/upgrade.md#after-a-stack-was-deleted), or pass --allow RESOURCE for \
                    each that holds nothing, as after a creation that failed. A table that another stack has, or that this one had \
                    before another was given to it, is not the one";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Address of the packaged template in a bucket. deploy.sh of a release puts it there.
    #[arg(long, value_name = "URL")]
    template: String,
    /// Name of the stack.
    #[arg(long, value_name = "NAME", default_value = "hookonce")]
    stack: String,
    /// Print what would change, and change nothing.
    #[arg(long)]
    plan: bool,
    /// Let this table, queue, gateway or domain name be lost.
    ///
    /// May be repeated. `Release` lets the stack go back to an earlier release.
    #[arg(long, value_name = "RESOURCE")]
    allow: Vec<String>,
    /// Parameters of the template. Those that are not named keep their values.
    #[arg(value_name = "PARAMETER=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,
}

fn parameter(text: &str) -> Result<(String, String), &'static str> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write PARAMETER=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    check_name(&arguments.stack)?;
    let config = signed_in().await?;
    let stack = Stack { config: &config, name: &arguments.stack };
    let before = stack.before().await?;
    let exists = before.as_ref().is_some_and(|before| before.exists);
    let fields = fields(&arguments, &stack, before.as_ref()).await?;
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let change_set = format!("hookonce-{}", System.moment().now.0);
    let planned = stack.plan(&change_set, &fields).await;
    let changes = match planned {
        Ok(Planned::Changes(changes)) => changes,
        Ok(Planned::Nothing) => {
            stack.forget(&change_set).await;
            let next = if arguments.plan { String::new() } else { format!(". Next:\n{}", next(stack.name, false)) };
            output::note(&format!("the stack {} is as the template says{next}", stack.name));
            if !arguments.plan {
                stack.protect(&policy(&[])).await?;
            }
            return Ok(Exit::Done);
        }
        Err(failure) => {
            leave(&stack, &change_set, before.is_none()).await;
            return Err(failure);
        }
    };
    show(&changes, arguments.plan || exists, &stack);
    let (dangers, hint) = match before.as_ref().filter(|before| before.exists) {
        Some(before) => (before.dangers(&arguments.parameters, &changes), KEEP),
        None => (stack.left_tables(&arguments.parameters, &changes).await, GIVE),
    };
    let refused = refused(&changes, dangers, &arguments.allow, hint);
    if arguments.plan || refused.is_some() {
        leave(&stack, &change_set, before.is_none()).await;
    }
    if let Some(refused) = refused {
        // An earlier one may have been killed before it took back what it allowed.
        if exists && !arguments.plan {
            // What is refused is said in any case.
            if let Err(failure) = stack.protect(&policy(&[])).await {
                output::note(&failure.to_string());
            }
        }
        return Err(refused);
    }
    if arguments.plan {
        return Ok(Exit::Done);
    }
    let allowed = before.filter(|before| before.exists).map(|before| before.made(arguments.allow));
    Box::pin(carry_out(&stack, &change_set, allowed.as_deref(), changes.len())).await
}

/// Removes a change set that is not to be executed, and the name that it made of a new stack.
async fn leave(stack: &Stack<'_>, change_set: &str, makes_name: bool) {
    stack.forget(change_set).await;
    if makes_name {
        stack.forget_name().await;
    }
}

/// Executes a change set to its end. From then on the policy holds everything. `allowed` is what it lets go before, of a
/// stack that exists.
async fn carry_out(
    stack: &Stack<'_>,
    change_set: &str,
    allowed: Option<&[String]>,
    resources: usize,
) -> Result<Exit, Failure> {
    let goes_on = || {
        // A stack that exists is protected while it is updated, but for what is allowed.
        let open = match allowed {
            None => format!(": the stack {} is not protected before", stack.name),
            Some([]) => String::new(),
            Some(allowed) => format!(": until then its policy lets go {}", allowed.join(", ")),
        };
        output::note(&format!("CloudFormation may go on without this command. Deploy again once it has ended{open}"));
    };
    let ended = match begin(stack, change_set, allowed).await {
        Ok((after, mut stop)) => tokio::select! {
            ended = stack.follow(after, resources) => ended.inspect_err(|_| goes_on())?,
            () = stop.came() => {
                goes_on();
                return Ok(Exit::No);
            }
        },
        Err(failure) => {
            // Nobody may execute it later. If only the answer was lost, CloudFormation keeps it and carries it out.
            if stack.forget(change_set).await {
                take_back(stack, allowed.unwrap_or_default()).await;
            } else {
                goes_on();
            }
            return Err(failure);
        }
    };
    // What was never made can only be deleted.
    let is_made = ended == "CREATE_COMPLETE" || ended.starts_with("UPDATE_");
    let protected = if is_made { stack.protect(&policy(&[])).await } else { Ok(()) };
    if ["CREATE_COMPLETE", "UPDATE_COMPLETE"].contains(&ended.as_str()) {
        let next = next(stack.name, ended == "CREATE_COMPLETE");
        output::note(&format!("the stack {} is deployed: {ended}. Next:\n{next}", stack.name));
        // Nothing of it can be taken back, so that only its protection is missing.
        if protected.is_err() {
            take_back(stack, allowed.unwrap_or_default()).await;
        }
        return protected.map(|()| Exit::Done);
    }
    // How it ended is printed in any case.
    if let Err(failure) = protected {
        output::note(&failure.to_string());
    }
    let kept = if ended == "UPDATE_ROLLBACK_COMPLETE" { "; it is as it was before" } else { "" };
    let way_out = blocked(&ended, stack.name).map_or_else(|| "and deploy again".to_owned(), |(_, hint)| hint);
    Err(Failure::unavailable(
        format!("the stack {} is not deployed: {ended}{kept}", stack.name),
        format!("correct what is named above, {way_out}"),
    ))
}

/// Lets go what is allowed, and executes the change set. Returns the newest event from before, and Ctrl-C: until the change
/// set is executed, that ends the command at once.
async fn begin(stack: &Stack<'_>, change_set: &str, allowed: Option<&[String]>) -> Result<(String, Stop), Failure> {
    let after = stack.newest_event().await?;
    if let Some(allowed) = allowed {
        stack.protect(&policy(allowed)).await?;
    }
    let stop = Stop::watch()?;
    stack.execute(change_set).await?;
    Ok((after, stop))
}

/// Takes back what a deployment let go whose end nobody knows.
async fn take_back(stack: &Stack<'_>, allowed: &[String]) {
    if !allowed.is_empty() && stack.protect(&policy(&[])).await.is_err() {
        output::note(&format!(
            "the policy of the stack {} may still let go {}: deploy again, with or without a change, and it holds all",
            stack.name,
            allowed.join(", ")
        ));
    }
}

/// What a change set is made from.
async fn fields(
    arguments: &Arguments,
    stack: &Stack<'_>,
    before: Option<&Before>,
) -> Result<Vec<(String, String)>, Failure> {
    let known = stack.parameters_of(&arguments.template).await?;
    let named: BTreeMap<_, _> = arguments.parameters.iter().cloned().collect();
    if let Some(unknown) = named.keys().find(|name| !known.contains(*name)) {
        let all = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("the template has no parameter {unknown}"), format!("it has {all}")));
    }
    let exists = before.is_some_and(|before| before.exists);
    let mut fields = vec![
        ("TemplateURL".to_owned(), arguments.template.clone()),
        ("ChangeSetType".to_owned(), if exists { "UPDATE" } else { "CREATE" }.to_owned()),
        ("Capabilities.member.1".to_owned(), "CAPABILITY_IAM".to_owned()),
    ];
    // A stack that was never made has no values to keep.
    let none = BTreeMap::new();
    let kept = before.filter(|before| before.exists).map_or(&none, |before| &before.parameters);
    for (name, value) in kept.iter().filter(|(name, value)| !known.contains(*name) && !value.is_empty()) {
        output::note(&format!(
            "the template has no parameter {name}, so its value ends with this update. To bring it back with a release that \
             has it: {name}={}",
            output::quoted(value)
        ));
    }
    let keeps = |name: &&String| named.contains_key(*name) || kept.contains_key(*name);
    for (index, name) in known.iter().filter(keeps).enumerate() {
        let field = |end: &str| format!("Parameters.member.{}.{end}", index + 1);
        fields.push((field("ParameterKey"), name.clone()));
        fields.push(named.get(name).map_or_else(
            || (field("UsePreviousValue"), "true".to_owned()),
            |value| (field("ParameterValue"), value.clone()),
        ));
    }
    if let Some(before) = before.filter(|before| before.exists) {
        let field = |end: &str, value: &str| (format!("RollbackConfiguration.{end}"), value.to_owned());
        // The triggers of an update stay for every later one, until a list without them is sent.
        match alarm(stack, before).await? {
            Some(alarm) => fields.extend([
                field("RollbackTriggers.member.1.Arn", &alarm),
                field("RollbackTriggers.member.1.Type", "AWS::CloudWatch::Alarm"),
                field("MonitoringTimeInMinutes", WATCH_MINUTES),
            ]),
            None => fields.extend([field("RollbackTriggers", ""), field("MonitoringTimeInMinutes", "0")]),
        }
    }
    Ok(fields)
}

/// The alarm that rolls an update back: the webhook function crashes or times out, which no request can make it do.
/// Only code that is new may fail in a new way, and the code that somebody goes back from must not be brought back.
async fn alarm(stack: &Stack<'_>, before: &Before) -> Result<Option<String>, Failure> {
    let release = &before.release;
    if release == OWN_VERSION {
        return Ok(None);
    }
    if !is_earlier(release) {
        output::note(&format!("the stack is of release {release}, no earlier one: no alarm undoes this update"));
        return Ok(None);
    }
    let name = format!("hookonce/{}/page/WebhookFails", stack.name);
    let found = fetch_alarms(stack.config, stack.name).await?.outcome?;
    let same = list(&found, "MetricAlarms").find(|alarm| alarm.get("AlarmName").is_some_and(|it| *it == name));
    // CloudFormation refuses a trigger that does not exist.
    let Some(same) = same else { return Ok(None) };
    if same.get("StateValue").is_some_and(|state| state == "ALARM") {
        output::note("the alarm WebhookFails is on already, so it does not undo this update");
        return Ok(None);
    }
    // arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/…
    let parts: Vec<_> = before.id.split(':').collect();
    let [_, partition, _, region, account, ..] = parts.as_slice() else { return Ok(None) };
    Ok(Some(format!("arn:{partition}:cloudwatch:{region}:{account}:alarm:{name}")))
}

/// What a person does after a deployment.
fn next(stack: &str, is_new: bool) -> String {
    let commands = if is_new {
        [
            format!("  hookonce endpoint add github --provider github --stack {stack}"),
            format!("  hookonce route deploy routes.json --stack {stack}"),
            format!("  hookonce doctor --stack {stack}"),
        ]
    } else {
        [
            format!("  hookonce doctor --stack {stack}"),
            format!("  hookonce status --stack {stack}"),
            format!("  hookonce list --stack {stack} --limit 10"),
        ]
    };
    commands.join("\n")
}

/// Prints the changes: each, or how many are new.
fn show(changes: &[Change], each: bool, stack: &Stack<'_>) {
    if each {
        change::print(changes);
    } else {
        let new = changes.iter().filter(|change| change.adds()).count();
        let (new, region) = (output::number_of(&new, "resource"), region(stack.config));
        output::note(&format!("the stack {} is new in {region}: {new}; --plan lists them", stack.name));
    }
}

/// The refusal of what is dangerous and not allowed by name.
fn refused(changes: &[Change], dangers: Vec<(&str, String)>, allowed: &[String], hint: &str) -> Option<Failure> {
    let changes = changes.iter().filter_map(|change| Some((change.resource.as_str(), change.danger()?.to_owned())));
    let mut dangers: BTreeMap<_, _> = dangers.into_iter().collect();
    dangers.extend(changes);
    dangers.retain(|resource, _| !allowed.iter().any(|name| name == resource));
    let dangers: Vec<_> = dangers.iter().map(|(resource, danger)| format!("{resource} {danger}")).collect();
    (!dangers.is_empty()).then(|| Failure::usage(format!("nothing is changed: {}", dangers.join("; ")), hint))
}
