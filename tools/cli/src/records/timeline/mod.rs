//! What happened to a record, and what is to come: read once for `show`, its page as a file, and the console.

mod call;

use self::call::EffectCall;
use crate::failure::Failure;
use crate::output;
use crate::output::codes;
use crate::records::dry_run::{DryRun, Explained, with_misfit};
use crate::records::looks::Look;
use crate::records::{created_by, format_tries, states, summary, tries};
use crate::stack::connection::Connection;
use crate::stack::target::store_unavailable;
use hookonce_aws::DynamoStore;
use hookonce_protocol::call::{Planned, Split};
use hookonce_protocol::code::Code;
use hookonce_protocol::item::{Item, Value as Stored};
use hookonce_protocol::key::{RecordKey, RecordKind};
use hookonce_protocol::place::{ItemRef, Key};
use hookonce_protocol::record::{EffectPart, Outcome, Record, Status};
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::trail::{Entry, Trail};
use hookonce_protocol::write::Action;
use hookonce_providers::Catalog;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::inbox::operate::trails;
use hookonce_runtime::port::Store as _;
use hookonce_runtime::routes::Lack;
use serde_json::{Value, json};

/// The most children that are printed one by one.
pub(crate) const CHILDREN_MAX: usize = 20;

/// Of how many routes it is said why they do not take an event.
const WHYS_SHOWN_MAX: usize = 3;

/// For how many of the latest earlier generations, besides the first, it is shown when they were applied.
const GENERATIONS_MAX: i64 = 10;

/// What a domain key's item has: the record that applied the fact, and when.
pub(crate) const RECORD: &str = "record";
const APPLIED_AT: &str = "applied_at";

/// What it means that an applied record has no item under the domain key of today's plan: consumer and fact are part of
/// the key, and both come from routes and handlers. The audit finds the key of then by the record that it names.
const RENAMED: &str =
    "is the key of today only: routes or handlers have changed since the event was applied under another one";
/// Whether it is asked what today's handlers would do with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planning {
    /// No.
    Nothing,
    /// No, only which route takes it: that needs no handler.
    Routes,
    /// Those of this build.
    BuiltIn,
    /// Also those in other languages, which get the event.
    CallHandlers,
}

/// One step of what happened to a record, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: EpochMs,
    pub(crate) mark: Mark,
    pub(crate) what: String,
}

/// What a step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It is to come.
    ToCome,
}

/// What today's handler makes of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Today {
    /// It ignores it.
    Ignored,
    /// It fails.
    Fails,
    /// It names this fact.
    Fact(String),
    /// It plans, and its route names the fact.
    Plans,
}

/// A record and everything that belongs to it.
pub(crate) struct Timeline {
    pub(crate) record: Record,
    /// Whether the stack runs on this machine.
    is_local: bool,
    /// What operators did to it. `None` if the domain table is not known.
    trail: Option<Trail>,
    /// The records of its events, if it is an envelope.
    pub(crate) children: Vec<(RecordKey, Option<Record>)>,
    /// Whether there are more of these.
    pub(crate) has_more_children: bool,
    /// How it is called. `None` for what is no effect.
    call: Option<EffectCall>,
    /// The records of the effects that its last commit created.
    pub(crate) effects: Vec<(RecordKey, Option<Record>)>,
    /// The records that are left of the effects of earlier generations.
    pub(crate) earlier_effects: Vec<(RecordKey, Option<Record>)>,
    /// What today's handlers would do with it. `None` for an envelope and an effect, and if the domain table is not
    /// known.
    plan: Option<Planned>,
    /// Where the body does not fit what the handler reads.
    misfit: Option<String>,
    /// The condition of that plan that does not hold now.
    unmet: Option<String>,
    /// What its route names and this build lacks.
    missing: Option<Lack>,
    /// Which route takes it today, and why the others do not.
    pub(crate) routed: Option<Explained>,
    /// Which handlers were asked for it.
    planning: Planning,
    /// When it was applied before it was forced, by generation, as far as the domain keys are kept and today's plan
    /// names them.
    applied_before: Vec<(i64, EpochMs)>,
    /// What is stored under the keys of the plan. `None` if nobody asked.
    pub(crate) items: Option<Vec<(ItemRef, Option<Item>)>>,
}

