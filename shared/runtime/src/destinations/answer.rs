//! What an answer means for an effect.

use std::str::FromStr as _;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use hookonce_protocol::destination::Called;
use hookonce_protocol::time::{EpochMs, EpochSec, Millis};
use http::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::checked::HttpTarget;

/// How a call with this answer ended. `body` is the whole body of the answer, if it could be read to its end.
pub(super) fn judge(
    target: &HttpTarget,
    status: u16,
    headers: &HeaderMap,
    body: Option<&[u8]>,
    now: EpochMs,
) -> Called {
    let (answered, retry_after) = (Some(status), retry_after(headers, now));
    match status {
        200..=299 if body_reports_success(target, body) => Called::Done { status: answered },
        // 2xx without the expected body: the outcome is unknown.
        200..=299 => Called::Unclear { status: answered, retry_after },
        _ if target.done_statuses.contains(&status) => Called::AlreadyDone { status },
        _ if target.not_done_statuses.contains(&status) => Called::NotDone { status: answered, retry_after },
        _ if target.retry_statuses.contains(&status) => Called::Unclear { status: answered, retry_after },
        // Too early: by definition it was not begun.
        425 => Called::NotDone { status: answered, retry_after },
        // The same request belongs elsewhere.
        307 | 308 => Called::Refused { status: answered },
        // A form or a script was done, and its page is elsewhere.
        300..=399 => Called::Unknown { status },
        // A gateway gave up waiting, as with 504.
        408 => Called::Unclear { status: answered, retry_after },
        400..=499 => Called::Refused { status: answered },
        _ => Called::Unclear { status: answered, retry_after },
    }
}

fn body_reports_success(target: &HttpTarget, body: Option<&[u8]>) -> bool {
    let Some(check) = &target.success else { return true };
    let answer = body.and_then(|body| serde_json::from_slice::<Value>(body).ok());
    answer.is_some_and(|answer| answer.pointer(&check.pointer) == Some(&check.equals))
}

/// How long `Retry-After` asks to wait: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: EpochMs) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Whatever does not fit is longer than anybody waits.
        return Some(Millis::seconds(i64::from(u32::from_str(text).unwrap_or(u32::MAX))));
    }
    let EpochSec(at) = EpochSec(DateTime::from_str(text, Format::HttpDate).ok()?.secs());
    Some(Millis(at.saturating_mul(1_000).saturating_sub(now.0).max(0)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = EpochMs(784_111_777_000);
        for (text, expected) in [
            ("0", Some(Millis(0))),
            (" 120 ", Some(Millis::seconds(120))),
            ("Sun, 06 Nov 1994 08:49:39 GMT", Some(Millis::seconds(2))),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Some(Millis(0))),
            ("-1", None),
            ("soon", None),
            ("99999999999999999999", Some(Millis::seconds(i64::from(u32::MAX)))),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers, now), expected, "{text}");
        }
    }
}
