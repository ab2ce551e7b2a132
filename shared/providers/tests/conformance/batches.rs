//! Deliveries that hold several events: each is found, named and cut out without changing a byte of it.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_providers::{EventKey, EventPart, Fallback, parsed_bytes};
use sha2::{Digest, Sha256};

use crate::support::{hash_key, provider};

fn split(id: &str, body: &str) -> Vec<EventPart> {
    provider(id).split(body.as_bytes(), &BTreeMap::new())
}

fn bodies(parts: &[EventPart]) -> Vec<&str> {
    parts.iter().map(|part| std::str::from_utf8(&part.body).unwrap()).collect()
}

fn keys(parts: &[EventPart]) -> Vec<&str> {
    parts.iter().map(|part| part.key.as_str()).collect()
}

fn types(parts: &[EventPart]) -> Vec<&str> {
    parts.iter().map(|part| part.event_type.as_str()).collect()
}

/// A delivery of WhatsApp with these messages.
fn of_messages(messages: &str) -> String {
    format!(r#"{{"entry":[{{"id":"7","changes":[{{"value":{{"messages":[{messages}]}}}}]}}]}}"#)
}

/// Splitting a part again must give that part.
fn assert_stable(provider: &str, parts: &[EventPart]) {
    for (part, body) in parts.iter().zip(bodies(parts)) {
        assert_eq!(split(provider, body), std::slice::from_ref(part));
    }
}

const MIXED: &str = r#"{"object":"whatsapp_business_account", "entry":[
  {"id":"1","time":9007199254740993,"changes":[
    {"field":"messages","value":{"contacts":[{"wa_id":"49"}],"messages":[{"id":"wamid.A","n":1.50},{"id":"wamid.B","t":"\u00e4"}],"statuses":[{"id":"wamid.C","status":"read","timestamp":"2","recipient_id":"49"}],"x":1}},
    {"field":"account_update","value":{"event":"VERIFIED"}}]},
  {"id":"2","changes":[{"value":{"statuses":[{"id":"wamid.C","status":"sent","timestamp":"1","recipient_id":"49"}]},"field":"messages"}]}]}"#;

