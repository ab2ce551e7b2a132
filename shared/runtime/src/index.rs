//! The index of endpoint ids: says whether an id exists without a read for each invented id.
//!
//! It has [`SHARDS`] texts. An id belongs to one of them by its hash. A text lists 24 bits of each id's hash, so 10,000
//! ids fit into standard parameters, 4 KB each, and one invented id in 16 million looks like an existing one.
//!
//! An id that has an endpoint and is not listed is refused, so [`list`] writes the index before the endpoint. An id
//! that is listed and has no endpoint only costs a read. Removing an endpoint therefore leaves its id in the index:
//! another id may have the same fingerprint. [`rebuild`] forgets it, but only out of a text that nobody wrote for half
//! an hour: whoever adds an endpoint has written it a shorter time ago.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hookonce_protocol::key::EndpointId;
use hookonce_protocol::time::{EpochMs, Millis};
use sha2::{Digest as _, Sha256};

/// How many texts the index has.
pub const SHARDS: u8 = 16;

/// For how long no [`rebuild`] forgets an id after [`list`]. Whoever needs longer for the documents lists the ids
/// again.
pub const LISTED_FOR: Millis = Millis::minutes(15);

/// The age of a text out of which [`rebuild`] forgets ids. [`list`] leaves none that is older than half of it.
pub const FORGOTTEN_AFTER: Millis = Millis(2 * LISTED_FOR.0);

/// The bytes of one id in a text. Three bytes are four characters of base64, so texts can be joined and read by pieces.
const FINGERPRINT_BYTES: usize = 3;

type Fingerprint = [u8; FINGERPRINT_BYTES];

/// A text without ids. A parameter cannot be empty.
const NONE: &str = "-";

/// The ids of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdShard(BTreeSet<Fingerprint>);

impl IdShard {
    /// Reads the text of a shard. `None` if it is not one. An empty text is not one either: as a list of no ids, it
    /// would hide every id.
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

/// The name of a shard's parameter, beside those of the endpoints. No endpoint has this name, because an id holds no
/// dot.
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

/// Compares the texts of an index, by shard, with the ids of all endpoints. A shard without a readable text lists
/// nothing.
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
    /// When it was written.
    pub written_at: EpochMs,
}

/// Where the index is stored, for whoever adds endpoints.
pub trait IndexStore: Sync {
    /// Why a call failed.
    type Error: Send;

    /// The ids of all endpoints that have a document, for a shard that has no text yet.
    fn ids(&self) -> impl Future<Output = Result<Vec<EndpointId>, Self::Error>> + Send;

    /// Reads a shard's newest text. `None` if there is none.
    fn newest(&self, shard: u8) -> impl Future<Output = Result<Option<StoredText>, Self::Error>> + Send;

    /// Reads a text that was overwritten. It is an error if it cannot be read: it may list ids that have no document
    /// yet.
    fn overwritten(&self, shard: u8, version: i64) -> impl Future<Output = Result<String, Self::Error>> + Send;

    /// Writes a shard's text over any other, and returns its version.
    fn write(&self, shard: u8, text: &str) -> impl Future<Output = Result<i64, Self::Error>> + Send;
}

/// Lists ids. Call it before the documents of new endpoints are written: whoever dies in between leaves an id without
/// an endpoint, which is harmless. No [`rebuild`] forgets the ids for [`LISTED_FOR`], because this also rewrites an old
/// text that lists them. Call it again after the documents: another writer may have died between two writes.
///
/// Parameter Store has no conditional write. Two writers may therefore overwrite each other's text. The version shows
/// that to the second one, which then adds what it has overwritten. If it dies before that, the first one's ids are
/// missing until they are listed again.
///
/// # Errors
/// The store's error. What was listed before stays listed, unless the error is about an overwritten text: then the ids
/// of another writer may be missing, until all endpoints are listed again.
pub async fn list<S: IndexStore>(store: &S, ids: &[EndpointId], now: EpochMs) -> Result<(), S::Error> {
    list_since(store, ids, EpochMs(now.0 - LISTED_FOR.0)).await
}

