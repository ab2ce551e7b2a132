//! hookonce's worker function, with the handlers of this project.

fn main() -> Result<(), hookonce_worker::Error> {
    hookonce_worker::run(worker::handlers())
}
