//! The kernel's log, line by line as it is written. Keeps the open device, and the number of the last line.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

/// Where the kernel shows its log.
const DEVICE: &str = "/dev/kmsg";
/// The longest line that the kernel gives.
const LINE_MAX: usize = 8192;
/// The most lines that are given at once.
const LINES_MAX: usize = 64;

/// A line of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// How long ago it was written.
    pub age: Duration,
    /// Whether the kernel wrote it: processes may write there, too.
    pub is_kernels: bool,
    /// Its text, without what belongs to it in further lines.
    pub text: String,
}

/// The log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read the kernel's log {path}: {problem}", path = path.display())]
pub struct KernelLogError {
    /// Where.
    pub path: PathBuf,
    /// Why.
    pub problem: io::Error,
}

/// See the module.
#[async_trait]
pub trait KernelLog: Send + Sync {
    /// The next lines; waits until there are some. The first ones are as old as the kernel still has them.
    ///
    /// # Errors
    /// When the log cannot be read; the next call opens it anew and skips what was given already.
    async fn next(&self) -> Result<Vec<KernelLine>, KernelLogError>;
}

/// A machine whose kernel says nothing: for tests, and for the simulated node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKernelLog;

#[async_trait]
impl KernelLog for NoKernelLog {
    async fn next(&self) -> Result<Vec<KernelLine>, KernelLogError> {
        std::future::pending().await
    }
}

/// The kernel that the agent runs on.
#[derive(Debug, Default)]
pub struct LinuxKernelLog {
    reading: Mutex<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    device: Option<AsyncFd<OwnedFd>>,
    last: Option<u64>,
}

#[async_trait]
impl KernelLog for LinuxKernelLog {
    async fn next(&self) -> Result<Vec<KernelLine>, KernelLogError> {
        let mut reading = self.reading.lock().await;
        let outcome = reading.lines().await;
        outcome.map_err(|problem| {
            reading.device = None;
            KernelLogError { path: PathBuf::from(DEVICE), problem }
        })
    }
}

impl Reading {
    async fn lines(&mut self) -> io::Result<Vec<KernelLine>> {
        let Self { device, last } = self;
        let device = match device {
            Some(device) => device,
            None => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let opened = rustix::fs::open(DEVICE, flags, Mode::empty())?;
                device.insert(register(opened)?)
            }
        };
        let mut lines = vec![];
        loop {
            let mut ready = device.readable().await?;
            let read = ready.try_io(|device| read_lines(device.get_ref(), last, &mut lines));
            match read {
                Ok(outcome) => outcome?,
                Err(_would_block) => {} // Another line is waited for, unless there are some.
            }
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }
}

#[expect(deprecated, reason = "it is for types that give away files they do not own; its successor is unsafe")]
fn register(device: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(device, Interest::READABLE)
}

/// Reads lines until there are no more or enough; `WouldBlock` when there is none.
fn read_lines(device: &OwnedFd, last: &mut Option<u64>, lines: &mut Vec<KernelLine>) -> io::Result<()> {
    let mut buffer = [0; LINE_MAX];
    while lines.len() < LINES_MAX {
        match rustix::io::read(device, &mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                let Some((number, line)) = parsed(&buffer[..length], now()) else { continue };
                if last.is_none_or(|last| number > last) {
                    *last = Some(number);
                    lines.push(line);
                }
            }
            // The kernel has overwritten lines before they were read.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(Errno::AGAIN) if !lines.is_empty() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The kernel's time, by which it dates lines.
fn now() -> Duration {
    let told = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    told.map(Duration::from).expect("invariant: Linux has this clock")
}

/// The number of a line, and the line: `priority,number,microseconds,flags;text`, and further lines that begin with a blank.
fn parsed(bytes: &[u8], now: Duration) -> Option<(u64, KernelLine)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, text) = text.split_once(';')?;
    let mut head = head.split(',');
    let mut number = || head.next()?.parse::<u64>().ok();
    let (priority, sequence, micros) = (number()?, number()?, number()?);
    let line = KernelLine {
        age: now.saturating_sub(Duration::from_micros(micros)),
        // The lower three bits are the level, the others say who wrote it: 0 is the kernel.
        is_kernels: priority >> 3 == 0,
        text: text.lines().next().unwrap_or_default().to_owned(),
    };
    Some((sequence, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let at = |bytes: &[u8]| parsed(bytes, Duration::from_secs(100));
        let line = |age, is_kernels, text: &str| KernelLine {
            age: Duration::from_secs(age),
            is_kernels,
            text: text.to_owned(),
        };
        assert_eq!(at(b"6,339,98000000,-;a;b\n SUBSYSTEM=net\n"), Some((339, line(2, true, "a;b"))));
        assert_eq!(at(b"4,340,98000000,-,caller=T1;x\n"), Some((340, line(2, true, "x"))));
        assert_eq!(
            at(b"12,341,200000000,-;written by a process\n"),
            Some((341, line(0, false, "written by a process")))
        );
        for bad in [&b""[..], b"x", b"1,2;x", b"a,2,3,-;x"] {
            assert_eq!(at(bad), None, "{bad:?}");
        }
    }

    /// Root alone may write there. A line that a process wrote is never the kernel's.
    #[tokio::test]
    async fn the_machines_log_is_followed() {
        use std::io::Write;
        let Ok(mut device) = std::fs::File::options().write(true).open(DEVICE) else {
            return crate::testing::skips::skip("nobody may write into the kernel's log");
        };
        let text = format!("podwright test {}", std::process::id());
        let log = LinuxKernelLog::default();
        device.write_all(format!("<3>{text}\n").as_bytes()).expect("written");
        let found = async {
            loop {
                let lines = log.next().await.expect("it can be read");
                if let Some(line) = lines.into_iter().find(|line| line.text == text) {
                    break line;
                }
            }
        };
        match tokio::time::timeout(Duration::from_secs(60), found).await {
            Ok(found) => assert!(!found.is_kernels, "{found:?}"),
            Err(_) => crate::testing::skips::skip("the kernel drops what processes write into its log"),
        }
    }
}
