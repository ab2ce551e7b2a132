//! The worker function, with the handlers of this project.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hookonce_worker::Error> {
    hookonce_worker::run(hookonce_worker::handlers::all()).await
}
