//! Sample events for three of the sample handlers, and the deliveries that carry them.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

/// The endpoints that receive the samples, with their providers.
pub(crate) const ENDPOINTS: [(&str, &str); 3] =
    [("stripe", "stripe"), ("whatsapp", "meta_whatsapp"), ("github", "github")];

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Genuine, with one event.
    Single,
    /// Genuine, with several events.
    Batch,
    /// Signed with a wrong secret.
    Forged,
    /// Signed too long ago.
    Stale,
}

/// One request to send.
#[derive(Debug, Clone)]
pub(crate) struct DemoRequest {
    /// Index into [`ENDPOINTS`].
    pub(crate) endpoint: usize,
    /// Its kind.
    pub(crate) kind: RequestKind,
    /// Headers other than the signature.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// Everything that a demo sends, and the effects that it expects.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The requests, in the order of sending.
    pub(crate) requests: Vec<DemoRequest>,
    /// The fact of each distinct event, with its tenant and consumer.
    pub(crate) expected: Vec<String>,
    /// The id of each invoice of Stripe's events.
    pub(crate) invoices: Vec<String>,
}

/// Makes `events` distinct events, each in `copies` deliveries. Some deliveries are regrouped, and some forged and
/// stale requests are mixed in. The same seed gives the same plan.
pub(crate) fn plan(events: usize, copies: usize, seed: u64, run: &str) -> Plan {
    let mut maker = Maker { random: StdRng::seed_from_u64(seed), plan: Plan::default(), run: run.to_owned() };
    let (mut messages, mut singles) = (Vec::new(), Vec::new());
    for index in 0..events {
        match index % 3 {
            0 => singles.push(maker.stripe(index)),
            1 => messages.push(maker.whatsapp(index)),
            _ => singles.push(maker.github(index)),
        }
    }
    for copy in 0..copies {
        maker.plan.requests.extend(singles.iter().cloned());
        maker.group(&messages, copy);
    }
    maker.spoil(&singles);
    maker.plan.requests.shuffle(&mut maker.random);
    maker.plan
}

struct Maker {
    random: StdRng,
    plan: Plan,
    run: String,
}

impl Maker {
    fn expect(&mut self, handler: &str, endpoint: &str, fact: &str) {
        self.plan.expected.push(format!("{endpoint}#{handler}#{fact}"));
    }

    fn stripe(&mut self, index: usize) -> DemoRequest {
        let invoice = format!("in_{}_{index}", self.run);
        self.expect("payments", "stripe", &format!("invoice.paid#{invoice}"));
        self.plan.invoices.push(invoice.clone());
        let amount = self.random.random_range(100..100_000);
        let customer = format!("cus_{}", self.random.random_range(0..20));
        let body = json!({
            "id": format!("evt_{}_{index}", self.run), "object": "event", "type": "invoice.paid", "created": 1_767_225_600,
            "data": {"object": {
                "id": invoice, "object": "invoice", "customer": customer, "currency": "eur", "amount_paid": amount,
            }},
        });
        DemoRequest { endpoint: 0, kind: RequestKind::Single, headers: Vec::new(), body: body.to_string().into_bytes() }
    }

    fn whatsapp(&mut self, index: usize) -> Value {
        let id = format!("wamid.{}.{index}", self.run);
        self.expect("messages", "whatsapp", &format!("message#{id}"));
        let contact = format!("4917000000{:02}", self.random.random_range(0..15));
        json!({
            "from": contact, "id": id, "timestamp": (1_767_225_600 + index).to_string(), "type": "text",
            "text": {"body": format!("message {index}")},
        })
    }

    fn github(&mut self, index: usize) -> DemoRequest {
        let commit: String =
            (0..40).map(|_| char::from_digit(self.random.random_range(0..16), 16).unwrap_or('0')).collect();
        let repository = self.random.random_range(1..6);
        self.expect("builds", "github", &format!("build#{repository}#{commit}"));
        let body = json!({
            "ref": "refs/heads/main", "before": "0".repeat(40), "after": commit, "deleted": false,
            "repository": {"id": repository, "full_name": format!("acme/service-{repository}")},
        });
        let headers = vec![
            ("x-github-event".to_owned(), "push".to_owned()),
            ("x-github-delivery".to_owned(), format!("{}-{index}", self.run)),
        ];
        DemoRequest { endpoint: 2, kind: RequestKind::Single, headers, body: body.to_string().into_bytes() }
    }

    /// Meta promises no grouping, so each copy is grouped differently: alone, in pairs, in shifted or reversed threes.
    fn group(&mut self, messages: &[Value], copy: usize) {
        let size = copy % 3 + 1;
        let shift = if copy == 0 { 0 } else { self.random.random_range(0..size) };
        let (head, tail) = messages.split_at(shift.min(messages.len()));
        for group in std::iter::once(head).chain(tail.chunks(size)).filter(|group| !group.is_empty()) {
            let mut group = group.to_vec();
            if copy % 2 == 1 {
                group.reverse();
            }
            let kind = if group.len() == 1 { RequestKind::Single } else { RequestKind::Batch };
            let body = whatsapp_body(&group).to_string().into_bytes();
            self.plan.requests.push(DemoRequest { endpoint: 1, kind, headers: Vec::new(), body });
        }
    }

    /// About one request in twenty is not genuine.
    fn spoil(&mut self, singles: &[DemoRequest]) {
        let count = self.plan.requests.len() / 20 + 1;
        for index in 0..count {
            let Some(genuine) = singles.get(self.random.random_range(0..singles.len().max(1))) else { return };
            // Only a signature with a timestamp can be stale.
            let kind = if index % 2 == 1 && genuine.endpoint == 0 { RequestKind::Stale } else { RequestKind::Forged };
            self.plan.requests.push(DemoRequest { kind, ..genuine.clone() });
        }
    }
}

fn whatsapp_body(messages: &[Value]) -> Value {
    let contacts: Vec<_> = messages
        .iter()
        .filter_map(|message| message.get("from")?.as_str())
        .map(|contact| json!({"wa_id": contact, "profile": {"name": format!("Contact {contact}")}}))
        .collect();
    let value = json!({
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "491700000000", "phone_number_id": "1000"},
        "contacts": contacts,
        "messages": messages,
    });
    json!({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_plan() {
        let (a, b) = (plan(30, 3, 7, "r"), plan(30, 3, 7, "r"));
        assert_eq!(a.expected, b.expected);
        let bodies = |plan: &Plan| plan.requests.iter().map(|sample| sample.body.clone()).collect::<Vec<_>>();
        assert_eq!(bodies(&a), bodies(&b));
    }

    #[test]
    fn every_event_is_carried_by_every_copy() {
        let plan = plan(30, 4, 1, "r");
        let genuine = |sample: &&DemoRequest| matches!(sample.kind, RequestKind::Single | RequestKind::Batch);
        for index in (0..30).filter(|index| index % 3 == 1) {
            let id = format!("\"wamid.r.{index}\"");
            let carried = plan
                .requests
                .iter()
                .filter(genuine)
                .filter(|sample| String::from_utf8_lossy(&sample.body).contains(&id));
            assert_eq!(carried.count(), 4, "{id}");
        }
        assert!(plan.requests.iter().any(|sample| sample.kind == RequestKind::Forged));
        assert!(plan.requests.iter().any(|sample| sample.kind == RequestKind::Batch));
    }
}
