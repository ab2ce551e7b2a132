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
    /// other. Several characters of a single event are events that an older catalog claimed as one.
    pub body: &'static str,
    /// How often the provider makes it.
    pub attempts: u8,
}

impl DeliverySpec {
    /// The catalog reads several events out of it. Unless it is an envelope, an older catalog claimed it as one.
    pub fn splits(&self) -> bool {
        self.kind == Kind::Envelope || self.body.len() > 1
    }
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
    Timing { attempts_max: 2, shards: 1, shards_read: 1, ..Timing::standard() }
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

    fn enqueue(mut self) -> Self {
        self.on_outage = OnStoreOutage::Enqueue;
        self
    }

    fn far(mut self) -> Self {
        self.timing = far();
        self.clock = Clock::Far;
        self
    }

    fn unrouted(mut self) -> Self {
        self.unrouted = true;
        self
    }

    fn long(mut self) -> Self {
        self.short = false;
        self
    }
}

/// Every scenario, short ones first.
pub fn all() -> Vec<Scenario> {
    let mut all = deliveries();
    all.extend(horizons());
    all.extend(envelopes());
    all.extend(repetitions());
    all.extend(routes());
    all.extend(effect::all());
    all
}

fn single(attempts: u8) -> DeliverySpec {
    DeliverySpec { id: "a", kind: Kind::Delivery, body: "a", attempts }
}

fn other(body: &'static str) -> DeliverySpec {
    DeliverySpec { id: "b", body, ..single(1) }
}

fn deliveries() -> Vec<Scenario> {
    let mut contended = Scenario::new("overtaken plans", vec![single(1), other("b")]);
    contended.contended = true;
    let mut relays = Scenario::new("two relays at once", vec![single(1)]);
    relays.relays = 2;
    let mut mismatch = Scenario::new("another body", vec![single(1), DeliverySpec { id: "a", ..other("b") }]);
    mismatch.on_mismatch = OnBodyMismatch::Quarantine;
    let mut deferred = Scenario::new("long back-off", vec![single(1)]);
    deferred.timing.backoff_base = Millis::hours(1);
    deferred.entropy = 1_000_000;
    let mut patient = Scenario::new("three failures", vec![single(1)]);
    patient.timing.attempts_max = 3;
    let mut away = Scenario::new("a handler away for too long", vec![single(1)]);
    away.timing.uncounted_wait_max = Millis(0);
    vec![
        Scenario::new("two deliveries", vec![single(2)]).with("crash refuse late duplicate fail redrive tick"),
        Scenario::new("two deliveries, relay and clock", vec![single(2)]).with("crash refuse duplicate tick relay"),
        Scenario::new("three deliveries", vec![single(3)]).with("crash refuse conflict duplicate tick"),
        Scenario::new("one fact under two ids", vec![single(1), other("a")]).with("crash refuse late fail duplicate"),
        Scenario::new("one fact under two ids, forced", vec![single(1), other("a")])
            .with("force poison duplicate late"),
        Scenario::new("fail-open with dead letters", vec![single(2)])
            .with("crash refuse*2 duplicate redrive tick")
            .enqueue(),
        Scenario::new("fail-open amid transactions", vec![single(2)])
            .with("refuse*2 conflict duplicate tick")
            .enqueue(),
        Scenario::new("replay, retry and force", vec![single(1)])
            .with("retry force discard fail poison duplicate late crash"),
        Scenario::new("two forces", vec![single(1)]).with("force*2 duplicate*2 late refuse fail relay"),
        Scenario::new("operators and dead letters", vec![single(1)])
            .with("retry accept discard redrive*2 fail duplicate lose"),
        Scenario::new("stale reads", vec![single(2)]).with("stale*2 refuse*2 lose tick relay"),
        Scenario::new("dead letters never tried", vec![single(1)]).with("redrive*4 crash refuse late duplicate tick"),
        Scenario::new("dead letters, copies", vec![single(1)]).with("redrive*4 duplicate refuse fail tick"),
        contended.with("crash refuse conflict late fail poison"),
        relays.clone().with("crash refuse lose tick*2 relay*2 stale"),
        mismatch.with("crash refuse*2 late duplicate redrive").enqueue(),
        Scenario::new("two operators", vec![single(1)])
            .with("retry*2 force discard*2 redact*2 poison*2 duplicate tick"),
        Scenario::new("an event without a handler", vec![DeliverySpec { body: "i", ..single(1) }])
            .with("crash refuse late duplicate poison retry repeat invalid"),
        Scenario::new("a handler away", vec![single(1)]).with("away*2 crash refuse late duplicate tick"),
        Scenario::new("a slow handler", vec![single(1)]).with("slow*2 crash refuse duplicate lose redrive tick"),
        Scenario::new("a handler away, operators and dead letters", vec![single(1)])
            .with("away*2 late duplicate poison redrive retry discard"),
        away.with("away*4 fail duplicate late conflict tick*2"),
        deferred.with("crash refuse fail duplicate late tick"),
        patient.with("fail*3 duplicate late tick"),
        Scenario { name: "two relays at once and a zombie", ..relays }
            .with("crash refuse late lose tick*2 relay*2 stale")
            .long(),
        Scenario::new("two deliveries, more of everything", vec![single(2)])
            .with("crash refuse late duplicate fail redrive tick relay")
            .long(),
        Scenario::new("three deliveries, fail-open", vec![single(3)])
            .with("crash refuse*2 conflict duplicate tick")
            .enqueue()
            .long(),
    ]
}

