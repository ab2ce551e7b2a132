//! What a function logs, caught on the test's own thread.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// Everything that was logged on this thread while this exists.
pub(crate) struct Logs {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

/// Registers every call site that logs before several tests reach it at once. A call site that is first reached while
/// nobody listens may be cached as disabled, although a test has just begun to listen.
pub(crate) fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        let nowhere = tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).with_writer(io::sink);
        tracing::subscriber::set_global_default(nowhere.finish()).unwrap();
    });
}

impl Logs {
    /// Starts to catch what passes this filter, in the functions' log format.
    pub(crate) fn catch(filter: &str) -> Self {
        let text = Text::default();
        let format =
            tracing_subscriber::fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(text.clone());
        let targets = filter.parse::<Targets>().unwrap();
        let subscriber = tracing_subscriber::registry().with(format.with_filter(targets));
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Takes what was logged so far.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.text.0.lock().unwrap())).unwrap()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Text {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
