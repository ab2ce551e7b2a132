//! What to do about the answer to one call, by the kind of its destination.

use hookonce_protocol::effect::DestinationId;
use hookonce_runtime::destinations::{AttemptError, CalleeAnswer, DestinationKind};

use crate::stack::credentials::{SIGN_IN, are_rejected};

const DENIED_BY_QUEUE: &str = "your credentials need sqs:SendMessage on this queue; a queue of another account needs a \
                               policy that lets them, too";
const DENIED_BY_FUNCTION: &str =
    "your credentials need lambda:InvokeFunction on this function, with its version or alias if the document names one";

/// What to do about an answer, or about its absence. `is_probe` says that the payload was not the user's own.
pub(super) fn advice(
    id: &DestinationId,
    kind: DestinationKind,
    answer: &Result<CalleeAnswer, AttemptError>,
    is_probe: bool,
) -> Option<String> {
    let advice = match (kind, answer) {
        (DestinationKind::Http, Ok(answer)) if matches!(answer.status, 401 | 403) => {
            return Some(format!("the callee does not take the credential: `hookonce destination rotate {id}`"));
        }
        (_, Err(trouble)) => Some(of_trouble(kind, trouble)),
        (DestinationKind::Http, Ok(answer)) => of_status(answer.status, is_probe),
        (DestinationKind::Sqs | DestinationKind::Lambda, Ok(answer)) => {
            let code = answer.code.as_deref().unwrap_or_default();
            if are_rejected(code) {
                return Some(format!("AWS rejected the credentials: {SIGN_IN}"));
            }
            if kind == DestinationKind::Sqs { of_queue(answer.status, code) } else { of_function(answer.status, code) }
        }
    };
    advice.map(str::to_owned)
}

/// What the role of the dispatcher needs for the same call.
pub(super) fn permission(kind: DestinationKind) -> Option<&'static str> {
    match kind {
        DestinationKind::Http => None,
        DestinationKind::Sqs => Some("sqs:SendMessage"),
        DestinationKind::Lambda => Some("lambda:InvokeFunction"),
    }
}

fn of_status(status: u16, is_probe: bool) -> Option<&'static str> {
    Some(match status {
        404 | 405 => "the callee has no such path or method: pass --path and --method of a real call",
        300..=399 => "a redirect is never followed: put the address that it leads to into the document",
        400 | 422 if is_probe => {
            "the callee was reached and does not know this payload: pass --file, --path and --method of a real call"
        }
        500..=599 => "the callee failed: check its log, then try again",
        _ => return None,
    })
}

/// By the error codes of both protocols of SQS.
fn of_queue(status: u16, code: &str) -> Option<&'static str> {
    Some(match code {
        "AWS.SimpleQueueService.NonExistentQueue" | "QueueDoesNotExist" => {
            "there is no such queue: check account, Region and name in the document's url; `aws sqs get-queue-url --queue-name \
             NAME` prints the URL of a queue"
        }
        "AccessDenied" | "AccessDeniedException" => DENIED_BY_QUEUE,
        "" if status == 403 => DENIED_BY_QUEUE,
        "KMS.AccessDeniedException" | "KmsAccessDenied" => {
            "the queue's KMS key refuses your credentials: they need kms:GenerateDataKey and kms:Decrypt on it"
        }
        "KMS.ThrottlingException" | "KmsThrottled" | "RequestThrottled" | "ThrottlingException" => {
            "SQS or the queue's KMS key is throttled: wait a moment, then try again"
        }
        _ if code.to_ascii_uppercase().starts_with("KMS") => {
            "the queue's KMS key cannot be used: enable it, or give the queue another one"
        }
        "InvalidMessageContents" | "InvalidParameterValue" | "InvalidParameterValueException" => {
            "SQS rejects this message: it is longer than the queue's MaximumMessageSize, or it is not plain text"
        }
        "InvalidAddress" => "the queue must be in the stack's Region: check the host in the document's url",
        _ if status >= 500 => "SQS failed: try again",
        _ => return None,
    })
}

fn of_function(status: u16, code: &str) -> Option<&'static str> {
    Some(match code {
        "ResourceNotFoundException" => {
            "there is no such function, version or alias: check the document's function, which must be in the stack's Region; \
             `aws lambda get-function --function-name NAME` shows one"
        }
        "AccessDeniedException" => DENIED_BY_FUNCTION,
        "" if status == 403 => DENIED_BY_FUNCTION,
        "TooManyRequestsException" | "EC2ThrottledException" => "Lambda is throttled: wait a moment, then try again",
        "InvalidRequestContentException"
        | "RequestTooLargeException"
        | "SerializedRequestEntityTooLargeException"
        | "UnsupportedMediaTypeException" => "Lambda does not take this event: it has at most 1 MB, as JSON",
        "ResourceConflictException" | "ResourceNotReadyException" | "SnapStartNotReadyException" => {
            "the function is being changed, or wakes up: wait a minute, then try again"
        }
        _ if code.starts_with("KMS") => {
            "Lambda cannot decrypt the function's environment: enable its KMS key, and allow kms:Decrypt to the function's role"
        }
        "" if status == 202 => return None,
        "" if status < 300 => {
            "the server at AWS_ENDPOINT_URL_LAMBDA does not support asynchronous invocation (expected 202)"
        }
        // Lambda names its errors.
        "" | "ServiceException" => "Lambda failed, or something on the way to it: try again",
        _ => {
            "Lambda cannot run the function now: fix what the error names, such as its network, file system, code or quota"
        }
    })
}

