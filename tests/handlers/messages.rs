//! Conversations, leads and statuses.

use hookonce_examples::Messages;
use hookonce_runtime::handlers::Handler as _;
use proptest::prelude::*;
use serde_json::json;

use super::{Applied, Domain, event, events};
use crate::support::Delivery;
use crate::support::samples::{whatsapp_message, whatsapp_of, whatsapp_statuses};

const WORDS: [&str; 6] = ["sent", "delivered", "read", "played", "failed", "a word of tomorrow"];
const STATUS: &str = "meta_whatsapp#status#wamid.m";
const CONVERSATION: &str = "meta_whatsapp#conversation#106540352242922#15550101234";

/// The rank of a status, written independently of the handler.
fn progress(word: &str) -> usize {
    WORDS.iter().position(|known| *known == word).unwrap()
}

proptest! {
    #[test]
    fn a_status_only_ever_moves_forward(order in Just(WORDS.to_vec()).prop_shuffle(), taken in 1..=WORDS.len()) {
        let mut domain = Domain::default();
        let mut furthest: Option<&str> = None;
        for word in &order[..taken] {
            let applied = domain.apply(&Messages, &event(&whatsapp_statuses(&[("m", word)])));
            prop_assert_eq!(applied, Applied::Once);
            let known = *word != "a word of tomorrow";
            if known && furthest.is_none_or(|furthest| progress(word) > progress(furthest)) {
                furthest = Some(word);
            }
            prop_assert_eq!(domain.text(STATUS, "status"), furthest);
        }
    }

    #[test]
    fn messages_in_any_order_and_grouping_make_one_conversation_and_one_lead(
        order in Just((0_i64..8).collect::<Vec<_>>()).prop_shuffle(),
        group in 1_usize..5,
    ) {
        let mut domain = Domain::default();
        let message = |index: &i64| {
            let mut message = whatsapp_message(&format!("m{index}"));
            message["timestamp"] = json!((1_767_225_000 + index).to_string());
            message
        };
        for chunk in order.chunks(group) {
            for event in events(&whatsapp_of(chunk.iter().map(message).collect())) {
                prop_assert_eq!(domain.apply(&Messages, &event), Applied::Once);
                prop_assert_eq!(domain.apply(&Messages, &event), Applied::Duplicate);
            }
        }
        prop_assert_eq!(domain.number(CONVERSATION, "messages"), 8);
        prop_assert_eq!(domain.number(CONVERSATION, "last_message_at"), 1_767_225_007);
        prop_assert_eq!(domain.items.keys().filter(|key| key.contains("#lead#")).count(), 1);
        prop_assert_eq!(domain.items.keys().filter(|key| key.contains("#message#")).count(), 8);
    }
}

/// Another app handles such a conversation, or the business wrote itself.
#[test]
fn what_is_in_standby_and_what_the_business_sent_is_nobodys_message() {
    let message = whatsapp_message("m");
    let status = json!({ "id": "wamid.m", "status": "read", "timestamp": "1767225000", "recipient_id": "1" });
    let arrays = json!({ "metadata": { "phone_number_id": "1" }, "messages": [message], "statuses": [status] });
    let nested = json!({ "metadata": { "phone_number_id": "1" }, "standby": arrays });
    let echoes = json!({ "metadata": { "phone_number_id": "1" }, "message_echoes": [message] });
    for (field, value, taken) in
        [("messages", &arrays, 2), ("standby", &arrays, 0), ("standby", &nested, 0), ("smb_message_echoes", &echoes, 0)]
    {
        let body = json!({ "entry": [{ "changes": [{ "field": field, "value": value }] }] });
        let events = events(&Delivery::new("meta_whatsapp", body.to_string()));
        let recognised = events.iter().filter(|event| Messages.recognise(event).unwrap().is_some());
        assert_eq!(recognised.count(), taken, "{field}: {events:?}");
    }
}
