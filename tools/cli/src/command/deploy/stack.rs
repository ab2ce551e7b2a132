//! A stack of CloudFormation, as `deploy` brings it to another template.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use error_reporter::Report;
use hookonce_aws::{SdkConfig, dynamodb_client};
use hookonce_runtime::handlers::remote::Cause;
use roxmltree::Document;

use super::change::Change;
use crate::failure::Failure;
use crate::output;
use crate::stack::account::{CALL_MAX, refused, region};
use crate::stack::connection::{OWN_VERSION, is_earlier};
use crate::stack::query::{CLOUDFORMATION, Refusal, child, members, outside_lists, text_below};

/// How often CloudFormation is asked how far it is.
const LOOK_PERIOD: Duration = Duration::from_secs(2);

/// How many questions in turn may have no answer. CloudFormation goes on meanwhile.
const UNANSWERED_MAX: u32 = 30;

/// The tables of a stack, and the parameter that gives it another one in the place of each.
const TABLES: [(&str, &str); 3] =
    [("InboxTable", "InboxTableName"), ("DomainTable", "DomainTableName"), ("DocumentsTable", "DocumentsTableName")];

/// The name that allows a way back.
const RELEASE: &str = "Release";

/// What is read of an event.
const EVENT: [&str; 5] = ["EventId", "LogicalResourceId", "ResourceType", "ResourceStatus", "ResourceStatusReason"];

/// A stack, by its name.
#[derive(Debug)]
pub(super) struct Stack<'a> {
    pub(super) config: &'a SdkConfig,
    pub(super) name: &'a str,
}

/// What there is before a deployment.
#[derive(Debug)]
pub(super) struct Before {
    /// Its ARN.
    pub(super) id: String,
    /// Whether it was ever made. Otherwise it has a name and no resource.
    pub(super) exists: bool,
    /// Its release. Empty if it was never made.
    pub(super) release: String,
    /// Its parameters.
    pub(super) parameters: BTreeMap<String, String>,
    /// The names of its tables.
    tables: BTreeMap<&'static str, String>,
}

impl Before {
    /// What the changes themselves do not say: another table in the place of one, and a way back to an earlier release.
    pub(super) fn dangers(&self, given: &[(String, String)], changes: &[Change]) -> Vec<(&'static str, String)> {
        let other = "would be another table, which lacks what this one has";
        let tables = TABLES.iter().filter(|table| self.is_other(table, given, changes));
        let tables = tables.map(|(table, _)| (*table, other.to_owned()));
        let goes_back = self.release != OWN_VERSION && !is_earlier(&self.release);
        let back = goes_back.then(|| {
            let from = &self.release;
            let what = format!(
                "would go back from {from} to {OWN_VERSION}: pause the worker first (docs/run/deploy.md#roll-back)"
            );
            (RELEASE, what)
        });
        tables.chain(back).collect()
    }

    /// Whether these parameters, or a table that is new, put another one in the place of this table.
    fn is_other(&self, (table, parameter): &(&str, &str), given: &[(String, String)], changes: &[Change]) -> bool {
        let has_one = self.tables.get(table).is_some_and(|name| !name.is_empty());
        if has_one && changes.iter().any(|change| change.adds() && change.resource == *table) {
            return true;
        }
        let Some((_, name)) = given.iter().rev().find(|(given, _)| given == parameter) else { return false };
        // An empty name is that of the stack's own table.
        *name != self.given(parameter) && self.tables.get(table) != Some(name)
    }

    /// Those of these resources that the stack has made. `CloudFormation` takes no policy that names another one.
    pub(super) fn made(&self, resources: Vec<String>) -> Vec<String> {
        let is_given =
            |resource: &str| TABLES.iter().any(|(table, name)| *table == resource && !self.given(name).is_empty());
        let lacks_domain = self.given("DomainName").is_empty();
        let is_of_domain = |resource: &str| ["GatewayDomain", "GatewayMapping"].contains(&resource);
        let is_absent =
            |resource: &String| resource == RELEASE || is_given(resource) || lacks_domain && is_of_domain(resource);
        resources.into_iter().filter(|resource| !is_absent(resource)).collect()
    }

    fn given(&self, parameter: &str) -> &str {
        self.parameters.get(parameter).map_or("", String::as_str)
    }
}

/// How a change set came out.
#[derive(Debug)]
pub(super) enum Planned {
    /// It can be executed.
    Changes(Vec<Change>),
    /// The stack is as the template and the parameters say.
    Nothing,
}

