//! Pages: links lead somewhere, each code has its page, and each clause of the promise its line.

mod clauses;
mod codes;
mod links;
