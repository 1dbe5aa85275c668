//! Which streams and ports a request wants, with upstream's words for what is wrong with it.

use super::query;

/// The name of a WebSocket upgrade in a request.
pub const V5: &str = "v5.channel.k8s.io";
/// How the sub-protocol begins that carries a whole SPDY connection inside a WebSocket.
pub const TUNNEL_PREFIX: &str = "SPDY/3.1+";
/// How it ends.
pub const TUNNEL_SUFFIX: &str = ".k8s.io";

/// The streams of an exec or attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StreamOptions {
    /// Query `input=1`.
    pub stdin: bool,
    /// Query `output=1`.
    pub stdout: bool,
    /// Query `error=1`, unless there is a terminal: that has one output.
    pub stderr: bool,
    /// Query `tty=1`.
    pub tty: bool,
}

impl StreamOptions {
    /// Reads a query.
    ///
    /// # Errors
    /// No stream is asked for.
    pub fn parse(query: &str) -> Result<Self, &'static str> {
        let wanted = |name: &str| query::value(query, name).is_some_and(|value| value == b"1");
        let tty = wanted("tty");
        let found = Self { stdin: wanted("input"), stdout: wanted("output"), stderr: wanted("error") && !tty, tty };
        if !(found.stdin || found.stdout || found.stderr) {
            return Err("you must specify at least 1 of stdin, stdout, stderr");
        }
        Ok(found)
    }
}

/// The ports of a port forward over WebSocket: `port`, repeated or in lists.
///
/// # Errors
/// There is none, or one is not in 1..=65535.
pub fn ports(query: &str) -> Result<Vec<u16>, String> {
    let given = query::values(query, "port");
    if given.is_empty() {
        return Err(r#"query parameter "port" is required"#.to_owned());
    }
    let mut ports = vec![];
    for text in given {
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.is_empty() {
            return Err(r#"query parameter "port" cannot be empty"#.to_owned());
        }
        for one in text.split(',') {
            match port(one) {
                Ok(0) => return Err(format!("port {text:?} must be > 0")),
                Ok(port) => ports.push(port),
                Err(why) => {
                    return Err(format!(
                        "unable to parse {text:?} as a port: strconv.ParseUint: parsing {one:?}: {why}"
                    ));
                }
            }
        }
    }
    Ok(ports)
}

fn port(text: &str) -> Result<u16, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}

/// The entries of a header whose value is a list, over all its lines.
pub fn listed<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    lines.into_iter().flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

/// The protocols inside the tunnels that a client offers, such as `portforward.k8s.io`.
pub fn tunnelled<'a>(sub_protocols: &[&'a str]) -> Vec<&'a str> {
    sub_protocols
        .iter()
        .filter(|name| name.ends_with(TUNNEL_SUFFIX))
        .filter_map(|name| name.strip_prefix(TUNNEL_PREFIX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_wanted_by_one_and_by_nothing_else() {
        let options = |stdin, stdout, stderr, tty| Ok(StreamOptions { stdin, stdout, stderr, tty });
        let none = Err("you must specify at least 1 of stdin, stdout, stderr");
        for (query, expected) in [
            ("input=1&output=1&error=1", options(true, true, true, false)),
            ("output=1", options(false, true, false, false)),
            ("output=1&error=1&tty=1", options(false, true, false, true)),
            ("input=true&output=1", options(false, true, false, false)),
            ("input=0&input=1&output=1", options(false, true, false, false)),
            ("error=1&tty=1", none),
            ("stdin=1&stdout=1", none),
            ("tty=1", none),
            ("output=1;error=1", none),
            ("", none),
        ] {
            assert_eq!(StreamOptions::parse(query), expected, "{query}");
        }
    }

    #[test]
    fn ports_are_repeated_or_listed() {
        assert_eq!(ports("port=80&port=443,8080"), Ok(vec![80, 443, 8080]));
        let parse = |whole: &str, one: &str, why: &str| {
            format!("unable to parse {whole:?} as a port: strconv.ParseUint: parsing {one:?}: {why}")
        };
        for (query, error) in [
            ("", r#"query parameter "port" is required"#.to_owned()),
            ("port=", r#"query parameter "port" cannot be empty"#.to_owned()),
            ("port=0", r#"port "0" must be > 0"#.to_owned()),
            ("port=80,", parse("80,", "", "invalid syntax")),
            ("port=65536", parse("65536", "65536", "value out of range")),
            ("port=%2B80", parse("+80", "+80", "invalid syntax")),
            ("port=http", parse("http", "http", "invalid syntax")),
        ] {
            assert_eq!(ports(query), Err(error), "{query}");
        }
    }

    #[test]
    fn tunnels_are_found_among_sub_protocols() {
        let offered = listed(["v4.channel.k8s.io, SPDY/3.1+portforward.k8s.io", "SPDY/3.1+other.example"]);
        assert_eq!(offered, ["v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io", "SPDY/3.1+other.example"]);
        assert_eq!(tunnelled(&offered), ["portforward.k8s.io"]);
    }
}
