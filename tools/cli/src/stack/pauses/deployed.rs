//! Pauses of a deployed stack: the event source mappings of a function.

use std::time::Duration;

use hookonce_runtime::ambient::{Ambient as _, System};

use super::{PausedFunction, Turn, too_slow};
use crate::failure::Failure;
use crate::output;
use crate::stack::connection::Deployed;
use crate::stack::lambda::{Mapping, mappings, update_mapping};

/// How often Lambda is asked.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long Lambda may take. It is a minute as a rule.
const SECONDS_MAX: i64 = 300;

pub(super) async fn switch(stack: &Deployed, function: PausedFunction, turn: Turn) -> Result<(), Failure> {
    let (config, names) = (stack.account().await?, &stack.outputs().await?.functions);
    let name = match function {
        PausedFunction::Worker => &names.worker,
        PausedFunction::Dispatcher => &names.dispatcher,
    };
    let wanted = match turn {
        Turn::Pause => "Disabled",
        Turn::Resume => "Enabled",
    };
    let waiting = output::spinner("");
    waiting.enable_steady_tick(Duration::from_millis(100));
    let until = System.moment().now.0 + SECONDS_MAX * 1_000;
    loop {
        let found = mappings(config, name).await?;
        if found.is_empty() {
            return Err(Failure::unavailable(
                format!("the {} has no event source", function.as_str()),
                "deploy the stack again from this release's template.yaml",
            ));
        }
        if found.iter().all(|mapping| mapping.state == wanted) {
            waiting.finish_and_clear();
            return Ok(());
        }
        // One that is changing takes no other order.
        for mapping in found.iter().filter(|mapping| is_settled(mapping) && mapping.state != wanted) {
            update_mapping(config, &mapping.uuid, turn == Turn::Resume).await?;
        }
        if System.moment().now.0 >= until {
            waiting.finish_and_clear();
            return Err(too_slow(function, turn));
        }
        let states: Vec<_> = found.iter().map(|mapping| mapping.state.as_str()).collect();
        waiting.set_message(output::shown(&format!(
            "event sources of the {}: {}",
            function.as_str(),
            states.join(", ")
        )));
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}

fn is_settled(mapping: &Mapping) -> bool {
    matches!(mapping.state.as_str(), "Enabled" | "Disabled")
}