/// An effect of an event: its calls, and what is known of it.
pub(crate) struct EffectStory {
    pub(crate) record: Record,
    pub(crate) steps: Vec<Step>,
    pub(crate) facts: Vec<(&'static str, String)>,
}

impl Timeline {
    /// Reads what belongs to a record, and at most these many children.
    ///
    /// # Errors
    /// [`Failure`] when the store does not answer.
    pub(crate) async fn of(
        stack: &Connection,
        store: &DynamoStore,
        record: Record,
        planning: Planning,
        children_max: usize,
    ) -> Result<Self, Failure> {
        // The record is shown even if today's routes cannot be read.
        let dry_run = match planning {
            Planning::Nothing => DryRun::without_routes(store.clone()),
            Planning::Routes | Planning::BuiltIn | Planning::CallHandlers => {
                match DryRun::of(store.clone(), stack).await {
                    Ok(dry_run) if planning == Planning::CallHandlers => dry_run.calling_handlers(stack).await?,
                    Ok(dry_run) => dry_run,
                    // Whoever asked for the routes alone sees that there are none.
                    Err(_) if planning == Planning::Routes => DryRun::without_routes(store.clone()),
                    Err(failure) => {
                        output::note(&format!("the plan of today is unknown: {failure}"));
                        output::note(failure.hint());
                        DryRun::without_routes(store.clone())
                    }
                }
            }
        };
        let (children, has_more_children) = if record.key.kind() == RecordKind::Envelope {
            children(store, &dry_run, &record, children_max).await?
        } else {
            (Vec::new(), false)
        };
        let call = match &record.effect {
            Some(part) => Some(EffectCall::of(stack, &record, part).await),
            None => None,
        };
        let effects = states(store, record.effect_keys()).await?;
        let mut earlier_effects = states(store, record.earlier_effect_keys()).await?;
        earlier_effects.retain(|(_, effect)| effect.is_some());
        let (trail, plan, missing, items, applied_before) = (None, None, None, None, Vec::new());
        let mut timeline = Self {
            record,
            is_local: stack.local().is_some(),
            trail,
            children,
            has_more_children,
            call,
            effects,
            earlier_effects,
            plan,
            misfit: None,
            unmet: None,
            missing,
            routed: None,
            planning,
            applied_before,
            items,
        };
        if stack.knows_domain() {
            timeline.add_domain(store, &dry_run).await?;
        }
        Ok(timeline)
    }

    /// Adds what the domain table knows.
    async fn add_domain(&mut self, store: &DynamoStore, dry_run: &DryRun) -> Result<(), Failure> {
        let record = &self.record;
        let mut trail = trails(store, &[record]).await.ok_or_else(store_unavailable)?.pop();
        // Leave out what was done to an expired record with the same key.
        if let Some(trail) = &mut trail {
            trail.entries.retain(|entry| entry.claim_id == record.claim_id);
        }
        let planned = self.planning != Planning::Nothing
            && matches!(record.key.kind(), RecordKind::Delivery | RecordKind::Event)
            && record.body.is_some();
        self.routed = if planned { dry_run.routed(record) } else { None };
        let planned = planned && self.planning != Planning::Routes;
        self.missing = if planned { dry_run.missing(record).map(|missing| missing.what) } else { None };
        let plan = if planned && self.missing.is_none() { Some(dry_run.plan(record).await) } else { None };
        self.trail = trail;
        if let Some((planned, misfit)) = plan {
            (self.plan, self.misfit) = (Some(planned), misfit);
        }
        if let (Some(Planned::Plan(plan)), Some(key)) = (&self.plan, self.domain_key(self.record.generation)) {
            // A table that this person may not read leaves out the condition, and not the timeline.
            self.unmet = dry_run.unmet(&self.record, plan, &key).await.unwrap_or_default();
        }
        self.applied_before = self.read_applied_before(store).await?;
        Ok(())
    }

