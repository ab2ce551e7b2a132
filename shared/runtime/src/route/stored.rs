//! How a route set is kept in texts of limited length: immutable parts, and one pointer that names them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookonce_protocol::key::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::set::SET_BYTES_MAX;
use crate::body::{compress, decompress};
use crate::strict::{self, ShowNames};

/// The longest part, in characters. A standard parameter holds 4,096.
const PART_CHARS_MAX: usize = 4_000;

/// The most parts of a set.
pub const PARTS_MAX: usize = 100;

/// Names the parts of the set in use, and those of the one before: a reader may still be reading them, so the next
/// deployment deletes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePointer {
    /// The number of the set. Each deployment has a higher one.
    pub number: u64,
    /// How many parts it has.
    pub parts: usize,
    /// The hash of its text, in hex.
    pub sha256: String,
    /// The set before, without the one before that. Nobody routes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Self>>,
}

impl RoutePointer {
    /// Reads a pointer. `None` if the text is none, or a set has more parts than it can have.
    pub fn parse(text: &str) -> Option<Self> {
        let pointer: Self = strict::read(text.as_bytes(), ShowNames::Shortened).ok()?;
        let fits = |set: &Self| (1..=PARTS_MAX).contains(&set.parts);
        (fits(&pointer) && pointer.previous.as_deref().is_none_or(fits)).then_some(pointer)
    }

    /// Names this very set.
    pub fn version(&self) -> String {
        format!("{}-{}", self.number, self.sha256)
    }

    /// The names of a set's parts, below the name of the pointer.
    pub fn names(pointer: &str, number: u64, parts: usize) -> Vec<String> {
        (0..parts).map(|part| format!("{pointer}-{number}/{part}")).collect()
    }

    /// Puts the text together from its parts.
    ///
    /// # Errors
    /// [`PackedError`] when they are not the parts of this set.
    pub fn unpack(&self, parts: &[String]) -> Result<String, PackedError> {
        let bytes = STANDARD.decode(parts.concat()).map_err(|_| PackedError)?;
        let text = String::from_utf8(decompress(&bytes).map_err(|_| PackedError)?).map_err(|_| PackedError)?;
        if hash(&text) == self.sha256 { Ok(text) } else { Err(PackedError) }
    }
}

/// The parts of a set, and the hash of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The parts, in order.
    pub parts: Vec<String>,
    /// The hash of the text, in hex.
    pub sha256: String,
}

/// A text does not fit into parts, or parts are not those of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the route set does not fit into {PARTS_MAX} parts, or its parts do not belong together")]
pub struct PackedError;

/// Makes the parts of a set's text.
///
/// # Errors
/// [`PackedError`] when it is too long even if it is compressed.
pub fn pack(text: &str) -> Result<Packed, PackedError> {
    let bytes = if text.len() <= SET_BYTES_MAX { compress(text.as_bytes()).ok() } else { None };
    let encoded = STANDARD.encode(bytes.ok_or(PackedError)?);
    let parts: Vec<_> =
        encoded.as_bytes().chunks(PART_CHARS_MAX).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    if parts.len() <= PARTS_MAX { Ok(Packed { parts, sha256: hash(text) }) } else { Err(PackedError) }
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pointer(packed: &Packed) -> RoutePointer {
        let sha256 = packed.sha256.clone();
        RoutePointer { number: 1, parts: packed.parts.len(), sha256, previous: None }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked_and_other_parts_are_refused(seed in any::<[u8; 32]>(), blocks in 1_usize..400) {
            // Hashes compress badly, so that there are several parts.
            let text = (0..blocks).fold((seed, String::new()), |(hash, text), _| {
                let next: [u8; 32] = Sha256::digest(hash).into();
                (next, text + &hex(&next))
            }).1;
            let packed = pack(&text).unwrap();
            prop_assert!(packed.parts.iter().all(|part| part.len() <= PART_CHARS_MAX));
            let pointer = pointer(&packed);
            prop_assert_eq!(pointer.unpack(&packed.parts).unwrap(), text);
            prop_assert!(pointer.unpack(&packed.parts[1..]).is_err());
            prop_assert!(pointer.unpack(&pack("other").unwrap().parts).is_err());
        }
    }

    #[test]
    fn a_pointer_is_read_back_and_what_is_none_is_not() {
        let packed = pack("{}").unwrap();
        let previous = pointer(&packed);
        let pointer = RoutePointer { number: 2, previous: Some(Box::new(previous)), ..pointer(&packed) };
        assert_eq!(RoutePointer::parse(&serde_json::to_string(&pointer).unwrap()), Some(pointer));
        for text in [
            "",
            "{}",
            r#"{"number":1,"parts":0,"sha256":""}"#,
            r#"{"number":1,"parts":101,"sha256":""}"#,
            r#"{"number":2,"parts":1,"sha256":"","previous":{"number":1,"parts":0,"sha256":""}}"#,
            r#"[1,1,""]"#,
        ] {
            assert_eq!(RoutePointer::parse(text), None, "{text}");
        }
        assert_eq!(RoutePointer::names("/h/s/routes", 7, 2), ["/h/s/routes-7/0", "/h/s/routes-7/1"]);
    }
}
