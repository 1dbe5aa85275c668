//! The runtime's protocol, compiled from `proto/` when the test runs: requests and answers as JSON.

use std::path::Path;

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

/// The Container Runtime Interface.
pub struct Protocol(DescriptorPool);

impl Protocol {
    /// The protocol of this tree.
    pub fn load() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
        let files = protox::compile([folder.join("runtime/v1/api.proto")], [folder]).expect("the CRI compiles");
        Self(DescriptorPool::from_file_descriptor_set(files).expect("a whole set"))
    }

    /// The request of a call, from the body of its HTTP request. `path` is `/service/method`.
    pub fn request(&self, path: &str, body: &[u8]) -> Value {
        self.message(path, body, true)
    }

    /// The answer of a call.
    pub fn answer(&self, path: &str, body: &[u8]) -> Value {
        self.message(path, body, false)
    }

    /// One message; JSON null where it cannot be read. A frame of gRPC has a flag and its length before the message.
    fn message(&self, path: &str, body: &[u8], is_request: bool) -> Value {
        let (Some(bytes), Some((service, method))) = (body.get(5..), path.trim_start_matches('/').split_once('/'))
        else {
            return Value::Null;
        };
        let service = self.0.get_service_by_name(service);
        let method = service.and_then(|service| service.methods().find(|other| other.name() == method));
        let Some(method) = method else { return Value::Null };
        let form = if is_request { method.input() } else { method.output() };
        let Ok(message) = DynamicMessage::decode(form, bytes) else { return Value::Null };
        let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
        message.serialize_with_options(serde_json::value::Serializer, &options).unwrap_or(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read() {
        // StopContainerRequest { container_id: "ab", timeout: 5 }
        let body = [0, 0, 0, 0, 6, 10, 2, b'a', b'b', 16, 5];
        let read = Protocol::load().request("/runtime.v1.RuntimeService/StopContainer", &body);
        assert_eq!(read, serde_json::json!({ "container_id": "ab", "timeout": 5 }));
    }
}
