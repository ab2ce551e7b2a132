//! Where a function finds its documents, as its environment names it.

use std::path::PathBuf;

/// Where the documents of a stack are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentsLocation {
    /// The table of this name.
    Table(String),
    /// Files in this folder.
    Folder(PathBuf),
}

impl DocumentsLocation {
    /// Reads `table:NAME` or `file:FOLDER`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("table", name) if crate::handlers::tables::is_table_name(name) => Some(Self::Table(name.to_owned())),
            ("file", folder) if !folder.is_empty() => Some(Self::Folder(PathBuf::from(folder))),
            _ => None,
        }
    }

    /// The name of the table, if it is one.
    pub(crate) fn table(&self) -> Option<&str> {
        match self {
            Self::Table(name) => Some(name),
            Self::Folder(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_names_a_table_or_a_folder() {
        assert_eq!(DocumentsLocation::parse("table:a.b"), Some(DocumentsLocation::Table("a.b".to_owned())));
        assert_eq!(DocumentsLocation::parse("file:a:b"), Some(DocumentsLocation::Folder("a:b".into())));
        for wrong in ["", "a", "table:", "table:a", "table:a b", "table:arn:aws:dynamodb", "file:", "ssm:/a/"] {
            assert_eq!(DocumentsLocation::parse(wrong), None, "{wrong}");
        }
    }
}
