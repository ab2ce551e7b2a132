//! Pauses of a stack's functions: who paused one, since when and why, and how its event sources are switched.
//!
//! One item of the domain table for each function holds what was done, oldest first. It is written before an event
//! source changes, so whoever finds one off also finds the reason. A command that dies in between is run again.

mod deployed;
mod local;

use clap::ValueEnum;
use hookonce_aws::DynamoStore;
use hookonce_protocol::call::Written;
use hookonce_protocol::item::{Item, PARTITION_KEY, Value};
use hookonce_protocol::place::{ItemRef, Key};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::record::equals;
use hookonce_protocol::time::EpochMs;
use hookonce_protocol::trail::TRAIL_PREFIX;
use hookonce_protocol::write::{Action, Condition, Table, Write};
use hookonce_runtime::port::Store as _;
use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::stack::connection::Connection;
use crate::stack::target::store_unavailable;

pub(crate) use local::Switches;

/// The most acts that are kept. The oldest go first.
const ACTS_MAX: usize = 100;

const COUNT: &str = "count";
const ACTS: &str = "acts";

/// A function that takes messages, whose event sources can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PausedFunction {
    /// Runs handlers: without it, events wait.
    Worker,
    /// Calls destinations: without it, effects wait.
    Dispatcher,
}

impl PausedFunction {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Worker, Self::Dispatcher];

    /// Its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Dispatcher => "dispatcher",
        }
    }

    /// What waits while it is paused.
    pub(crate) const fn waiting(self) -> &'static str {
        match self {
            Self::Worker => "its events",
            Self::Dispatcher => "every effect",
        }
    }

    fn item(self) -> ItemRef {
        ItemRef { table: None, key: Key::from(format!("{TRAIL_PREFIX}pause#{}", self.as_str()).as_str()) }
    }
}

/// What a person did to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its event sources go off.
    Pause,
    /// They go on.
    Resume,
}

impl Turn {
    /// Its word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Pause, Self::Resume].into_iter().find(|turn| turn.as_str() == word)
    }
}

/// One act: who did it, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Act {
    /// What.
    pub(crate) turn: Turn,
    /// When.
    pub(crate) at: EpochMs,
    /// Who.
    pub(crate) by: String,
    /// Why. A resumption may have no reason.
    pub(crate) reason: String,
}

impl Act {
    /// Since when, by whom and why.
    pub(crate) fn described(&self) -> String {
        format!("since {} by {}: \"{}\"", output::local_moment(self.at), self.by, self.reason)
    }

    fn encode(&self) -> Value {
        let text = |name: &str, text: &str| (name.to_owned(), Value::from(text));
        Value::Map(Item::from([
            text("operation", self.turn.as_str()),
            ("at".to_owned(), Value::from(self.at.0)),
            text("by", &self.by),
            text("reason", &self.reason),
        ]))
    }

    fn decode(value: &Value) -> Option<Self> {
        let Value::Map(map) = value else { return None };
        let text = |name: &str| Some(map.get(name)?.as_text()?.to_owned());
        let act = Self {
            turn: Turn::parse(&text("operation")?)?,
            at: EpochMs(map.get("at")?.as_i64()?),
            by: text("by")?,
            reason: text("reason")?,
        };
        (act.encode() == *value).then_some(act)
    }

    /// The same, for programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        json!({ "since_ms": self.at.0, "by": self.by, "reason": self.reason })
    }
}

/// All that people did to one function, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Acts {
    count: i64,
    list: Vec<Act>,
    /// How much of it a later release wrote, so that this one does not understand it. Nothing is added to it.
    unread: usize,
}

impl Acts {
    fn decode(item: Option<&Item>) -> Self {
        let Some(item) = item else { return Self::default() };
        let count = item.get(COUNT).and_then(Value::as_i64);
        let list = if let Some(Value::List(acts)) = item.get(ACTS) { Some(acts) } else { None };
        let read: Vec<_> = list.into_iter().flatten().filter_map(Act::decode).collect();
        let others = item.keys().filter(|name| ![PARTITION_KEY, COUNT, ACTS].contains(&name.as_str())).count();
        let lost = list.map_or(1, |list| list.len() - read.len());
        Self { count: count.unwrap_or(0), list: read, unread: lost + others + usize::from(count.is_none()) }
    }

