//! `hookonce storm`: sends an endpoint what its provider really sends, and says what it did with it.

use std::path::PathBuf;

use clap::Args;
use hookonce_providers::Catalog;

use super::providers::find;
use crate::documents::endpoints::pasted_secret;
use crate::documents::secret::{Input, SecretOption};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::output::interrupt::Stop;
use crate::storm::{self, Only, Order};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Address of your endpoint, on this machine.
    url: String,
    /// Provider to send as; `hookonce providers` lists them.
    #[arg(long, value_name = "ID")]
    provider: String,
    /// `-`: read it from standard input [default: made up].
    ///
    /// One that is made up is printed.
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<SecretOption>,
    /// Count what your service sends to this port.
    ///
    /// Point its mail or API base URL at http://127.0.0.1:PORT. Every request is answered with 200.
    #[arg(long, value_name = "PORT", conflicts_with = "command")]
    sink: Option<u16>,
    /// Start your service so, and kill it on the way.
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Only this scenario, or one event, such as race/3.
    #[arg(long, value_name = "SCENARIO")]
    only: Option<Only>,
    /// Another seed gives another schedule.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Send ten times as much.
    #[arg(long)]
    long: bool,
    /// Host of the URL, if it is yours and elsewhere.
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    i_own_this: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the report as one page of HTML.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Command that prints one line for each trace of an event.
    #[arg(last = true)]
    command: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let provider = find(Catalog::built_in(), &arguments.provider)?;
    let mut input = Input::of(&arguments.secret);
    let given = arguments.secret.as_ref().map(|secret| secret.secret("secret", &mut input)).transpose()?;
    let secret = given.map(|text| pasted_secret(provider, &text)).transpose()?;
    let order = Order {
        url: arguments.url,
        provider,
        secret,
        sink: arguments.sink,
        run: arguments.run,
        command: arguments.command,
        only: arguments.only,
        seed: arguments.seed,
        is_long: arguments.long,
        own: arguments.i_own_this,
        json: arguments.json,
        html: arguments.html,
    };
    let mut stop = Stop::watch()?;
    tokio::select! {
        ended = storm::run(&order) => ended,
        () = stop.came() => {
            // Its connections, its sink and its child go with it.
            output::note("stopped; nothing more is sent");
            Ok(Exit::No)
        }
    }
}
