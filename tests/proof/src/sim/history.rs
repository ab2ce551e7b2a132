//! What providers did and heard, for the checker.

/// One delivery of a provider, however often it was attempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The facts that it tells.
    pub facts: Vec<String>,
    /// Its signature is the provider's.
    pub genuine: bool,
    /// Requests that were made.
    pub attempts: u32,
    /// Answers of 2xx that were given, heard or not.
    pub acknowledged: u32,
}

/// What happened outside of the tables.
#[derive(Debug, Default)]
pub struct History {
    /// The deliveries.
    pub observations: Vec<Observation>,
}
