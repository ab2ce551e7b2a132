//! The dispatcher function.

fn main() -> Result<(), hookonce_dispatcher::Error> {
    hookonce_dispatcher::run()
}
