//! Where a function finds its documents and its route set, as its environment says it.

use std::path::PathBuf;

/// Where documents of one kind are: those of endpoints, or of destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentLocation {
    /// SSM parameters under this prefix, which ends with a slash.
    Ssm(String),
    /// Files in this folder.
    Folder(PathBuf),
}

impl DocumentLocation {
    /// The place of the message key, where this is that of the endpoint documents: a parameter beside their prefix, so
    /// that a read of all endpoints does not bring it along, or a file among them.
    pub fn message_key(&self) -> MessageKeyLocation {
        match self {
            Self::Ssm(prefix) => {
                let stack = prefix.trim_end_matches('/').rsplit_once('/').map_or("", |(stack, _)| stack);
                MessageKeyLocation::Ssm(format!("{stack}/key/messages"))
            }
            Self::Folder(folder) => MessageKeyLocation::File(folder.join("message.key")),
        }
    }

    /// Reads `ssm:/prefix/` or `file:folder`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("ssm", prefix) if prefix.starts_with('/') && prefix.ends_with('/') => Some(Self::Ssm(prefix.to_owned())),
            ("file", folder) if !folder.is_empty() => Some(Self::Folder(PathBuf::from(folder))),
            _ => None,
        }
    }
}

/// Where the message key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageKeyLocation {
    /// This SSM parameter.
    Ssm(String),
    /// This file.
    File(PathBuf),
}

/// Where the route set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteLocation {
    /// Nowhere: there is no set.
    None,
    /// SSM parameters: this pointer, and the parts that it names.
    Ssm(String),
    /// This file.
    File(PathBuf),
}

impl RouteLocation {
    /// Reads `ssm:/name` or `file:path`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("ssm", name) if name.starts_with('/') && !name.ends_with('/') => Some(Self::Ssm(name.to_owned())),
            ("file", path) if !path.is_empty() => Some(Self::File(PathBuf::from(path))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_says_its_kind_and_where() {
        let documents = |text: &str| DocumentLocation::parse(text);
        assert_eq!(documents("ssm:/a/"), Some(DocumentLocation::Ssm("/a/".to_owned())));
        assert_eq!(documents("file:a:b"), Some(DocumentLocation::Folder("a:b".into())));
        for wrong in ["", "a", "ssm:a/", "ssm:/a", "file:", "http://a/"] {
            assert_eq!(documents(wrong), None, "{wrong}");
        }
        let key = |text: &str| documents(text).map(|documents| documents.message_key());
        assert_eq!(
            key("ssm:/hookonce/a/endpoints/"),
            Some(MessageKeyLocation::Ssm("/hookonce/a/key/messages".to_owned()))
        );
        assert_eq!(key("ssm:/a/"), Some(MessageKeyLocation::Ssm("/key/messages".to_owned())));
        assert_eq!(key("file:a"), Some(MessageKeyLocation::File("a/message.key".into())));
        let routes = |text: &str| RouteLocation::parse(text);
        assert_eq!(routes("ssm:/a"), Some(RouteLocation::Ssm("/a".to_owned())));
        assert_eq!(routes("file:a"), Some(RouteLocation::File("a".into())));
        for wrong in ["", "a", "ssm:a", "ssm:/a/", "file:", "http://a"] {
            assert_eq!(routes(wrong), None, "{wrong}");
        }
    }
}
