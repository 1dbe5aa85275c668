//! The request of a reader of a container's log: the query of `/containerLogs`, checked as upstream does (SRV-33).

use super::entry::{LogStream, LogTime, WrittenTime};
use super::printer::PrintOptions;
use crate::logic::formats::go_text::quoted;
use crate::logic::formats::url_query::first;
use crate::logic::model::time::Moment;

/// A query that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// A value that is none of its kind: status 400.
    Undecodable,
    /// A value out of its range, or options that exclude each other: status 422.
    Invalid,
}

/// Which streams.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
enum Streams {
    /// Nothing said.
    #[default]
    Unsaid,
    /// Both, expressly.
    All,
    /// One.
    One(LogStream),
}

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// So many seconds before now; at least 1.
    Seconds(i64),
    /// A time; none where the value was empty.
    Time(Option<LogTime>),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// Go on with what is written while it is read.
    pub follow: bool,
    /// The instance before.
    pub previous: bool,
    /// Each line with its time.
    pub timestamps: bool,
    /// So many of the last lines.
    pub tail_lines: Option<u64>,
    /// So many bytes at most.
    pub limit_bytes: Option<u64>,
    since: Option<Since>,
    streams: Streams,
}

impl LogQuery {
    /// Reads the pairs of a query. Names that are not known are passed over; of a name's values the first counts.
    ///
    /// # Errors
    /// See [`QueryFault`].
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, QueryFault> {
        let value = |name| first(pairs, name);
        let tail = match value("tail").filter(|tail| !tail.is_empty()) {
            // The older name of the option has the last word.
            Some("all") => None,
            Some(tail) => Some(tail),
            None => value("tailLines"),
        };
        let (tail_lines, limit_bytes) = (integer(tail)?, integer(value("limitBytes"))?);
        let since_seconds = integer(value("sinceSeconds"))?;
        let since_time = value("sinceTime").map(time).transpose()?;
        let stream = value("stream");
        let since = match (since_seconds, since_time) {
            (Some(_), Some(_)) => return Err(QueryFault::Invalid),
            (Some(seconds), None) => Some(Since::Seconds(at_least(seconds, 1)?)),
            (None, time) => time.map(Since::Time),
        };
        let query = Self {
            follow: switch(value("follow")),
            previous: switch(value("previous")),
            timestamps: switch(value("timestamps")),
            tail_lines: tail_lines.map(|lines| at_least(lines, 0)).transpose()?.map(i64::unsigned_abs),
            limit_bytes: limit_bytes.map(|bytes| at_least(bytes, 1)).transpose()?.map(i64::unsigned_abs),
            since,
            streams: match stream {
                None => Streams::Unsaid,
                Some("All") => Streams::All,
                Some("Stdout") => Streams::One(LogStream::Stdout),
                Some("Stderr") => Streams::One(LogStream::Stderr),
                Some(_) => return Err(QueryFault::Invalid),
            },
        };
        match (&query.streams, query.tail_lines) {
            // Lines are counted in the file, where both streams are.
            (Streams::One(_), Some(_)) => Err(QueryFault::Invalid),
            _ => Ok(query),
        }
    }

    /// Whether the node may answer it: one stream alone needs the gate `PodLogsQuerySplitStreams`.
    ///
    /// # Errors
    /// It may not; upstream's text, for status 400.
    pub fn check_gate(&self, split_streams: bool) -> Result<(), String> {
        let name = match self.streams {
            Streams::One(LogStream::Stdout) if !split_streams => "Stdout",
            Streams::One(LogStream::Stderr) if !split_streams => "Stderr",
            _ => return Ok(()),
        };
        let name = quoted(name);
        Err(format!(
            "unable to return the given log stream: {name}. Please enable PodLogsQuerySplitStreams feature gate in kubelet"
        ))
    }

    /// The part of the files to print, asked at `now`. The number of lines counts against later lines only where they are not
    /// followed.
    pub fn print_options(&self, now: Moment) -> PrintOptions {
        let since = match self.since {
            None | Some(Since::Time(None)) => None,
            Some(Since::Time(time)) => time,
            Some(Since::Seconds(seconds)) => {
                let nanos = seconds.saturating_mul(1_000_000_000);
                Some(LogTime::from(Moment(now.0.saturating_sub(nanos))))
            }
        };
        PrintOptions {
            since,
            timestamps: self.timestamps,
            bytes_max: self.limit_bytes,
            lines_max: if self.follow { None } else { self.tail_lines },
            stream: if let Streams::One(stream) = self.streams { Some(stream) } else { None },
        }
    }
}

