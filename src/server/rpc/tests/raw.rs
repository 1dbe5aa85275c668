//! Clients whose requests name no host, by their bytes: the library refuses these, and the agent does not (SRV-51).

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::super::wire::podresources_v1::ListPodResourcesRequest;
use super::{PATIENCE, pod_resources, socket};
use crate::server::tests::Node;

const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, stream], payload].concat()
}

fn text(value: &str) -> Vec<u8> {
    [&[u8::try_from(value.len()).expect("short")], value.as_bytes()].concat()
}

/// `List` with nothing in it, and this authority.
fn call(stream: u8, authority: &[u8]) -> Vec<u8> {
    let (path, kind) = (text("/v1.PodResourcesLister/List"), text("application/grpc"));
    let block = [&[0x83, 0x86, 0x04], &*path, authority, &[0x0f, 0x10], &kind, &[0x00], &text("te"), &text("trailers")];
    [frame(HEADERS, 0x4, stream, &block.concat()), frame(DATA, 0x1, stream, &[0; 5])].concat()
}

/// The kinds of frames about this stream, up to its end.
async fn answered(connection: &mut UnixStream, wanted: u8) -> Vec<u8> {
    let mut kinds = vec![];
    loop {
        let mut head = [0; 9];
        let read = tokio::time::timeout(PATIENCE, connection.read_exact(&mut head)).await.expect("in time");
        if read.is_err() {
            return kinds;
        }
        let [a, b, c, kind, flags, .., stream] = head;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        connection.read_exact(&mut payload).await.expect("a whole frame");
        if stream == wanted {
            kinds.push(kind);
            let is_end = (matches!(kind, DATA | HEADERS) && flags & 0x1 != 0) || kind == 3;
            if is_end {
                return kinds;
            }
        }
    }
}

/// SRV-51.
#[tokio::test]
async fn a_request_may_name_any_authority() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let path = socket(&node, "pod-resources/kubelet.sock").await;
    let of_table = |value: &str| [&[0x41][..], &text(value)].concat();
    let once = |value: &str| [&[0x01][..], &text(value)].concat();
    let authorities = [
        of_table("localhost"),
        of_table("/var/lib/kubelet/pod-resources/kubelet.sock"),
        of_table("%2Fvar%2Flib%2Fkubelet%2Fpod-resources%2Fkubelet.sock"),
        once("unix:///var/lib/kubelet/pod-resources/kubelet.sock"),
        once("/x"),
        once(""),
        vec![0x81],
        [&[0x40][..], &text(":authority"), &text("%2Fx.sock")].concat(),
    ];
    for authority in authorities {
        node.clock.advance(Duration::from_secs(1));
        let mut connection = UnixStream::connect(&path).await.expect("somebody listens");
        let sent = [HELLO, &frame(SETTINGS, 0, 0, &[]), &call(1, &authority)].concat();
        connection.write_all(&sent).await.expect("sent");
        assert_eq!(answered(&mut connection, 1).await, [HEADERS, DATA, HEADERS], "{authority:x?}");
        if authority[0] & 0x40 != 0 && authority[0] < 0x80 {
            // The entry that the first request put into the table, by its index.
            connection.write_all(&call(3, &[0xbe])).await.expect("sent");
            assert_eq!(answered(&mut connection, 3).await, [HEADERS, DATA, HEADERS], "{authority:x?} again");
        }
    }
}

/// One who speaks no HTTP/2 is cut off, and others are answered.
#[tokio::test]
async fn what_is_no_http_ends_its_own_connection() {
    let node = Node::with_rpc(None, vec![]);
    node.start().await;
    let path = socket(&node, "pod-resources/kubelet.sock").await;
    for bytes in
        [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n\r\n\r\n".to_vec(), [HELLO, &frame(HEADERS, 0x4, 1, &[0x41, 9])].concat()]
    {
        let mut connection = UnixStream::connect(&path).await.expect("somebody listens");
        connection.write_all(&bytes).await.expect("sent");
        let mut rest = vec![];
        let _ = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut rest)).await.expect("it is cut off");
    }
    pod_resources(&node).await.list(ListPodResourcesRequest {}).await.expect("answered");
}
