//! Lookups of pods' names at played name servers on the loopback interface.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use super::*;
use crate::platform::host::blocking;

/// A played name server, over UDP and TCP at one port, and the folder whose files name it.
pub(in crate::platform) struct Played {
    folder: tempfile::TempDir,
    pub port: u16,
    asked: Mutex<mpsc::Receiver<String>>,
    /// The socket of a server that never answers.
    _silent: Option<UdpSocket>,
}

impl Played {
    /// A server that takes questions and says nothing.
    pub fn silent() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let port = socket.local_addr().expect("bound").port();
        Self { _silent: Some(socket), ..Self::at(port, mpsc::channel().1) }
    }

    /// A server that answers each name, written `web.A` or `web.AAAA`, with flags and the data of its records.
    pub fn answering(answer: impl Fn(&str) -> (u16, Vec<Vec<u8>>) + Send + 'static) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("bound")) {
                break (udp, tcp);
            }
        };
        let port = udp.local_addr().expect("bound").port();
        let (tell, asked) = mpsc::channel();
        let tell_tcp = tell.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 1232];
            while let Ok((length, from)) = udp.recv_from(&mut bytes) {
                let name = name_of(&bytes[..length]);
                let (flags, records) = answer(&name);
                let _ = tell.send(name); // The test may have ended.
                let _ = udp.send_to(&message(&bytes[..length], flags, &records), from);
            }
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = tcp.accept() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut bytes).expect("a question");
                let _ = tell_tcp.send(format!("tcp {}", name_of(&bytes)));
                let answer = message(&bytes, 0x8180, &[vec![10, 0, 0, 9]]);
                let length = u16::try_from(answer.len()).expect("short").to_be_bytes();
                stream.write_all(&[&length, answer.as_slice()].concat()).expect("heard");
            }
        });
        Self::at(port, asked)
    }

    fn at(port: u16, asked: mpsc::Receiver<String>) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("resolv.conf"), "nameserver 127.0.0.1\nsearch a.example\n").expect("written");
        fs::write(folder.path().join("hosts"), "10.0.0.1 known\n").expect("written");
        Self { folder, port, asked: Mutex::new(asked), _silent: None }
    }

    /// Lookups there, by files that count as fresh for so long.
    pub fn names(&self, fresh: Duration) -> NameServers {
        NameServers::of(self.folder.path().to_owned(), self.port, fresh)
    }

    /// The names that were asked for since the last call, sorted.
    fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = self.asked.lock().expect("not poisoned").try_iter().collect();
        asked.sort();
        asked
    }
}

fn name_of(question: &[u8]) -> String {
    let (mut name, mut rest) = (String::new(), &question[12..]);
    while rest[0] != 0 {
        let (part, after) = rest[1..].split_at(usize::from(rest[0]));
        name += &format!("{}.", String::from_utf8_lossy(part));
        rest = after;
    }
    name + if rest[2] == 1 { "A" } else { "AAAA" }
}

/// The answer to a question; its records are of the question's family.
fn message(question: &[u8], flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut message = question[..question.len() - 11].to_vec();
    message[2..4].copy_from_slice(&flags.to_be_bytes());
    message[7] = u8::try_from(records.len()).expect("few");
    message[11] = 0;
    let kind = question[question.len() - 14];
    for data in records {
        message.extend_from_slice(&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, u8::try_from(data.len()).expect("short")]);
        message.extend_from_slice(data);
    }
    message
}

fn text(found: Result<Vec<IpAddr>, LookupError>) -> String {
    found.map_or_else(|problem| problem.to_string(), |found| format!("{found:?}"))
}

