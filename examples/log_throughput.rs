//! How fast a container's log is read, beside a plain file of the same size through the same blocks and the same kind
//! of socket: `cargo run --profile quick --example log_throughput [MEGABYTES]`. Prints both, and their ratio.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use podwright::logic::logs::container_log::printer::PrintOptions;
use podwright::platform::logs::log_reader::{LinuxLogReader, LogReader, LogWanted, Part};
use podwright::platform::logs::node_logs::{LinuxNodeLogs, NodeLog, NodeLogs};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// Repetitions; the fastest counts.
const ROUNDS: usize = 5;

/// A socket whose other end takes everything.
fn drain() -> std::io::Result<(UnixStream, std::thread::JoinHandle<u64>)> {
    let (here, mut there) = std::os::unix::net::UnixStream::pair()?;
    here.set_nonblocking(true)?;
    let taker = std::thread::spawn(move || {
        let (mut taken, mut block) = (0, vec![0; 1 << 18]);
        while let Ok(length @ 1..) = there.read(&mut block) {
            taken += length as u64;
        }
        taken
    });
    Ok((UnixStream::from_std(here)?, taker))
}

async fn log(root: &std::path::Path, timestamps: bool) -> Result<Duration, Box<dyn Error>> {
    let reader = LinuxLogReader::new(root.to_owned());
    let path = root.join("pod/0.log").to_string_lossy().into_owned();
    let print = PrintOptions { timestamps, ..PrintOptions::default() };
    let begun = Instant::now();
    let wanted = LogWanted { path, container: String::new(), print, tail_lines: None, follow: false };
    let mut log = reader.open(wanted).await?;
    let (mut socket, taker) = drain()?;
    while let Part::Shown(bytes) = log.read().await? {
        socket.write_all(&bytes).await?;
    }
    drop(socket);
    taker.join().map_err(|_| "the taker failed")?;
    Ok(begun.elapsed())
}

async fn file(root: &std::path::Path) -> Result<Duration, Box<dyn Error>> {
    let logs = LinuxNodeLogs::new(root.to_owned(), "journalctl".into());
    let begun = Instant::now();
    let NodeLog::File(file, length, _) = logs.open("pod/0.log").await? else { return Err("no file".into()) };
    let (mut socket, taker) = drain()?;
    let mut place = 0;
    while place < length {
        let bytes = file.read_at(place, length - place).await?;
        place += bytes.len() as u64;
        socket.write_all(&bytes).await?;
    }
    drop(socket);
    taker.join().map_err(|_| "the taker failed")?;
    Ok(begun.elapsed())
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(512), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("podwright-log-throughput-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("pod"))?;
    let line = format!("2026-01-02T03:04:05.123456789Z stdout F {}\n", "some words of a line ".repeat(4));
    let mut written = std::io::BufWriter::new(std::fs::File::create(folder.join("pod/0.log"))?);
    for _ in 0..(megabytes << 20) / line.len() as u64 {
        written.write_all(line.as_bytes())?;
    }
    written.flush()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let measured = runtime.block_on(async {
        let mut best = [Duration::MAX; 3];
        for _ in 0..ROUNDS {
            best[0] = best[0].min(file(&folder).await?);
            best[1] = best[1].min(log(&folder, false).await?);
            best[2] = best[2].min(log(&folder, true).await?);
        }
        Ok::<_, Box<dyn Error>>(best)
    });
    std::fs::remove_dir_all(&folder)?;
    let best = measured?;
    let rate = |time: Duration| (megabytes << 20) as f64 / 1e6 / time.as_secs_f64();
    for (what, time) in ["plain file", "log", "log with times"].into_iter().zip(best) {
        let ratio = best[0].as_secs_f64() / time.as_secs_f64();
        println!("{what:15} {:7.0} MB/s of the file, {:3.0} % of the plain file", rate(time), ratio * 100.0);
    }
    Ok(())
}
