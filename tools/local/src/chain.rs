//! Errors with their causes, in one log line.

use std::error::Error;
use std::fmt;

/// Shows an error followed by every cause, `outer: inner: innermost`.
///
/// `Display` of our errors never repeats the source, and the SDK's says little more than "service error". Without the
/// chain a log line would not say what happened.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Chain;
    use crate::invoke::InvokeError;

    #[test]
    fn every_cause_is_shown_once() {
        let cause = serde_json::from_str::<serde_json::Value>("{").unwrap_err();
        let shown = cause.to_string();
        let error = InvokeError::NotJson { source: cause };
        assert_eq!(Chain(&error).to_string(), format!("the function's response is not JSON: {shown}"));
    }
}