fn horizons() -> Vec<Scenario> {
    let mut renewal = Scenario::new("TTL with renewal", vec![single(1)]).far();
    renewal.workers = 1;
    let mut down = Scenario::new("relay down for its whole horizon", vec![single(1)]).far();
    down.clock = Clock::RelayDown;
    let mut around = Scenario::new("re-delivery around the expiry", vec![single(2)]).far();
    around.window = Millis::days(14);
    let mut zombies = around.clone();
    zombies.name = "zombies around the expiry";
    zombies.clock = Clock::Overtaking;
    let operators = Scenario { name: "operators around the expiry", ..zombies.clone() };
    vec![
        operators.with("tick force redact*2 retry discard*2 poison*2"),
        renewal.with("tick*5 lose*3 crash refuse fail duplicate"),
        down.with("tick*3 lose refuse late duplicate"),
        around.with("tick duplicate late refuse fail poison discard"),
        zombies.with("tick duplicate late refuse"),
        Scenario::new("fail-open with TTL", vec![single(2)])
            .with("refuse*2 tick*4 duplicate redrive crash")
            .enqueue()
            .far(),
        Scenario::new("late delivery after force", vec![single(2)]).with("force tick*3 duplicate late refuse").far(),
        Scenario::new("one fact, far apart", vec![single(1), other("a")]).with("tick*6 lose*3 duplicate").far(),
        Scenario::new("operators over the horizon", vec![single(1)])
            .with("retry accept discard poison tick*4 duplicate lose relay")
            .far(),
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
        Scenario::new("{a,b} claimed as one", vec![event("x", "ab")]).with("crash refuse late duplicate"),
        Scenario::new("{a,b} claimed as a", vec![event("a", "ab")]).with("crash refuse late duplicate"),
        Scenario::new("{a,b} with {b,a}, crash and zombie", ab_ba()).with("crash refuse late"),
        Scenario::new("{a,b} with {b,a}, relay and stale index", ab_ba()).with("lose stale tick relay").long(),
    ]
}

/// The store's client repeats writes whose replies were lost, and the store can never carry out some of them. Together
/// these hold every single write of the protocol but one; a test names it.
fn repetitions() -> Vec<Scenario> {
    let envelope = || vec![DeliverySpec { id: "x", kind: Kind::Envelope, body: "ab", attempts: 1 }];
    let mut mismatch = Scenario::new(
        "another body, writes repeated",
        vec![single(1), DeliverySpec { id: "a", body: "b", ..single(2) }],
    );
    mismatch.on_mismatch = OnBodyMismatch::Quarantine;
    let mut unstorable = Scenario::new("{a,b}, b fits into no item", envelope());
    unstorable.unstorable = Some("b");
    vec![
        Scenario::new("every write repeated", vec![single(2)]).with("repeat*2 refuse fail*2 duplicate invalid tick"),
        Scenario::new("dead letters and operators, writes repeated", vec![single(1)])
            .with("repeat*2 invalid redrive*3 poison retry force discard"),
        Scenario::new("relay, writes repeated", vec![single(1)]).with("repeat*2 invalid refuse lose tick relay crash"),
        Scenario::new("one fact under two ids, writes repeated", vec![single(1), other("a")])
            .with("repeat*2 invalid fail duplicate"),
        Scenario::new("a handler away, writes repeated", vec![single(1)])
            .with("repeat*2 invalid refuse away*2 duplicate tick"),
        mismatch.with("repeat invalid refuse*2 redrive").enqueue(),
        Scenario::new("{a,b}, writes repeated", envelope()).with("repeat*2 invalid*2 refuse duplicate"),
        Scenario::new("over the horizon, writes repeated", vec![single(1)])
            .with("repeat invalid refuse tick*4 lose*3 redrive")
            .enqueue()
            .far(),
        unstorable.with("crash refuse duplicate repeat"),
    ]
}

/// Events that no route wants at first. Once one does, an operator brings them back.
fn routes() -> Vec<Scenario> {
    let mut around = Scenario::new("an ignored event around the expiry", vec![single(2)]).far().unrouted();
    around.window = Millis::days(14);
    around.clock = Clock::Overtaking;
    vec![
        Scenario::new("an ignored event, brought back", vec![single(1)])
            .with("route retry duplicate*2 late crash refuse")
            .unrouted(),
        Scenario::new("an ignored event, brought back, writes repeated", vec![single(1)])
            .with("route retry duplicate repeat*2 invalid conflict fail")
            .unrouted(),
        Scenario::new("an ignored event and another id of its fact", vec![single(1), other("a")])
            .with("route retry*2 duplicate late")
            .unrouted(),
        Scenario::new("an ignored event, two operators", vec![single(1)])
            .with("route*2 retry*2 force redact duplicate late")
            .unrouted(),
        around.with("tick route retry duplicate"),
    ]
}