    /// A force clears when the record was processed. The domain key of each generation still says when it was applied.
    async fn read_applied_before(&self, store: &DynamoStore) -> Result<Vec<(i64, EpochMs)>, Failure> {
        let record = &self.record;
        let latest = (record.generation - GENERATIONS_MAX).max(1)..record.generation;
        let generations: Vec<_> = (0..record.generation.min(1)).chain(latest).collect();
        if generations.is_empty() {
            return Ok(Vec::new());
        }
        let key = |generation| Some(ItemRef { table: None, key: Key::from(self.domain_key(generation)?.as_str()) });
        let Some(keys) = generations.iter().map(|generation| key(*generation)).collect::<Option<Vec<_>>>() else {
            return Ok(Vec::new());
        };
        let found = store.read_items(&keys).await.map_err(|_| store_unavailable())?;
        let applied = |item: &Item| {
            // Another record may have applied the fact first.
            let is_own = item.get(RECORD).and_then(Stored::as_text) == Some(record.key.as_str());
            item.get(APPLIED_AT).and_then(Stored::as_i64).filter(|_| is_own).map(EpochMs)
        };
        let times = generations.into_iter().zip(keys);
        Ok(times.filter_map(|(generation, key)| Some((generation, applied(found.item(key)?)?))).collect())
    }

    /// The domain key that the plan of today has in a generation.
    fn domain_key(&self, generation: i64) -> Option<String> {
        let Some(Planned::Plan(plan)) = &self.plan else { return None };
        Some(plan.domain_key.item(&self.record.owner()?, &plan.consumer, &self.record.key, generation))
    }

    /// What today's handler makes of the event. `None` if nobody knows.
    pub(crate) fn today(&self) -> Option<Today> {
        match self.plan.as_ref()? {
            Planned::Plan(plan) if plan.domain_key.as_str().starts_with('%') => Some(Today::Plans),
            Planned::Plan(plan) => Some(Today::Fact(plan.domain_key.as_str().to_owned())),
            Planned::NoHandler => Some(Today::Ignored),
            Planned::Failed(_) => Some(Today::Fails),
            Planned::CallsUsedUp
            | Planned::Unavailable
            | Planned::HandlerSlow { .. }
            | Planned::HandlerAway
            | Planned::UserTableUnavailable => None,
        }
    }

    fn call(&self) -> Option<(&EffectCall, &EffectPart)> {
        self.call.as_ref().zip(self.record.effect.as_deref())
    }

    /// The effects that have a record, each with its calls.
    pub(crate) async fn calls(&self, stack: &Connection) -> Vec<EffectStory> {
        let mut stories = Vec::new();
        for (_, record) in &self.effects {
            if let Some((record, part)) = record.as_ref().and_then(|record| Some((record, record.effect.as_deref()?))) {
                let facts = EffectCall::of(stack, record, part).await.facts(record, part);
                stories.push(EffectStory { record: record.clone(), steps: call::steps(record, part), facts });
            }
        }
        stories
    }

    /// When the pause of a record ends that failed. `None` if it is over, or if the relay sends it at its end.
    fn next_try(&self) -> Option<EpochMs> {
        let record = &self.record;
        let is_hidden = |at: &EpochMs| record.due.as_ref().is_none_or(|due| due.at > *at);
        let at = record.not_before.filter(|_| record.status == Status::Pending)?;
        Some(at).filter(is_hidden).filter(|at| *at > System.moment().now)
    }

    fn entries(&self) -> &[Entry] {
        self.trail.as_ref().map_or(&[], |trail| &trail.entries)
    }

