//! Small servers on loopback for tests: what they say is written by hand, so that they can say what no server should.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::platform::network::tls;

/// The certificate of the TLS servers: for `localhost` and 127.0.0.1, signed by itself.
pub fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/platform/network/fixtures/test-server.crt")
}

/// TLS settings of a server that speaks these protocols.
pub fn server_config(protocols: &[&str]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(certificate()).expect("the fixture");
    let key = PrivateKeyDer::from_pem_file(self::certificate().with_extension("key")).expect("the fixture");
    let builder = ServerConfig::builder_with_provider(tls::provider()).with_safe_default_protocol_versions();
    let mut config = builder.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    let config_mut = config.as_mut().expect("a pair");
    config_mut.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config.expect("a pair"))
}

/// Both directions of a connection.
pub trait Talk: Read + Write {}
impl<T: Read + Write> Talk for T {}

/// A server whose every connection runs `talk`, which gets the request's header, and the stream to answer on.
pub fn serve(talk: impl Fn(&str, &mut dyn Talk) + Send + 'static) -> SocketAddr {
    serve_raw(Ipv4Addr::LOCALHOST.into(), move |mut stream| talk(&head(&mut stream), &mut stream))
}

/// The same over TLS.
pub fn serve_tls(talk: impl Fn(&str, &mut dyn Talk) + Send + 'static) -> SocketAddr {
    let config = server_config(&["http/1.1"]);
    serve_raw(Ipv4Addr::LOCALHOST.into(), move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("settings");
        let mut stream = StreamOwned::new(connection, stream);
        talk(&head(&mut stream), &mut stream);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

/// A server that gives `talk` each connection as it comes.
pub fn serve_raw(address: IpAddr, talk: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            talk(stream);
        }
    });
    address
}

/// An answer with a body.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

fn head(stream: &mut dyn Read) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
