//! Answers: what [`Messages`] does, and one answer to each WhatsApp message.
//!
//! Only a route can name this handler, because the route must list the destination `answers`: the address of the
//! WhatsApp Business API with its token. WhatsApp honours no key of the caller, so its class is `at_most_once`.

use hookonce_protocol::effect::Effect;
use hookonce_protocol::key::DomainKey;
use hookonce_protocol::place::ItemRef;
use hookonce_protocol::plan::{Event, Plan, Snapshot};
use hookonce_runtime::handlers::{Handler, HandlerError};
use serde_json::json;

use super::messages::{Messages, Update};

/// What every message is answered.
const TEXT: &str = "Thank you for your message. We will answer soon.";

/// Keeps conversations, and answers each message once.
#[derive(Debug, Clone, Copy)]
pub struct Answers;

impl Handler for Answers {
    type Fact = Update;

    fn name(&self) -> &'static str {
        "answers"
    }

    fn recognise(&self, event: &Event) -> Result<Option<Update>, HandlerError> {
        Messages.recognise(event)
    }

    fn domain_key(&self, update: &Update) -> DomainKey {
        Messages.domain_key(update)
    }

    fn reads(&self, event: &Event, update: &Update) -> Vec<ItemRef> {
        Messages.reads(event, update)
    }

    fn plan(&self, event: &Event, update: &Update, snapshot: &Snapshot) -> Result<Plan, HandlerError> {
        let plan = Messages.plan(event, update, snapshot)?;
        let Update::Message(sent) = update else { return Ok(plan) };
        // Whoever has a number is answered there, anyone else by the user id.
        let to = if sent.message.has_number() { "to" } else { "recipient" };
        let answer = json!({
            "messaging_product": "whatsapp", to: sent.message.sender(), "context": {"message_id": sent.message.id}, "type": "text",
            "text": {"body": TEXT},
        });
        let path = format!("/{}/messages", sent.phone);
        Ok(plan.with_effect(Effect::json("answer", "answers", &answer)?.path(path)))
    }
}