/// Lists ids, and writes each of their texts that is older than this moment.
async fn list_since<S: IndexStore>(store: &S, ids: &[EndpointId], since: EpochMs) -> Result<(), S::Error> {
    for number in 0..SHARDS {
        if !ids.iter().any(|id| shard(id) == number) {
            continue;
        }
        let seen = read(store, number).await?;
        let mut shard = match &seen.held {
            Some(held) => held.clone(),
            None => IdShard::of(number, &store.ids().await?),
        };
        shard.add(number, ids);
        if seen.written_at < since || seen.held.as_ref() != Some(&shard) {
            replace(store, number, seen.version, shard).await?;
        }
    }
    Ok(())
}

/// What a rebuild did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// How many ids without an endpoint are still listed, because their texts were written too short a time ago.
    pub kept: usize,
    /// Whether it came to its end.
    pub is_complete: bool,
}

/// Makes the index list every endpoint, and forget ids that have none. Between two writes it asks whether to go on.
///
/// It never takes an endpoint out of the index, wherever it dies and whoever adds endpoints meanwhile. An id without a
/// document may be about to get one, because [`list`] comes first. So it forgets ids only out of a text that is older
/// than [`FORGOTTEN_AFTER`] and was not written after it began to read the documents. At the end it compares once more.
///
/// # Errors
/// The store's error. Running it again repairs what is left.
pub async fn rebuild<S: IndexStore>(
    store: &S,
    now: EpochMs,
    goes_on: impl Fn() -> bool + Send + Sync,
) -> Result<Rebuilt, S::Error> {
    let mut before = Vec::new();
    for number in 0..SHARDS {
        before.push(read(store, number).await?.version);
    }
    let ids = store.ids().await?;
    let (mut kept, mut forgot) = (0, false);
    for (number, before) in (0..SHARDS).zip(before) {
        if !goes_on() {
            return Ok(Rebuilt { kept, is_complete: false });
        }
        let mut shard = IdShard::of(number, &ids);
        let seen = read(store, number).await?;
        let held = seen.held.clone().unwrap_or_default();
        let orphaned = held.0.difference(&shard.0).count();
        if seen.version == before && now.0 - seen.written_at.0 >= FORGOTTEN_AFTER.0 {
            forgot |= orphaned > 0;
        } else {
            shard.0.extend(held.0);
            kept += orphaned;
        }
        if seen.held.as_ref() != Some(&shard) {
            replace(store, number, seen.version, shard).await?;
        }
    }
    if forgot {
        list_since(store, &store.ids().await?, EpochMs(0)).await?;
    }
    Ok(Rebuilt { kept, is_complete: true })
}

/// A shard's newest text, as it was read.
struct Seen {
    version: i64,
    written_at: EpochMs,
    /// `None` if there is no readable text.
    held: Option<IdShard>,
}

