//! The CSI driver of the tests as a program of its own, for a node that is no process of a test; `tests/vm/plugins.sh` runs it
//! in a pod, as drivers run.
//!
//! ```text
//! csi_driver NAME FOLDER REGISTRY [BYTES]
//! ```
//! FOLDER holds the volumes and the socket, REGISTRY is the agent's `plugins_registry`. Volumes are directories, or with BYTES
//! file systems and devices of this size. Each call is a line of the output. SIGTERM ends the program: it leaves the
//! registry, and what it mounted stays.

#![allow(clippy::disallowed_methods, reason = "a program for tests is no actor")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use podwright::testing::csi_driver::Driver;
use tokio::signal::unix::{SignalKind, signal};

/// How often new calls are written.
const PERIOD: Duration = Duration::from_millis(200);

/// Writes each call of the driver until somebody ends the program.
async fn write_calls(driver: &Driver) -> Result<(), Box<dyn Error>> {
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut period = tokio::time::interval(PERIOD);
    let mut written = 0;
    loop {
        tokio::select! {
            biased;
            _ = term.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = period.tick() => {
                let seen = driver.seen();
                for call in &seen.calls[written..] {
                    println!("{call}");
                }
                written = seen.calls.len();
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, folder, registry, bytes) = match arguments.as_slice() {
        [name, folder, registry] => (name, folder, registry, None),
        [name, folder, registry, bytes] => (name, folder, registry, Some(bytes.parse()?)),
        _ => return Err("usage: csi_driver NAME FOLDER REGISTRY [BYTES]".into()),
    };
    let driver = Driver::new(name, Path::new(folder));
    driver.switches().disk_bytes = bytes;
    let serving = driver.serve(Path::new(registry));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(write_calls(&driver))?;
    drop(serving);
    // A driver that ends leaves the devices of its volumes to their pods, and to its next process.
    std::process::exit(0)
}
