//! The index of endpoint ids: says whether an id exists without a read for each id that a stranger invents.
//!
//! It has [`SHARDS`] texts. An id belongs to one of them by its hash. A text lists 24 bits of each id's hash, so 10,000 ids
//! fit into standard parameters, 4 KB each, and one invented id in 16 million looks like an existing one.
//!
//! An id that has an endpoint and is not listed is refused, so [`list`] writes the index before the endpoint. An id that is
//! listed and has no endpoint only costs a read. Removing an endpoint therefore leaves its id in the index: another id
//! may have the same fingerprint. [`rebuild`] forgets it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hookonce_protocol::key::EndpointId;
use sha2::{Digest as _, Sha256};

/// How many texts the index has.
pub const SHARDS: u8 = 16;

/// The bytes of one id in a text. Three bytes are four characters of base64, so texts can be joined and read by pieces.
const FINGERPRINT_BYTES: usize = 3;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// A text without ids. A parameter cannot be empty.
const NONE: &str = "-";

/// The ids of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdShard(BTreeSet<Fingerprint>);

impl IdShard {
    /// Reads the text of a shard. `None` if it is not one. Empty text is none: no id would then be looked up.
    pub fn parse(text: &str) -> Option<Self> {
        if text == NONE {
            return Some(Self::default());
        }
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (fingerprints, rest) = bytes.as_chunks::<FINGERPRINT_BYTES>();
        (rest.is_empty() && !fingerprints.is_empty()).then(|| Self(fingerprints.iter().copied().collect()))
    }

    /// Whether the id is listed.
    pub fn contains(&self, id: &EndpointId) -> bool {
        self.0.contains(&place(id).1)
    }

    /// Those of these ids that belong to a shard.
    fn of(number: u8, ids: &[EndpointId]) -> Self {
        let mut shard = Self::default();
        shard.add(number, ids);
        shard
    }

    /// Adds those of these ids that belong to a shard.
    fn add<'a>(&mut self, number: u8, ids: impl IntoIterator<Item = &'a EndpointId>) {
        self.0.extend(ids.into_iter().map(place).filter(|(shard, _)| *shard == number).map(|(_, print)| print));
    }

    fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flatten().copied().collect();
        if bytes.is_empty() { NONE.to_owned() } else { STANDARD_NO_PAD.encode(bytes) }
    }
}

/// The shard of an id.
pub fn shard(id: &EndpointId) -> u8 {
    place(id).0
}

/// The name of a shard's parameter, beside those of the endpoints. No endpoint has this name, because an id holds no dot.
pub fn parameter(shard: u8) -> String {
    format!("ids.{shard}")
}

/// The texts of an index of these ids, by shard.
pub fn texts(ids: &[EndpointId]) -> Vec<String> {
    (0..SHARDS).map(|number| IdShard::of(number, ids).text()).collect()
}

/// How an index differs from the endpoints that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drift {
    /// The endpoints that it does not list. Their deliveries are refused.
    pub missing: Vec<EndpointId>,
    /// How many ids it lists that have no endpoint. Each costs a read if somebody asks for it.
    pub orphaned: usize,
}

/// Compares the texts of an index, by shard, with the ids of all endpoints. A shard without a readable text lists nothing.
pub fn drift(texts: &BTreeMap<u8, String>, ids: &[EndpointId]) -> Drift {
    let mut drift = Drift::default();
    for number in 0..SHARDS {
        let listed = texts.get(&number).and_then(|text| IdShard::parse(text)).unwrap_or_default();
        let exact = IdShard::of(number, ids);
        let lacks = |id: &&EndpointId| shard(id) == number && !listed.contains(id);
        drift.missing.extend(ids.iter().filter(lacks).cloned());
        drift.orphaned += listed.0.difference(&exact.0).count();
    }
    drift
}

/// A text of the index as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredText {
    /// The text.
    pub text: String,
    /// Its number: 1 for the first text of a shard, and one more with each write.
    pub version: i64,
}

/// Where the index is stored, for whoever adds endpoints.
pub trait IndexStore: Sync {
    /// Why a call failed.
    type Error: Send;

