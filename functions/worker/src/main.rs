//! The worker function as the template deploys it. It has no handler of its own: routes forward events, or name handlers
//! in other languages. A project with handlers in Rust builds its own.

fn main() -> Result<(), hookonce_worker::Error> {
    hookonce_worker::run(hookonce_worker::handler::Handlers::new())
}
