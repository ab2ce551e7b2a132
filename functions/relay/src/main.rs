//! The relay function.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hookonce_relay::Error> {
    hookonce_relay::run().await
}
