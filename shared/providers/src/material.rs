//! Certificates and public keys that live at the provider.
//!
//! This crate waits for nothing. A scheme that needs a certificate answers
//! [`Received::NeedsMaterial`](crate::Received::NeedsMaterial); the runtime fetches it, keeps it under
//! [`MaterialNeeded::cache_key`], and asks again with [`Keyring::with_material`](crate::Keyring::with_material).

/// What has to be fetched before a request can be judged. The host was checked against the provider's own hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct MaterialNeeded {
    url: String,
    cache_key: String,
    post: Option<String>,
}

impl MaterialNeeded {
    /// Something public, named by its address.
    pub(crate) fn get(url: String) -> Self {
        Self { cache_key: url.clone(), url, post: None }
    }

    /// Something that takes credentials to get.
    pub(crate) const fn post(url: String, cache_key: String, body: String) -> Self {
        Self { url, cache_key, post: Some(body) }
    }

    /// The `https` address to fetch from. Redirects must not be followed: only this host was checked.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name under which the answer may be kept. It holds no secret.
    pub fn cache_key(&self) -> &str {
        &self.cache_key
    }

    /// The JSON body of a `POST` with the endpoint's API credentials; nothing for a plain `GET`.
    pub fn post_body(&self) -> Option<&str> {
        self.post.as_deref()
    }
}

impl std::fmt::Debug for MaterialNeeded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MaterialNeeded").field("cache_key", &self.cache_key).finish_non_exhaustive()
    }
}

/// What was fetched, with the name it was asked for by.
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