    /// The domain key, and the keys of the plan's writes.
    fn effect(&self) -> Option<(String, Vec<(&'static str, ItemRef)>)> {
        let Some(Planned::Plan(plan)) = &self.plan else { return None };
        let key = self.domain_key(self.record.generation)?;
        let writes = plan.plan.writes.iter().map(|write| {
            let word = match write.action {
                Action::Put(_) => "put",
                Action::Update(_) => "update",
                Action::Delete => "delete",
                Action::Check => "check",
            };
            (word, write.item())
        });
        let checks = plan.plan.checks.iter().map(|check| ("check", check.item()));
        Some((key, writes.chain(checks).collect()))
    }

    /// Reads the domain key and the items of the plan.
    pub(crate) async fn read_items(&self, store: &DynamoStore) -> Result<Vec<(ItemRef, Option<Item>)>, Failure> {
        let Some((key, writes)) = self.effect() else {
            let only_the_handler_knows = matches!(self.plan, Some(Planned::HandlerAway));
            output::note(if only_the_handler_knows && self.planning != Planning::CallHandlers {
                "only the handler knows which items its plan names: --call-handlers asks it"
            } else {
                "no plan of today names items"
            });
            return Ok(Vec::new());
        };
        let domain_key = ItemRef { table: None, key: Key::from(key.as_str()) };
        let items: Vec<_> = std::iter::once(domain_key).chain(writes.into_iter().map(|(_, item)| item)).collect();
        let found = store.read_items(&items).await.map_err(|_| store_unavailable())?;
        Ok(items.into_iter().map(|item| (item.clone(), found.item(item).cloned())).collect())
    }

    /// Everything, for programs.
    pub(crate) fn json(&self) -> Value {
        let states = |records: &[(RecordKey, Option<Record>)]| -> Value {
            let state = |record: &Option<Record>| record.as_ref().map(Record::state_word);
            records.iter().map(|(key, record)| json!({ "key": key.parts().1, "state": state(record) })).collect()
        };
        let effect = self.effect();
        let writes = effect.iter().flat_map(|(_, writes)| writes);
        let writes: Value = writes.map(|(action, item)| write_or_check(action, item)).collect();
        let more = [
            ("operations", self.entries().iter().map(operation).collect()),
            ("applied_before", self.applied_before.iter().map(applied_before).collect()),
            ("children", states(&self.children)),
            ("effects", states(&self.effects)),
            ("earlier_effects", states(&self.earlier_effects)),
            ("domain_key_today", json!(effect.as_ref().map(|(key, _)| key))),
            ("writes", writes),
            ("unmet_condition", json!(self.unmet)),
            ("body_stored_bytes", json!(self.record.body.as_ref().map(Vec::len))),
            ("next_try_at_ms", json!(self.next_try().map(|at| at.0))),
            ("call", self.call().map_or(Value::Null, |(call, part)| call.json(&self.record, part))),
        ];
        let mut shown = summary(&self.record);
        let items = self.items.as_ref().map(|items| ("items", items.iter().map(stored_item).collect()));
        if let Some(shown) = shown.as_object_mut() {
            shown.extend(more.into_iter().chain(items).map(|(name, value)| (name.to_owned(), value)));
        }
        shown
    }

    /// Prints it for a person.
    pub(crate) fn print(&self) {
        let record = &self.record;
        let (endpoint, key) = record.key.parts();
        output::line(key);
        let again = if record.generation > 0 { format!(", generation {}", record.generation) } else { String::new() };
        let (state, style) = Look::text_of(record);
        let provider = Catalog::built_in().provider(&record.provider);
        let provider = provider.map_or(record.provider.as_str(), |provider| provider.name());
        let from = format!("{again}: {} from {provider} at the endpoint {endpoint}", record.event_type);
        output::styled_line("  ", (&state, &style), &from);
        output::line("");
        let mut table = output::table(&[]);
        for Step { at, what, .. } in self.steps() {
            table.add_row([output::local_moment(at), since(record.received_at, at), what]);
        }
        output::print(&table);
        let mut facts = output::table(&[]);
        for (name, value) in self.facts() {
            facts.add_row([name.to_owned(), value]);
        }
        output::line("");
        output::print(&facts);
    }

    /// What happened, in order of time, and then what is to come.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let record = &self.record;
        let secret = match record.secret_index {
            0 => "the newest secret".to_owned(),
            index => format!("secret {index}"),
        };
        let done = |at, what: String| Step { at, mark: Mark::Done, what };
        let failed = |at, what: String| Step { at, mark: Mark::Failed, what };
        let parent = record.parent.as_ref().map(|parent| parent.parts().1);
        let mut steps = match (&record.effect, parent) {
            (Some(_), Some(event)) => vec![done(record.received_at, format!("committed with the event {event}"))],
            (_, parent) => {
                let received = format!("received, verified with {secret}");
                let batch = parent.map(|batch| format!("part of the batch {batch}"));
                std::iter::once(received).chain(batch).map(|what| done(record.received_at, what)).collect()
            }
        };
        if let Some(at) = record.effect.as_ref().and_then(|effect| effect.first_call_at) {
            steps.push(done(at, "first call: from here on, the callee may have done it".to_owned()));
        }
        if let Some(effect) = &record.effect {
            steps.extend(call::steps(record, effect));
        } else {
            let attempts = record.failures.iter();
            steps.extend(attempts.map(|attempt| failed(attempt.at, format!("attempt failed: {}", attempt.code))));
        }
        if let (Some(at), true) = (record.last_seen_at, record.duplicate_count > 0) {
            steps.push(done(at, format!("last of {}", output::number_of(&record.duplicate_count, "duplicate"))));
        }
        steps.extend(self.applied_before.iter().map(|(generation, at)| match generation {
            0 => done(*at, "applied, before it was forced".to_owned()),
            generation => done(*at, format!("applied in generation {generation}")),
        }));
        steps.extend(self.entries().iter().map(|entry| done(entry.at, describe(entry))));
        if let (Some(at), Some(outcome)) = (record.processed_at, record.outcome) {
            steps.push(done(at, format!("processed: {outcome}, {}", format_attempts(record))));
        }
        if let (Some(at), Some(reason)) = (record.dead_at, record.dead_reason) {
            // The code of the last failure says more than "permanent".
            let code = record.last_error.as_deref().filter(|_| !record.outcome_unknown());
            let page = code.and_then(codes::explaining).unwrap_or_else(|| format!("`hookonce explain {reason}`"));
            let own = code.filter(|code| codes::explaining(code).is_none());
            let own = own.map_or_else(String::new, |code| format!("; {code} is its handler's own code"));
            steps.push(failed(at, format!("dead: {reason}, after {}; see {page}{own}", format_attempts(record))));
        }
        if let (Some(at), true) = (record.discarded_at, self.trail.is_none()) {
            steps.push(done(at, "discarded by an operator".to_owned()));
        }
        // Stable: what happened at one moment stays in the order above.
        steps.sort_by_key(|step| step.at);
        let to_come = |at, what: &str| Step { at, mark: Mark::ToCome, what: what.to_owned() };
        steps.extend(self.next_try().map(|at| to_come(at, "tried again about then")));
        if let (Some(due), Status::Pending) = (&record.due, record.status) {
            steps.push(to_come(due.at, "the relay sends it again if it is not settled by then"));
        }
        steps.extend(record.expires_at.map(|at| to_come(at.as_millis(), "expires")));
        steps
    }