#[test]
fn every_event_of_a_delivery_is_found_and_cut_out_whole() {
    let parts = split("meta_whatsapp", MIXED);
    assert_eq!(keys(&parts)[..3], ["wamid.A", "wamid.B", "wamid.C:read:2:49"]);
    assert!(matches!(&parts[3].key, EventKey::Event(key) if key.starts_with("sha256:")));
    assert!(bodies(&parts)[3].contains("VERIFIED") && !bodies(&parts)[3].contains("wamid"));
    assert_eq!(keys(&parts)[4], "wamid.C:sent:1:49");
    assert_eq!(types(&parts), ["message", "message", "status.read", "account_update", "status.sent"]);
    assert_eq!(
        bodies(&parts)[1],
        r#"{"object":"whatsapp_business_account", "entry":[{"id":"1","time":9007199254740993,"changes":[{"field":"messages","value":{"contacts":[{"wa_id":"49"}],"messages":[{"id":"wamid.B","t":"\u00e4"}],"x":1}}]}]}"#
    );
    assert_eq!(parts[0].sha256, <[u8; 32]>::from(Sha256::digest(r#"{"id":"wamid.A","n":1.50}"#)));
    assert_stable("meta_whatsapp", &parts);
}

#[test]
fn a_delivery_without_events_is_one_delivery() {
    let body = r#"{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[{"field":"account_update","value":{}}]}]}"#;
    let parts = split("meta_whatsapp", body);
    assert_eq!(parts[0].key, EventKey::Event(hash_key(body)));
    assert_eq!((parts[0].event_type.as_str(), bodies(&parts)), ("account_update", vec![body]));
    assert_stable("meta_whatsapp", &parts);
}

/// An account update, as it appears in an entry.
const UPDATE: &str = r#"{"field":"account_update","value":{"event":"VERIFIED"}}"#;

#[test]
fn what_has_no_id_has_the_same_key_alone_and_in_any_company() {
    let of = |changes: &str| format!(r#"{{"object":"w","entry":[{{"id":"1","time":2,"changes":[{changes}]}}]}}"#);
    let message = r#"{"value":{"messages":[{"id":"wamid.A"}]},"field":"messages"}"#;
    let other = r#"{"field":"account_update","value":{"event":"DISABLED"}}"#;
    let indented = of(UPDATE).replace('[', "[\n  ").replace(',', ",\n ").replace(':', ": ");
    let after_entry =
        |id: &str| of(UPDATE).replace("[{\"id", &format!(r#"[{{"id":"{id}","time":2,"changes":[{message}]}},{{"id"#));
    let page = |entries: &[&str]| format!(r#"{{"object":"page","entry":[{}]}}"#, entries.join(","));
    let standby = r#"{"id":"7","time":1,"standby":[{"sender":{"id":"1"}}]}"#;
    let messaging = r#"{"id":"8","time":2,"messaging":[{"message":{"mid":"m1"}}]}"#;
    let of_whatsapp = [
        of(&[message, UPDATE].join(",")),
        of(&[UPDATE, message].join(",")),
        of(&[other, UPDATE].join(", ")),
        after_entry("1"),
        after_entry("8"),
        indented,
    ];
    let of_messenger = [page(&[messaging, standby]), page(&[standby, messaging])];
    for (provider, alone, companies) in
        [("meta_whatsapp", of(UPDATE), &of_whatsapp[..]), ("meta_messenger_instagram", page(&[standby]), &of_messenger)]
    {
        let alone = &split(provider, &alone)[0];
        for company in companies {
            let parts = split(provider, company);
            let same = parts.iter().filter(|part| part.key == alone.key).map(|part| part.sha256);
            assert_eq!(same.collect::<Vec<_>>(), [alone.sha256], "{company}");
            assert_stable(provider, &parts);
        }
    }
}

#[test]
fn a_single_event_keeps_the_whole_delivery() {
    let body = "{ \"entry\" : [ {\"changes\":[ {\"value\":{\"messages\":[ {\"id\":\"wamid.A\"} ]}} ]} ] } ";
    let parts = split("meta_whatsapp", body);
    assert_eq!((keys(&parts), bodies(&parts)), (vec!["wamid.A"], vec![body.trim_end()]));
    assert_stable("meta_whatsapp", &parts);
}

#[test]
fn an_event_comes_once_and_two_texts_under_one_key_are_both_kept() {
    let body = r#"{"entry":[{"changes":[{"value":{"messages":[{"id":"A"},{"id":"A"}]}},{"value":{"messages":[{"id":"A"}]}}]}]}"#;
    assert_eq!(keys(&split("meta_whatsapp", body)), ["A"]);
    let texts = of_messages(r#"{"id":"A"},{"id":"A","x":1}"#);
    assert_eq!(keys(&split("meta_whatsapp", &texts)), ["A", "A"]);
}

#[test]
fn an_event_without_an_id_is_kept_by_its_content_and_its_siblings_are_untouched() {
    for item in [r#"{"id":""}"#, r#"{"id":null}"#, r#"{"id":{}}"#, "{}", "1", r#"{"id":"A","id":"B"}"#] {
        let alone = split("meta_whatsapp", &of_messages(item));
        let parts = split("meta_whatsapp", &of_messages(&[r#"{"id":"wamid.S"}"#, item].join(",")));
        assert_eq!((parts[0].key.as_str(), parts[0].fallback), ("wamid.S", None), "{item}");
        assert_eq!((parts.len(), parts[1].fallback), (2, Some(Fallback::IdMissing)), "{item}");
        assert_eq!((&alone[0].key, alone[0].sha256), (&parts[1].key, parts[1].sha256), "{item}");
        assert_stable("meta_whatsapp", &parts);
    }
}

/// What a delivery says about itself may change with every retry, and does not count. What an event says counts, except
/// what the catalog knows that a retry changes.
#[test]
fn an_event_without_an_id_has_one_key_however_it_is_grouped_or_written() {
    let okta = |delivery: &str, items: &str| format!(r#"{{"eventId":"{delivery}","data":{{"events":[{items}]}}}}"#);
    let event = r#"{"eventType":"user.login","published":"1"}"#;
    let rewritten = "{ \"published\" : \"1\",\n \"eventType\":\"user\\u002elogin\" }";
    let key = |body: &str| split("okta", body).last().unwrap().key.clone();
    let alone = key(&okta("first", event));
    assert_eq!(alone, key(&okta("second", &[r#"{"uuid":"other"}"#, rewritten].join(","))));
    assert_ne!(alone, key(&okta("first", r#"{"eventType":"user.login","published":"2"}"#)));
    let one = of_messages(r#"{"id":"","text":"hello"}"#);
    let other = one.replacen(r#""id":"7""#, r#""id":"8""#, 1);
    let [one, other] = [one, other].map(|body| split("meta_whatsapp", &body).remove(0).key);
    assert_ne!(one, other, "the same words to two accounts are two facts");
}

/// One fact never has two keys. Whatever else an event says still makes another one.
#[test]
fn what_a_retry_changes_gives_an_event_without_an_id_no_other_key() {
    let line = |redelivery: &str, text: &str| {
        format!(
            r#"{{"events":[{{"type":"message","deliveryContext":{{"isRedelivery":{redelivery}}},"text":"{text}"}}]}}"#
        )
    };
    let hubspot = |attempt: &str, text: &str| format!(r#"[{{"attemptNumber":{attempt},"text":"{text}"}}]"#);
    let docusign = |count: &str, text: &str| format!(r#"{{"event":"a","retryCount":{count},"text":"{text}"}}"#);
    for (provider, body) in
        [("line", &line as &dyn Fn(&str, &str) -> String), ("hubspot", &hubspot), ("docusign", &docusign)]
    {
        let [first, retried, other] = [body("0", "hi"), body("1", "hi"), body("0", "ho")].map(|body| {
            let parts = split(provider, &body);
            assert_eq!(parts.len(), 1, "{provider}: {body}");
            assert_stable(provider, &parts);
            (parts[0].key.clone(), parts[0].sha256)
        });
        assert!(first.0.as_str().starts_with("sha256:") || provider == "docusign", "{provider}: {first:?}");
        assert_eq!(first, retried, "{provider}");
        assert_ne!(first.0, other.0, "{provider}");
    }
}

/// Half of a surrogate pair is JSON, but no text. An event with one in a name has no id that can be read.
#[test]
fn events_with_half_a_surrogate_pair_in_a_name_have_keys_of_their_own() {
    let key = |id: &str| {
        let parts = split("sendgrid", &format!(r#"[{{"\ud800":1,"sg_event_id":"{id}"}}]"#));
        assert_eq!((parts.len(), parts[0].fallback), (1, Some(Fallback::IdMissing)));
        parts[0].key.clone()
    };
    assert_eq!(key("A"), key("A"));
    assert_ne!(key("A"), key("B"));
    let nested = |id: &str| split("sendgrid", &format!(r#"[{{"a":[{{"\udfff":"{id}"}}]}}]"#)).remove(0).key;
    assert_ne!(nested("A"), nested("B"));
}

#[test]
fn a_part_that_cannot_be_read_or_has_no_known_form_is_reported() {
    let of = |value: &str| format!(r#"{{"entry":[{{"changes":[{{"field":"messages","value":{value}}}]}}]}}"#);
    let fallback = |provider: &str, body: &str| {
        let parts = split(provider, body);
        assert_stable(provider, &parts);
        (parts.len(), parts[0].fallback)
    };
    let message = r#"{"id":"wamid.A"}"#;
    for name in ["a", r"\ud800"] {
        let value = format!(r#"{{"a":1,"{name}":2,"messages":[{message}]}}"#);
        assert_eq!(fallback("meta_whatsapp", &of(&value)), (1, Some(Fallback::PartUnreadable)), "{name}");
    }
    let okta = r#"{"data":{"events":[],"events":[{"uuid":"a"}]}}"#;
    assert_eq!(fallback("okta", okta), (1, Some(Fallback::PartUnreadable)));
    for (provider, body) in [
        ("okta", r#"{"eventType":"com.okta.event_hook","data":{"items":[{"uuid":"a"}]}}"#),
        ("line", r#"{"destination":"x","messages":[{}]}"#),
        ("gocardless", r#"{"items":[{"id":"1"}]}"#),
        ("x_twitter", r#"{"for_user_id":"1","post_create_events":[{}]}"#),
        ("meta_messenger_instagram", r#"{"object":"page","entry":[{"id":"1","messages":[{}]}]}"#),
        ("hubspot", "{}"),
    ] {
        assert_eq!(fallback(provider, body), (1, Some(Fallback::EventsMissing)), "{provider}");
    }
    // What a provider is known to send beside events, and an array of events that is empty.
    for (provider, body) in [
        ("meta_whatsapp", of(r#"{"messages":[]}"#).as_str()),
        ("meta_whatsapp", of(r#"{"errors":[{"code":131047}]}"#).as_str()),
        ("meta_messenger_instagram", r#"{"object":"page","entry":[{"id":"1","standby":[{"message":{}}]}]}"#),
        ("line", r#"{"destination":"x","events":[]}"#),
        ("x_twitter", r#"{"user_event":{"revoke":{}}}"#),
        ("adyen", r#"{"type":"balancePlatform.transfer.created"}"#),
    ] {
        assert_eq!(fallback(provider, body), (1, None), "{provider}");
    }
}

#[test]
fn the_same_words_in_two_places_are_two_events() {
    let body = r#"{"entry":[{"changes":[{"value":{"messages":[{"text":"a"}],"statuses":[{"text":"a"}]}}]}]}"#;
    let parts = split("meta_whatsapp", body);
    assert_eq!(types(&parts), ["message", "unknown"]);
    assert_ne!(parts[0].key, parts[1].key);
    assert_stable("meta_whatsapp", &parts);
}

/// What surrounds events is read once for all of them.
#[test]
fn a_thousand_events_without_an_id_cost_no_thousand_readings() {
    const EVENTS: usize = 1_000;
    let text = "x".repeat(1_000);
    let list = |event: &dyn Fn(usize) -> String| (0..EVENTS).map(event).collect::<Vec<_>>().join(",");
    let messages = list(&|index| format!(r#"{{"text":"{index}{text}"}}"#));
    let follows = list(&|index| format!(r#"{{"target":"{index}{text}"}}"#));
    for (provider, body) in [
        ("meta_whatsapp", of_messages(&messages)),
        ("x_twitter", format!(r#"{{"for_user_id":"1","follow_events":[{follows}]}}"#)),
    ] {
        let (parts, parsed) = parsed_bytes(|| split(provider, &body));
        assert_eq!(parts.iter().map(|part| &part.key).collect::<BTreeSet<_>>().len(), EVENTS);
        let times = parsed.div_ceil(body.len());
        println!("{provider}: {} bytes, parsed {times} times", body.len());
        assert!(times <= 20, "{provider}: parsed {times} times");
    }
}

#[test]
fn what_is_no_document_is_one_unreadable_event() {
    for body in ["", "x", "1", "\"a\"", "{\"entry\":", r#"{"entry":[],"entry":[]}"#, &"[".repeat(200)] {
        let parts = split("meta_whatsapp", body);
        assert_eq!(keys(&parts), [hash_key(body)], "{body}");
        assert_eq!((parts[0].event_type.as_str(), parts[0].fallback), ("unreadable", Some(Fallback::BodyUnreadable)));
        assert_stable("meta_whatsapp", &parts);
    }
}

#[test]
fn a_part_that_cannot_be_read_costs_no_other() {
    let body = r#"{"entry":[{"id":"1","id":"2"},{"id":"3","changes":[{"value":{"messages":[{"id":"wamid.A"}]}}]}]}"#;
    let parts = split("meta_whatsapp", body);
    assert_eq!((parts.len(), parts[1].key.as_str()), (2, "wamid.A"));
    assert_stable("meta_whatsapp", &parts);
    let lines = "{\"log_id\":\"a\",\"data\":{\"log_id\":\"a\"}}\nnot json\n{\"log_id\":\"b\"}";
    let parts = split("auth0", lines);
    let unreadable: Vec<_> = parts.iter().map(|part| part.event_type == "unreadable").collect();
    assert_eq!(unreadable, [false, true, false]);
    assert_stable("auth0", &parts);
}

#[test]
fn more_events_than_anyone_sends_are_kept_as_one() {
    let in_one_place = of_messages(&vec![r#"{"id":"wamid.A"}"#; 10_001].join(","));
    let change = format!(r#"{{"value":{{"messages":[{}]}}}}"#, vec![r#"{"id":"wamid.A"}"#; 5_001].join(","));
    let in_two_places = format!(r#"{{"entry":[{{"changes":[{change},{change}]}}]}}"#);
    let lines = vec![r#"{"log_id":"a"}"#; 10_001].join("\n");
    for (name, provider, body) in [
        ("in one place", "meta_whatsapp", in_one_place),
        ("in two places", "meta_whatsapp", in_two_places),
        ("on lines", "auth0", lines),
    ] {
        let parts = split(provider, &body);
        assert_eq!((parts.len(), parts[0].fallback), (1, Some(Fallback::TooManyEvents)), "{name}");
        assert_stable(provider, &parts);
    }
}

/// Each event gets its own copy of what surrounds it. A small body may therefore ask for a lot of memory.
#[test]
fn events_that_take_too_much_memory_are_kept_as_one() {
    let around = "x".repeat(64 * 1024 * 1024);
    let body = of_messages(r#"{"id":"a"}"#).replacen('{', &format!(r#"{{"around":"{around}","#), 1);
    let parts = split("meta_whatsapp", &body);
    assert_eq!((parts.len(), parts[0].fallback), (1, Some(Fallback::TooLarge)));
}

/// Another app handles the conversation, so nobody who answers messages may take them for their own.
#[test]
fn what_is_in_standby_has_a_type_and_a_key_of_its_own() {
    let message = r#"{"id":"wamid.A","text":"hi"}"#;
    let status = r#"{"id":"wamid.B","status":"sent","timestamp":"1","recipient_id":"49"}"#;
    let change = |field: &str, value: &str| format!(r#"{{"field":"{field}","value":{value}}}"#);
    let arrays = format!(r#"{{"messages":[{message}],"statuses":[{status}],"message_echoes":[{message}]}}"#);
    let nested = format!(r#"{{"messaging_product":"whatsapp","standby":{arrays}}}"#);
    let changes = [change("messages", &arrays), change("standby", &arrays), change("standby", &nested)];
    let mut named = Vec::new();
    for changes in [&changes[..1], &changes[1..2], &changes[2..], &changes[..]] {
        let parts = split("meta_whatsapp", &format!(r#"{{"entry":[{{"id":"1","changes":[{}]}}]}}"#, changes.join(",")));
        assert_stable("meta_whatsapp", &parts);
        named.push(parts.into_iter().map(|part| (part.event_type, String::from(part.key))).collect::<Vec<_>>());
    }
    let own = [("message", "wamid.A"), ("status.sent", "wamid.B:sent:1:49"), ("message_echo", "message_echo:wamid.A")];
    let own = own.map(|(event_type, key)| (event_type.to_owned(), key.to_owned())).to_vec();
    let standby: Vec<_> =
        own.iter().map(|(event_type, key)| (format!("standby.{event_type}"), format!("standby:{key}"))).collect();
    // In standby, the two forms of one change are one fact.
    assert_eq!(named, [own.clone(), standby.clone(), standby.clone(), [own, standby].concat()]);
    let messages = r#"{"sender":{"id":"1"},"message":{"mid":"m1"}},{"sender":{"id":"1"},"a_new_kind":{}}"#;
    let parts = split(
        "meta_messenger_instagram",
        &format!(r#"{{"object":"page","entry":[{{"id":"p","messaging":[{messages}],"standby":[{messages}]}}]}}"#),
    );
    assert_eq!(types(&parts), ["message", "unknown", "standby.message", "standby.unknown"]);
    assert_eq!((keys(&parts)[0], keys(&parts)[2]), ("m1", "standby:m1"));
    assert_eq!(keys(&parts).iter().collect::<BTreeSet<_>>().len(), 4);
    assert_stable("meta_messenger_instagram", &parts);
}

#[test]
fn what_is_no_event_of_a_batch_may_have_an_id() {
    let long = format!(r#"{{"data":{{"event_uuid":"{}","event_type":"oauth.revoke"}}}}"#, "7".repeat(20_000));
    for (body, key, event_type, fallback) in [
        (
            r#"{"data":{"event_uuid":"-7","event_type":"profile.update.bio","filter":{"user_id":"1"},"payload":{}}}"#,
            "profile.update.bio:-7:user:1",
            "profile.update.bio",
            None,
        ),
        // The same post, found by a keyword that looks like a user.
        (
            r#"{"data":{"event_uuid":"-7","event_type":"profile.update.bio","filter":{"keyword":"1"},"payload":{}}}"#,
            "profile.update.bio:-7:keyword:1",
            "profile.update.bio",
            None,
        ),
        (r#"{"data":{"event_uuid":"-7","event_type":"oauth.revoke"}}"#, "oauth.revoke:-7", "oauth.revoke", None),
        (r#"{"replay_job_status":{"job_id":"1"}}"#, "sha256:", "replay_job_status", None),
        (long.as_str(), "sha256:", "oauth.revoke", Some(Fallback::IdTooLong)),
        (r#"{"data":{"event_uuid":"-7"}}"#, "sha256:", "unknown", Some(Fallback::EventsMissing)),
    ] {
        let parts = split("x_twitter", body);
        assert!(keys(&parts)[0].starts_with(key) && (key == "sha256:" || keys(&parts)[0] == key), "{body}: {parts:?}");
        assert_eq!((parts[0].event_type.as_str(), parts[0].fallback), (event_type, fallback), "{body}");
        assert_stable("x_twitter", &parts);
    }
}

#[test]
fn messenger_events_are_named_by_what_they_hold() {
    let body = r#"{"object":"page","entry":[{"id":"p","time":1,"messaging":[
        {"sender":{"id":"1"},"message":{"mid":"m1"}},{"sender":{"id":"1"},"timestamp":2,"read":{"watermark":3}}]},
        {"id":"p","time":2,"changes":[{"field":"feed","value":{"a":1}},{"field":"feed","value":{"a":1}}]},
        {"id":"p","time":3,"changes":[{"field":"feed","value":{"a":1}}]}]}"#;
    let parts = split("meta_messenger_instagram", body);
    assert_eq!(types(&parts), ["message", "read", "feed", "feed"], "equal changes of different times are different");
    assert_eq!(parts[0].key.as_str(), "m1");
    assert_stable("meta_messenger_instagram", &parts);
}

/// A provider adds kinds of forms, and each can be read.
#[test]
fn a_form_of_a_new_kind_is_unknown_and_not_unreadable() {
    let read = |id: &str, body: &str, content_type: &str| {
        let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
        let part = provider(id).split(body.as_bytes(), &headers).remove(0);
        (part.event_type, part.fallback)
    };
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    let unknown = ("unknown".to_owned(), None);
    assert_eq!(read("twilio", "ConferenceSid=CF1&StatusCallbackEvent=join", form), unknown);
    assert_eq!(read("slack", "trigger_id=1.2&team_id=T1", form), unknown);
    let unreadable = ("unreadable".to_owned(), Some(Fallback::BodyUnreadable));
    assert_eq!(read("slack", "trigger_id=1.2&team_id=T1", "application/json"), unreadable);
    assert_eq!(read("stripe", "a=b", form), unreadable, "it sends no forms");
}

/// A name of a kind that something else was taken for.
#[test]
fn what_is_another_kind_of_event_has_another_type() {
    let twitch = |kind: &str| {
        let headers = [("twitch-eventsub-message-type", kind), ("twitch-eventsub-subscription-type", "channel.follow")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        provider("twitch_eventsub").split(b"{}", &headers.into()).remove(0).event_type
    };
    assert_eq!(["notification", "revocation"].map(twitch), ["channel.follow", "revocation"]);
    let form = |id: &str, body: &str| {
        let headers = BTreeMap::from([("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())]);
        provider(id).split(body.as_bytes(), &headers).remove(0).event_type
    };
    for (id, body, event_type) in [
        ("slack", "ssl_check=1&token=x", "ssl_check"),
        ("slack", "command=%2Fdeploy&trigger_id=1.2", "command"),
        ("slack", "payload=%7B%7D", "interaction"),
        ("twilio", "AccountSid=AC1&CallSid=CA1&CallStatus=completed", "call.completed"),
        ("twilio", "AccountSid=AC1&CallStatus=in-progress&RecordingStatus=completed", "recording.completed"),
        ("twilio", "AccountSid=AC1&ConversationSid=CH1&EventType=onMessageAdded", "onMessageAdded"),
        ("twilio", "AccountSid=AC1&MessagingServiceSid=MG1", "form"),
    ] {
        assert_eq!(form(id, body), event_type, "{id}: {body}");
    }
    let standby = r#"{"object":"page","entry":[{"id":"p","time":1,"standby":[{"sender":{"id":"1"},"message":{"mid":"m1"}}],
        "messaging":[{"sender":{"id":"1"},"timestamp":2,"pass_thread_control":{"new_owner_app_id":"3"}}]}]}"#;
    let mut found = types(&split("meta_messenger_instagram", standby)).join(" ");
    assert!(found.contains("standby") && found.contains("pass_thread_control"), "{found}");
    found = types(&split("intercom", r#"{"type":"notification_event","topic":"ping","id":"n"}"#)).join(" ");
    assert_eq!(found, "ping");
}

/// Who uses WhatsApp without showing a number has an id for each business.
#[test]
fn users_of_whatsapp_without_a_number_stay_distinct() {
    let status = |who: &str| {
        format!(
            r#"{{"entry":[{{"id":"7","changes":[{{"value":{{"statuses":[
            {{"id":"wamid.A","status":"read","timestamp":"2",{who}}}]}}}}]}}]}}"#
        )
    };
    let (mut found, forms) = (
        BTreeSet::new(),
        [
            r#""recipient_id":"15550101234""#,
            r#""recipient_user_id":"US.1""#,
            r#""recipient_user_id":"US.2""#,
            r#""recipient_id":"group-1","recipient_participant_user_id":"US.3""#,
            r#""recipient_id":"group-1","recipient_participant_user_id":"US.4""#,
        ],
    );
    for form in forms {
        let parts = split("meta_whatsapp", &status(form));
        assert_eq!((types(&parts), parts[0].fallback), (vec!["status.read"], None), "{form}");
        found.insert(keys(&parts)[0].to_owned());
    }
    assert_eq!(found.len(), forms.len(), "{found:?}");
    let message = split("meta_whatsapp", &of_messages(r#"{"from_user_id":"US.1","id":"wamid.B","type":"text"}"#));
    assert_eq!((keys(&message), types(&message)), (vec!["wamid.B"], vec!["message"]));
}
