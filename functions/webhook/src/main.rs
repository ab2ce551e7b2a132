//! The webhook function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hookonce_webhook::Error> {
    // What runs in the task of `main` wakes the whole runtime each time, by two system calls.
    tokio::spawn(hookonce_webhook::run()).await?
}
