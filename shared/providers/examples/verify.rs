//! What it takes to verify a delivery, by every scheme of the catalog: `scripts/bench verify`.
//!
//! The requests are those of `events/vectors`, made longer and signed again. Each round verifies each of them in turn,
//! and beside it makes the bare HMAC-SHA256 of the same body with the crate that the schemes use. So the figures are
//! medians over rounds, and ratios those of one round. With `once`, each is verified once in [`verified`], and without a
//! clock: callgrind counts what is done there, and writes a profile after each.

#[expect(
    dead_code,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the suite of the providers, whose helpers these are"
)]
#[path = "../tests/conformance/key_pairs.rs"]
mod key_pairs;
#[expect(
    dead_code,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the suite of the providers, whose helpers these are"
)]
#[path = "../tests/conformance/support.rs"]
mod support;

use std::error::Error;
use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use hookonce_providers::{CapturedRequest, Catalog, Keyring, Provider, Received};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::key_pairs::signed;
use crate::support::{SIGNATURES, longer, valid, without_headers};

/// Bytes of a body.
const BODIES: [usize; 2] = [2_048, 200_000];

/// How often everything is measured.
const ROUNDS: usize = 15;

/// Spans of one measurement. The quickest counts, because what else runs makes a span longer, and nothing makes one shorter.
const SPANS: usize = 5;

/// How long a span takes at least.
const SPAN: Duration = Duration::from_micros(200);

/// Providers whose signature is inside the body.
const SIGNED_INSIDE: [&str; 4] = ["adyen", "aws_sns", "braintree", "mailgun"];

/// A delivery, and what its endpoint holds.
struct Case {
    provider: &'static Provider,
    captured: CapturedRequest,
    keyring: Keyring,
    /// What is printed beside its figures.
    scheme: String,
    how: String,
    bytes: usize,
}

impl Case {
    /// The delivery of this scheme of a provider, by its place.
    fn new(provider: &'static Provider, place: usize, bytes: usize) -> Result<Self, Box<dyn Error>> {
        let file = serde_json::to_value(provider)?;
        let schemes = file.get("scheme").and_then(Value::as_array).ok_or("no schemes")?;
        let text = |name: &str| schemes.get(place).and_then(|scheme| scheme.get(name)).and_then(Value::as_str);
        let mut unsigned = without_headers(valid(provider.id()), &SIGNATURES);
        unsigned.schemes = text("name").filter(|_| schemes.len() > 1).map(str::to_owned).into_iter().collect();
        unsigned.body = filled(provider.id(), &unsigned.body, bytes);
        let mut captured = signed(&unsigned)?;
        captured.secrets.truncate(1);
        let scheme = text("name").filter(|_| schemes.len() > 1).map(|name| format!("/{name}")).unwrap_or_default();
        let scheme = format!("{}{scheme}", provider.id());
        let how =
            [text("kind"), text("hash").or(text("algorithm"))].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let (keyring, settings) =
            provider.configure(&captured.secrets, captured.settings.clone(), &captured.schemes)?;
        captured.settings = settings;
        let case = Self { provider, captured, keyring, scheme, how, bytes };
        if verified(&case) { Ok(case) } else { Err(format!("{} refuses its own delivery", case.scheme).into()) }
    }
}

/// The body with further values, until it has about so many bytes: texts as long as ids in a list, where the body is JSON
/// and no scheme reads it, and otherwise one long text where the signature covers it.
fn filled(id: &str, body: &[u8], bytes: usize) -> Vec<u8> {
    let missing = bytes.saturating_sub(body.len());
    let mut value = serde_json::from_slice::<Value>(body).ok().filter(|_| !SIGNED_INSIDE.contains(&id));
    let first = value.as_mut().and_then(|value| if value.is_array() { value.get_mut(0) } else { Some(value) });
    let Some(Value::Object(members)) = first else { return longer(id, body, missing) };
    let texts = (0..missing / 27).map(|number| json!(format!("{:024x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    members.insert("further".to_owned(), texts.collect());
    value.unwrap_or_default().to_string().into_bytes()
}

/// Whether the delivery is authentic. It is also cut into its events and named, as the webhook does.
#[inline(never)]
fn verified(Case { provider, captured, keyring, .. }: &Case) -> bool {
    let received = provider.receive(&captured.request(), keyring, &captured.settings, None, captured.now);
    matches!(black_box(received), Ok(Received::Delivery(_)))
}

/// Whether the code of a body can be made, and is made.
fn bare(Case { captured, .. }: &Case) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(b"a secret of thirty-two characters") else { return false };
    mac.update(&captured.body);
    !black_box(mac.finalize().into_bytes()).is_empty()
}

/// Microseconds that one takes.
fn microseconds(case: &Case, act: fn(&Case) -> bool) -> f64 {
    (0..SPANS).map(|_| span(case, act)).fold(f64::INFINITY, f64::min)
}

/// The mean of as many as take [`SPAN`] together.
#[expect(clippy::disallowed_methods, reason = "one is shorter than a step of the system's own clock")]
fn span(case: &Case, act: fn(&Case) -> bool) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    loop {
        black_box(act(case));
        count += 1;
        let taken = begun.elapsed();
        if taken >= SPAN {
            return taken.as_secs_f64() * 1_000_000.0 / f64::from(count);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut cases = Vec::new();
    for provider in Catalog::built_in().iter() {
        for place in 0..provider.schemes().len() {
            for bytes in BODIES {
                cases.push(Case::new(provider, place, bytes)?);
            }
        }
    }
    let once = std::env::args().nth(1).as_deref() == Some("once");
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); cases.len()];
    for _ in 0..if once { 0 } else { ROUNDS } {
        for (case, taken) in cases.iter().zip(&mut taken) {
            let ours = microseconds(case, verified);
            taken.push((ours, ours / microseconds(case, bare)));
        }
    }
    for (case, taken) in cases.iter().zip(taken) {
        if once && !verified(case) {
            return Err(format!("{} refuses its own delivery", case.scheme).into());
        }
        let (times, ratios) = taken.into_iter().unzip();
        let Case { scheme, how, bytes, captured, .. } = case;
        let line = json!({
            "scheme": scheme, "how": how, "bytes": bytes, "body_bytes": captured.body.len(),
            "us": median(times), "ratio": median(ratios),
        });
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}
