//! Where a request goes, and how its URL reads: as upstream's client writes it.

use std::borrow::Cow;

use url::Url;

use super::error::TargetError;

/// The server and the resource of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether over TLS.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Host and port as the URL has them: the `Host` header, if none is given.
    pub authority: String,
    /// Path and query, as the request line has them.
    pub path: String,
    /// The whole URL, as texts name it; without a password.
    pub text: String,
}

impl Target {
    /// A target from its parts. As upstream, the path is taken for a reference: a query in it works, a fragment is
    /// dropped, a host is overruled, and one that cannot be parsed is escaped as a whole.
    ///
    /// # Errors
    /// A scheme other than `http` and `https`.
    pub fn from_parts(scheme: &str, host: &str, port: u16, path: &str) -> Result<Self, TargetError> {
        let tls = match scheme {
            "http" => false,
            "https" => true,
            other => return Err(TargetError::Scheme(other.to_owned())),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let reference = reference(path);
        let slash = if reference.is_empty() || reference.starts_with(['/', '?']) { "" } else { "/" };
        let text = [scheme, "://", &authority, slash, &reference].concat();
        let slash = if reference.starts_with('/') { "" } else { "/" };
        let path = [slash, &reference].concat();
        Ok(Self { tls, host: host.to_owned(), port, authority, path, text })
    }

    /// A target from a URL.
    ///
    /// # Errors
    /// A scheme other than `http` and `https`, or no host.
    pub fn from_url(url: &Url) -> Result<Self, TargetError> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(TargetError::Scheme(other.to_owned())),
        };
        let (Some(shown), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(TargetError::NoHost);
        };
        let authority = url.port().map_or_else(|| shown.to_owned(), |port| format!("{shown}:{port}"));
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut text = url.clone();
        if text.password().is_some() {
            // A URL with a host takes a password.
            let _ = text.set_password(Some("xxxxx"));
        }
        Ok(Self {
            tls,
            host: shown.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            authority,
            path: format!("{}{query}", url.path()),
            text: text.into(),
        })
    }

    /// Where an answer's `Location` leads from here.
    ///
    /// # Errors
    /// It leads nowhere.
    pub fn follow(&self, location: &str) -> Result<Self, TargetError> {
        let there = Url::parse(&self.text).and_then(|here| here.join(location));
        let there = there.map_err(|problem| TargetError::Location { location: location.to_owned(), problem })?;
        Self::from_url(&there)
    }

    /// Whether both are on the same host, whatever the ports.
    pub fn same_host(&self, other: &Self) -> bool {
        let normal = |target: &Self| url::Host::parse(&target.bracketed()).ok();
        match (normal(self), normal(other)) {
            (Some(left), Some(right)) => left == right,
            _ => self.host == other.host,
        }
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// The path and query of a probe's path.
fn reference(path: &str) -> Cow<'_, str> {
    // Nearly all are what they read.
    if path.starts_with('/') && !path.starts_with("//") && path.bytes().all(|byte| byte != b'%' && stays_in_path(byte))
    {
        return Cow::Borrowed(path);
    }
    if !is_reference(path) {
        return escaped(path, |byte| byte != b'?' && byte != b'%' && stays_in_path(byte)).into();
    }
    let path = path.split('#').next().unwrap_or_default();
    let path = without_origin(path);
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let mut text = escaped(path, stays_in_path);
    if let Some(query) = query {
        text.push('?');
        text.push_str(&escaped(query, |byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>')));
    }
    text.into()
}

/// Whether upstream's parser takes it: no control characters, whole escapes, and no colon in a first segment that is
/// not a scheme.
fn is_reference(path: &str) -> bool {
    let control = path.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
    let main = path.split(['?', '#']).next().unwrap_or_default();
    let mut pieces = main.split('%').skip(1);
    let escapes = pieces.all(|piece| piece.len() >= 2 && piece.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()));
    let colon = main.split('/').next().is_some_and(|first| first.contains(':')) && !main.contains("://");
    !control && escapes && !colon
}

/// Leaves out `scheme://host` or `//host`: the probe has its own.
fn without_origin(path: &str) -> &str {
    let scheme =
        path.find("://").filter(|at| *at > 0 && path.bytes().take(*at).all(|byte| byte.is_ascii_alphanumeric()));
    let rest = match scheme {
        Some(at) => &path[at + 3..],
        // Three slashes are a path, an empty host before it.
        None => match path.strip_prefix("//") {
            Some(rest) => rest,
            None => return path,
        },
    };
    rest.find(['/', '?']).map_or("", |at| &rest[at..])
}

fn stays_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte)
}

