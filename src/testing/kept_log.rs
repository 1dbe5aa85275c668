//! A log that is kept to be read: all lines of a test's thread, of every level, of the agent and of its libraries.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// See the module.
#[derive(Clone, Default)]
pub struct KeptLog(Arc<Mutex<Vec<u8>>>);

impl KeptLog {
    /// Keeps what is logged until the guard is dropped.
    pub fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let everything = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
        (log, tracing::subscriber::set_default(everything.finish()))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap()
    }
}

impl Write for KeptLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for KeptLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
