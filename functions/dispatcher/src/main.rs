//! The dispatcher function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hookonce_dispatcher::Error> {
    hookonce_dispatcher::run().await
}
