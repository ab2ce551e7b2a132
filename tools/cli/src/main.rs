//! The command `hookonce`.

#[tokio::main]
async fn main() -> std::process::ExitCode {
    hookonce::run(hookonce_runtime::handlers::Handlers::new).await
}
