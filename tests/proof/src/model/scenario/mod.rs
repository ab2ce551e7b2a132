//! The starting point of a model run: deliveries, and how much may go wrong.

mod effect;

use hookonce_protocol::ingress::{OnBodyMismatch, OnStoreOutage};
use hookonce_protocol::time::Millis;
use hookonce_protocol::timing::Timing;

use super::callee::Document;
use super::state::{BUDGETS, Budget};

/// What a delivery is to the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One delivery, one event, under the delivery's id.
    Delivery,
    /// One event of a provider that batches.
    Event,
    /// Several events, one character of the body each.
    Envelope,
}

/// How far the clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Only to the times at which records fall due.
    Near,
    /// To expiries and ages, too.
    Far,
    /// Far, and a worker may be overtaken by any length of time, not only by the age of a zombie.
    Overtaking,
    /// Far, and the relay may miss its whole horizon.
    RelayDown,
}

impl Clock {
    /// It goes to expiries and ages.
    pub fn is_far(self) -> bool {
        self != Self::Near
    }

    /// The relay may miss its whole horizon.
    pub fn relay_may_be_down(self) -> bool {
        self == Self::RelayDown
    }
}

/// One delivery that a provider may make, several times.
#[derive(Debug, Clone, Copy)]
pub struct DeliverySpec {
    /// Its id: the same id is the same record.
    pub id: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its body: one character for each event; the character names the business fact, `a` or `b`. No handler wants any
    /// other.
    pub body: &'static str,
    /// How often the provider makes it.
    pub attempts: u8,
}

/// One exploration.
#[expect(clippy::struct_excessive_bools, reason = "each is one way in which a run begins, and several may hold")]
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The deliveries.
    pub deliveries: Vec<DeliverySpec>,
    /// How much may go wrong.
    pub budgets: [u8; BUDGETS],
    /// While the store is down.
    pub on_outage: OnStoreOutage,
    /// When an id comes with another body.
    pub on_mismatch: OnBodyMismatch,
    /// The durations.
    pub timing: Timing,
    /// The random bits of every step.
    pub entropy: u64,
    /// How many workers run at once.
    pub workers: usize,
    /// How many relay runs overlap.
    pub relays: usize,
    /// Until when the provider re-delivers, where that is longer than the durations say.
    pub window: Millis,
    /// How far the clock goes.
    pub clock: Clock,
    /// The handler's plan depends on what it saw, so that plans can be overtaken.
    pub contended: bool,
    /// At first, no route wants any event.
    pub unrouted: bool,
    /// An event that the store can never take: it fits into no item.
    pub unstorable: Option<&'static str>,
    /// The documents of the destination that each event has an effect for, one after the other; `None` where it is
    /// away. No event has an effect if there are none.
    pub documents: Vec<Option<Document>>,
    /// How long an effect is tried.
    pub give_up_after: Millis,
    /// It begins where the event is committed and the hint of its effect is sent.
    pub committed: bool,
    /// Run per change, not only in the long form.
    pub short: bool,
}

/// The project's own durations, with fewer attempts so that their end is near.
fn near() -> Timing {
    Timing { attempts_max: 2, shards: 1, ..Timing::standard() }
}

/// Durations in which a few relay runs span every horizon. The inequalities between horizons hold as in production;
/// only the ratio of intervals to horizons (Q10) is smaller, so that a handful of steps crosses one.
fn far() -> Timing {
    Timing {
        provider_window: Millis::days(9),
        queue_retention: Millis::days(7),
        accept_age_max: Millis::days(8),
        delivery_retention: Millis::days(12),
        commit_age_max: Millis::days(11),
        effect_retention: Millis::days(21),
        first_resend: Millis::days(5),
        resend_interval_max: Millis::days(5),
        visibility_timeout: Millis::hours(1),
        ..near()
    }
}

impl Scenario {
    fn new(name: &'static str, deliveries: Vec<DeliverySpec>) -> Self {
        Self {
            name,
            deliveries,
            budgets: [0; BUDGETS],
            on_outage: OnStoreOutage::Reject,
            on_mismatch: OnBodyMismatch::Duplicate,
            timing: near(),
            entropy: 0,
            workers: 2,
            relays: 1,
            clock: Clock::Near,
            window: Millis(0),
            contended: false,
            unrouted: false,
            unstorable: None,
            documents: Vec::new(),
            give_up_after: Millis(0),
            committed: false,
            short: true,
        }
    }

    /// Sets budgets: the words of [`Budget`], each with `*` and a number where it is more than one.
    fn with(mut self, budgets: &str) -> Self {
        for word in budgets.split_whitespace() {
            let (word, amount) = word.split_once('*').unwrap_or((word, "1"));
            let budget = Budget::parse(word).unwrap_or_else(|| panic!("no budget {word}"));
            self.budgets[budget as usize] = amount.parse().expect("a small number");
        }
        self
    }