fn of_trouble(kind: DestinationKind, trouble: &AttemptError) -> &'static str {
    match trouble {
        AttemptError::NoUrl => {
            "add it to a deployed stack, and pass --stack NAME; under `hookonce dev`, its effects wait"
        }
        AttemptError::Lookup(_) => "check the name of the host in the document's url",
        AttemptError::Address => {
            "the host leads to an address that no destination may have; --allow-private permits private ones"
        }
        AttemptError::Connect(_) => "check host and port, and whether a firewall is between",
        AttemptError::Tls(_) | AttemptError::NoTls => {
            "the certificate must come from a trusted authority, match the URL's host and not be expired"
        }
        AttemptError::Exchange(_) => "the callee closed the connection: check there whether the call was carried out",
        AttemptError::Unsigned(_) => SIGN_IN,
        AttemptError::Unanswered(_) => "check the network to AWS, and AWS_ENDPOINT_URL if it is set",
        AttemptError::Time => "raise timeout_ms in the document, or look whether the callee is slow",
        AttemptError::Unsendable(reason) => match (kind, *reason) {
            (DestinationKind::Http, _) => "path, payload and document do not fit together: docs/use/effects.md",
            (_, "only_a_url_has_a_method_and_a_path") => "leave out --method and --path: only a URL has them",
            (_, "payload_is_no_text_of_a_queue") => {
                "a queue takes text only, without control characters: wrap other bytes as base64 in JSON"
            }
            (_, "payload_is_too_large_for_a_queue") => {
                "a message has at most 1 MiB with its attributes: store the data elsewhere, and send its place"
            }
            (DestinationKind::Sqs | DestinationKind::Lambda, _) => "docs/use/effects.md lists what a hand-over carries",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_of(kind: DestinationKind, status: u16, code: &str) -> String {
        let code = Some(code.to_owned()).filter(|code| !code.is_empty());
        let id = DestinationId::parse("crm").unwrap();
        advice(&id, kind, &Ok(CalleeAnswer { code, ..CalleeAnswer::of(status) }), true).unwrap_or_default()
    }

    /// SQS names an error of its older protocol in a header, and the SDK takes that name.
    #[test]
    fn an_error_of_sqs_is_explained_by_either_of_its_names() {
        for (names, word) in [
            (&["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"][..], "no such queue"),
            (&["AccessDenied", "AccessDeniedException"], "sqs:SendMessage"),
            (&["KMS.AccessDeniedException", "KmsAccessDenied"], "kms:GenerateDataKey"),
            (&["KMS.DisabledException", "KmsDisabled", "KMS.NotFoundException", "KmsInvalidState"], "enable it"),
            (&["RequestThrottled", "ThrottlingException", "KMS.ThrottlingException", "KmsThrottled"], "wait a moment"),
            (
                &["InvalidMessageContents", "InvalidParameterValue", "InvalidParameterValueException"],
                "MaximumMessageSize",
            ),
            (&["InvalidAddress"], "the stack's Region"),
            (&["ExpiredToken", "InvalidClientTokenId"], "sign in again"),
        ] {
            for name in names {
                let given = advice_of(DestinationKind::Sqs, 400, name);
                assert!(given.contains(word), "{name}: {given}");
            }
        }
        assert_eq!(advice_of(DestinationKind::Sqs, 200, ""), "");
        assert!(advice_of(DestinationKind::Sqs, 503, "ServiceUnavailable").contains("try again"));
        assert!(advice_of(DestinationKind::Sqs, 403, "").contains("sqs:SendMessage"));
    }

    #[test]
    fn an_error_of_lambda_is_explained() {
        for (status, name, word) in [
            (404, "ResourceNotFoundException", "no such function"),
            (403, "AccessDeniedException", "lambda:InvokeFunction"),
            (429, "TooManyRequestsException", "wait a moment"),
            (502, "EC2ThrottledException", "wait a moment"),
            (400, "InvalidRequestContentException", "at most 1 MB"),
            (413, "RequestTooLargeException", "at most 1 MB"),
            (413, "SerializedRequestEntityTooLargeException", "at most 1 MB"),
            (415, "UnsupportedMediaTypeException", "at most 1 MB"),
            (409, "ResourceConflictException", "wait a minute"),
            (502, "ResourceNotReadyException", "wait a minute"),
            (409, "SnapStartNotReadyException", "wait a minute"),
            (502, "KMSDisabledException", "kms:Decrypt"),
            (502, "ENILimitReachedException", "network"),
            (403, "UnrecognizedClientException", "sign in again"),
            (500, "ServiceException", "try again"),
            (403, "", "lambda:InvokeFunction"),
            (502, "", "on the way"),
            (200, "", "asynchronous invocation"),
        ] {
            let given = advice_of(DestinationKind::Lambda, status, name);
            assert!(given.contains(word), "{name}: {given}");
        }
        assert_eq!(advice_of(DestinationKind::Lambda, 202, ""), "");
    }
}