    /// What a worker would do with it today.
    fn plan_today(&self, planned: &Planned) -> Vec<(&'static str, String)> {
        let outcome = match planned {
            Planned::Plan(plan) => {
                let refused = self.record.owner().and_then(|tenant| plan.check(&tenant).err());
                let mut facts: Vec<_> =
                    refused.map(|error| ("plan today", format!("PLAN_REFUSED: {error}"))).into_iter().collect();
                facts.extend(self.unmet.iter().map(|error| ("plan today", error.clone())));
                if let Some((key, writes)) = self.effect() {
                    facts.push(("domain key today", key));
                    facts.extend(writes.into_iter().map(|(action, item)| ("plan today", format!("{action} {item}"))));
                }
                let calls = plan.effects.iter();
                facts.extend(calls.map(|it| ("plan today", format!("call {} to {}", it.name, it.destination))));
                return facts;
            }
            Planned::NoHandler => self.without_route().unwrap_or_else(|| "no handler wants it".to_owned()),
            Planned::Failed(failure) => format!("fails with {}", with_misfit(&failure.code, self.misfit.as_deref())),
            Planned::Unavailable | Planned::CallsUsedUp | Planned::HandlerSlow { .. } => "unknown".to_owned(),
            Planned::UserTableUnavailable => "unknown: a table of its handler is missing or cannot be read".to_owned(),
            Planned::HandlerAway if self.planning == Planning::CallHandlers => {
                "unknown: its handler, in another language, does not answer".to_owned()
            }
            Planned::HandlerAway => {
                "unknown: only its handler, in another language, knows; --call-handlers asks it".to_owned()
            }
        };
        vec![("plan today", outcome)]
    }

    /// Why no route takes it. `None` if one does, or nobody knows.
    fn without_route(&self) -> Option<String> {
        let routed = self.routed.as_ref().filter(|routed| routed.route.is_none() && !routed.routes.is_empty())?;
        let why = routed.routes.iter().filter_map(|route| Some(format!("{} {}", route.name, route.why.as_ref()?)));
        let mut why: Vec<_> = why.collect();
        if let Some(more) = why.len().checked_sub(WHYS_SHOWN_MAX).filter(|more| *more > 0) {
            why.truncate(WHYS_SHOWN_MAX);
            why.push(format!("and {more} more"));
        }
        Some(format!("no route takes it: {}", why.join("; ")))
    }

