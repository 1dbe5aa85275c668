//! Any text as a query: of a container's log, and of the node's (SEC-59, SEC-16).

#![no_main]

use libfuzzer_sys::fuzz_target;
use podwright::logic::container_log::query::LogQuery;
use podwright::logic::node_log_query::NodeLogQuery;
use podwright::logic::time::Moment;
use podwright::logic::url_query::pairs;

fuzz_target!(|text: &str| {
    let pairs = pairs(text);
    if let Ok(query) = LogQuery::parse(&pairs) {
        assert_ne!(query.print_options(Moment(i64::MAX)).bytes_max, Some(0));
        let _ = query.check_gate(false);
    }
    if let Ok(Some(query)) = NodeLogQuery::parse(&pairs) {
        for word in query.journal_arguments(&query.services) {
            assert!(word.starts_with("--") && !word.contains('\0'), "{word}");
        }
    }
});
