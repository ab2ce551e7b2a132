//! Makes both clients and opens their connections, as the webhook function does, and answers.

use hookonce_benches::{Error, Event, Stack, answer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let _stack = Stack::start().await?;
    answer(async |_: &Event| Ok(())).await
}
