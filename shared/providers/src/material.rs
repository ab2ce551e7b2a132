//! Certificates and public keys that are fetched from the provider.
//!
//! This crate does not fetch anything. A scheme that needs a certificate answers
//! [`Received::NeedsMaterial`](crate::Received::NeedsMaterial); the runtime fetches it, keeps it under
//! [`MaterialNeeded::cache_key`], and asks again with [`Keyring::with_material`](crate::Keyring::with_material).

/// What has to be fetched before a request can be checked. The host is known to be the provider's.
#[derive(Clone, PartialEq, Eq)]
pub struct MaterialNeeded {
    url: String,
    cache_key: String,
    post: Option<String>,
}

impl MaterialNeeded {
    /// Something public, identified by its URL.
    pub fn get(url: String) -> Self {
        Self { cache_key: url.clone(), url, post: None }
    }

    /// Something that needs credentials.
    pub(crate) const fn post(url: String, cache_key: String, body: String) -> Self {
        Self { url, cache_key, post: Some(body) }
    }

    /// The `https` URL to fetch from. Do not follow redirects, because only this host was checked.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name under which the answer may be cached. It holds no secret.
    pub fn cache_key(&self) -> &str {
        &self.cache_key
    }

    /// The JSON body of a `POST` with the endpoint's API credentials; `None` for a plain `GET`.
    pub fn post_body(&self) -> Option<&str> {
        self.post.as_deref()
    }
}

impl std::fmt::Debug for MaterialNeeded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MaterialNeeded").field("cache_key", &self.cache_key).finish_non_exhaustive()
    }
}

/// What was fetched, with the name of the request for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    cache_key: String,
    body: Vec<u8>,
}

impl Material {
    /// The body of the answer to what was needed.
    pub fn new(needed: &MaterialNeeded, body: Vec<u8>) -> Self {
        Self { cache_key: needed.cache_key.clone(), body }
    }

    pub(crate) fn body_of(&self, cache_key: &str) -> Option<&[u8]> {
        (self.cache_key == cache_key).then_some(self.body.as_slice())
    }
}

impl std::fmt::Debug for Material {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Material").field("cache_key", &self.cache_key).finish_non_exhaustive()
    }
}
