//! The command `hookonce`.

#[tokio::main]
async fn main() -> std::process::ExitCode {
    hookonce::run(hookonce_runtime::handler::Handlers::new).await
}
