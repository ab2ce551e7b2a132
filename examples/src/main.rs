//! The worker function with the sample handlers, for a laptop and for the proofs. It is never deployed.

fn main() -> Result<(), hookonce_worker::Error> {
    hookonce_worker::run(hookonce_examples::handlers())
}