async fn read<S: IndexStore>(store: &S, number: u8) -> Result<Seen, S::Error> {
    let stored = store.newest(number).await?;
    let held = stored.as_ref().and_then(|stored| IdShard::parse(&stored.text));
    let (version, written_at) = stored.map_or((0, EpochMs(0)), |stored| (stored.version, stored.written_at));
    Ok(Seen { version, written_at, held })
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
        /// The ids that others list after the next reading of all documents.
        others_ids: Mutex<Vec<EndpointId>>,
        /// When texts were written, by shard and version. All others were written in 1970.
        written_at: Mutex<BTreeMap<(u8, i64), EpochMs>>,
        /// After how many more writes we die.
        dies_after: Mutex<Option<usize>>,
        /// Only newest texts can be read.
        keeps_no_history: bool,
    }

    const NOW: EpochMs = EpochMs(1_800_000_000_000);

    /// A version that is not there, or a process that is not.
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
            let documents = self.documents.lock().unwrap().clone();
            for id in std::mem::take(&mut *self.others_ids.lock().unwrap()) {
                let number = shard(&id);
                let texts = &mut self.texts.lock().unwrap()[usize::from(number)];
                let mut listed = IdShard::parse(texts.last().unwrap()).unwrap();
                listed.add(number, [&id]);
                texts.push(listed.text());
                self.written_at.lock().unwrap().insert((number, i64::try_from(texts.len()).unwrap()), NOW);
                self.documents.lock().unwrap().push(id);
            }
            Ok(documents)
        }

        async fn newest(&self, shard: u8) -> Result<Option<StoredText>, Gone> {
            let texts = self.texts.lock().unwrap();
            let versions = &texts[usize::from(shard)];
            let version = i64::try_from(versions.len()).unwrap();
            let written_at = self.written_at.lock().unwrap().get(&(shard, version)).copied().unwrap_or(EpochMs(0));
            Ok(versions.last().map(|text| StoredText { text: text.clone(), version, written_at }))
        }

        async fn overwritten(&self, shard: u8, version: i64) -> Result<String, Gone> {
            let texts = self.texts.lock().unwrap();
            let index = usize::try_from(version - 1).unwrap();
            let text = texts[usize::from(shard)].get(index).filter(|_| !self.keeps_no_history);
            text.cloned().ok_or(Gone)
        }

        async fn write(&self, shard: u8, text: &str) -> Result<i64, Gone> {
            if let Some(left) = &mut *self.dies_after.lock().unwrap() {
                *left = left.checked_sub(1).ok_or(Gone)?;
            }
            let other = self.others.lock().unwrap().pop();
            self.documents.lock().unwrap().append(&mut self.others_documents.lock().unwrap());
            let mut texts = self.texts.lock().unwrap();
            let versions = &mut texts[usize::from(shard)];
            versions.extend(other.map(|ids| super::texts(&ids)[usize::from(shard)].clone()));
            versions.push(text.to_owned());
            let version = i64::try_from(versions.len()).unwrap();
            self.written_at.lock().unwrap().insert((shard, version), NOW);
            Ok(version)
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

    /// An index that lists only the new endpoint would refuse all others.
    #[tokio::test]
    async fn a_shard_without_a_readable_text_lists_every_endpoint() {
        let known = ids("shop", 100);
        for texts in [vec![Vec::new(); 16], vec![vec!["no index".to_owned()]; 16]] {
            let (texts, documents) = (Mutex::new(texts), Mutex::new(known.clone()));
            let store = Versions { texts, documents, ..Versions::default() };
            let added = ids("new", 1);
            list(&store, &added, NOW).await.unwrap();
            let of_shard = known.iter().filter(|id| shard(id) == shard(&added[0]));
            assert!(of_shard.chain(&added).all(|id| store.lists(id)));
        }
    }

    #[tokio::test]
    async fn two_writers_lose_no_id() {
        let of_shard: Vec<_> = ids("shop", 200).into_iter().filter(|id| shard(id) == 3).collect();
        let (known, others) = of_shard.split_at(3);
        let store = Versions::of(texts(known), known.to_vec());
        // The second one is written while the first is repaired.
        *store.others.lock().unwrap() = vec![vec![others[1].clone()], vec![others[0].clone()]];
        list(&store, &others[2..3], NOW).await.unwrap();
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
        rebuild(&store, NOW, || true).await.unwrap();
        assert_eq!(drift(&newest(&store), &known), Drift::default());
        let writes = store.writes();
        rebuild(&store, NOW, || true).await.unwrap();
        assert_eq!(store.writes(), writes, "a second run writes nothing");
    }

    /// An index that still lists endpoints that are gone.
    fn with_gone(known: &[EndpointId], gone: &[EndpointId]) -> Versions {
        let listed: Vec<_> = known.iter().chain(gone).cloned().collect();
        Versions::of(texts(&listed), known.to_vec())
    }

    /// Whoever adds it listed it before the rebuild began, or after it read the documents, and writes the document
    /// before any write of the rebuild, which may be its last.
    #[tokio::test]
    async fn no_rebuild_unlists_an_endpoint_that_is_added_meanwhile_wherever_it_dies() {
        let (known, gone) = (ids("shop", 100), ids("gone", 50));
        for dies_after in 0..=usize::from(SHARDS) {
            for added in &gone[..3] {
                for lists_first in [true, false] {
                    let store = with_gone(&known, &gone);
                    if lists_first {
                        list(&store, std::slice::from_ref(added), NOW).await.unwrap();
                        store.others_documents.lock().unwrap().push(added.clone());
                    } else {
                        store.others_ids.lock().unwrap().push(added.clone());
                    }
                    *store.dies_after.lock().unwrap() = Some(dies_after);
                    // Without the age of the text, as if this clock were far ahead, its version still tells.
                    let now = if lists_first { NOW } else { NOW.plus(FORGOTTEN_AFTER) };
                    let died = rebuild(&store, now, || true).await.is_err();
                    assert_eq!(died, dies_after < usize::from(SHARDS) - 1, "{dies_after} {lists_first}");
                    assert!(
                        known.iter().chain([added]).all(|id| store.lists(id)),
                        "{dies_after} {added} {lists_first}"
                    );
                }
            }
        }
    }

    /// An import that slept for an hour, for instance.
    #[tokio::test]
    async fn a_document_that_comes_long_after_its_id_was_listed_is_found_at_the_end() {
        let (known, gone) = (ids("shop", 100), ids("gone", 50));
        let store = with_gone(&known, &gone);
        store.others_documents.lock().unwrap().push(gone[0].clone());
        rebuild(&store, NOW, || true).await.unwrap();
        assert!(store.lists(&gone[0]));
    }

    #[tokio::test]
    async fn an_id_is_forgotten_once_nobody_can_be_about_to_add_it() {
        let (known, gone) = (ids("shop", 100), ids("gone", 1));
        let store = with_gone(&known, &gone);
        list(&store, &gone, NOW).await.unwrap();
        let later = |by: Millis| NOW.plus(by);
        let kept = rebuild(&store, later(Millis(FORGOTTEN_AFTER.0 - 1)), || true).await.unwrap();
        assert_eq!((kept, store.lists(&gone[0])), (Rebuilt { kept: 1, is_complete: true }, true));
        let forgot = rebuild(&store, later(FORGOTTEN_AFTER), || true).await.unwrap();
        assert_eq!((forgot, store.lists(&gone[0])), (Rebuilt { kept: 0, is_complete: true }, false));
    }

    /// What is listed while the text is young stays listed for as long as is promised.
    #[tokio::test]
    async fn an_old_text_is_written_anew_before_a_document() {
        let known = ids("shop", 1);
        let store = Versions::of(texts(&known), known.clone());
        for (at, writes) in [(NOW, 17), (NOW.plus(LISTED_FOR), 17), (NOW.plus(LISTED_FOR).plus(Millis(1)), 18)] {
            list(&store, &known, at).await.unwrap();
            assert_eq!(store.writes(), writes, "{at:?}");
        }
    }

    #[tokio::test]
    async fn a_rebuild_stops_between_two_writes() {
        let known = ids("shop", 100);
        let store = Versions { texts: Mutex::new(vec![Vec::new(); 16]), ..Versions::of(Vec::new(), known.clone()) };
        let stopped = rebuild(&store, NOW, || store.writes() < 3).await.unwrap();
        assert_eq!((stopped.is_complete, store.writes()), (false, 3));
        assert!(rebuild(&store, NOW, || true).await.unwrap().is_complete);
        assert!(known.iter().all(|id| store.lists(id)));
    }

    /// The documents do not stand for a text: an id is listed before its document is written.
    #[tokio::test]
    async fn an_overwritten_text_that_cannot_be_read_is_an_error() {
        let of_shard: Vec<_> = ids("shop", 200).into_iter().filter(|id| shard(id) == 3).collect();
        let (known, others) = of_shard.split_at(3);
        let store = Versions { keeps_no_history: true, ..Versions::of(texts(known), known.to_vec()) };
        *store.others.lock().unwrap() = vec![vec![others[0].clone()]];
        assert_eq!(list(&store, &others[1..2], NOW).await, Err(Gone));
    }
}