/// Why CloudFormation takes no update of a stack in this state, and the way out. `None` if it takes one.
pub(super) fn blocked(status: &str, name: &str) -> Option<(&'static str, String)> {
    match status {
        "REVIEW_IN_PROGRESS"
        | "CREATE_COMPLETE"
        | "UPDATE_COMPLETE"
        | "UPDATE_ROLLBACK_COMPLETE"
        | "IMPORT_COMPLETE"
        | "IMPORT_ROLLBACK_COMPLETE" => None,
        "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" | "CREATE_FAILED" | "DELETE_FAILED" => Some((
            "was never made or is half deleted",
            format!(
                "if it is one of hookonce, remove what is left with `aws cloudformation delete-stack --stack-name {name}`, and deploy again"
            ),
        )),
        // Somebody deployed with another tool, and told it not to go back.
        "UPDATE_FAILED" => Some((
            "stopped in the middle of an update",
            format!("go back with `aws cloudformation rollback-stack --stack-name {name}`, and deploy again"),
        )),
        "UPDATE_ROLLBACK_FAILED" => Some((
            "could not be rolled back",
            format!("go on with `aws cloudformation continue-update-rollback --stack-name {name}`, and deploy again"),
        )),
        status if status.ends_with("_IN_PROGRESS") => Some((
            "is being changed",
            format!("`aws cloudformation describe-stack-events --stack-name {name}` shows how far it is"),
        )),
        _ => Some(("is in a state that this release does not know", "look at it in CloudFormation".to_owned())),
    }
}