    /// Where the message of a handler is that crashed: none of its texts is stored, as they may hold what nobody may read.
    fn message(&self) -> Option<String> {
        let record = &self.record;
        let crashed = record.last_error.as_deref() == Some(Code::HandlerCrashed.as_str());
        let log = if self.is_local {
            "the terminal of `hookonce dev`".to_owned()
        } else {
            format!("the worker's log (`hookonce explain {}`)", Code::HandlerCrashed)
        };
        let is_open = matches!(record.status, Status::Pending | Status::Dead);
        (crashed && is_open).then(|| format!("is not stored; look for {} in {log}", record.key))
    }

    /// What has no time of its own.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let record = &self.record;
        let mut facts = Vec::new();
        if let Some((call, part)) = self.call() {
            facts.extend(call.facts(record, part));
        }
        if record.attempts > 0 {
            facts.push(("failed attempts", format_failures(record)));
        }
        facts.extend(self.message().map(|message| ("handler's message", message)));
        if let (Some(since), Status::Pending) = (record.waits_since, record.status) {
            let code = record.last_error.as_deref().unwrap_or("no code");
            facts.push(("waits uncounted", format!("since {}, last error {code}", output::local_moment(since))));
        }
        if record.resends > 0 {
            facts.push(("sent again", format!("{} by the relay", output::number_of(&record.resends, "time"))));
        }
        facts.extend(self.plan.iter().flat_map(|plan| self.plan_today(plan)));
        facts.extend(self.missing.as_ref().map(|missing| ("plan today", format!("waits: {missing}"))));
        for (index, (item, stored)) in self.items.iter().flatten().enumerate() {
            let stored =
                stored.as_ref().map(|stored| if output::is_terminal() { readable(stored) } else { raw(stored) });
            let absent = if index == 0 && record.outcome == Some(Outcome::Applied) { RENAMED } else { "is not there" };
            facts.push(("stored", format!("{item} {}", stored.as_deref().unwrap_or(absent))));
        }
        for (key, child) in self.children.iter().take(CHILDREN_MAX) {
            let state = looked(child.as_ref(), "has no record");
            facts.push(("event", format!("{state} {}", key.parts().1)));
        }
        if self.children.len() > CHILDREN_MAX {
            facts.push(("event", format!("... and {} more", self.children.len() - CHILDREN_MAX)));
        }
        for (key, effect) in &self.effects {
            let state = looked(effect.as_ref(), "has expired");
            facts.push(("effect", format!("{state} {}", key.parts().1)));
        }
        for (key, effect) in &self.earlier_effects {
            let state = looked(effect.as_ref(), "has expired");
            facts.push(("earlier effect", format!("{state} {}", key.parts().1)));
        }
        let none = if record.outcome == Some(Outcome::FannedOut) { "its events have it" } else { "erased" };
        let body = record.body.as_ref().map_or(none.to_owned(), |body| format!("{} bytes stored", body.len()));
        facts.push(("body", body));
        facts
    }
}

/// The state of a record as people see it in lists, or what is said where there is none.
fn looked(record: Option<&Record>, none: &str) -> String {
    record.map_or_else(|| none.to_owned(), |record| Look::text_of(record).0)
}

/// The records of an envelope's events, these many at most, and whether there are more.
async fn children(
    store: &DynamoStore,
    dry_run: &DryRun,
    envelope: &Record,
    max: usize,
) -> Result<(Vec<(RecordKey, Option<Record>)>, bool), Failure> {
    if envelope.body.is_none() {
        let mut created = created_by(store, envelope, max).await?;
        let has_more = created.len() > max;
        created.truncate(max);
        return Ok((created.into_iter().map(|record| (record.key.clone(), Some(record))).collect(), has_more));
    }
    let Split::Events(events) = dry_run.split(envelope) else { return Ok((Vec::new(), false)) };
    let mut keys: Vec<_> = events.into_iter().map(|event| event.key).collect();
    let has_more = keys.len() > max;
    keys.truncate(max);
    Ok((states(store, keys).await?, has_more))
}

