//! Effects: an event that commits with one, and what becomes of it.

use hookonce_protocol::destination::Class;
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;

use super::super::callee::Document;
use super::{Clock, Scenario, far, near, one};

/// How long the callees of the model honour a key.
const WINDOW: Millis = Millis::minutes(20);

const KEYED: Document =
    Document { class: Class::Keyed { window: WINDOW }, callee: "keyed", server: 0, answers_done_before: false };
const ANSWERS_DONE_BEFORE: Document = Document { answers_done_before: true, ..KEYED };
const OTHER_KEYED: Document = Document { callee: "keyed elsewhere", server: 1, ..KEYED };
const AT_MOST_ONCE: Document = Document { class: Class::AtMostOnce, callee: "at most once", ..KEYED };
const AT_LEAST_ONCE: Document = Document { class: Class::AtLeastOnce, callee: "at least once", ..KEYED };

/// The project's own durations, with horizons of effects that a few steps cross.
fn timing() -> Timing {
    Timing { key_margin: Millis::seconds(150), effect_age_max: Millis::minutes(60), ..near() }
}

impl Scenario {
    /// One event with one effect, from its commit on.
    fn of_effect(name: &'static str, documents: &[Option<Document>]) -> Self {
        let (documents, give_up_after) = (documents.to_vec(), Millis::minutes(40));
        Self { documents, timing: timing(), give_up_after, committed: true, ..one(name, 1) }
    }

    /// Until the TTL has removed everything.
    fn over_the_horizon(self) -> Self {
        let timing = Timing { key_margin: self.timing.key_margin, ..far() };
        Self { timing, clock: Clock::Far, ..self }
    }

    /// From the delivery on.
    fn since_delivery(self) -> Self {
        Self { committed: false, ..self }
    }
}

/// Pauses that end long after the next hint may come.
fn patient(scenario: Scenario) -> Scenario {
    let timing = Timing { backoff_base: Millis::hours(1), ..scenario.timing };
    Scenario { timing, entropy: 1_000_000, ..scenario }
}

/// Every scenario with effects.
pub(super) fn all() -> Vec<Scenario> {
    let keyed = |name| Scenario::of_effect(name, &[Some(KEYED)]);
    let once = |name| Scenario::of_effect(name, &[Some(AT_MOST_ONCE)]);
    let least = |name| Scenario::of_effect(name, &[Some(AT_LEAST_ONCE)]);
    let edited = Scenario::of_effect;
    vec![
        keyed("keyed: crashes and zombies").with("crash refuse late duplicate tick"),
        once("at most once: crashes and zombies").with("crash refuse late duplicate tick*2"),
        least("at least once: crashes and zombies").with("crash refuse late duplicate tick"),
        keyed("keyed: answers").with("busy reject ambiguous refuse duplicate tick*2"),
        once("at most once: answers").with("busy*2 reject ambiguous duplicate late"),
        patient(once("at most once: not done, and left to the relay")).with("busy*2"),
        least("at least once: answers").with("busy reject ambiguous refuse duplicate tick"),
        edited("keyed, and says that it was done before", &[Some(ANSWERS_DONE_BEFORE)])
            .with("crash refuse late duplicate reject tick"),
        edited("keyed, and says of something else that it was done before", &[Some(ANSWERS_DONE_BEFORE)])
            .with("ambiguous busy*2 reject duplicate accept"),
        keyed("keyed: at the end of the window").with("refuse late tick*4 lose"),
        keyed("keyed: not done at the end of the window").with("refuse busy tick*2"),
        least("at least once: given up").with("refuse*2 tick*3"),
        keyed("an effect, writes repeated").with("repeat*2 invalid conflict refuse duplicate busy"),
        once("at most once: writes repeated").with("repeat invalid conflict refuse"),
        keyed("an effect, dead letters").with("redrive*3 duplicate refuse"),
        once("at most once: dead letters").with("redrive*3 duplicate refuse crash"),
        once("an effect, operators").with("retry accept discard reject refuse duplicate"),
        keyed("keyed: operators").with("retry accept reject refuse duplicate"),
        least("at least once: operators").with("retry discard refuse reject duplicate tick"),
        patient(least("copies of a hint of an effect")).with("busy refuse duplicate*2 tick relay"),
        keyed("an effect, the relay and a stale index").with("lose stale relay tick refuse"),
        edited("a destination that goes away", &[Some(KEYED), None]).with("edit away refuse duplicate tick"),
        edited("a destination that comes", &[None, Some(AT_MOST_ONCE)]).with("edit away refuse duplicate tick"),
        edited("keyed, moved to another callee", &[Some(KEYED), Some(OTHER_KEYED)])
            .with("edit refuse crash busy duplicate"),
        edited("a destination with another class", &[Some(AT_LEAST_ONCE), Some(AT_MOST_ONCE), Some(KEYED)])
            .with("edit*2 refuse crash duplicate"),
        once("an effect, its inbox rewound").with("backup rewind force").since_delivery(),
        keyed("an effect, doubted").with("doubt reject retry accept"),
        keyed("an effect, from the delivery on").with("crash refuse duplicate conflict").since_delivery(),
        once("an effect, forced").with("force duplicate late refuse reject discard"),
        least("an effect over the horizon").with("tick*2 duplicate force").over_the_horizon(),
    ]
}
