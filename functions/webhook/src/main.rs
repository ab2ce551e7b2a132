//! The webhook function.

fn main() -> Result<(), hookonce_webhook::Error> {
    hookonce_webhook::run()
}
