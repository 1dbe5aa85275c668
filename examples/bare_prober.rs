//! The cost of HTTP probes when nothing but the probes is done: `make bench` sets the agent's processor time beside it.
//!
//! ```text
//! bare_prober SECONDS PORT PATH ADDRESS...
//! ```
//! Asks each address once a second: connect, send, receive, close, one after the other, in as many bursts a second as the
//! agent has. Tells the processor time that this took, as seconds a minute, and how many answers were good.

#![allow(clippy::disallowed_methods, reason = "a measurement is no actor")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use podwright::logic::probes::probe_schedule::SLOT;

/// A container that does not answer in so long is counted as one that did not.
const PATIENCE: Duration = Duration::from_secs(1);
/// More than an answer of the web server's is long.
const ANSWER_BYTES: usize = 4096;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock");
    Duration::from(used).as_secs_f64()
}

fn ask(address: SocketAddr, request: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    Ok(stream)
}

fn is_good(stream: &mut TcpStream) -> bool {
    let mut answer = [0; ANSWER_BYTES];
    matches!(stream.read(&mut answer), Ok(length) if answer[..length].get(9..12) == Some(b"200"))
}

fn probe(seconds: u32, path: &str, addresses: &[SocketAddr]) -> usize {
    let request = format!("GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    let bursts = 1_000 / SLOT.as_millis() as u32;
    let began = Instant::now();
    let mut good = 0;
    for burst in 0..seconds * bursts {
        sleep((SLOT * burst).saturating_sub(began.elapsed()));
        let mine = addresses.iter().skip((burst % bursts) as usize).step_by(bursts as usize);
        let asked: Vec<_> = mine.map(|address| ask(*address, request.as_bytes())).collect();
        good += asked.into_iter().flatten().map(|mut stream| usize::from(is_good(&mut stream))).sum::<usize>();
    }
    good
}

fn main() -> Outcome<()> {
    let usage = "usage: bare_prober SECONDS PORT PATH ADDRESS...";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, port, path, addresses @ ..] = args.as_slice() else { return Err(usage.into()) };
    let (seconds, port): (u32, u16) = (seconds.parse()?, port.parse()?);
    let addresses: Vec<SocketAddr> =
        addresses.iter().map(|one| Ok(SocketAddr::new(one.parse::<IpAddr>()?, port))).collect::<Outcome<_>>()?;
    let before = cpu_seconds();
    let good = probe(seconds, path, &addresses);
    println!("seconds={:.2} good={good}", (cpu_seconds() - before) * 60.0 / f64::from(seconds));
    Ok(())
}
