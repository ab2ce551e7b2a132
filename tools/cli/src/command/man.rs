//! `hookonce man`: writes the manual pages.

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the pages, such as ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, command: clap::Command) -> Result<Exit, Failure> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder)).map_err(|error| {
        Failure::usage(format!("writing to {} failed: {error}", folder.display()), "choose another folder")
    })?;
    output::note(&format!("the pages are in {}", folder.display()));
    Ok(Exit::Done)
}