fn escaped(text: &str, stays: impl Fn(u8) -> bool) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probes_path_is_a_reference() {
        let cases = [
            ("", "http://h:80", "/"),
            ("/", "http://h:80/", "/"),
            ("healthz", "http://h:80/healthz", "/healthz"),
            ("/a?b=c&d", "http://h:80/a?b=c&d", "/a?b=c&d"),
            ("?b", "http://h:80?b", "/?b"),
            ("/a#frag", "http://h:80/a", "/a"),
            ("/a b/\u{e9}", "http://h:80/a%20b/%C3%A9", "/a%20b/%C3%A9"),
            ("/a%2Fb", "http://h:80/a%2Fb", "/a%2Fb"),
            ("/a%zz?q", "http://h:80/a%25zz%3Fq", "/a%25zz%3Fq"),
            ("a:b", "http://h:80/a:b", "/a:b"),
            ("https://other:1/x?y", "http://h:80/x?y", "/x?y"),
            ("//other/x", "http://h:80/x", "/x"),
            ("/x?u=http://a/b", "http://h:80/x?u=http://a/b", "/x?u=http://a/b"),
            ("/a\r\nX: y", "http://h:80/a%0D%0AX:%20y", "/a%0D%0AX:%20y"),
        ];
        for (path, text, line) in cases {
            let target = Target::from_parts("http", "h", 80, path).expect("fine");
            assert_eq!((target.text.as_str(), target.path.as_str()), (text, line), "{path:?}");
        }
    }

    #[test]
    fn addresses_of_the_sixth_version_are_bracketed() {
        for host in ["fd00::1", "[fd00::1]"] {
            let target = Target::from_parts("https", host, 8443, "/x").expect("fine");
            assert_eq!((target.text.as_str(), target.host.as_str()), ("https://[fd00::1]:8443/x", "fd00::1"));
        }
    }

    #[test]
    fn a_location_is_followed_from_where_it_was_given() {
        let here = Target::from_parts("http", "10.0.0.1", 8080, "/a/b").expect("fine");
        let cases = [
            ("/c?d", "http://10.0.0.1:8080/c?d", true),
            ("c", "http://10.0.0.1:8080/a/c", true),
            ("http://10.0.0.1:9090/", "http://10.0.0.1:9090/", true),
            ("https://10.0.0.1/", "https://10.0.0.1/", true),
            ("http://10.0.0.2:8080/", "http://10.0.0.2:8080/", false),
            ("//elsewhere/", "http://elsewhere/", false),
        ];
        for (location, text, same) in cases {
            let there = here.follow(location).expect("leads somewhere");
            assert_eq!((there.text.as_str(), there.same_host(&here)), (text, same), "{location}");
        }
        let problem = |location: &str| here.follow(location).expect_err("leads nowhere").to_string();
        assert_eq!(problem("ftp://10.0.0.1/"), "unsupported protocol scheme \"ftp\"");
        assert!(problem("http://[").starts_with("failed to parse Location header \"http://[\": "));
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = Url::parse("http://user:secret@h/x").expect("a URL");
        assert_eq!(Target::from_url(&url).expect("fine").text, "http://user:xxxxx@h/x");
    }

    proptest::proptest! {
        #[test]
        fn any_path_makes_a_request_line(path in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
            let target = Target::from_parts("http", "h", 80, &path).expect("fine");
            proptest::prop_assert!(target.path.starts_with('/'));
            proptest::prop_assert!(target.path.parse::<hyper::http::uri::PathAndQuery>().is_ok(), "{}", target.path);
        }
    }
}