    /// The pause that holds now.
    pub(crate) fn pause(&self) -> Option<&Act> {
        self.list.last().filter(|act| act.turn == Turn::Pause)
    }

    /// The write that adds an act. It fails if somebody else added one since these were read. It never expires: a pause
    /// is not forgotten while it holds.
    fn add(&self, function: PausedFunction, act: &Act) -> Write {
        let first = (self.list.len() + 1).saturating_sub(ACTS_MAX);
        let acts = self.list.iter().skip(first).chain([act]).map(Act::encode).collect();
        let item = Item::from([
            (COUNT.to_owned(), Value::from(self.count.saturating_add(1))),
            (ACTS.to_owned(), Value::List(acts)),
        ]);
        let condition = match self.count {
            0 => Condition::item_absent(),
            count => Condition(vec![equals(COUNT, count)]),
        };
        Write {
            purpose: Purpose::NoteOperation,
            table: Table::Domain,
            key: function.item().key,
            action: Action::Put(item),
            condition,
        }
    }
}

/// What people did to both functions.
///
/// # Errors
/// [`Failure::Unavailable`] when the domain table does not answer.
pub(crate) async fn read(store: &DynamoStore) -> Result<[Acts; 2], Failure> {
    let items = PausedFunction::ALL.map(PausedFunction::item);
    let found = store.read_items(&items).await.map_err(|_| store_unavailable())?;
    Ok(items.map(|item| Acts::decode(found.item(item))))
}

/// What people did to a function.
///
/// # Errors
/// [`Failure::Unavailable`] when the domain table does not answer.
pub(crate) async fn read_one(store: &DynamoStore, function: PausedFunction) -> Result<Acts, Failure> {
    let [worker, dispatcher] = read(store).await?;
    Ok(match function {
        PausedFunction::Worker => worker,
        PausedFunction::Dispatcher => dispatcher,
    })
}

/// Writes an act behind those that were read.
///
/// # Errors
/// [`Failure`] when somebody else was first, or the domain table does not answer.
pub(crate) async fn note(store: &DynamoStore, function: PausedFunction, acts: &Acts, act: &Act) -> Result<(), Failure> {
    if acts.unread > 0 {
        return Err(Failure::usage(
            format!("a later release of hookonce paused or resumed the {}", function.as_str()),
            "use the command of that release: this one would lose what it wrote",
        ));
    }
    match store.write(&acts.add(function, act)).await {
        Written::Applied => Ok(()),
        Written::ConditionFailed(_) | Written::TransactionConflict => Err(Failure::unavailable(
            format!("someone else paused or resumed the {} at the same moment; nothing was changed", function.as_str()),
            "look at `hookonce status`, then run the command again",
        )),
        Written::Invalid | Written::Unavailable => Err(Failure::unavailable(
            format!(
                "the domain table did not take who paused the {} and why, so nothing was changed",
                function.as_str()
            ),
            "check the permission dynamodb:PutItem on the domain table, then run the command again",
        )),
    }
}

/// Switches the event sources of a function, and waits until each of them is off or on.
///
/// # Errors
/// [`Failure`] when that cannot be done, or takes too long. Running the command again goes on.
pub(crate) async fn switch(stack: &Connection, function: PausedFunction, turn: Turn) -> Result<(), Failure> {
    if let Some(deployed) = stack.deployed() {
        return Box::pin(deployed::switch(deployed, function, turn)).await;
    }
    local::switch(&stack.folder, function, turn).await
}

