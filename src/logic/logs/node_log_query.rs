//! The query form of `/logs/`: services and files of the node, checked as upstream does, and the journal's arguments
//! (SRV-32, SEC-16).

use super::container_log::entry::{LogTime, WrittenTime};
use crate::logic::formats::go_text::quoted;
use crate::logic::formats::url_query::first;

/// Services in one query.
const SERVICES_MAX: usize = 4;
/// Bytes of a service's name.
const SERVICE_LENGTH_MAX: usize = 256;
/// Lines from the end.
const TAIL_LINES_MAX: i64 = 100_000;
/// Bytes of a pattern.
const PATTERN_LENGTH_MAX: usize = 4096;

/// Why a query is refused; each text names its field, as upstream prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A value that is none of its kind: status 400.
    Undecodable(Vec<String>),
    /// A value that may not be: status 406.
    Invalid(Vec<String>),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeLogQuery {
    /// Services, in order.
    pub services: Vec<String>,
    /// A file below the node's log directory; if there is one, nothing else is set.
    pub file: Option<String>,
    options: Options,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Options {
    since: Option<(String, LogTime)>,
    until: Option<(String, LogTime)>,
    tail_lines: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// The texts of several problems, as upstream joins them.
pub fn joined(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl NodeLogQuery {
    /// Reads the pairs of a query; `None` where nothing of it is about logs: then the path names a file.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn parse(pairs: &[(String, String)]) -> Result<Option<Self>, Refused> {
        let mut problems = vec![];
        let value = |name: &str| first(pairs, name).filter(|value| !value.is_empty());
        let asked: Vec<String> =
            pairs.iter().filter(|(name, _)| name == "query").map(|(_, value)| value.clone()).collect();
        let (files, services): (Vec<String>, Vec<String>) =
            asked.iter().filter(|one| !one.trim().is_empty()).cloned().partition(|one| one.contains(['/', '\\']));
        if !asked.is_empty() && files.is_empty() && services.is_empty() {
            problems.push(format!("query: Invalid value: {}: query cannot be empty", json(&asked)));
        }
        let time = |name: &str, problems: &mut Vec<String>| {
            let text = value(name)?;
            let Some(time) = WrittenTime::parse(text.as_bytes()) else {
                problems.push(format!("{name}: Invalid value: {}: invalid time format", quoted(text)));
                return None;
            };
            Some((text.to_owned(), time.time()))
        };
        let (since, until) = (time("sinceTime", &mut problems), time("untilTime", &mut problems));
        let integer = |name: &str, problems: &mut Vec<String>| {
            let text = value(name)?;
            text.parse::<i64>().map_err(|error| problems.push(not_a_number(name, text, &error))).ok()
        };
        let (boot, tail_lines) = (integer("boot", &mut problems), integer("tailLines", &mut problems));
        if !problems.is_empty() {
            return Err(Refused::Undecodable(problems));
        }
        let pattern = value("pattern").unwrap_or_default().to_owned();
        let options = Options { since, until, tail_lines, boot, pattern };
        if asked.is_empty() && options == Options::default() {
            return Ok(None);
        }
        let problems = options.problems(&files, &services);
        match problems.is_empty() {
            true => Ok(Some(Self { services, file: files.into_iter().next(), options })),
            false => Err(Refused::Invalid(problems)),
        }
    }

    /// Whether there is more to it than services.
    pub fn has_options(&self) -> bool {
        self.options != Options::default()
    }

    /// The words for `journalctl`: one each, never a shell's line. Upstream hands the time to begin at over as the time to
    /// end at, and both without their zone.
    pub fn journal_arguments(&self, services: &[String]) -> Vec<String> {
        let options = &self.options;
        let mut words: Vec<String> = ["--utc", "--no-pager", "--output=short-precise"].map(str::to_owned).into();
        let time = |name: &str, time: &Option<(String, LogTime)>| {
            time.as_ref().map(|(_, time)| format!("--{name}={} UTC", time.to_seconds_text()))
        };
        words.extend(time("since", &options.since));
        words.extend(time("until", &options.until));
        if let Some(lines) = options.tail_lines {
            words.extend(["--pager-end".to_owned(), format!("--lines={lines}")]);
        }
        words.extend(services.iter().map(|service| format!("--unit={service}")));
        if !options.pattern.is_empty() {
            words.push(format!("--grep={}", options.pattern));
        }
        words.extend(options.boot.map(|boot| format!("--boot={boot}")));
        words
    }
}

impl Options {
    fn problems(&self, files: &[String], services: &[String]) -> Vec<String> {
        let mut problems: Vec<String> = services.iter().filter_map(|service| wrong_service(service)).collect();
        if services.len() > SERVICES_MAX {
            problems.push(format!("query: Too many: {}: must have at most {SERVICES_MAX} items", services.len()));
        }
        let wrong = |value: String, why: &str| format!("query: Invalid value: {value}: {why}");
        match (files, services) {
            ([], []) => problems.push("query: Required value: cannot be empty with options".to_owned()),
            ([_, ..], [_, ..]) => {
                let both = format!("[{}], [{}]", files.join(" "), services.join(" "));
                problems.push(wrong(quoted(&both), "cannot specify a file and service"));
            }
            ([_, _, ..], []) => problems.push(wrong(json(files), "cannot specify more than one file")),
            ([_], []) if *self != Self::default() => {
                problems.push(wrong(json(files), "cannot specify file with options"))
            }
            _ => {}
        }
        if let (Some((_, since)), Some((text, until))) = (&self.since, &self.until)
            && since > until
        {
            problems.push(format!("untilTime: Invalid value: {}: must be after `sinceTime`", quoted(text)));
        }
        if let Some(boot) = self.boot.filter(|boot| *boot > 0) {
            problems.push(format!("boot: Invalid value: {boot}: must be less than 1"));
        }
        if let Some(lines) = self.tail_lines.filter(|lines| !(0..=TAIL_LINES_MAX).contains(lines)) {
            let range = format!("must be between 0 and {TAIL_LINES_MAX}, inclusive");
            problems.push(format!("tailLines: Invalid value: {lines}: {range}"));
        }
        // The journal says what is wrong with a pattern: it matches by rules of its own, which are not Go's.
        if self.pattern.len() > PATTERN_LENGTH_MAX || self.pattern.contains('\0') {
            let shown: String = self.pattern.chars().take(64).collect();
            problems.push(format!("pattern: Invalid value: {}: too long, or not text", quoted(&shown)));
        }
        problems
    }
}

fn wrong_service(service: &str) -> Option<String> {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    let why = if service.len() > SERVICE_LENGTH_MAX {
        format!("length must be less than {SERVICE_LENGTH_MAX}")
    } else if !service.bytes().all(safe) {
        "input contains unsupported characters".to_owned()
    } else {
        return None;
    };
    Some(format!("query: Invalid value: {}: {why}", quoted(service)))
}

fn not_a_number(name: &str, text: &str, error: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    let text = quoted(text);
    format!("{name}: Invalid value: {text}: strconv.Atoi: parsing {text}: {why}")
}

fn json(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_default()
}

/// Files that a service's log may be in, relative to the node's log directory, the likeliest first.
pub fn files_of(service: &str) -> [String; 3] {
    [service.to_owned(), format!("{service}.log"), format!("{service}/{service}.log")]
}

/// Whether the journal's list of units has this service.
pub fn is_in_journal(units: &str, service: &str) -> bool {
    units.lines().map(str::trim).any(|unit| unit == service || unit.strip_suffix(".service") == Some(service))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::formats::url_query::pairs;

    fn parse(query: &str) -> Result<Option<NodeLogQuery>, Refused> {
        NodeLogQuery::parse(&pairs(query))
    }

    /// SRV-32: what is refused, with which status, in upstream's words.
    #[test]
    fn a_query_is_refused_in_upstreams_words() {
        let long = "a".repeat(257);
        for (query, texts) in [
            ("query=+", &[r#"query: Invalid value: [" "]: query cannot be empty"#][..]),
            (
                "sinceTime=x&boot=y&tailLines=99999999999999999999",
                &[
                    r#"sinceTime: Invalid value: "x": invalid time format"#,
                    r#"boot: Invalid value: "y": strconv.Atoi: parsing "y": invalid syntax"#,
                    r#"tailLines: Invalid value: "99999999999999999999": strconv.Atoi: parsing "99999999999999999999": value out of range"#,
                ][..],
            ),
        ] {
            let texts = texts.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(parse(query), Err(Refused::Undecodable(texts)), "{query}");
        }
        for (query, text) in [
            ("tailLines=5", "query: Required value: cannot be empty with options"),
            ("query=a%20b", r#"query: Invalid value: "a b": input contains unsupported characters"#),
            ("query=a%0Ab", r#"query: Invalid value: "a\nb": input contains unsupported characters"#),
            ("query=%24(id)", r#"query: Invalid value: "$(id)": input contains unsupported characters"#),
            (
                format!("query={long}").as_str(),
                format!("query: Invalid value: \"{long}\": length must be less than 256").as_str(),
            ),
            ("query=a&query=b&query=c&query=d&query=e", "query: Too many: 5: must have at most 4 items"),
            ("query=a&query=/b", r#"query: Invalid value: "[/b], [a]": cannot specify a file and service"#),
            ("query=a/b&query=c/d", r#"query: Invalid value: ["a/b","c/d"]: cannot specify more than one file"#),
            ("query=/b&boot=0", r#"query: Invalid value: ["/b"]: cannot specify file with options"#),
            (
                "query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z",
                r#"untilTime: Invalid value: "2026-01-01T00:00:00Z": must be after `sinceTime`"#,
            ),
            ("query=a&boot=1", "boot: Invalid value: 1: must be less than 1"),
            ("query=a&tailLines=100001", "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive"),
            ("query=a&pattern=a%00b", "pattern: Invalid value: \"a\\x00b\": too long, or not text"),
            ("query=a&tailLines=-1", "tailLines: Invalid value: -1: must be between 0 and 100000, inclusive"),
        ] {
            assert_eq!(parse(query), Err(Refused::Invalid(vec![text.to_owned()])), "{query}");
        }
        assert_eq!(parse("nonsense=1").expect("fine"), None);
        assert!(parse("query=a&pattern=(x").is_ok_and(|query| query.is_some()), "the journal answers that");
        assert_eq!(joined(&["a".into(), "b".into()]), "[a, b]");
    }

    /// SRV-32, SEC-16: each value is within one word of its own, and both times are what was asked for.
    #[test]
    fn the_journal_is_asked_in_words() {
        let query = "query=kubelet&query=a@b.service&sinceTime=2026-01-02T03:04:05%2B01:00&untilTime=2026-01-03T00:00:00Z\
                     &tailLines=7&boot=-1&pattern=%3B%20rm%20--output=json%20%60id%60";
        let query = parse(query).expect("valid").expect("a query");
        assert_eq!(query.services, ["kubelet", "a@b.service"]);
        assert!(query.has_options());
        assert_eq!(
            query.journal_arguments(&query.services),
            [
                "--utc",
                "--no-pager",
                "--output=short-precise",
                "--since=2026-01-02 02:04:05 UTC",
                "--until=2026-01-03 00:00:00 UTC",
                "--pager-end",
                "--lines=7",
                "--unit=kubelet",
                "--unit=a@b.service",
                "--grep=; rm --output=json `id`",
                "--boot=-1",
            ]
        );
    }

    #[test]
    fn services_are_found_in_the_journal_and_in_files() {
        let units = "init.scope\nssh.service\nuser@1000.service\n";
        for (service, there) in [("ssh", true), ("ssh.service", true), ("sh", false), ("user@1000", true), ("", false)]
        {
            assert_eq!(is_in_journal(units, service), there, "{service}");
        }
        assert_eq!(files_of("kubelet"), ["kubelet", "kubelet.log", "kubelet/kubelet.log"]);
    }

    proptest::proptest! {
        /// SEC-16, SEC-59: no value becomes a second word, and no word is another option.
        #[test]
        fn no_value_becomes_an_option(service in ".{0,20}", pattern in ".{0,20}") {
            let pairs = [("query".to_owned(), service), ("pattern".to_owned(), pattern)];
            if let Ok(Some(query)) = NodeLogQuery::parse(&pairs) {
                for word in &query.journal_arguments(&query.services)[3..] {
                    proptest::prop_assert!(word.starts_with("--unit=") || word.starts_with("--grep="), "{word}");
                }
            }
        }
    }
}
