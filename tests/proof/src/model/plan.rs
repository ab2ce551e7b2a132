//! The handler of the model: it counts each fact in one item.

use hookonce_protocol::call::{Call, ChildEvent, HandlerPlan, Planned, Reply};
use hookonce_protocol::check::Scope;
use hookonce_protocol::effect::{DestinationId, EffectDraft, EffectName, Method};
use hookonce_protocol::key::{DomainKey, EndpointId, ItemKey, RecordKey};
use hookonce_protocol::plan::{DomainWrite, Plan, Snapshot};
use hookonce_protocol::record::Record;
use hookonce_protocol::write::{Action, Change};

use super::pool::{CallId, DomainId};
use super::view::{FACT_NAMES, LEDGER, fact_of};
use super::world::World;

impl World {
    /// Whether a handler knows what to do with the event that it is asked about.
    pub(super) fn wants(&self, call: CallId) -> bool {
        let Call::Plan(record) = self.call(call).as_ref() else { return false };
        fact_of(record).is_some()
    }

    /// The reply to a handler that wants the event.
    pub(super) fn plan(&self, call: &Call, domain: DomainId) -> Reply {
        let Call::Plan(record) = call else { return Reply::Done };
        let fact = fact_of(record).expect("a handler wants it");
        Reply::Planned(self.plan_fact(record, FACT_NAMES[fact], domain))
    }

    fn plan_fact(&self, record: &Record, fact: &str, domain: DomainId) -> Planned {
        let ledger = ItemKey::new(&record.owner().expect("an endpoint"), "ledger", ["all"]);
        let mut write = DomainWrite::update(ledger.clone(), vec![Change::Add(fact.to_owned().into(), 1)]);
        if self.contended {
            let item = self.domains.value(domain).get(LEDGER).cloned();
            let snapshot: Snapshot = [(LEDGER.into(), item)].into_iter().collect();
            write = write.as_seen(&snapshot, "total");
            if let Action::Update(changes) = &mut write.action {
                changes.push(Change::Set("total".into(), (snapshot.number(&ledger, "total") + 1).into()));
            }
        }
        let plan = Plan::default().with(write);
        let effects: Vec<_> = (!self.documents.is_empty()).then(draft).into_iter().collect();
        let destinations = effects.iter().map(|effect| effect.destination.clone()).collect();
        let scope = Scope { destinations, ..Scope::default() };
        let domain_key = DomainKey::of([fact]);
        let plan = HandlerPlan { consumer: "h".to_owned(), domain_key, plan, effects, scope };
        Planned::Plan(Box::new(plan))
    }
}

/// The name of the one effect of an event.
pub(super) const EFFECT: &str = "n";

/// What every event sends, where it sends something.
fn draft() -> EffectDraft {
    EffectDraft {
        name: EffectName::parse(EFFECT).expect("a valid name"),
        destination: DestinationId::parse("d").expect("a valid id"),
        method: Method::Post,
        path: String::new(),
        content_type: "c".to_owned(),
        body: b"n".to_vec(),
        sha256: [0; 32],
    }
}

/// The events of a body: one for each character.
pub(super) fn events(record: &Record) -> Vec<ChildEvent> {
    let Some(body) = &record.body else { return Vec::new() };
    let endpoint = EndpointId::parse(record.key.parts().0).expect("a valid endpoint id");
    let event = |byte: &u8| ChildEvent {
        key: RecordKey::event(&endpoint, char::from(*byte).encode_utf8(&mut [0; 4])),
        event_type: "t".to_owned(),
        body: vec![*byte],
        sha256: [*byte; 32],
        fits: true,
    };
    body.iter().map(event).collect()
}
