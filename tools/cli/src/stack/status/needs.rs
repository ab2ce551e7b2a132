//! What needs a person, and what to do.

use hookonce_protocol::time::{EpochMs, Millis};

use super::records::{Due, TopError, Unreached};
use super::{AwsStatus, OVERDUE, RefusedDocument, StackStatus};
use crate::output;
use crate::output::codes::section;
use crate::stack::pauses::PausedFunction;
use crate::stack::watch::{Alarm, Requests, no_alarms};

/// How long the relay may not run before somebody should know. The alarm of the template says the same.
pub(crate) const RELAY_AWAY: Millis = Millis::minutes(10);

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    /// A word for programs.
    pub(crate) word: String,
    /// How many there are. Zero where there is nothing to count.
    pub(crate) count: u64,
    /// What is wrong, as a sentence that goes on after the count, without its end.
    pub(crate) what: String,
    /// The command that shows or ends it, or what else to do. Empty where the sentence says it, as alarms do.
    pub(crate) next: String,
    /// The page that says what to do: the name of an alarm with a section of the runbook, or a path of this repository.
    /// Empty where the sentence names it.
    pub(crate) page: String,
    /// The filter that finds its records, as `list` names its options. Empty if it is about no records.
    pub(crate) records: Vec<(&'static str, String)>,
}

impl Need {
    pub(super) fn new(word: impl Into<String>, what: impl Into<String>, next: impl Into<String>, page: &str) -> Self {
        Self {
            word: word.into(),
            count: 0,
            what: what.into(),
            next: next.into(),
            page: page.to_owned(),
            records: Vec::new(),
        }
    }

