//! The test case of a record's event, for the kits in Python and TypeScript: a person pastes it into a project.

use maud::{Markup, html};

use crate::output;
use crate::records::timeline::{Timeline, Today};

/// What a test in one language is written of.
struct Language {
    name: &'static str,
    /// Around the type and the other fields of the event.
    begin: [&'static str; 3],
    /// Between a name and its value.
    is: &'static str,
    played: &'static str,
    error: &'static str,
    ignored: &'static str,
    fact: [&'static str; 2],
    end: &'static str,
}

const PYTHON: Language = Language {
    name: "Python",
    begin: [
        "from pathlib import Path\n\nfrom hookonce.testing import make_event, play\n\n\ndef test_the_event() -> None:\n    \
         body = Path(\"event.json\").read_bytes()\n    event = make_event(",
        ", body, ",
        ")\n",
    ],
    is: "=",
    played: "    played = play(event, MyHandler())\n",
    error: "    assert played.error is None\n",
    ignored: "    assert played.ignored\n",
    fact: ["    assert played.fact == ", "\n"],
    end: "",
};

const TYPESCRIPT: Language = Language {
    name: "TypeScript",
    begin: [
        "import assert from \"node:assert/strict\";\nimport { readFileSync } from \"node:fs\";\nimport { test } from \"node:test\";\n\n\
         import { makeEvent, play } from \"hookonce/testing\";\n\ntest(\"the event\", async () => {\n  \
         const event = makeEvent(",
        ", readFileSync(\"event.json\"), { ",
        " });\n",
    ],
    is: ": ",
    played: "  const played = await play(event, new MyHandler());\n",
    error: "  assert.equal(played.error, undefined);\n",
    ignored: "  assert.ok(played.ignored);\n",
    fact: ["  assert.equal(played.fact, ", ");\n"],
    end: "});\n",
};

impl Language {
    /// A test that feeds the stored body to a handler. What the plan writes depends on what the tables hold, so only the
    /// fact is expected: it is the event's alone. A handler that fails today passes once it is mended.
    fn test(&self, timeline: &Timeline, today: &Today) -> String {
        let record = &timeline.record;
        let (endpoint, key) = record.key.parts();
        let changes = [
            ("provider", output::json_safe(&record.provider)),
            ("endpoint", output::json_safe(endpoint)),
            ("key", output::json_safe(key)),
            ("record", output::json_safe(record.key.as_str())),
            ("headers", output::json_safe(&record.headers)),
        ];
        let changes: Vec<_> = changes.iter().map(|(name, value)| format!("{name}{}{value}", self.is)).collect();
        let (event_type, changes) = (output::json_safe(&record.event_type), changes.join(", "));
        let [begin, between, end] = self.begin;
        let expected = match today {
            Today::Ignored => self.ignored.to_owned(),
            Today::Fails | Today::Plans => self.error.to_owned(),
            Today::Fact(fact) => {
                let [before, after] = self.fact;
                format!("{}{before}{}{after}", self.error, output::json_safe(fact))
            }
        };
        format!("{begin}{event_type}{between}{changes}{end}{}{expected}{}", self.played, self.end)
    }
}

/// The test in each language that has a kit. Nothing if nobody knows what is expected of the handler, or for a text of
/// somebody else that the languages would have to write each in its own way.
pub(super) fn section(timeline: &Timeline) -> Markup {
    let Some(today) = timeline.today() else { return html! {} };
    // Where a route forwards, no handler is asked.
    if timeline.routed.as_ref().is_some_and(|routed| !routed.forward.is_empty()) {
        return html! {};
    }
    let record = &timeline.record;
    let headers = record.headers.values().map(String::as_str);
    let mut texts = headers.chain([record.key.as_str(), &record.event_type]);
    if texts.any(|text| output::shown(text) != text) {
        return html! {};
    }
    html! {
        h2 { "Test case" }
        p.note { "It reads the body from the file of the command below, and names your handler MyHandler." }
        @for language in [PYTHON, TYPESCRIPT] {
            details {
                summary { (language.name) }
                pre tabindex="0" { (language.test(timeline, &today)) }
            }
        }
    }
}
