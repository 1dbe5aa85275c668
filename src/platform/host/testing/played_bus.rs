//! A message bus for tests: a daemon of their own, on a socket of their own.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;

/// A message bus of this test's own, ended when dropped.
pub struct Bus {
    daemon: Child,
    folder: TempDir,
}

impl Bus {
    /// `None` where there is no daemon for it.
    pub fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let configuration = format!(
            "<busconfig><listen>unix:path={0}/socket</listen><auth>EXTERNAL</auth><policy context=\"default\">\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>\
             </policy></busconfig>",
            folder.path().display()
        );
        let file = folder.path().join("bus.conf");
        fs::write(&file, configuration).expect("a file");
        let argument = format!("--config-file={}", file.display());
        let daemon = Command::new("dbus-daemon").args([&argument, "--nofork", "--nopidfile"]).spawn().ok()?;
        Some(Self { daemon, folder })
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("unix:path={}/socket", self.folder.path().display())
    }

    /// A connection, once the daemon listens; it must not end before.
    pub async fn connect(&mut self) -> zbus::Connection {
        let address = self.address();
        loop {
            match zbus::connection::Builder::address(address.as_str()).expect("an address").build().await {
                Ok(connection) => return connection,
                Err(error) => {
                    let ended = self.daemon.try_wait().expect("a state");
                    assert_eq!(ended, None, "the daemon ended: {error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
