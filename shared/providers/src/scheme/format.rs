//! The layout of a signature in its header.

use crate::limits::SIGNATURES_MAX;
use crate::refusal::Refusal;

/// The layout of a signature's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Format {
    /// The encoded signature alone.
    Plain,
    /// A fixed text, then the encoded signature: `sha256=...`.
    Prefix(String),
    /// A list of named values, of which some are signatures: `t=1,v1=...,v1=...` or `v1,... v1,...`.
    Pairs(Pairs),
}

/// The layout of a list of named values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pairs {
    /// Between two values.
    pub(crate) between: String,
    /// Between a name and its value.
    pub(crate) assign: String,
    /// The name whose values are signatures. Values under other names are ignored, so that nobody can pass a weaker
    /// version.
    pub(crate) signature: String,
    /// Whether spaces around a value belong to the layout.
    pub(crate) trim: bool,
}

/// The parts of a signature's texts.
#[derive(Debug, Default)]
pub(crate) struct Candidates<'a> {
    /// The encoded signatures, in order.
    pub(crate) signatures: Vec<&'a str>,
    /// The other named values.
    pub(crate) named: Vec<(&'a str, &'a str)>,
}

impl Candidates<'_> {
    /// The value of a name that may come once.
    pub(crate) fn single(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.named.iter().filter(|(key, _)| *key == name).map(|(_, value)| *value);
        let value = values.next();
        if values.next().is_some() { Err(Refusal::DuplicateHeader) } else { Ok(value) }
    }
}

impl Format {
    /// Extracts the signatures from their texts.
    pub(crate) fn read<'a>(&self, texts: &[&'a str]) -> Result<Candidates<'a>, Refusal> {
        let mut candidates = Candidates::default();
        for text in texts {
            match self {
                Self::Plain => candidates.signatures.push(one(text)?),
                Self::Prefix(prefix) => {
                    candidates
                        .signatures
                        .push(one(text)?.strip_prefix(prefix.as_str()).ok_or(Refusal::SignatureMalformed)?);
                }
                Self::Pairs(pairs) => pairs.read(text, &mut candidates)?,
            }
        }
        if candidates.signatures.len() > SIGNATURES_MAX {
            return Err(Refusal::SignatureMalformed);
        }
        if candidates.signatures.is_empty() {
            // Somebody signed something: to say that nothing is there would send a person to look for a lost header.
            let is_blank = texts.iter().all(|text| text.is_empty());
            return Err(if is_blank { Refusal::SignatureMissing } else { Refusal::SignatureMalformed });
        }
        Ok(candidates)
    }
}

/// A text with one signature. No encoding uses a comma, so a comma means that a gateway joined two headers.
fn one(text: &str) -> Result<&str, Refusal> {
    if text.contains(',') { Err(Refusal::DuplicateHeader) } else { Ok(text) }
}

impl Pairs {
    fn read<'a>(&self, text: &'a str, candidates: &mut Candidates<'a>) -> Result<(), Refusal> {
        for item in text.split(self.between.as_str()) {
            let trimmed = item.trim_matches(' ');
            // This provider writes no spaces, so a gateway joined two headers.
            if trimmed != item && !self.trim {
                return Err(Refusal::DuplicateHeader);
            }
            let item = trimmed;
            let Some((name, value)) = item.split_once(self.assign.as_str()) else { continue };
            if name == self.signature {
                candidates.signatures.push(one(value)?);
            } else {
                candidates.named.push((name, value));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(between: &str, assign: &str) -> Format {
        let (between, assign) = (between.to_owned(), assign.to_owned());
        Format::Pairs(Pairs { between, assign, signature: "v1".to_owned(), trim: false })
    }

    #[test]
    fn signatures_under_other_names_are_not_looked_at() {
        let candidates = pairs(",", "=").read(&["t=1,v0=a,v1=b,v2=c,v1=d"]).unwrap();
        assert_eq!(candidates.signatures, ["b", "d"]);
        assert_eq!(candidates.single("t").unwrap(), Some("1"));
        assert_eq!(pairs(",", "=").read(&["t=1,v0=a"]).unwrap_err(), Refusal::SignatureMalformed);
    }

    #[test]
    fn a_signature_of_another_form_is_not_a_missing_one() {
        for text in ["hello", "t=1", "v1", "="] {
            assert_eq!(pairs(",", "=").read(&[text]).unwrap_err(), Refusal::SignatureMalformed, "{text}");
        }
        for none in [&[][..], &[""]] {
            assert_eq!(pairs(",", "=").read(none).unwrap_err(), Refusal::SignatureMissing);
        }
    }

    #[test]
    fn a_list_joined_by_a_gateway_is_refused() {
        assert_eq!(pairs(" ", ",").read(&["v1,a,v1,b"]).unwrap_err(), Refusal::DuplicateHeader);
        let joined = pairs(",", "=").read(&["t=1,v1=a,t=2,v1=b"]).unwrap();
        assert_eq!(joined.single("t").unwrap_err(), Refusal::DuplicateHeader);
        assert_eq!(pairs(",", "=").read(&["t=1,v1=a, t=1,v1=a"]).unwrap_err(), Refusal::DuplicateHeader);
        assert_eq!(Format::Prefix("s=".to_owned()).read(&["s=a,s=a"]).unwrap_err(), Refusal::DuplicateHeader);
    }

    #[test]
    fn the_number_of_signatures_is_limited() {
        let many = |count| vec!["v1,a"; count].join(" ");
        assert!(pairs(" ", ",").read(&[&many(SIGNATURES_MAX)]).is_ok());
        assert_eq!(pairs(" ", ",").read(&[&many(SIGNATURES_MAX + 1)]).unwrap_err(), Refusal::SignatureMalformed);
    }

    #[test]
    fn a_missing_prefix_is_malformed() {
        assert_eq!(Format::Prefix("sha256=".to_owned()).read(&["ab"]).unwrap_err(), Refusal::SignatureMalformed);
    }
}