    /// The ids of all endpoints that have a document, for a shard that has no text yet.
    fn ids(&self) -> impl Future<Output = Result<Vec<EndpointId>, Self::Error>> + Send;

    /// Reads a shard's newest text. `None` if there is none.
    fn newest(&self, shard: u8) -> impl Future<Output = Result<Option<StoredText>, Self::Error>> + Send;

    /// Reads a text that was overwritten. It is an error if it cannot be read: it may list ids that have no document yet.
    fn overwritten(&self, shard: u8, version: i64) -> impl Future<Output = Result<String, Self::Error>> + Send;

    /// Writes a shard's text over any other, and returns its version.
    fn write(&self, shard: u8, text: &str) -> impl Future<Output = Result<i64, Self::Error>> + Send;
}

/// Lists ids. Call it before the documents of new endpoints are written: whoever dies in between leaves an id without an
/// endpoint, which is harmless. Call it again after that, because [`rebuild`] may have run in between. Running it again
/// changes nothing.
///
/// Parameter Store has no conditional write. Two writers may therefore overwrite each other's text. The version shows that
/// to the second one, which then adds what it has overwritten. If it dies before that, the first one's ids are
/// missing until they are listed again.
///
/// # Errors
/// The store's error. What was listed before it stays listed, unless it is about an overwritten text: then the ids of
/// another writer may be missing, until all endpoints are listed again.
pub async fn list<S: IndexStore>(store: &S, ids: &[EndpointId]) -> Result<(), S::Error> {
    for number in 0..SHARDS {
        if ids.iter().any(|id| shard(id) == number) {
            list_in(store, number, ids).await?;
        }
    }
    Ok(())
}

async fn list_in<S: IndexStore>(store: &S, number: u8, ids: &[EndpointId]) -> Result<(), S::Error> {
    let (seen, held) = read(store, number).await?;
    let mut shard = match &held {
        Some(held) => held.clone(),
        None => IdShard::of(number, &store.ids().await?),
    };
    shard.add(number, ids);
    if held.as_ref() == Some(&shard) { Ok(()) } else { replace(store, number, seen, shard).await }
}

/// Makes the index list every endpoint, and no other id.
///
/// An id without a document may be about to get one, because [`list`] comes first. So this looks for documents once more
/// after it has removed ids, and whoever adds endpoints lists them once more after their documents: one of the two sees
/// what the other has done.
///
/// # Errors
/// The store's error. Running it again mends what is left.
pub async fn rebuild<S: IndexStore>(store: &S) -> Result<(), S::Error> {
    let ids = store.ids().await?;
    let mut removed = false;
    for number in 0..SHARDS {
        let exact = IdShard::of(number, &ids);
        let (seen, held) = read(store, number).await?;
        if held.as_ref() != Some(&exact) {
            removed |= held.is_some_and(|held| !held.0.is_subset(&exact.0));
            replace(store, number, seen, exact).await?;
        }
    }
    if removed { list(store, &store.ids().await?).await } else { Ok(()) }
}

/// The version and the ids of a shard's newest text.
async fn read<S: IndexStore>(store: &S, number: u8) -> Result<(i64, Option<IdShard>), S::Error> {
    let stored = store.newest(number).await?;
    Ok(stored.map_or((0, None), |stored| (stored.version, IdShard::parse(&stored.text))))
}

/// Writes a shard over the version that was seen. Adds what others have written since.
async fn replace<S: IndexStore>(store: &S, number: u8, mut seen: i64, mut shard: IdShard) -> Result<(), S::Error> {
    let mut complete = false;
    while !complete {
        let written = store.write(number, &shard.text()).await?;
        let before = shard.clone();
        for version in seen + 1..written {
            let overwritten = store.overwritten(number, version).await?;
            // A text that is no index lists no id.
            shard.0.extend(IdShard::parse(&overwritten).unwrap_or_default().0);
        }
        (seen, complete) = (written, shard == before);
    }
    Ok(())
}