/// One entry of the audit trail, for people.
fn describe(entry: &Entry) -> String {
    let reason = if entry.reason.is_empty() { String::new() } else { format!(", \"{}\"", entry.reason) };
    let risk = match (entry.accept_duplicate, entry.accept_other_body) {
        (true, true) => ", accepting a duplicate and another body",
        (true, false) => ", accepting a duplicate",
        (false, true) => ", accepting another body",
        (false, false) => "",
    };
    let states = if entry.from == entry.to { entry.from.clone() } else { format!("{} to {}", entry.from, entry.to) };
    format!("{} by {}: {states}{risk}{reason}", entry.operation, entry.by)
}

/// A write or a check of the plan, for programs.
fn write_or_check(action: &str, item: &ItemRef) -> Value {
    let mut line = json!({ "action": action, "key": item.key });
    if let (Some(table), Some(line)) = (item.table, line.as_object_mut()) {
        line.insert("table".to_owned(), json!(table));
    }
    line
}

/// What is stored under a key, for programs: the item in DynamoDB's own JSON.
fn stored_item((item, stored): &(ItemRef, Option<Item>)) -> Value {
    json!({ "table": item.table, "key": item.key, "item": stored })
}

/// An item as a program reads it, in DynamoDB's own JSON.
fn raw(item: &Item) -> String {
    // Plain data always serialises.
    serde_json::to_string(item).unwrap_or_default()
}

/// An item as a person reads it: without its key, which stands before it, and without the types of its values.
fn readable(item: &Item) -> String {
    let fields = item.iter().filter(|(name, _)| !matches!(name.as_str(), "pk" | "sk"));
    fields.map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(" ")
}

fn plain(value: &Stored) -> String {
    let list = |values: Vec<String>| format!("[{}]", values.join(", "));
    match value {
        Stored::Text(text) => text.clone(),
        Stored::Flag(flag) => flag.to_string(),
        Stored::Bytes(bytes) => format!("({} bytes)", bytes.len()),
        Stored::Null(_) => "null".to_owned(),
        Stored::List(values) => list(values.iter().map(plain).collect()),
        Stored::Map(fields) => list(fields.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect()),
        Stored::Number(_) | Stored::TextSet(_) | Stored::NumberSet(_) | Stored::BytesSet(_) => {
            // Of the form `{"N":"1"}`.
            let json = serde_json::to_value(value).unwrap_or_default();
            let inner = json.as_object().and_then(|typed| typed.values().next());
            inner.map_or_else(String::new, |inner| inner.as_str().map_or_else(|| inner.to_string(), str::to_owned))
        }
    }
}

/// How often it failed. A replay begins to count again at zero.
fn format_failures(record: &Record) -> String {
    let since = if record.retries + record.generation > 0 { " since the last replay" } else { "" };
    // What is settled has no last error any more.
    let code = record.last_error.as_deref().or_else(|| Some(record.failures.last()?.code.as_str()));
    let code = code.map_or_else(String::new, |code| format!(", last error {code}"));
    format!("{}{since}{code}", record.attempts)
}

/// How often it was tried, and how often since a person let it run again.
fn format_attempts(record: &Record) -> String {
    let latest = record.attempts + i64::from(record.status == Status::Processed);
    let is_first = record.retries + record.generation == 0;
    let since =
        if is_first || tries(record) == latest { String::new() } else { format!(", {latest} since the last replay") };
    format!("{}{since}", output::number_of(&format_tries(record), "attempt"))
}

/// When a generation that a force ended was applied, for programs.
fn applied_before((generation, at): &(i64, EpochMs)) -> Value {
    json!({ "generation": generation, "applied_at_ms": at.0 })
}

/// One entry of the audit trail, for programs.
fn operation(entry: &Entry) -> Value {
    json!({
        "at_ms": entry.at.0,
        "by": entry.by,
        "operation": entry.operation,
        "from": entry.from,
        "to": entry.to,
        "reason": entry.reason,
        "accept_duplicate": entry.accept_duplicate,
        "accept_other_body": entry.accept_other_body,
    })
}

/// The time since the receipt, for a column.
fn since(from: EpochMs, to: EpochMs) -> String {
    if from == to { String::new() } else { format!("+{}", output::between(from, to)) }
}
