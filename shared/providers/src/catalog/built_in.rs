//! The files that ship with this crate; the build script lists what is in the folder `catalog`.

/// File names and texts, by name.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalog_files.rs"));
