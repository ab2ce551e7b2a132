//! How old a signed time may be: the limit of each scheme against what the facts say of retries.

use hookonce_protocol::time::Millis;

use super::problem::Problem;
use crate::facts::{Facts, TimeOnRetry};
use crate::provider::SchemeEntry;
use crate::scheme::timestamp::CLOCK_SKEW;

/// What is added to the time in which a provider retries.
const MARGIN: Millis = Millis::hours(1);

/// How long a provider is taken to retry that does not say it. Stripe, `OpenAI`, Paddle and `PayPal` retry that long.
const RETRY_HOURS_UNKNOWN: u32 = 72;

/// The limit that follows from the facts. `None` where no time is signed.
fn limit(facts: &Facts) -> Option<Millis> {
    match facts.time_on_retry {
        TimeOnRetry::None => None,
        TimeOnRetry::New => Some(CLOCK_SKEW),
        TimeOnRetry::Same | TimeOnRetry::Unknown => {
            let hours = i64::from(facts.retry_hours_max.unwrap_or(RETRY_HOURS_UNKNOWN));
            Some(Millis::seconds(hours * 3_600 + MARGIN.as_seconds()))
        }
    }
}

/// Checks that each signed time has the limit that follows from the facts. A longer one needs a reason, and where a
/// retry may have the first time, a shorter one would refuse it.
pub(super) fn check(schemes: &[SchemeEntry], facts: &Facts) -> Result<(), Problem> {
    let timed = || schemes.iter().enumerate().filter(|(_, entry)| entry.scheme.kind().covers_time());
    let fact = |problem: String| ("facts.time_on_retry".to_owned(), problem);
    let Some(wanted) = limit(facts) else {
        return timed().next().map_or(Ok(()), |(index, _)| {
            Err(fact(format!("scheme[{index}] signs a time; write `new`, `same` or `unknown`")))
        });
    };
    if timed().next().is_none() {
        return Err(fact("no scheme signs a time; write `none`".to_owned()));
    }
    for (index, entry) in timed().filter(|(_, entry)| !entry.scheme.kind().sender_limits_age()) {
        let place = |problem: String| (format!("scheme[{index}]"), problem);
        let found =
            entry.scheme.age_limit().ok_or_else(|| place("the time is signed, so its age needs a limit".to_owned()))?;
        let is_explained = facts.time_limit_from.is_some();
        let fits = match facts.time_on_retry {
            _ if found == wanted => !is_explained,
            TimeOnRetry::New => is_explained,
            TimeOnRetry::Same | TimeOnRetry::Unknown => is_explained && found.0 > wanted.0,
            TimeOnRetry::None => false,
        };
        if !fits {
            return Err(place(format!(
                "the limit of the signed time is {} s, and {} s follow from `time_on_retry` and `retry_hours_max`; \
                 `time_limit_from` names the source of another one, which is longer where a retry may have the first \
                 time",
                found.as_seconds(),
                wanted.as_seconds()
            )));
        }
    }
    Ok(())
}
