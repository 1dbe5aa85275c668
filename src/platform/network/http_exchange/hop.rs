//! One request of an exchange: where it goes, with which headers, and what becomes of both after a redirect.

use hyper::Request;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::connection::Payload;
use super::error::{ExchangeError, WireError};
use super::target::Target;

/// A `GET` to be made.
#[derive(Clone)]
pub(super) struct Hop {
    pub target: Target,
    /// As they are sent, but for those of the transport.
    headers: Vec<(HeaderName, HeaderValue)>,
    host: Option<HeaderValue>,
    /// As it is sent over a plain connection.
    plain: Result<Vec<u8>, WireError>,
}

impl Hop {
    /// The first request, with the headers given; those that the transport writes itself are left out.
    ///
    /// # Errors
    /// A header cannot be sent.
    pub fn first(target: Target, given: &[(&str, &str)]) -> Result<Self, ExchangeError> {
        let mut hop = Self { target, headers: Vec::with_capacity(given.len()), host: None, plain: Ok(Vec::new()) };
        let mut has_agent = false;
        for (name, value) in given {
            let wrong =
                |part| ExchangeError::get(&hop.target.text, WireError::Header { part, name: (*name).to_owned() });
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("name"))?;
            let value = HeaderValue::from_str(value.trim_matches([' ', '\t'])).map_err(|_| wrong("value for"))?;
            match parsed {
                header::CONTENT_LENGTH | header::TRANSFER_ENCODING | header::TRAILER => {}
                header::HOST => drop(hop.host.get_or_insert(value)),
                // Of the agent only the first counts, and an empty one is none.
                header::USER_AGENT if has_agent => {}
                header::USER_AGENT => {
                    has_agent = true;
                    hop.headers.extend((!value.is_empty()).then_some((parsed, value)));
                }
                _ => hop.headers.push((parsed, value)),
            }
        }
        hop.host = hop.host.filter(|host| !host.is_empty());
        hop.plain = hop.encoded();
        Ok(hop)
    }

    /// The request after this one, which was redirected to `next`.
    pub fn redirected(mut self, next: Target, location: &str, same_host: bool) -> Self {
        // A location without a host stays with the host that was asked for.
        if location.starts_with("//") || url::Url::parse(location).is_ok() {
            self.host = None;
        }
        if !same_host {
            self.headers.retain(|(name, _)| *name == header::USER_AGENT);
        }
        self.headers.retain(|(name, _)| *name != header::REFERER);
        let plain_after_tls = self.target.tls && !next.tls;
        match HeaderValue::from_str(&self.target.text) {
            Ok(from) if !plain_after_tls && same_host => self.headers.push((header::REFERER, from)),
            _ => {}
        }
        self.target = next;
        self.plain = self.encoded();
        self
    }

    /// The request as it is sent over a plain connection: the host first, names as upstream's client writes them.
    ///
    /// # Errors
    /// A host or a path would be more than that.
    pub fn plain(&self) -> Result<&[u8], WireError> {
        self.plain.as_deref().map_err(Clone::clone)
    }

    fn encoded(&self) -> Result<Vec<u8>, WireError> {
        let path = &self.target.path;
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WireError::Path(path.clone()));
        }
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(b"GET ");
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        encode(&header::HOST, &self.host()?, &mut bytes);
        for (name, value) in &self.headers {
            encode(name, value, &mut bytes);
        }
        if !self.has_connection() {
            bytes.extend_from_slice(b"Connection: close\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        Ok(bytes)
    }

    /// The request for the HTTP library.
    ///
    /// # Errors
    /// A host or a path that it does not take.
    pub fn request(&self, http2: bool) -> Result<Request<Payload>, WireError> {
        let host = self.host()?;
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        let uri = if http2 {
            for name in [header::CONNECTION, header::UPGRADE, header::TE] {
                headers.remove(name);
            }
            headers.remove("keep-alive");
            headers.remove("proxy-connection");
            format!("https://{}{}", String::from_utf8_lossy(host.as_bytes()), self.target.path)
        } else {
            headers.insert(header::HOST, host);
            if !self.has_connection() {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            self.target.path.clone()
        };
        let request = Request::builder().uri(uri).body(Payload(None));
        let mut request = request.map_err(|error| WireError::Request(error.to_string()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn host(&self) -> Result<HeaderValue, WireError> {
        let own = || HeaderValue::from_str(&self.target.authority).map_err(|_| WireError::Host);
        self.host.clone().map_or_else(own, Ok)
    }

    fn has_connection(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == header::CONNECTION)
    }
}

fn encode(name: &HeaderName, value: &HeaderValue, bytes: &mut Vec<u8>) {
    let mut begins = true;
    bytes.extend(name.as_str().bytes().map(|byte| {
        let written = if begins { byte.to_ascii_uppercase() } else { byte };
        begins = byte == b'-';
        written
    }));
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value.as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(path: &str, given: &[(&str, &str)]) -> Hop {
        Hop::first(Target::from_parts("http", "h", 80, path).expect("fine"), given).expect("can be sent")
    }

    #[test]
    fn a_request_is_written_as_upstream_writes_it() {
        let given = [("user-agent", "me"), ("x-a-b", " 1 "), ("X-A-B", "2"), ("content-length", "7"), ("Host", "")];
        let text = String::from_utf8(hop("/a?b=c", &given).plain().expect("can be written").to_vec()).expect("text");
        let expected =
            "GET /a?b=c HTTP/1.1\r\nHost: h:80\r\nUser-Agent: me\r\nX-A-B: 1\r\nX-A-B: 2\r\nConnection: close\r\n\r\n";
        assert_eq!(text, expected);
        let given = [("Host", "first"), ("Host", "second"), ("connection", "keep-alive"), ("User-Agent", "")];
        let text = String::from_utf8(hop("", &given).plain().expect("can be written").to_vec()).expect("text");
        assert_eq!(text, "GET / HTTP/1.1\r\nHost: first\r\nConnection: keep-alive\r\n\r\n");
    }

    /// Nothing that a pod says can be more than a request's host, path or header.
    #[test]
    fn what_would_be_more_than_one_request_is_refused() {
        let target = Target::from_parts("http", "h\r\nX: y", 80, "/").expect("not looked at here");
        let hop = Hop::first(target, &[]).expect("no headers");
        assert_eq!(hop.plain(), Err(WireError::Host));
        let target = Target { path: "/a b".to_owned(), ..Target::from_parts("http", "h", 80, "/").expect("fine") };
        assert!(Hop::first(target, &[]).expect("no headers").plain().is_err());
        let target = Target::from_parts("http", "h", 80, "/").expect("fine");
        assert!(Hop::first(target, &[("X", "a\r\nY: b")]).is_err());
    }

    /// Over the library the same is sent, whatever is given.
    #[test]
    fn both_ways_say_the_same() {
        let given = [("X-B", "1"), ("Accept", "*/*"), ("x-b", "2"), ("User-Agent", "me"), ("Host", "there")];
        let hop = hop("/x", &given);
        let text = String::from_utf8(hop.plain().expect("can be written").to_vec()).expect("text").to_lowercase();
        let mut lines: Vec<&str> = text.lines().skip(1).filter(|line| !line.is_empty()).collect();
        let request = hop.request(false).expect("can be made");
        let said = request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")));
        let mut said: Vec<String> = said.collect();
        lines.sort_unstable();
        said.sort_unstable();
        assert_eq!(lines, said);
        assert_eq!(request.uri(), "/x");
    }
}
