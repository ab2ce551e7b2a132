//! A mistake in a catalog file, and its place.

/// A mistake in a catalog file, in words for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {field}: {problem}")]
pub struct CatalogError {
    /// The name of the file.
    pub file: String,
    /// The field, as a path from the top of the file; `file` for the whole of it.
    pub field: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

/// A problem with one field: its path from the top of the file, and a sentence.
pub(super) type Problem = (String, String);

/// Puts the place of a part in front of its field.
pub(super) fn within(place: &str) -> impl Fn(Problem) -> Problem + use<> {
    let place = place.to_owned();
    move |(field, problem)| (format!("{place}.{field}"), problem)
}

/// Names the field of a problem.
pub(super) fn at(field: &'static str) -> impl Fn(String) -> Problem {
    move |problem| (field.to_owned(), problem)
}
