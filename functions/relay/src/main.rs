//! The relay function.

fn main() -> Result<(), hookonce_relay::Error> {
    hookonce_relay::run()
}
