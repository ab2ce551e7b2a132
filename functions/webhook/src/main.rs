//! The webhook function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hookonce_webhook::Error> {
    hookonce_webhook::run().await
}
