//! `hookonce pause` and `hookonce resume`: switch the event sources of a function off and on. What is paused loses
//! nothing: deliveries are accepted, records wait, and no attempt is counted.

use clap::Args;
use hookonce_aws::DynamoStore;
use hookonce_runtime::ambient::{Ambient as _, System};

use crate::failure::{Exit, Failure};
use crate::output;
use crate::records::operate::{Person, REASON, check_lengths};
use crate::stack::connection::Connection;
use crate::stack::pauses::{self, Act, PausedFunction, Turn};
use crate::stack::target::Place;

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Function to pause: the worker runs handlers, the dispatcher calls destinations.
    #[arg(value_enum)]
    function: PausedFunction,
    /// Reason for the audit trail. `status` shows it as long as the pause holds.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    person: Person,
    /// Do not ask for confirmation. Without it, the command asks on a deployed stack.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Function to resume.
    #[arg(value_enum)]
    function: PausedFunction,
    /// Reason for the audit trail.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    person: Person,
    #[command(flatten)]
    place: Place,
}

pub(crate) async fn pause(arguments: Pause) -> Result<Exit, Failure> {
    let Pause { function, reason, person, yes, place } = arguments;
    let reason = reason.trim();
    if ["", REASON].contains(&reason) {
        return Err(Failure::usage("this needs a reason for the audit trail", "pass --reason with a short text"));
    }
    let stack = place.connect();
    let (store, act) = begin(&stack, &person, Turn::Pause, reason).await?;
    let acts = pauses::read_one(&store, function).await?;
    if let Some(held) = acts.pause() {
        output::note(&format!("the {} is paused already, {}", function.as_str(), held.described()));
    } else {
        if let (Some(deployed), false) = (place.deployed(), yes) {
            output::note(&format!(
                "{deployed} goes on accepting deliveries, and {} wait until `hookonce resume {name}`: for six days at most, \
                 because the queue forgets what is a week old",
                function.waiting(),
                name = function.as_str()
            ));
            output::confirm("Pause it?", "pass --yes to pause it")?;
        }
        pauses::note(&store, function, &acts, &act).await?;
    }
    pauses::switch(&stack, function, Turn::Pause).await?;
    let name = function.as_str();
    output::note(&format!("the {name} is paused; what it had begun has ended or ends now. To go on:"));
    output::note(&format!("  hookonce resume {name}"));
    Ok(Exit::Done)
}

pub(crate) async fn resume(arguments: Resume) -> Result<Exit, Failure> {
    let Resume { function, reason, person, place } = arguments;
    let stack = place.connect();
    let (store, act) = begin(&stack, &person, Turn::Resume, reason.trim()).await?;
    let acts = pauses::read_one(&store, function).await?;
    match acts.pause() {
        Some(held) => {
            output::note(&format!("the {} was paused {}", function.as_str(), held.described()));
            pauses::note(&store, function, &acts, &act).await?;
        }
        // An earlier run may have died before it switched them on, or somebody switched them off by hand.
        None => output::note(&format!("the {} is not paused; its event sources are looked at", function.as_str())),
    }
    pauses::switch(&stack, function, Turn::Resume).await?;
    output::note(&format!("the {} runs: `hookonce status` shows what still waits", function.as_str()));
    Ok(Exit::Done)
}

/// The store, and what is done by whom.
async fn begin(stack: &Connection, person: &Person, turn: Turn, reason: &str) -> Result<(DynamoStore, Act), Failure> {
    stack.parts().await?.takes_changes()?;
    let store = stack.store().await?;
    let by = person.known(stack).await?;
    check_lengths(&by, reason)?;
    Ok((store, Act { turn, at: System.moment().now, by, reason: reason.to_owned() }))
}