/// As upstream: only what is absent, `0` and `false` are no.
fn switch(value: Option<&str>) -> bool {
    value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

fn integer(value: Option<&str>) -> Result<Option<i64>, QueryFault> {
    value.map(|value| value.parse().map_err(|_| QueryFault::Undecodable)).transpose()
}

fn at_least(value: i64, least: i64) -> Result<i64, QueryFault> {
    if value >= least { Ok(value) } else { Err(QueryFault::Invalid) }
}

fn time(value: &str) -> Result<Option<LogTime>, QueryFault> {
    if value.is_empty() || value == "null" {
        return Ok(None);
    }
    WrittenTime::parse(value.as_bytes()).map(|time| Some(time.time())).ok_or(QueryFault::Undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::formats::url_query::pairs;

    fn parse(query: &str) -> Result<LogQuery, QueryFault> {
        LogQuery::parse(&pairs(query))
    }

    /// SRV-33: what is a number and what is not, and what is out of range.
    #[test]
    fn values_that_cannot_be_are_refused() {
        use QueryFault::{Invalid, Undecodable};
        for (query, expected) in [
            ("tailLines=x", Undecodable),
            ("tailLines=", Undecodable),
            ("tail=x", Undecodable),
            ("limitBytes=1.5", Undecodable),
            ("sinceSeconds=9223372036854775808", Undecodable),
            ("sinceTime=yesterday", Undecodable),
            ("sinceTime=2026-02-29T00:00:00Z", Undecodable),
            ("tailLines=-1", Invalid),
            ("limitBytes=0", Invalid),
            ("sinceSeconds=0", Invalid),
            ("sinceSeconds=-5", Invalid),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", Invalid),
            ("sinceSeconds=1&sinceTime=", Invalid),
            ("stream=stdout", Invalid),
            ("stream=", Invalid),
            ("stream=Stdout&tailLines=1", Invalid),
        ] {
            assert_eq!(parse(query), Err(expected), "{query}");
        }
    }

    /// SRV-33: names, defaults, aliases.
    #[test]
    fn values_are_read_as_upstream_reads_them() {
        let all = LogQuery::default();
        for (query, expected) in [
            ("", all.clone()),
            ("nonsense=1&container=x", all.clone()),
            ("follow=true", LogQuery { follow: true, ..all.clone() }),
            ("follow=", LogQuery { follow: true, ..all.clone() }),
            ("follow", LogQuery { follow: true, ..all.clone() }),
            ("follow=maybe", LogQuery { follow: true, ..all.clone() }),
            ("follow=0", all.clone()),
            ("follow=FALSE", all.clone()),
            ("follow=false&follow=true", all.clone()),
            ("previous=1&timestamps=1", LogQuery { previous: true, timestamps: true, ..all.clone() }),
            ("tailLines=+3", LogQuery { tail_lines: None, ..all.clone() }),
            ("tailLines=%2B3", LogQuery { tail_lines: Some(3), ..all.clone() }),
            ("tailLines=3&tail=0", LogQuery { tail_lines: Some(0), ..all.clone() }),
            ("tailLines=x&tail=all", all.clone()),
            ("tail=&tailLines=7", LogQuery { tail_lines: Some(7), ..all.clone() }),
            ("limitBytes=1", LogQuery { limit_bytes: Some(1), ..all.clone() }),
            ("sinceTime=null", LogQuery { since: Some(Since::Time(None)), ..all.clone() }),
            ("stream=All&tailLines=1", LogQuery { streams: Streams::All, tail_lines: Some(1), ..all.clone() }),
        ] {
            match parse(query) {
                // A plus is a blank in a query, and no number begins with one.
                Err(fault) => assert_eq!((query, fault), ("tailLines=+3", QueryFault::Undecodable)),
                Ok(found) => assert_eq!(found, expected, "{query}"),
            }
        }
    }

    /// SRV-36: seconds count from now, a time stands by itself.
    #[test]
    fn the_time_to_begin_at_is_worked_out() {
        let now = Moment(1_800_000_000_000_000_000);
        let since = |query: &str| parse(query).expect("valid").print_options(now).since;
        assert_eq!(since("sinceSeconds=10"), Some(LogTime::from(Moment(1_799_999_990_000_000_000))));
        assert_eq!(since("sinceTime=2027-01-15T08:00:00Z"), Some(LogTime::from(now)));
        assert_eq!(since("sinceTime="), None);
        assert!(since("sinceSeconds=9223372036854775807").expect("some") < LogTime::from(Moment::EPOCH));
    }

    /// SRV-33: one stream needs its gate; the words are upstream's.
    #[test]
    fn one_stream_alone_needs_its_gate() {
        let one = parse("stream=Stderr").expect("valid");
        assert_eq!(one.check_gate(true), Ok(()));
        assert_eq!(
            one.check_gate(false).expect_err("off"),
            "unable to return the given log stream: \"Stderr\". Please enable PodLogsQuerySplitStreams feature gate in kubelet"
        );
        assert_eq!(one.print_options(Moment::EPOCH).stream, Some(LogStream::Stderr));
        assert_eq!(parse("stream=All").expect("valid").check_gate(false), Ok(()));
    }

    /// SRV-36: lines are a limit only where they are not the beginning of more.
    #[test]
    fn followed_lines_are_not_limited() {
        let lines = |query: &str| parse(query).expect("valid").print_options(Moment::EPOCH).lines_max;
        assert_eq!((lines("tailLines=5"), lines("tailLines=5&follow=1")), (Some(5), None));
    }

    proptest::proptest! {
        /// SEC-59.
        #[test]
        fn no_query_is_too_strange(
            name in "follow|tail|tailLines|limitBytes|sinceSeconds|sinceTime|stream",
            value in "[-+0-9a-zA-Z:.é]{0,25}",
        ) {
            if let Ok(query) = LogQuery::parse(&[(name, value)]) {
                let options = query.print_options(Moment(i64::MAX));
                proptest::prop_assert!(options.bytes_max != Some(0));
            }
        }
    }
}