    fn enqueue(self) -> Self {
        Self { on_outage: OnStoreOutage::Enqueue, ..self }
    }

    fn far(self) -> Self {
        Self { timing: far(), clock: Clock::Far, ..self }
    }

    fn long(self) -> Self {
        Self { short: false, ..self }
    }
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [deliveries(), horizons(), envelopes(), repetitions(), routes(), effect::all()].concat()
}

fn single(attempts: u8) -> DeliverySpec {
    DeliverySpec { id: "a", kind: Kind::Delivery, body: "a", attempts }
}

fn other(body: &'static str) -> DeliverySpec {
    DeliverySpec { id: "b", body, ..single(1) }
}

/// One delivery, so many times.
fn one(name: &'static str, attempts: u8) -> Scenario {
    Scenario::new(name, vec![single(attempts)])
}

/// One fact under two ids.
fn two_ids(name: &'static str) -> Scenario {
    Scenario::new(name, vec![single(1), other("a")])
}

/// A delivery, and another body under its id.
fn two_bodies(name: &'static str, attempts: u8) -> Scenario {
    let other = DeliverySpec { body: "b", ..single(attempts) };
    Scenario { on_mismatch: OnBodyMismatch::Quarantine, ..Scenario::new(name, vec![single(1), other]) }.enqueue()
}

fn deliveries() -> Vec<Scenario> {
    let relays = Scenario { relays: 2, ..one("two relays at once", 1) };
    let back_off = Timing { backoff_base: Millis::hours(1), ..near() };
    let patient = Timing { attempts_max: 3, ..near() };
    let impatient = Timing { uncounted_wait_max: Millis(0), ..near() };
    vec![
        one("two deliveries", 2).with("crash refuse late duplicate fail redrive tick"),
        one("two deliveries, relay and clock", 2).with("crash refuse duplicate tick relay"),
        one("three deliveries", 3).with("crash refuse conflict duplicate tick"),
        two_ids("one fact under two ids").with("crash refuse late fail duplicate"),
        two_ids("one fact under two ids, forced").with("force poison duplicate late"),
        one("fail-open with dead letters", 2).with("crash refuse*2 duplicate redrive tick").enqueue(),
        one("fail-open amid transactions", 2).with("refuse*2 conflict duplicate tick").enqueue(),
        one("replay, retry and force", 1).with("retry force discard fail poison duplicate late crash"),
        one("two forces", 1).with("force*2 duplicate*2 late refuse fail relay"),
        one("operators and dead letters", 1).with("retry accept discard redrive*2 fail duplicate lose"),
        one("stale reads", 2).with("stale*2 refuse*2 lose tick relay"),
        one("dead letters never tried", 1).with("redrive*4 crash refuse late duplicate tick"),
        one("dead letters, copies", 1).with("redrive*4 duplicate refuse fail tick"),
        Scenario { contended: true, ..Scenario::new("overtaken plans", vec![single(1), other("b")]) }
            .with("crash refuse conflict late fail poison"),
        relays.clone().with("crash refuse lose tick*2 relay*2 stale"),
        two_bodies("another body", 1).with("crash refuse*2 late duplicate redrive"),
        one("two operators", 1).with("retry*2 force discard*2 redact*2 poison*2 duplicate tick"),
        one("a table rewound", 1).with("backup rewind*2 poison retry force"),
        two_ids("one fact under two ids, a table rewound").with("backup rewind"),
        one("an event that its table forgot, writes repeated", 1).with("backup rewind repeat invalid duplicate"),
        one("doubts", 1).with("doubt retry force poison duplicate"),
        Scenario::new("an event without a handler", vec![DeliverySpec { body: "i", ..single(1) }])
            .with("crash refuse late duplicate poison retry repeat invalid"),
        one("a handler away", 1).with("away*2 crash refuse late duplicate tick"),
        one("a slow handler", 1).with("slow*2 crash refuse duplicate lose redrive tick"),
        one("a handler away, operators and dead letters", 1).with("away*2 late duplicate poison redrive retry discard"),
        Scenario { timing: impatient, ..one("a handler away for too long", 1) }
            .with("away*4 fail duplicate late conflict tick*2"),
        Scenario { timing: back_off, entropy: 1_000_000, ..one("long back-off", 1) }
            .with("crash refuse fail duplicate late tick"),
        Scenario { timing: patient, ..one("three failures", 1) }.with("fail*3 duplicate late tick"),
        Scenario { timing: Timing { attempts_max: 3, ..back_off }, entropy: 1_000_000, ..one("copies of a hint", 1) }
            .with("fail*2 away duplicate*2 retry tick relay"),
        Scenario { name: "two relays at once and a zombie", ..relays }
            .with("crash refuse late lose tick*2 relay*2 stale")
            .long(),
        one("two deliveries, more of everything", 2).with("crash refuse late duplicate fail redrive tick relay").long(),
        one("three deliveries, fail-open", 3).with("crash refuse*2 conflict duplicate tick").enqueue().long(),
    ]
}

