//! `hookonce drill`: what this build's handlers would do with stored deliveries, without writing.

use std::collections::BTreeMap;

use clap::Args;
use futures::StreamExt as _;
use hookonce_aws::DynamoStore;
use hookonce_protocol::call::{HandlerPlan, Planned, Split};
use hookonce_protocol::code::Code;
use hookonce_protocol::effect::EffectDraft;
use hookonce_protocol::item::{Item, Value};
use hookonce_protocol::key::{RECORD, RecordKind};
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{DomainWrite, Snapshot};
use hookonce_protocol::record::{Outcome, Record, Status};
use hookonce_protocol::timing::HANDLER_CALL_MAX;
use hookonce_protocol::write::{Action, Clause};
use hookonce_runtime::circuit_breaker::{FAILURES_MAX, OPEN_MIN};
use hookonce_runtime::port::Store as _;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::interrupt::{self, Interrupt};
use crate::output::{self, Cell};
use crate::records::dry_run::{DryRun, with_misfit};
use crate::records::looks::Look;
use crate::records::{Beginnings, Filter, Selection, note_default_since, shown_key, states, whole_keys};
use crate::stack::connection::Connection;
use crate::stack::target::{Target, store_unavailable};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A record, as `list` prints it; may be repeated.
    #[arg(long, num_args = 2, value_names = ["ENDPOINT", "KEY"])]
    key: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Number of records to try.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Also call handlers in other languages.
    ///
    /// They get the event, as in a delivery.
    #[arg(long)]
    call_handlers: bool,
    /// Print JSON lines: each record, and the summary.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// What a drill finds out about one record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Finding {
    /// The handlers would do what was done.
    Same,
    /// It is not applied yet, and the handlers would apply it.
    WouldApply,
    /// Nobody can say: the body was erased, or an operator gave it up.
    Skipped,
    /// The items that its plan creates and its effects are the same. What it updates or deletes cannot be compared.
    InPart(String),
    /// It was applied, and nothing of today's plan can be compared.
    NotCompared(String),
    /// Its handler is in another language, and such handlers are not called.
    HandlerNotCalled,
    /// The items are the same. Records of its effects have expired, so nobody can compare these.
    EffectsExpired,
    /// The handlers would do something else.
    Differs(String),
    /// The handlers fail.
    Fails(String),
    /// Its handler did not answer several calls in a row, and nobody calls it for a while.
    NotCalled(String),
}

