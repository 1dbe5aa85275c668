//! Any text as a query or a path: of a container's log, of the node's, of streams; and any path of the port (SEC-59,
//! SEC-16).

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright_fuzz::logic::formats::byte_ranges::{Asked, parse};
use podwright_fuzz::logic::formats::url_query::pairs;
use podwright_fuzz::logic::logs::container_log::query::LogQuery;
use podwright_fuzz::logic::logs::node_log_query::NodeLogQuery;
use podwright_fuzz::logic::model::time::Moment;
use podwright_fuzz::logic::serving::server_access::{Switches, Way, way};
use podwright_fuzz::logic::serving::streams::options::{StreamOptions, ports};

/// `--utc`, `--no-pager` and `--output`, which are always there.
const ALWAYS: usize = 3;

fuzz_target!(|text: &str| {
    let pairs = pairs(text);
    if let Ok(query) = LogQuery::parse(&pairs) {
        assert_ne!(query.print_options(Moment(i64::MAX)).bytes_max, Some(0));
        let _ = query.check_gate(false);
    }
    if let Ok(Some(query)) = NodeLogQuery::parse(&pairs) {
        let options = ["--since=", "--until=", "--pager-end", "--lines=", "--unit=", "--grep=", "--boot="];
        for word in &query.journal_arguments(&query.services)[ALWAYS..] {
            assert!(options.iter().any(|option| word.starts_with(option)) && !word.contains('\0'), "{word}");
        }
    }
    if let Asked::Parts(parts) = parse(text, 1000) {
        assert!(parts.iter().all(|part| part.from < part.to && part.to <= 1000));
    }
    if let Ok(options) = StreamOptions::parse(text) {
        assert!(options.stdin || options.stdout || options.stderr);
    }
    if let Ok(ports) = ports(text) {
        assert!(!ports.is_empty() && !ports.contains(&0));
    }
    if let Way::Elsewhere(to) = way(text, Switches::default()) {
        assert!(to.starts_with('/') && !to.starts_with("//") && !to.contains('\\'), "a redirect to another host: {to}");
        assert!(!matches!(way(&to, Switches::default()), Way::Elsewhere(_)), "a redirect to a redirect: {to}");
    }
});