fn horizons() -> Vec<Scenario> {
    let around = Scenario { window: Millis::days(14), ..one("re-delivery around the expiry", 2).far() };
    let zombies = Scenario { name: "zombies around the expiry", clock: Clock::Overtaking, ..around.clone() };
    let operators = Scenario { name: "operators around the expiry", ..zombies.clone() };
    vec![
        operators.with("tick force redact*2 retry discard*2 poison*2"),
        Scenario { workers: 1, ..one("TTL with renewal", 1).far() }.with("tick*5 lose*3 crash refuse fail duplicate"),
        Scenario { clock: Clock::RelayDown, ..one("relay down for its whole horizon", 1).far() }
            .with("tick*3 lose refuse late duplicate"),
        around.with("tick duplicate late refuse fail poison discard"),
        zombies.with("tick duplicate late refuse"),
        one("fail-open with TTL", 2).with("refuse*2 tick*4 duplicate redrive crash").enqueue().far(),
        one("late delivery after force", 2).with("force tick*3 duplicate late refuse").far(),
        two_ids("one fact, far apart").with("tick*6 lose*3 duplicate").far(),
        one("operators over the horizon", 1).with("retry accept discard poison tick*4 duplicate lose relay").far(),
    ]
}

fn envelopes() -> Vec<Scenario> {
    let envelope = |id, body| DeliverySpec { id, kind: Kind::Envelope, body, attempts: 1 };
    let event = |id, body| DeliverySpec { id, kind: Kind::Event, body, attempts: 1 };
    let ab = || vec![envelope("x", "ab")];
    let ab_ba = || vec![envelope("x", "ab"), envelope("y", "ba")];
    vec![
        Scenario::new("{a,b} with {b,a}", ab_ba()).with("refuse duplicate"),
        Scenario::new("{a,b} with {b}", vec![envelope("x", "ab"), event("b", "b")]).with("crash refuse fail"),
        Scenario::new("{a,b}, two crashes", ab()).with("crash*2 refuse late duplicate"),
        Scenario::new("{a,b}, given up", ab()).with("redrive*3 duplicate late"),
        Scenario::new("{a,b}, dead letters and force", ab()).with("force redrive poison duplicate conflict"),
        Scenario::new("{a,b} with {b,a}, crash and zombie", ab_ba()).with("crash refuse late"),
        Scenario::new("{a,b} with {b,a}, relay and stale index", ab_ba()).with("lose stale tick relay").long(),
    ]
}

/// The store's client repeats writes whose replies were lost, and the store can never carry out some of them. Together
/// these hold every single write of the protocol but one; a test names it.
fn repetitions() -> Vec<Scenario> {
    let envelope = || vec![DeliverySpec { id: "x", kind: Kind::Envelope, body: "ab", attempts: 1 }];
    vec![
        one("every write repeated", 2).with("repeat*2 refuse fail*2 duplicate invalid tick"),
        one("dead letters and operators, writes repeated", 1)
            .with("repeat*2 invalid redrive*3 poison retry force discard"),
        one("relay, writes repeated", 1).with("repeat*2 invalid refuse lose tick relay crash"),
        two_ids("one fact under two ids, writes repeated").with("repeat*2 invalid fail duplicate"),
        one("a handler away, writes repeated", 1).with("repeat*2 invalid refuse away*2 duplicate tick"),
        two_bodies("another body, writes repeated", 2).with("repeat invalid refuse*2 redrive"),
        Scenario::new("{a,b}, writes repeated", envelope()).with("repeat*2 invalid*2 refuse duplicate"),
        one("over the horizon, writes repeated", 1).with("repeat invalid refuse tick*4 lose*3 redrive").enqueue().far(),
        Scenario { unstorable: Some("b"), ..Scenario::new("{a,b}, b fits into no item", envelope()) }
            .with("crash refuse duplicate repeat"),
    ]
}

/// Events that no route wants at first. Once one does, an operator brings them back.
fn routes() -> Vec<Scenario> {
    let around = one("an ignored event around the expiry", 2).far();
    let around = Scenario { window: Millis::days(14), clock: Clock::Overtaking, ..around };
    let routes = [
        one("an ignored event, brought back", 1).with("route retry duplicate*2 late crash refuse"),
        one("an ignored event, brought back, writes repeated", 1)
            .with("route retry duplicate repeat*2 invalid conflict fail"),
        one("an ignored event, doubted", 1).with("route doubt retry accept redact duplicate"),
        two_ids("an ignored event and another id of its fact").with("route retry*2 duplicate late"),
        one("an ignored event, two operators", 1).with("route*2 retry*2 force redact duplicate late"),
        Scenario { name: "an ignored event around the expiry, doubted", ..around.clone() }.with("tick doubt"),
        around.with("tick route retry duplicate"),
    ];
    routes.map(|scenario| Scenario { unrouted: true, ..scenario }).into()
}