impl Finding {
    const fn word(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::WouldApply => "would apply",
            Self::Skipped => "skipped",
            Self::InPart(_) => "in part",
            Self::NotCompared(_) => "not compared",
            Self::HandlerNotCalled => "not asked",
            Self::EffectsExpired => "unknown",
            Self::Differs(_) => "differs",
            Self::Fails(_) => "fails",
            Self::NotCalled(_) => "not called",
        }
    }

    fn why(&self) -> &str {
        match self {
            Self::Same | Self::WouldApply | Self::Skipped => "-",
            Self::HandlerNotCalled => "its handler is in another language; --call-handlers calls it",
            Self::EffectsExpired => "records of its effects have expired, so they cannot be compared",
            Self::InPart(why)
            | Self::NotCompared(why)
            | Self::Differs(why)
            | Self::Fails(why)
            | Self::NotCalled(why) => why,
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.filter.check()?;
    let stack = arguments.target.connect();
    let store = stack.whole_store().await?;
    let handlers = DryRun::of(store.clone(), &stack).await?;
    let handlers = if arguments.call_handlers { handlers.calling_handlers(&stack).await? } else { handlers };
    let drill = Drill { handlers, calls: arguments.call_handlers, store: store.clone() };
    let mut tally: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut table = output::table(&["drill", "state", "endpoint", "type", "why", "key"]);
    let Some((records, cut)) = read(&stack, &store, &arguments).await? else {
        output::note("stopped before a record was tried; nothing was changed");
        return Ok(Exit::No);
    };
    let (interrupt, total) = (Interrupt::watch()?, records.len());
    let bar = output::bar("drill", if arguments.json { 0 } else { u64::try_from(total).unwrap_or(0) });
    for record in records {
        if interrupt.came() {
            break;
        }
        let finding = drill.of(&record).await?;
        bar.inc(1);
        *tally.entry(finding.word()).or_default() += 1;
        let (endpoint, key) = record.key.parts();
        if arguments.json {
            let why = Some(finding.why()).filter(|why| *why != "-");
            let (state, result) = (record.state_word(), finding.word());
            output::json_line(
                &json!({ "endpoint": endpoint, "key": key, "state": state, "result": result, "why": why }),
            );
        } else if matches!(finding, Finding::Differs(_) | Finding::Fails(_) | Finding::NotCalled(_)) {
            table.add_row([
                finding.word().into(),
                Look::cell_of(&record),
                endpoint.into(),
                record.event_type.as_str().into(),
                finding.why().into(),
                Cell::from(shown_key(&record.key)),
            ]);
        }
    }
    bar.finish_and_clear();
    let left = total - tally.values().sum::<usize>();
    let of =
        |findings: [Finding; 2]| -> usize { findings.iter().filter_map(|finding| tally.get(finding.word())).sum() };
    let failed = of([Finding::Differs(String::new()), Finding::Fails(String::new())]);
    let sound = of([Finding::Same, Finding::WouldApply]);
    let default_since = if arguments.key.is_empty() { arguments.filter.default_since() } else { None };
    if arguments.json {
        let mut summary: BTreeMap<_, _> = tally.iter().map(|(word, count)| (*word, json!(count))).collect();
        summary.extend((cut || left > 0).then_some(("cut", json!(true))));
        summary.extend(default_since.or(arguments.filter.since).map(|since| ("since_ms", json!(since.0))));
        output::json_line(&json!({ "summary": summary }));
    } else {
        if table.row_count() > 0 {
            output::print(&table);
        }
        note_findings(&tally, cut, sound + failed > 0);
        if left > 0 {
            output::note(&format!("stopped before {left} more, which were read and not tried"));
        }
        note_default_since(default_since);
        let others = if drill.calls { ", and those in other languages are the ones that answered" } else { "" };
        output::note(&format!("nothing was written. The handlers are those of this build of hookonce{others}"));
    }
    Ok(if sound == 0 || failed + left > 0 { Exit::No } else { Exit::Done })
}

/// What a drill found, in sentences.
fn note_findings(tally: &BTreeMap<&'static str, usize>, cut: bool, compared: bool) {
    let counts: Vec<_> = tally.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let of = if counts.is_empty() { "no record matches".to_owned() } else { counts.join(", ") };
    output::note(&format!("{} tried: {of}", output::number_of(&tally.values().sum::<usize>(), "record")));
    if cut {
        output::note("there may be more records, which were not tried: raise --limit");
    }
    if tally.contains_key(Finding::HandlerNotCalled.word()) {
        output::note("handlers in other languages were not asked; --call-handlers calls them");
    }
    if tally.contains_key(Finding::NotCalled(String::new()).word()) {
        let (call, pause) = (HANDLER_CALL_MAX.0 / 1_000, OPEN_MIN.0 / 1_000);
        output::note(&format!(
            "not called: their handler did not answer {FAILURES_MAX} calls in a row, each within {call} s. It is then called \
             once in {pause} s or more"
        ));
    }
    if tally.contains_key(Finding::InPart(String::new()).word()) {
        output::note("in part: what their plans create is the same; what they update or delete is not compared");
    }
    if !compared {
        output::note("no record was compared as a whole, so this does not say that the handlers do the same");
    }
}

/// The records to try, and whether there may be more. `None` if Ctrl-C came first.
async fn read(
    stack: &Connection,
    store: &DynamoStore,
    arguments: &Arguments,
) -> Result<Option<(Vec<Record>, bool)>, Failure> {
    let _reading = output::working("reading records");
    tokio::select! {
        biased;
        () = interrupt::ctrl_c() => Ok(None),
        sampled = sample(stack, store, arguments) => sampled.map(Some),
    }
}

/// The records to try, and whether there may be more.
async fn sample(
    stack: &Connection,
    store: &DynamoStore,
    arguments: &Arguments,
) -> Result<(Vec<Record>, bool), Failure> {
    let (selection, limit) = if arguments.key.is_empty() {
        (Selection::Index(arguments.filter.clone()), arguments.limit)
    } else {
        let named: Vec<_> = arguments.key.chunks(2).map(<[String]>::to_vec).collect();
        (Selection::Keys(whole_keys(stack, store, &named, Beginnings::Allowed).await?), usize::MAX)
    };
    let (mut records, mut pages, mut is_over) = (Vec::new(), selection.pages(store, 1), false);
    while records.len() < limit && !is_over {
        match pages.next().await.transpose()? {
            Some(page) => {
                page.note_missing();
                records.extend(page.records);
            }
            None => is_over = true,
        }
    }
    let cut = !is_over && limit != usize::MAX;
    records.truncate(limit);
    Ok((records, cut))
}

struct Drill {
    store: DynamoStore,
    handlers: DryRun,
    /// Whether handlers in other languages are called.
    calls: bool,
}

impl Drill {
    async fn of(&self, record: &Record) -> Result<Finding, Failure> {
        // The payload of an effect is no event, and no handler sees it.
        if record.body.is_none() || record.status == Status::Discarded || record.effect.is_some() {
            return Ok(Finding::Skipped);
        }
        if record.key.kind() == RecordKind::Envelope {
            return Ok(self.of_envelope(record));
        }
        let settled = record.status == Status::Processed;
        if let Some(missing) = self.handlers.missing(record) {
            return Ok(Finding::Fails(format!("waits: {}", missing.what)));
        }
        let is_open = self.handlers.handler_is_open(record);
        let (planned, misfit) = self.handlers.plan(record).await;
        match planned {
            Planned::Plan(plan) => self.of_plan(record, &plan).await,
            Planned::NoHandler if settled && record.outcome != Some(Outcome::Ignored) => {
                Ok(Finding::Differs("no handler wants it any more".to_owned()))
            }
            Planned::NoHandler => Ok(Finding::Same),
            Planned::Failed(failure) => {
                Ok(Finding::Fails(self.of_handler(record, &with_misfit(&failure.code, misfit.as_deref()))))
            }
            Planned::CallsUsedUp => Ok(Finding::Fails(self.of_handler(record, "it has used up its calls"))),
            Planned::Unavailable | Planned::HandlerSlow { .. } => Err(store_unavailable()),
            Planned::UserTableUnavailable => {
                Ok(Finding::Fails(self.of_handler(record, Code::TableUnavailable.as_str())))
            }
            Planned::HandlerAway if !self.calls => Ok(Finding::HandlerNotCalled),
            Planned::HandlerAway if is_open => Ok(Finding::NotCalled(self.of_handler(record, "its circuit is open"))),
            Planned::HandlerAway => Ok(Finding::Fails(self.of_handler(record, "the handler is unavailable"))),
        }
    }

    /// A reason, with the handler in another language if the record has one.
    fn of_handler(&self, record: &Record, why: &str) -> String {
        self.handlers.handler(record).map_or_else(|| why.to_owned(), |handler| format!("{why}: {handler}"))
    }

    /// An envelope that has not ended: a closed one has no body.
    fn of_envelope(&self, envelope: &Record) -> Finding {
        match self.handlers.split(envelope) {
            Split::Events(_) => Finding::WouldApply,
            Split::Failed(failure) => Finding::Fails(failure.code),
        }
    }

    async fn of_plan(&self, record: &Record, plan: &HandlerPlan) -> Result<Finding, Failure> {
        let Some(tenant) = record.owner() else { return Ok(Finding::Skipped) };
        if let Err(error) = plan.check(&tenant) {
            return Ok(Finding::Fails(format!("PLAN_REFUSED: {error}")));
        }
        let domain_key = plan.domain_key.item(&tenant, &plan.consumer, &record.key, record.generation);
        let created = created(plan);
        let mut items = vec![ItemRef::from(domain_key.as_str())];
        items.extend(created.keys().cloned());
        let stored = self.store.read_items(&items).await.map_err(|_| store_unavailable())?;
        let by = stored.item(domain_key.as_str()).and_then(|item| item.get(RECORD)).and_then(Value::as_text);
        let mine = by == Some(record.key.as_str());
        if let Some(error) = self.handlers.unmet(record, plan, &domain_key).await? {
            return Ok(Finding::Fails(error));
        }
        Ok(match (record.status, record.outcome) {
            (Status::Pending | Status::Dead | Status::Discarded, _) => Finding::WouldApply,
            (Status::Processed, Some(Outcome::Applied)) if !mine => {
                Finding::Differs(format!("another business fact: {domain_key}"))
            }
            (Status::Processed, Some(Outcome::Applied)) => match changed(&created, &stored) {
                Finding::Same => match self.effects(record, &plan.effects).await? {
                    Finding::Same => compared(plan, &created),
                    finding => finding,
                },
                finding => finding,
            },
            (Status::Processed, Some(Outcome::Duplicate)) if by.is_some() && !mine => Finding::Same,
            (Status::Processed, _) => Finding::Differs(format!("it would be applied: {domain_key}")),
        })
    }

    /// Compares the effects that would be sent with those that the last commit sent.
    async fn effects(&self, record: &Record, drafts: &[EffectDraft]) -> Result<Finding, Failure> {
        if let Some(name) = record.effects.iter().find(|name| drafts.iter().all(|draft| draft.name != **name)) {
            return Ok(Finding::Differs(format!("it would not send the effect {name}")));
        }
        let sent = states(&self.store, record.effect_keys()).await?;
        let mut finding = Finding::Same;
        for draft in drafts {
            let Some(index) = record.effects.iter().position(|name| *name == draft.name) else {
                let EffectDraft { name, destination, .. } = draft;
                return Ok(Finding::Differs(format!("it would also send the effect {name} to {destination}")));
            };
            match sent.get(index).and_then(|(_, effect)| effect.as_ref()) {
                Some(effect) => {
                    let differing = differing(effect, draft);
                    if !differing.is_empty() {
                        let what = differing.join(", ");
                        return Ok(Finding::Differs(format!("the effect {} would have another {what}", draft.name)));
                    }
                }
                None => finding = Finding::EffectsExpired,
            }
        }
        Ok(finding)
    }
}

/// The parts in which the effect of today's plan differs from the one that was sent.
fn differing(effect: &Record, draft: &EffectDraft) -> Vec<&'static str> {
    let Some(sent) = &effect.effect else { return vec!["record"] };
    let parts = [
        ("destination", sent.destination == draft.destination),
        ("method", sent.method == draft.method),
        ("path", sent.path == draft.path),
        ("content type", sent.content_type == draft.content_type),
        ("payload", effect.body_sha256 == draft.sha256),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// The items that a plan creates. Only they can be compared later: an item that events share has changed since.
fn created(plan: &HandlerPlan) -> BTreeMap<ItemRef, &Item> {
    let creates =
        |write: &&DomainWrite| matches!(write.condition.0.as_slice(), [Clause::Absent(name)] if write.key.has(name));
    let writes = plan.plan.writes.iter().filter(creates);
    let items = writes.filter_map(|write| match &write.action {
        Action::Put(item) => Some((write.item(), item)),
        Action::Update(_) | Action::Delete | Action::Check => None,
    });
    items.collect()
}

/// How much of a plan was compared that would create the same items and send the same effects. An item that it updates
/// or deletes may have been changed by other events since.
fn compared(plan: &HandlerPlan, created: &BTreeMap<ItemRef, &Item>) -> Finding {
    let is_left = |write: &&DomainWrite| write.action != Action::Check && !created.contains_key(&write.item());
    let left = plan.plan.writes.iter().find(is_left);
    let why = left.map(|write| format!("other events may have changed {} since", write.item()));
    match (why, created.is_empty() && plan.effects.is_empty()) {
        (None, false) => Finding::Same,
        (Some(why), false) => Finding::InPart(why),
        (Some(why), true) => Finding::NotCompared(why),
        (None, true) => Finding::NotCompared("its plan writes nothing today".to_owned()),
    }
}

/// Compares the items that would be created with those that were. Names attributes, never their values.
fn changed(created: &BTreeMap<ItemRef, &Item>, stored: &Snapshot) -> Finding {
    for (name, item) in created {
        let Some(stored) = stored.item(name) else {
            return Finding::Differs(format!("it would create {name}, which was not created"));
        };
        let names = item.keys().chain(stored.keys()).filter(|attribute| !name.key.has(attribute));
        let differing: std::collections::BTreeSet<_> =
            names.filter(|name| item.get(*name) != stored.get(*name)).collect();
        if !differing.is_empty() {
            let names: Vec<_> = differing.into_iter().map(String::as_str).collect();
            return Finding::Differs(format!("{name} would have another {}", names.join(", ")));
        }
    }
    Finding::Same
}