/// The shard and the fingerprint of an id.
fn place(id: &EndpointId) -> (u8, Fingerprint) {
    let [shard, one, two, three, ..] = <[u8; 32]>::from(Sha256::digest(id.as_str()));
    (shard % SHARDS, [one, two, three])
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn ids(prefix: &str, count: usize) -> Vec<EndpointId> {
        (0..count).map(|number| EndpointId::parse(&format!("{prefix}-{number}")).unwrap()).collect()
    }

    /// All versions of all texts, and what others write before each of our writes.
    #[derive(Default)]
    struct Versions {
        texts: Mutex<Vec<Vec<String>>>,
        documents: Mutex<Vec<EndpointId>>,
        others: Mutex<Vec<Vec<EndpointId>>>,
        /// The documents that others write before our next write.
        others_documents: Mutex<Vec<EndpointId>>,
        /// Only newest texts can be read.
        keeps_no_history: bool,
    }

    /// A version that is not there.
    #[derive(Debug, PartialEq, Eq)]
    struct Gone;

    impl Versions {
        fn of(texts: Vec<String>, documents: Vec<EndpointId>) -> Self {
            let texts = texts.into_iter().map(|text| vec![text]).collect();
            Self { texts: Mutex::new(texts), documents: Mutex::new(documents), ..Self::default() }
        }

        fn lists(&self, id: &EndpointId) -> bool {
            let texts = self.texts.lock().unwrap();
            let newest = texts[usize::from(shard(id))].last();
            newest.is_some_and(|text| IdShard::parse(text).unwrap().contains(id))
        }

        fn writes(&self) -> usize {
            self.texts.lock().unwrap().iter().map(Vec::len).sum()
        }
    }

    impl IndexStore for Versions {
        type Error = Gone;

        async fn ids(&self) -> Result<Vec<EndpointId>, Gone> {
            Ok(self.documents.lock().unwrap().clone())
        }

        async fn newest(&self, shard: u8) -> Result<Option<StoredText>, Gone> {
            let texts = self.texts.lock().unwrap();
            let versions = &texts[usize::from(shard)];
            let version = i64::try_from(versions.len()).unwrap();
            Ok(versions.last().map(|text| StoredText { text: text.clone(), version }))
        }

        async fn overwritten(&self, shard: u8, version: i64) -> Result<String, Gone> {
            let texts = self.texts.lock().unwrap();
            let index = usize::try_from(version - 1).unwrap();
            let text = texts[usize::from(shard)].get(index).filter(|_| !self.keeps_no_history);
            text.cloned().ok_or(Gone)
        }

        async fn write(&self, shard: u8, text: &str) -> Result<i64, Gone> {
            let other = self.others.lock().unwrap().pop();
            self.documents.lock().unwrap().append(&mut self.others_documents.lock().unwrap());
            let mut texts = self.texts.lock().unwrap();
            let versions = &mut texts[usize::from(shard)];
            versions.extend(other.map(|ids| super::texts(&ids)[usize::from(shard)].clone()));
            versions.push(text.to_owned());
            Ok(i64::try_from(versions.len()).unwrap())
        }
    }

    #[test]
    fn ten_thousand_ids_fit_into_standard_parameters() {
        let known = ids("shop", 10_000);
        let texts = texts(&known);
        let shards: Vec<_> = texts.iter().map(|text| IdShard::parse(text).unwrap()).collect();
        let is_listed = |id: &EndpointId| shards[usize::from(shard(id))].contains(id);
        assert!(known.iter().all(is_listed));
        assert!(ids("invented", 10_000).iter().filter(|id| is_listed(id)).count() <= 1);
        let longest = texts.iter().map(String::len).max().unwrap();
        println!("the longest text has {longest} bytes");
        assert!(longest <= 4_096, "{longest}");
    }

    #[test]
    fn an_empty_index_is_no_missing_one() {
        assert_eq!(IdShard::parse(&texts(&[])[3]), Some(IdShard::default()));
        for text in ["", "AAAAA", "not base64!", "AA"] {
            assert_eq!(IdShard::parse(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_new_id_joins_those_that_are_listed() {
        let known = ids("shop", 100);
        let store = Versions::of(texts(&known), known.clone());
        let added = ids("new", 1);
        for _ in 0..2 {
            list(&store, &added).await.unwrap();
            assert!(known.iter().chain(&added).all(|id| store.lists(id)));
            assert_eq!(store.writes(), usize::from(SHARDS) + 1, "a second run writes nothing");
        }
    }

    /// An index that lists only the new endpoint would refuse all others.
    #[tokio::test]
    async fn a_shard_without_a_readable_text_lists_every_endpoint() {
        let known = ids("shop", 100);
        for texts in [vec![Vec::new(); 16], vec![vec!["no index".to_owned()]; 16]] {
            let (texts, documents) = (Mutex::new(texts), Mutex::new(known.clone()));
            let store = Versions { texts, documents, ..Versions::default() };
            let added = ids("new", 1);
            list(&store, &added).await.unwrap();
            let of_shard = known.iter().filter(|id| shard(id) == shard(&added[0]));
            assert!(of_shard.chain(&added).all(|id| store.lists(id)));
        }
    }

    #[tokio::test]
    async fn two_writers_lose_no_id() {
        let of_shard: Vec<_> = ids("shop", 200).into_iter().filter(|id| shard(id) == 3).collect();
        let (known, others) = of_shard.split_at(3);
        let store = Versions::of(texts(known), known.to_vec());
        // The second one is written while we mend the first.
        *store.others.lock().unwrap() = vec![vec![others[1].clone()], vec![others[0].clone()]];
        list(&store, &others[2..3]).await.unwrap();
        assert!(known.iter().chain(&others[..3]).all(|id| store.lists(id)));
    }

    #[tokio::test]
    async fn a_rebuilt_index_lists_every_endpoint_and_no_other_id() {
        let (known, gone) = (ids("shop", 100), ids("gone", 50));
        let listed: Vec<_> = known[10..].iter().chain(&gone).cloned().collect();
        let store = Versions::of(texts(&listed), known.clone());
        store.texts.lock().unwrap()[7] = Vec::new();
        let newest = |store: &Versions| {
            let texts = store.texts.lock().unwrap();
            let newest = |(shard, texts): (u8, &Vec<String>)| Some((shard, texts.last()?.clone()));
            (0..SHARDS).zip(texts.iter()).filter_map(newest).collect::<BTreeMap<_, _>>()
        };
        let before = drift(&newest(&store), &known);
        assert!(known[..10].iter().all(|id| before.missing.contains(id)), "{before:?}");
        let orphans = gone.iter().filter(|id| shard(id) != 7).count();
        assert_eq!(before.orphaned, orphans);
        rebuild(&store).await.unwrap();
        assert_eq!(drift(&newest(&store), &known), Drift::default());
        let writes = store.writes();
        rebuild(&store).await.unwrap();
        assert_eq!(store.writes(), writes, "a second run writes nothing");
    }

    /// Its id was listed already, so whoever adds it writes no text that a rebuild could notice.
    #[tokio::test]
    async fn an_endpoint_that_is_added_while_the_index_is_rebuilt_stays_listed() {
        let known = ids("shop", 100);
        let (added, rest) = known.split_at(1);
        let store = Versions::of(texts(&known), rest.to_vec());
        list(&store, added).await.unwrap();
        *store.others_documents.lock().unwrap() = added.to_vec();
        rebuild(&store).await.unwrap();
        assert!(known.iter().all(|id| store.lists(id)), "the document came before the rebuild looked again");

        // The rebuild is over before the document is written: whoever adds it looks again.
        let store = Versions::of(texts(&known), rest.to_vec());
        list(&store, added).await.unwrap();
        rebuild(&store).await.unwrap();
        store.documents.lock().unwrap().extend_from_slice(added);
        assert!(!store.lists(&added[0]));
        list(&store, added).await.unwrap();
        assert!(known.iter().all(|id| store.lists(id)));
    }

    /// The documents do not stand for a text: an id is listed before its document is written.
    #[tokio::test]
    async fn an_overwritten_text_that_cannot_be_read_is_an_error() {
        let of_shard: Vec<_> = ids("shop", 200).into_iter().filter(|id| shard(id) == 3).collect();
        let (known, others) = of_shard.split_at(3);
        let store = Versions { keeps_no_history: true, ..Versions::of(texts(known), known.to_vec()) };
        *store.others.lock().unwrap() = vec![vec![others[0].clone()]];
        assert_eq!(list(&store, &others[1..2]).await, Err(Gone));
    }
}