/// The failure of event sources that do not change in time.
fn too_slow(function: PausedFunction, turn: Turn) -> Failure {
    let wanted = match turn {
        Turn::Pause => "off",
        Turn::Resume => "on",
    };
    Failure::unavailable(
        format!("the event sources of the {} are not {wanted} yet", function.as_str()),
        "run the same command again: it waits for them; `hookonce status` shows the pause",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(turn: Turn, at: i64) -> Act {
        Act { turn, at: EpochMs(at), by: "ada".to_owned(), reason: "a wrong deploy".to_owned() }
    }

    fn applied(acts: &Acts, act: &Act) -> (Acts, Condition) {
        let write = acts.add(PausedFunction::Worker, act);
        let Action::Put(item) = write.action else { panic!("it puts the item") };
        (Acts::decode(Some(&item)), write.condition)
    }

    #[test]
    fn a_pause_holds_until_it_is_ended_and_each_act_names_the_state_that_it_starts_from() {
        let none = Acts::decode(None);
        assert_eq!(none.pause(), None);
        let (paused, first) = applied(&none, &act(Turn::Pause, 1));
        assert_eq!((paused.pause(), first), (Some(&act(Turn::Pause, 1)), Condition::item_absent()));
        let (resumed, second) = applied(&paused, &act(Turn::Resume, 2));
        assert_eq!((resumed.pause(), second), (None, Condition(vec![equals(COUNT, 1)])));
        assert_eq!(resumed.list, [act(Turn::Pause, 1), act(Turn::Resume, 2)]);
    }

    #[test]
    fn the_oldest_acts_go_first() {
        let mut acts = Acts::default();
        for at in 0..150 {
            acts = applied(&acts, &act(Turn::Pause, at)).0;
        }
        assert_eq!((acts.count, acts.list.len()), (150, ACTS_MAX));
        assert_eq!((acts.list.first(), acts.pause()), (Some(&act(Turn::Pause, 50)), Some(&act(Turn::Pause, 149))));
    }

    /// `tests/stored` holds what each release wrote.
    #[test]
    fn what_every_release_wrote_is_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/stored");
        let releases = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for release in releases.filter(|path| path.is_dir()) {
            let stored = std::fs::read_to_string(release.join("stored.json")).unwrap();
            let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
            let item: Item = serde_json::from_value(stored["pause"].clone()).unwrap();
            let acts = Acts::decode(Some(&item));
            assert_eq!((acts.list.len(), acts.unread), (2, 0), "{}", release.display());
            if release.ends_with("unreleased") {
                let at = acts.list[0].at;
                let act = |turn| Act { turn, at, by: "ada".to_owned(), reason: "a test".to_owned() };
                let acts = applied(&Acts::default(), &act(Turn::Pause)).0;
                let write = acts.add(PausedFunction::Worker, &act(Turn::Resume));
                let Action::Put(mut now) = write.action else { panic!("it puts the item") };
                now.insert(PARTITION_KEY.to_owned(), Value::from(write.key.to_string().as_str()));
                assert_eq!(now, item, "tests/stored/forms.rs is not what is written today");
            }
        }
    }

    /// What is written next would drop an act that is not understood.
    #[test]
    fn acts_of_a_later_release_are_seen_and_not_rewritten() {
        let act = act(Turn::Pause, 7);
        let Action::Put(mut item) = Acts::default().add(PausedFunction::Worker, &act).action else { panic!("a put") };
        item.insert(PARTITION_KEY.to_owned(), Value::from("#op#pause#worker"));
        let read = Acts::decode(Some(&item));
        assert_eq!((read.pause(), read.unread), (Some(&act), 0));
        let mut changed = item.clone();
        changed.insert("zz_later".to_owned(), Value::from(1));
        let mut less = item.clone();
        less.remove(COUNT);
        let with = |acts: Value| Item::from([(ACTS.to_owned(), acts), (COUNT.to_owned(), Value::from(1))]);
        let mut later = Item::new();
        if let Value::Map(fields) = act.encode() {
            later = fields;
        }
        later.insert("operation".to_owned(), Value::from("ZZ_LATER"));
        for item in [changed, less, with(Value::from("ZZ_LATER")), with(Value::List(vec![Value::Map(later)]))] {
            assert_eq!(Acts::decode(Some(&item)).unread, 1, "{item:?}");
        }
    }
}
