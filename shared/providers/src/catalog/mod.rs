//! The catalog: one data file per provider.

#[cfg(feature = "tools")]
mod age;
mod built_in;
mod file;
#[cfg(feature = "tools")]
mod parts;
mod problem;
mod rules;
mod schemes;
mod validate;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use problem::CatalogError;

use crate::provider::Provider;

/// All providers, by id.
#[derive(Debug, Clone)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
}

/// One provider, parsed on first use. An endpoint has one provider, so a cold start should not parse all of them.
#[derive(Debug, Clone)]
struct Entry {
    file: Option<(&'static str, &'static str)>,
    provider: OnceLock<Option<Provider>>,
}

impl Entry {
    fn provider(&self) -> Option<&Provider> {
        let read = || self.file.and_then(|(name, text)| validate::provider(name, text).ok());
        self.provider.get_or_init(read).as_ref()
    }
}

impl Catalog {
    /// The catalog that ships with this crate.
    ///
    /// This cannot fail: a file with a mistake would be left out. A test proves that every file is correct, so none is
    /// left out.
    pub fn built_in() -> &'static Self {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| {
            let entry = |(name, text): &(&'static str, &'static str)| {
                let id = name.strip_suffix(".toml").unwrap_or(name);
                (id.to_owned(), Entry { file: Some((name, text)), provider: OnceLock::new() })
            };
            Self { entries: built_in::FILES.iter().map(entry).collect() }
        })
    }

    /// The names and texts of the files of the built-in catalog.
    #[cfg(feature = "tools")]
    pub fn built_in_files() -> &'static [(&'static str, &'static str)] {
        built_in::FILES
    }

    /// Reads catalog files, given as `(file name, text)`. The file name without `.toml` is the provider's id.
    ///
    /// # Errors
    /// The first problem found, with its file and field.
    #[cfg(feature = "tools")]
    pub fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, CatalogError> {
        let mut entries = BTreeMap::new();
        for (name, text) in files {
            let provider = validate::provider(name, text)?;
            let id = provider.id().to_owned();
            let entry = Entry { file: None, provider: OnceLock::from(Some(provider)) };
            if entries.insert(id.clone(), entry).is_some() {
                let problem = format!("the provider `{id}` is described twice");
                return Err(CatalogError { file: name.to_owned(), field: "file".to_owned(), problem });
            }
        }
        Ok(Self { entries })
    }

    /// The provider with this id.
    pub fn provider(&self, id: &str) -> Option<&Provider> {
        self.entries.get(id).and_then(Entry::provider)
    }

    /// Every provider, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.entries.values().filter_map(Entry::provider)
    }

    /// How many providers there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
