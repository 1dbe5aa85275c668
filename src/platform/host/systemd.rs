//! The dialogue of the agent and systemd through the environment and the notification socket.
//!
//! Used by `main` and the root of the tree, which feeds the watchdog while all turns move. Keeps nothing.

use std::io;
use std::time::Duration;

use sd_notify::NotifyState;

use super::process;

/// The watchdog must wait longer than this.
const WATCHDOG_MIN: Duration = Duration::from_secs(1);

/// The services of the process and its service manager for each other.
pub trait ServiceManager: Send + Sync {
    /// All moves: the watchdog may be fed.
    fn feed_watchdog(&self);
    /// Gives memory that was freed back to the kernel.
    fn release_free_memory(&self) {}
}

/// The service manager in earnest: feeds systemd's watchdog, and gives back memory.
pub struct Systemd;

impl ServiceManager for Systemd {
    fn feed_watchdog(&self) {
        if let Err(error) = notify_watchdog() {
            tracing::warn!(%error, "the service manager's watchdog cannot be fed");
        }
    }

    fn release_free_memory(&self) {
        process::release_free_memory();
    }
}

/// The watchdog as the unit sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    /// How long systemd waits for a sign of life.
    pub timeout: Duration,
    /// How often to give one: half of it.
    pub interval: Duration,
}

/// A watchdog setting that cannot be followed; upstream's texts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WatchdogError {
    /// A second or less.
    #[error("configure watchdog timeout too small: {0}")]
    TooSmall(String),
    /// No number.
    #[error("configure watchdog: {0}")]
    Malformed(String),
}

/// Says that the agent has started (CFG-35), or that a reload is over. Nothing happens where nobody listens.
///
/// # Errors
/// When the socket is there and cannot be written to.
pub fn notify_ready() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Ready])
}

/// Says that the configuration is read again; [`notify_ready`] ends it.
///
/// # Errors
/// When the socket is there and cannot be written to, or the kernel has no clock.
pub fn notify_reloading() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?])
}

/// Says that the agent is alive (CFG-36).
///
/// # Errors
/// When the socket is there and cannot be written to.
pub fn notify_watchdog() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Watchdog])
}

/// Says that the agent is about to end.
///
/// # Errors
/// When the socket is there and cannot be written to.
pub fn notify_stopping() -> io::Result<()> {
    sd_notify::notify(&[NotifyState::Stopping])
}

/// The watchdog that the unit set for this process; `None` when there is none.
///
/// # Errors
/// A setting of a second or less, or one that is no number.
pub fn watchdog() -> Result<Option<Watchdog>, WatchdogError> {
    let variable = |name| std::env::var(name).ok();
    parse_watchdog(variable("WATCHDOG_USEC").as_deref(), variable("WATCHDOG_PID").as_deref(), std::process::id())
}

fn parse_watchdog(
    microseconds: Option<&str>,
    process: Option<&str>,
    own: u32,
) -> Result<Option<Watchdog>, WatchdogError> {
    let malformed = |name: &str, text: &str| WatchdogError::Malformed(format!("{name} is {text:?}, not a number"));
    let Some(text) = microseconds.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number: u64 = text.parse().map_err(|_| malformed("WATCHDOG_USEC", text))?;
    if number == 0 {
        return Err(WatchdogError::Malformed("WATCHDOG_USEC must be a positive number".to_owned()));
    }
    if let Some(text) = process.filter(|text| !text.is_empty()) {
        let process: u32 = text.parse().map_err(|_| malformed("WATCHDOG_PID", text))?;
        if process != own {
            return Ok(None);
        }
    }
    let timeout = Duration::from_micros(number);
    if timeout <= WATCHDOG_MIN {
        return Err(WatchdogError::TooSmall(short_duration(number)));
    }
    Ok(Some(Watchdog { timeout, interval: timeout / 2 }))
}

/// At most a second, as Go prints durations: `1s`, `1.5ms`, `20µs`.
fn short_duration(microseconds: u64) -> String {
    match microseconds {
        1_000_000 => "1s".to_owned(),
        0..1000 => format!("{microseconds}µs"),
        _ => {
            let text = format!("{}.{:03}", microseconds / 1000, microseconds % 1000);
            format!("{}ms", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time() {
        let expected = Watchdog { timeout: Duration::from_secs(30), interval: Duration::from_secs(15) };
        for process in [None, Some(""), Some("7")] {
            assert_eq!(parse_watchdog(Some("30000000"), process, 7), Ok(Some(expected)), "{process:?}");
        }
    }

    #[test]
    fn another_processs_watchdog_and_none_are_none() {
        for (microseconds, process) in [(None, None), (Some(""), None), (Some("30000000"), Some("8"))] {
            assert_eq!(parse_watchdog(microseconds, process, 7), Ok(None), "{microseconds:?} {process:?}");
        }
    }

    #[test]
    fn a_setting_that_cannot_be_followed_is_told() {
        let cases = [
            ("1000000", "configure watchdog timeout too small: 1s"),
            ("500000", "configure watchdog timeout too small: 500ms"),
            ("1500", "configure watchdog timeout too small: 1.5ms"),
            ("20", "configure watchdog timeout too small: 20µs"),
            ("0", "configure watchdog: WATCHDOG_USEC must be a positive number"),
            ("soon", "configure watchdog: WATCHDOG_USEC is \"soon\", not a number"),
            ("-1", "configure watchdog: WATCHDOG_USEC is \"-1\", not a number"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_watchdog(Some(text), None, 7).expect_err(text).to_string(), expected);
        }
        assert!(parse_watchdog(Some("1000001"), None, 7).is_ok_and(|watchdog| watchdog.is_some()));
        assert!(parse_watchdog(Some("30000000"), Some("x"), 7).is_err());
    }
}