    pub(super) fn about<const N: usize>(self, records: [(&'static str, &str); N]) -> Self {
        Self { records: records.map(|(name, value)| (name, value.to_owned())).to_vec(), ..self }
    }

    pub(super) fn counted(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// The count and what is wrong.
    pub(crate) fn sentence(&self) -> String {
        if self.count == 0 { self.what.clone() } else { format!("{} {}", self.count, self.what) }
    }
}

impl StackStatus {
    /// The destinations that effects wait for.
    pub(crate) fn unreached(&self) -> impl Iterator<Item = &Unreached> {
        self.records.unreached.iter().flatten()
    }

    /// What needs a person, the most urgent first.
    pub(crate) fn needs(&self, now: EpochMs) -> Vec<Need> {
        let mut needs = self.aws.as_ref().map(|aws| needs_on_aws(aws, now)).unwrap_or_default();
        needs.extend(self.aws.iter().flat_map(|aws| self.needs_of_functions(aws)));
        needs.extend(self.paused().map(|(function, act)| {
            let name = function.as_str();
            let what = format!("the {name} is paused {}, and {} wait", act.described(), function.waiting());
            let next = format!("hookonce resume {name}");
            Need::new(format!("{name}_paused"), what, next, "docs/run/runbook.md#containment")
        }));
        needs.extend(self.records.dead.as_ref().ok().filter(|dead| dead.count > 0).map(|dead| self.died(dead)));
        let lists = [
            ("overdue", &self.records.pending, "a record", "the relay does not run or cannot keep up"),
            (
                "waiting_overdue",
                &self.records.waiting,
                "an event that waits",
                "the relay does not run or cannot keep up",
            ),
            ("effects_overdue", &self.records.effects, "an effect", "relay or dispatcher do not run or cannot keep up"),
        ];
        for (name, due, what, cause) in lists {
            let oldest = due.as_ref().ok().and_then(|due| due.oldest);
            if let Some(oldest) = oldest.filter(|oldest| now.0 - oldest.0 > OVERDUE.0) {
                let age = output::since(oldest, now);
                let text = format!("{what} has been due for {age}: {cause}");
                let next = "hookonce stats --state PENDING";
                let page = "docs/run/runbook.md#records-are-overdue";
                needs.push(Need::new(name, text, next, page).about([("state", "PENDING")]));
            }
        }
        needs.extend(self.unreached().filter(|it| now.0 - it.since.0 > OVERDUE.0).map(|it| {
            let Unreached { destination, count, at_least, since, error } = it;
            let wait = match (count, at_least) {
                (1, false) => "effect waits",
                (_, false) => "effects wait",
                (_, true) => "effects, and perhaps more, wait",
            };
            let what = format!("{wait} for the destination {destination}, for {}: {error}", output::since(*since, now));
            let next = format!("hookonce destination test {destination}");
            let page = "docs/run/runbook.md#a-destination-is-unavailable";
            let waiting = [("state", "PENDING"), ("kind", "effect"), ("destination", destination.as_str())];
            Need::new(format!("destination_away:{destination}"), what, next, page).counted(*count).about(waiting)
        }));
        needs.extend(self.routes.iter().flatten().map(|refusal| {
            // Where there is none, it says how one is deployed.
            let next = if self.aws.is_some() { "hookonce doctor" } else { "hookonce route check" };
            Need::new("routes_refused", refusal, next, "docs/run/runbook.md#routes-are-refused")
        }));
        needs.extend(self.refused.iter().flat_map(|refused| RefusedDocument::needs(refused)));
        needs.extend(self.refusing.iter().map(|(endpoint, count, code)| {
            let what = format!("deliveries in a row were refused at {endpoint}, the latest with {code}");
            let page = "docs/run/runbook.md#an-endpoint-is-silent";
            Need::new(
                format!("refused:{endpoint}"),
                what,
                format!("hookonce verify --last --endpoint {endpoint}"),
                page,
            )
            .counted(*count)
        }));
        needs.extend(self.silent.iter().flatten().flatten().map(|silent| silent.need(now)));
        let letters = self.depths.dead_letters.as_ref().ok().and_then(Option::as_ref);
        needs.extend(letters.filter(|letters| letters.visible > 0).map(|letters| {
            let what = if letters.visible == 1 {
                "dead letter waits for the relay"
            } else {
                "dead letters wait for the relay"
            };
            let page = "docs/run/runbook.md#dead-letters-wait";
            Need::new("dead_letters", what, "hookonce doctor", page).counted(letters.visible)
        }));
        needs
    }

    /// The dead records: how many are effects, and what most of them died of.
    fn died(&self, dead: &Due) -> Need {
        let all_are_effects = dead.known() == Some(dead.effects);
        let are = match (all_are_effects, dead.count == 1) {
            (false, true) => "record is DEAD",
            (false, false) => "records are DEAD",
            (true, true) => "effect is DEAD",
            (true, false) => "effects are DEAD",
        };
        let more = if dead.at_least { ", and more" } else { "" };
        let effects = match (dead.effects, dead.effects_at_least) {
            (0, _) => String::new(),
            _ if all_are_effects => String::new(),
            (effects, false) => format!(", {effects} of them effects"),
            (effects, true) => format!(", at least {effects} of them effects"),
        };
        let top = self.records.top_error.as_ref().ok().and_then(Option::as_ref);
        let top = top.map_or_else(String::new, |TopError { count, of, error, endpoint, event_type }| {
            let share = if count == of && u64::try_from(*of) == Ok(dead.count) {
                String::new()
            } else {
                format!("{count} of {of} that were looked at, ")
            };
            format!(": {share}{error} at {endpoint}, {event_type}")
        });
        Need::new(
            "records_died",
            format!("{are}{more}{effects}{top}"),
            "hookonce stats --state DEAD",
            if all_are_effects { "docs/run/runbook.md#effects-died" } else { "docs/run/runbook.md#records-died" },
        )
        .counted(dead.count)
        .about([("state", "DEAD")])
    }

    /// Event sources that do not do what people last asked for.
    fn needs_of_functions(&self, aws: &AwsStatus) -> Vec<Need> {
        let Ok(functions) = &aws.functions else { return Vec::new() };
        let need = |(function, is_on): (PausedFunction, bool)| {
            let name = function.as_str();
            let is_paused = self.paused().any(|(paused, _)| paused == function);
            let next = format!("hookonce resume {name}");
            let what = match (is_on, is_paused) {
                (false, false) => format!(
                    "an event source of the {name} is off, so {} wait, and no pause says why: resume it as soon as it may run",
                    function.waiting()
                ),
                (true, true) => {
                    format!(
                        "the pause of the {name} did not reach its event sources: they are on. Pause it again, or resume it"
                    )
                }
                (true, false) | (false, true) => return None,
            };
            let word = if is_on { "on" } else { "off" };
            Some(Need::new(format!("{name}_{word}"), what, next, "docs/run/runbook.md#containment"))
        };
        let both = [
            (PausedFunction::Worker, functions.worker_is_on),
            (PausedFunction::Dispatcher, functions.dispatcher_is_on),
        ];
        both.into_iter().filter_map(need).collect()
    }
}

fn needs_on_aws(aws: &AwsStatus, now: EpochMs) -> Vec<Need> {
    let Ok(watch) = &aws.watch else { return Vec::new() };
    let raised = |alarm: &Alarm| {
        let since = alarm.since.map_or_else(String::new, |since| format!(" for {}", output::since(since, now)));
        let what = format!("{} {}, raised{since}: {}", alarm.severity(), alarm.name, alarm.description);
        // An alarm that somebody added has no section.
        let page = section(&alarm.name).map_or("", |_| &alarm.name);
        Need::new(format!("alarm:{}", alarm.name), what, "", page)
    };
    let mut needs: Vec<_> = watch.alarms.raised.iter().map(raised).collect();
    if watch.alarms.count == 0 {
        let none = no_alarms(&aws.stack);
        needs.push(Need::new("no_alarms", none.to_string(), none.hint(), "docs/run/alerts.md"));
    }
    if watch.relay_ran_at.is_none_or(|at| now.0 - at.0 > RELAY_AWAY.0) {
        let what = "the relay has not run for ten minutes";
        needs.push(Need::new("relay_away", what, "hookonce doctor", "docs/run/runbook.md#the-relay-does-not-run"));
    }
    if let Some(requests) = aws.requests.iter().flatten().find(|requests| requests.are_near_limit()) {
        let Requests { busiest, at, .. } = requests;
        let (ago, percent) = (output::ago(*at, now), requests.percent());
        let what = format!(
            "a minute had {busiest} requests, {ago}: {percent} % of what the gateway's limit allows. Above it, the \
             gateway answers deliveries with 429"
        );
        let next = "deploy the stack with a higher RequestsPerSecondMax and RequestBurstMax";
        needs.push(Need::new("requests_near_limit", what, next, "docs/run/runbook.md#the-gateway-refuses"));
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::stack::lambda::DeployedFunctions;
    use crate::stack::status::{Depth, Depths, Records};
    use crate::stack::watch::{Alarms, Watch};

    /// A stack in which everything goes wrong that a status can show, for longer than it may.
    fn troubled() -> StackStatus {
        let due = || {
            let mut due = Due::default();
            (due.count, due.oldest) = (1, Some(EpochMs(0)));
            Ok(due)
        };
        let error = "DESTINATION_UNAVAILABLE".to_owned();
        let unreached =
            Unreached { destination: "crm".to_owned(), count: 2, at_least: false, since: EpochMs(0), error };
        let records = Records {
            pending: due(),
            waiting: due(),
            effects: due(),
            dead: due(),
            top_error: Ok(None),
            unreached: Ok(vec![unreached]),
        };
        let depth = |visible| Ok(Some(Depth { name: String::new(), visible, in_flight: 0, delayed: 0, oldest: None }));
        let depths = Depths { queue: depth(0), slow_queue: depth(0), effects_queue: depth(0), dead_letters: depth(1) };
        let unknown = || Failure::unavailable("unknown", "");
        let aws = AwsStatus {
            stack: "inbox".to_owned(),
            caller: Err(unknown()),
            version: Err(unknown()),
            watch: Ok(Watch {
                alarms: Alarms { count: 0, raised: vec![], mute: vec![], missing: vec![], topics: vec![] },
                relay_ran_at: None,
            }),
            functions: Ok(DeployedFunctions {
                codes: vec![],
                worker_is_on: false,
                dispatcher_is_on: false,
                executions_max: 0,
                worker: vec![],
                dispatcher: vec![],
            }),
            requests: Ok(Some(Requests { busiest: 5_000, at: EpochMs(0), limit: 100 })),
        };
        let refusing = vec![("stripe".to_owned(), 3, "signature_mismatch".to_owned())];
        let routes = Ok(Some("routes refused".to_owned()));
        StackStatus {
            records,
            depths,
            pauses: Ok(None),
            local: None,
            routes,
            refused: Ok(vec![]),
            refusing,
            silent: Ok(None),
            aws: Some(aws),
        }
    }

    #[test]
    fn what_died_is_named_by_its_kind() {
        let cases = [
            (1, 0, false, "record is DEAD"),
            (2, 0, false, "records are DEAD"),
            (3, 1, false, "records are DEAD, 1 of them effects"),
            (1, 1, false, "effect is DEAD"),
            (2, 2, false, "effects are DEAD"),
            (2, 2, true, "records are DEAD, and more, 2 of them effects"),
        ];
        for (count, effects, at_least, expected) in cases {
            let mut dead = Due::default();
            (dead.count, dead.effects, dead.at_least) = (count, effects, at_least);
            assert_eq!(troubled().died(&dead).what, expected);
        }
    }

    #[test]
    fn where_not_all_effects_were_looked_at_there_may_be_more() {
        let mut status = troubled();
        for it in status.records.unreached.iter_mut().flatten() {
            it.at_least = true;
        }
        let needs = status.needs(EpochMs(3_600_000));
        let away = needs.iter().find(|need| need.word == "destination_away:crm").unwrap();
        assert!(away.sentence().starts_with("2 effects, and perhaps more, wait for the destination crm"), "{away:?}");
    }

    #[test]
    fn every_need_has_a_next_step_and_a_page() {
        let needs = troubled().needs(EpochMs(3_600_000));
        assert_eq!(needs.len(), 13, "{needs:?}");
        for need in &needs {
            let is_command =
                need.next.starts_with("hookonce ") || ["no_alarms", "requests_near_limit"].contains(&&*need.word);
            assert!(is_command && need.page.starts_with("docs/run/"), "{need:?}");
        }
        let found: Vec<_> = needs.iter().filter(|need| !need.records.is_empty()).map(|need| &*need.word).collect();
        assert_eq!(found, ["records_died", "overdue", "waiting_overdue", "effects_overdue", "destination_away:crm"]);
    }
}
