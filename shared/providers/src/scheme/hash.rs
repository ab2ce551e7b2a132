//! The only file that hashes unauthenticated input to judge it. [`Request::fingerprint`](crate::Request::fingerprint)
//! hashes the body of a request that no secret fits once more, for the log.
//!
//! A scheme makes one code for each secret and compares it with every candidate, so what a caller puts into headers
//! never buys a second pass over the body. Tools count the bytes that pass through here; a test compares the worst
//! refused request with an accepted one.

use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq};

use crate::work::hashed;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

impl Hash {
    /// The length of its output, in bytes.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The hash of these pieces, one after the other.
    pub(crate) fn of(self, pieces: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha1 => digest::<Sha1>(pieces),
            Self::Sha256 => digest::<Sha256>(pieces),
            Self::Sha512 => digest::<Sha512>(pieces),
        }
    }

    /// The HMAC of these pieces, one after the other.
    pub(crate) fn hmac(self, key: &[u8], pieces: &[&[u8]]) -> Option<Vec<u8>> {
        self.hmac_endings(key, pieces, &[b""]).pop()
    }

    /// The HMAC of these pieces with each of the endings. The pieces are hashed once.
    pub(crate) fn hmac_endings(self, key: &[u8], pieces: &[&[u8]], endings: &[&[u8]]) -> Vec<Vec<u8>> {
        let codes = match self {
            Self::Sha1 => mac::<Hmac<Sha1>>(key, pieces, endings),
            Self::Sha256 => mac::<Hmac<Sha256>>(key, pieces, endings),
            Self::Sha512 => mac::<Hmac<Sha512>>(key, pieces, endings),
        };
        codes.unwrap_or_default()
    }
}

fn mac<M: Mac + KeyInit + Clone>(key: &[u8], pieces: &[&[u8]], endings: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    for piece in pieces {
        hashed(piece.len());
        mac.update(piece);
    }
    let with = |ending: &&[u8]| {
        hashed(ending.len());
        let mut mac = mac.clone();
        mac.update(ending);
        mac.finalize().into_bytes().to_vec()
    };
    Some(endings.iter().map(with).collect())
}

fn digest<D: Digest>(pieces: &[&[u8]]) -> Vec<u8> {
    let mut hash = D::new();
    for piece in pieces {
        hashed(piece.len());
        hash.update(piece);
    }
    hash.finalize().to_vec()
}

/// PayPal's checksum of a body.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    hashed(bytes.len());
    crc32fast::hash(bytes)
}

/// True when one of the candidates is the code. Every candidate is compared, each in constant time.
pub(crate) fn is_among(code: &[u8], candidates: &[Vec<u8>]) -> bool {
    let equal = candidates.iter().fold(Choice::from(0), |equal, candidate| equal | code.ct_eq(candidate));
    !code.is_empty() && bool::from(equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::hashed_bytes;

    #[test]
    fn a_code_is_found_among_candidates_of_any_length() {
        let code = Hash::Sha256.hmac(b"key", &[b"message"]).unwrap();
        let short = code[..31].to_vec();
        assert!(is_among(&code, &[short.clone(), code.clone()]) && is_among(&code, &[code.clone(), short.clone()]));
        assert!(!is_among(&code, &[short, [code.clone(), vec![0]].concat(), Vec::new()]));
        assert!(!is_among(&code, &[]) && !is_among(&[], &[Vec::new()]));
    }

    #[test]
    fn pieces_and_endings_make_the_same_code_as_one_text() {
        let whole = Hash::Sha1.hmac(b"key", &[b"one two\n"]);
        assert_eq!(Hash::Sha1.hmac_endings(b"key", &[b"one ", b"two"], &[b"", b"\n"]).pop(), whole);
        assert_eq!(Hash::Sha512.of(&[b"one ", b"two"]), Hash::Sha512.of(&[b"one two"]));
        for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha512] {
            assert_eq!(hash.of(&[]).len(), hash.bytes());
        }
    }

    #[test]
    fn what_is_hashed_is_counted() {
        let (_, bytes) = hashed_bytes(|| Hash::Sha1.hmac_endings(b"key", &[b"12345"], &[b"", b"\n"]));
        assert_eq!(bytes, 6);
    }
}