#[tokio::test]
async fn a_name_is_looked_up_in_the_hosts_file_and_then_at_the_servers() {
    let played = Played::answering(|name| match name {
        "web.a.example.A" => (0x8180, vec![vec![10, 0, 0, 7], vec![10, 0, 0, 8]]),
        "broken.a.example.A" | "broken.A" => (0x8182, vec![]),
        "web.a.example.AAAA" | "broken.AAAA" | "broken.a.example.AAAA" => (0x8180, vec![]),
        "long.A" | "long.AAAA" => (0x8380, vec![]),
        _ => (0x8183, vec![]),
    });
    let names = Arc::new(played.names(Duration::from_secs(600)));
    let server = format!("127.0.0.1:{}", played.port);
    assert_eq!(text(names.find("KNOWN").await), "[10.0.0.1]");
    assert_eq!(played.asked(), Vec::<String>::new());
    assert_eq!(text(names.find("web").await), "[10.0.0.7, 10.0.0.8]");
    assert_eq!(played.asked(), ["web.a.example.A", "web.a.example.AAAA"]);
    assert_eq!(text(names.find("nobody").await), format!("lookup nobody on {server}: no such host"));
    assert_eq!(played.asked(), ["nobody.A", "nobody.AAAA", "nobody.a.example.A", "nobody.a.example.AAAA"]);
    assert_eq!(text(names.find("broken").await), format!("lookup broken on {server}: server misbehaving"));
    assert_eq!(played.asked().iter().filter(|name| *name == "broken.A").count(), 2, "it was asked again");
    assert_eq!(text(names.find("no name").await), "lookup no name: no such host");
    assert_eq!(text(names.find("long.").await), "[10.0.0.9]", "over TCP, whose other answer is of the wrong length");
    assert!(played.asked().contains(&"tcp long.A".to_owned()));
}

#[tokio::test]
async fn a_changed_file_counts_once_the_old_one_is_stale() {
    let played = Played::answering(|_| (0x8183, vec![]));
    let (fresh, stale) = (Arc::new(played.names(Duration::from_secs(600))), Arc::new(played.names(Duration::ZERO)));
    assert_eq!(text(fresh.find("known").await), text(stale.find("known").await));
    fs::write(played.folder.path().join("hosts"), "10.0.0.2 known\n").expect("written");
    assert_eq!(text(fresh.find("known").await), "[10.0.0.1]");
    assert_eq!(text(stale.find("known").await), "[10.0.0.2]");
}

/// SEC-48: the silence of a server costs no thread, and threads that are taken cost no lookup.
#[test]
fn lookups_go_on_while_every_thread_for_blocking_calls_is_taken() {
    let builder = || tokio::runtime::Builder::new_multi_thread();
    let runtime = builder().worker_threads(1).max_blocking_threads(1).enable_all().build().expect("a runtime");
    let (silent, played) = (Played::silent(), Played::answering(|_| (0x8180, vec![vec![10, 0, 0, 7]])));
    runtime.block_on(async {
        let (waits, names) = (silent.names(Duration::from_secs(600)), Arc::new(played.names(Duration::ZERO)));
        let waits = Arc::new(waits);
        let mut lookups = tokio::task::JoinSet::new();
        for number in 0..50 {
            let waits = Arc::clone(&waits);
            lookups.spawn(async move { waits.find(&format!("web-{number}")).await });
        }
        names.find("web").await.expect("found");
        let (release, hold) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let mut taken = Box::pin(blocking::run(move || {
            let _ = begin.send(());
            let _ = hold.recv();
        }));
        tokio::select! {
            () = &mut taken => panic!("it is held"),
            begun = begun => begun.expect("the thread is free for it, however many lookups wait"),
        }
        assert_eq!(text(names.find("web").await), "[10.0.0.7]");
        drop(release);
        taken.await;
        assert!(lookups.try_join_next().is_none(), "the silent server's askers wait on");
        lookups.shutdown().await;
        assert_eq!(waits.open(), 0);
    });
}

#[tokio::test]
async fn askers_of_one_name_share_a_lookup_that_ends_with_the_last_of_them() {
    let silent = Played::silent();
    let names = Arc::new(silent.names(Duration::from_secs(600)));
    let mut askers: Vec<_> = (0..3).map(|_| Box::pin(names.find("web"))).collect();
    for asker in &mut askers {
        assert!(tokio::time::timeout(Duration::from_millis(20), asker).await.is_err(), "nobody answers");
    }
    let mut other = Box::pin(names.find("other"));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut other).await.is_err(), "nobody answers");
    assert_eq!(names.open(), 2);
    askers.truncate(1);
    assert_eq!(names.open(), 2, "one asker waits on");
    drop(askers);
    assert_eq!(names.open(), 1);
    drop(other);
    assert_eq!(names.open(), 0);
}

#[tokio::test]
async fn a_closed_port_is_told_with_the_kernels_words() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let played = Played::at(port, mpsc::channel().1);
    let names = Arc::new(played.names(Duration::from_secs(600)));
    let expected = format!("lookup web. on 127.0.0.1:{port}: connection refused");
    assert_eq!(text(names.find("web.").await), expected);
}