impl Stack<'_> {
    /// Calls an action on this stack.
    async fn call(&self, action: &str, fields: &[(&str, &str)]) -> Result<Result<String, Refusal>, Failure> {
        let fields = [&[("StackName", self.name)], fields].concat();
        let broken = |cause: Cause| self.failed(action, "", &Report::new(&*cause).to_string());
        CLOUDFORMATION.call(self.config, action, &fields).await.map_err(broken)
    }

    async fn done(&self, action: &str, fields: &[(&str, &str)]) -> Result<String, Failure> {
        let answer = self.call(action, fields).await?;
        answer.map_err(|Refusal { code, message }| self.failed(action, &code, &message))
    }

    fn failed(&self, action: &str, code: &str, message: &str) -> Failure {
        let what = format!("{} in {}: {message}", self.name, region(self.config));
        if code == "ValidationError" {
            return Failure::usage(format!("cloudformation:{action} refused {what}"), "correct what it names");
        }
        refused(&format!("cloudformation:{action}"), Some(code).filter(|code| !code.is_empty()), &what)
    }

    fn unreadable(&self, action: &str, error: &roxmltree::Error) -> Failure {
        self.failed(action, "", &format!("the answer cannot be read: {error}"))
    }

    /// What there is, if it can be changed. `None` if there is nothing of this name.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the way out of the state it is in, or when it is a stack of something else.
    pub(super) async fn before(&self) -> Result<Option<Before>, Failure> {
        const ACTION: &str = "DescribeStacks";
        let answer = match self.call(ACTION, &[]).await? {
            Ok(answer) => answer,
            Err(Refusal { code, .. }) if code == "ValidationError" => return Ok(None),
            Err(Refusal { code, message }) => return Err(self.failed(ACTION, &code, &message)),
        };
        let answer = Document::parse(&answer).map_err(|error| self.unreadable(ACTION, &error))?;
        let field = |name: &str| text_below(answer.root(), name).unwrap_or_default();
        let output = |name: &str| {
            let found = members(&answer, "OutputKey").find(|output| child(*output, "OutputKey") == name);
            found.map_or("", |output| child(output, "OutputValue"))
        };
        let status = field("StackStatus");
        let exists = status != "REVIEW_IN_PROGRESS";
        let foreign = ("is not one of hookonce", "pass another --stack".to_owned());
        let is_foreign = exists && (output("InboxTable").is_empty() || output("Version").is_empty());
        // One that was never made has none either.
        let is_known_foreign = is_foreign && members(&answer, "OutputKey").next().is_some();
        let foreign = is_foreign.then_some(foreign);
        let known_foreign = foreign.clone().filter(|_| is_known_foreign);
        if let Some((what, hint)) = known_foreign.or_else(|| blocked(status, self.name)).or(foreign) {
            return Err(Failure::usage(format!("the stack {} {what}: {status}", self.name), hint));
        }
        Ok(Some(Before {
            id: field("StackId").to_owned(),
            exists,
            release: output("Version").to_owned(),
            parameters: members(&answer, "ParameterKey")
                .map(|it| (child(it, "ParameterKey").to_owned(), child(it, "ParameterValue").to_owned()))
                .collect(),
            tables: TABLES.map(|(table, _)| (table, output(table).to_owned())).into(),
        }))
    }

    /// The tables that an earlier stack of this name left where the changes make new ones: what these lack is applied again.
    pub(super) async fn left_tables(
        &self,
        given: &[(String, String)],
        changes: &[Change],
    ) -> Vec<(&'static str, String)> {
        let is_new = |(table, parameter): &&(&'static str, &str)| {
            let is_given = given.iter().any(|(name, value)| name == parameter && !value.is_empty());
            !is_given && changes.iter().any(|change| change.adds() && change.resource == *table)
        };
        let mut names = Vec::new();
        let client = dynamodb_client(self.config, CALL_MAX);
        let mut pages = client.list_tables().into_paginator().items().send();
        while let Some(name) = pages.next().await {
            match name {
                Ok(name) => names.push(name),
                Err(error) => {
                    let what = format!(
                        "would be empty, and whether an earlier stack left one is not known: {}",
                        Report::new(error)
                    );
                    return TABLES.iter().filter(is_new).map(|(table, _)| (*table, what.clone())).collect();
                }
            }
        }
        let left = |(table, parameter): &(&'static str, &str)| {
            let prefix = format!("{}-{table}-", self.name);
            let left: Vec<_> = names.iter().filter(|name| name.starts_with(&prefix)).map(String::as_str).collect();
            let (name, others) = left.split_first()?;
            let others = if others.is_empty() { String::new() } else { format!(", or {}", others.join(" or ")) };
            Some((*table, format!("would be empty, and an earlier stack left {parameter}={name}{others}")))
        };
        TABLES.iter().filter(is_new).filter_map(left).collect()
    }

    /// The names of a template's parameters.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be read.
    pub(super) async fn parameters_of(&self, template: &str) -> Result<BTreeSet<String>, Failure> {
        const ACTION: &str = "GetTemplateSummary";
        let broken = |cause: Cause| self.failed(ACTION, "", &Report::new(&*cause).to_string());
        let answer = CLOUDFORMATION.call(self.config, ACTION, &[("TemplateURL", template)]).await.map_err(broken)?;
        let answer = answer.map_err(|Refusal { code, message }| self.failed(ACTION, &code, &message))?;
        let answer = Document::parse(&answer).map_err(|error| self.unreadable(ACTION, &error))?;
        Ok(members(&answer, "ParameterKey").map(|it| child(it, "ParameterKey").to_owned()).collect())
    }

    /// Makes a change set, and reads it to its last page.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be made.
    pub(super) async fn plan(&self, change_set: &str, fields: &[(&str, &str)]) -> Result<Planned, Failure> {
        const ACTION: &str = "DescribeChangeSet";
        let named = [("ChangeSetName", change_set)];
        self.done("CreateChangeSet", &[&named[..], fields].concat()).await?;
        let _working = output::working("CloudFormation compares the template with the stack");
        let (mut changes, mut next) = (Vec::new(), String::new());
        loop {
            let page: &[_] = if next.is_empty() { &[] } else { &[("NextToken", next.as_str())] };
            let answer = self.done(ACTION, &[&named[..], page].concat()).await?;
            let answer = Document::parse(&answer).map_err(|error| self.unreadable(ACTION, &error))?;
            let field = |name: &str| outside_lists(&answer, name);
            match field("Status") {
                "CREATE_COMPLETE" => {
                    changes.extend(Change::each(&answer));
                    field("NextToken").clone_into(&mut next);
                    if next.is_empty() {
                        return Ok(Planned::Changes(changes));
                    }
                }
                "CREATE_PENDING" | "CREATE_IN_PROGRESS" => tokio::time::sleep(LOOK_PERIOD).await,
                status => {
                    let why = field("StatusReason");
                    if ["didn't contain changes", "No updates are to be performed"].iter().any(|it| why.contains(it)) {
                        return Ok(Planned::Nothing);
                    }
                    let why = if why.is_empty() { format!("the change set is {status}") } else { why.to_owned() };
                    return Err(self.failed("CreateChangeSet", "ValidationError", &why));
                }
            }
        }
    }

    /// Removes a change set. Returns whether it is gone: otherwise it stays and does nothing, or is being executed.
    pub(super) async fn forget(&self, change_set: &str) -> bool {
        let gone = self.done("DeleteChangeSet", &[("ChangeSetName", change_set)]).await;
        gone.inspect_err(|failure| tracing::info!(%failure, "the change set stays")).is_ok()
    }

    /// Removes what a change set made of a stack that did not exist: a name without resources. If it fails, the name stays,
    /// and the next deployment takes it.
    pub(super) async fn forget_name(&self) {
        let removed = async {
            match self.before().await? {
                // Somebody else may have made it meanwhile.
                None | Some(Before { exists: true, .. }) => Ok(()),
                Some(Before { exists: false, .. }) => self.done("DeleteStack", &[]).await.map(drop),
            }
        };
        if let Err(failure) = removed.await {
            tracing::info!(%failure, "the name of the stack stays");
        }
    }

    /// Sets what an update may never do, and that nobody can delete the stack.
    ///
    /// # Errors
    /// [`Failure`] when CloudFormation refuses.
    pub(super) async fn protect(&self, policy: &str) -> Result<(), Failure> {
        self.done("SetStackPolicy", &[("StackPolicyBody", policy)]).await?;
        self.done("UpdateTerminationProtection", &[("EnableTerminationProtection", "true")]).await.map(drop)
    }

    /// The id of the newest event. Empty if there is none.
    ///
    /// # Errors
    /// [`Failure`] when CloudFormation refuses.
    pub(super) async fn newest_event(&self) -> Result<String, Failure> {
        const ACTION: &str = "DescribeStackEvents";
        let answer = self.done(ACTION, &[]).await?;
        let answer = Document::parse(&answer).map_err(|error| self.unreadable(ACTION, &error))?;
        Ok(text_below(answer.root(), "EventId").unwrap_or_default().to_owned())
    }

    /// Executes a change set.
    ///
    /// # Errors
    /// [`Failure`] when CloudFormation refuses.
    pub(super) async fn execute(&self, change_set: &str) -> Result<(), Failure> {
        self.done("ExecuteChangeSet", &[("ChangeSetName", change_set)]).await.map(drop)
    }

    /// Waits until CloudFormation has ended. Returns the state of the stack, and prints what failed. `after` is the
    /// newest event from before.
    ///
    /// # Errors
    /// [`Failure`] when CloudFormation does not tell, again and again.
    pub(super) async fn follow(&self, mut after: String, resources: usize) -> Result<String, Failure> {
        let working = output::working("CloudFormation begins");
        let (mut ended, mut unanswered) = (BTreeSet::new(), 0);
        loop {
            let news = match self.events(&after).await {
                Ok(news) => news,
                Err(failure) if unanswered < UNANSWERED_MAX && !matches!(failure, Failure::Denied { .. }) => {
                    unanswered += 1;
                    tokio::time::sleep(LOOK_PERIOD).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            unanswered = 0;
            for [id, resource, kind, status, reason] in news {
                after = id;
                let is_over = !status.ends_with("_IN_PROGRESS");
                if kind == "AWS::CloudFormation::Stack" && resource == self.name {
                    // An alarm that undoes an update is named nowhere else.
                    if status.contains("ROLLBACK") && !reason.is_empty() {
                        output::note(&format!("{resource}: {status}: {reason}"));
                    }
                    if is_over {
                        return Ok(status);
                    }
                } else if status.ends_with("_FAILED") && !reason.contains("cancelled") {
                    output::note(&format!("{resource}: {status}: {reason}"));
                } else if is_over {
                    if !status.ends_with("_FAILED") {
                        output::note(&format!("{resource}: {status}"));
                    }
                    ended.insert(resource);
                }
            }
            working.shows(format!("{} of {resources} resources", ended.len()));
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }

    /// The events since this one, the oldest first: of each its id, the resource, its type, its state and why.
    async fn events(&self, after: &str) -> Result<Vec<[String; 5]>, Failure> {
        const ACTION: &str = "DescribeStackEvents";
        let (mut news, mut next) = (Vec::new(), String::new());
        loop {
            let page: &[_] = if next.is_empty() { &[] } else { &[("NextToken", next.as_str())] };
            let answer = self.done(ACTION, page).await?;
            let answer = Document::parse(&answer).map_err(|error| self.unreadable(ACTION, &error))?;
            let read = |event| EVENT.map(|name| child(event, name).to_owned());
            let mut newer = members(&answer, "EventId").map(read).peekable();
            while let Some(event) = newer.next_if(|[id, ..]| id != after) {
                news.push(event);
            }
            outside_lists(&answer, "NextToken").clone_into(&mut next);
            if newer.peek().is_some() || next.is_empty() {
                news.reverse();
                return Ok(news);
            }
        }
    }
}
