//! `hookonce console`: shows a stack in a browser on this machine.

use clap::Args;

use crate::console::{Console, PortChoice, Rights, Site};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt::Stop;
use crate::stack::target::Place;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port of the console of a deployed stack; 0 takes any free one.
    #[arg(long, default_value_t = 8789, requires = "stack")]
    port: u16,
    /// Let the pages also change records of a deployed stack, with your credentials. Without this, they only show it.
    #[arg(long, requires = "stack")]
    allow_changes: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let connection = arguments.place.connect();
    let Some(name) = arguments.place.deployed().map(str::to_owned) else {
        // A stack on this machine serves its console itself.
        if let Some(local) = connection.local() {
            output::line(&local.running()?.console_url);
        }
        return Ok(Exit::Done);
    };
    // A wrong name or missing credentials are told here, and not on every page.
    connection.parts().await?;
    let mut stop = Stop::watch()?;
    let rights = if arguments.allow_changes { Rights::Change } else { Rights::Read };
    let site = Site::deployed(name, connection, rights);
    let console = Console::start(site, arguments.port, PortChoice::Required).await?;
    output::line(&console.entrance());
    output::note("Open this address in a browser on this machine. Ctrl-C ends the console.");
    stop.came().await;
    tokio::select! {
        () = console.end() => {}
        () = stop.came() => output::note("stopped without waiting"),
    }
    Ok(Exit::Done)
}
