//! hookonce's command line, with the handlers of this project. It is never deployed.

#[tokio::main]
async fn main() -> std::process::ExitCode {
    hookonce::run(worker::handlers).await
}
