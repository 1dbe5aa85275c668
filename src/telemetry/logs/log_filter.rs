//! Which lines the log takes: klog's verbosity and `vmodule`, laid over the levels that the code uses.
//!
//! The log always has errors, warnings and information; debugging from 4, details from 6. Libraries keep quiet unless
//! something is wrong: what they have to say begins at 4 and may be much from 8 on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use crate::config::VModuleItem;

/// The crate's own name, with which the targets of its lines begin.
const OWN_TARGET: &str = "podwright";

/// The verbosity from which on the log takes a line, and which the line bears.
pub(super) fn verbosity_of(target: &str, level: Level) -> u32 {
    let own = target == OWN_TARGET || target.starts_with("podwright::");
    match (level, own) {
        (Level::ERROR | Level::WARN, _) | (Level::INFO, true) => 0,
        (Level::INFO, false) | (Level::DEBUG, true) => 4,
        (Level::TRACE, true) => 6,
        (Level::DEBUG, false) => 8,
        (Level::TRACE, false) => 10,
    }
}

/// See the module.
#[derive(Clone)]
pub(in crate::telemetry) struct LogFilter {
    verbosity: Arc<AtomicU32>,
    modules: Arc<[VModuleItem]>,
}

impl LogFilter {
    pub(in crate::telemetry) fn new(verbosity: u32, modules: &[VModuleItem]) -> Self {
        Self { verbosity: Arc::new(AtomicU32::new(verbosity)), modules: modules.into() }
    }

    /// Changes the verbosity from now on.
    pub(in crate::telemetry) fn set_verbosity(&self, verbosity: u32) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    fn takes(&self, metadata: &Metadata<'_>) -> bool {
        // ractor's spans last as long as its actors, and its lines repeat what supervision says.
        metadata.is_event()
            && !metadata.target().starts_with("ractor")
            && self.takes_from(metadata.target(), metadata.file(), *metadata.level())
    }

    fn takes_from(&self, target: &str, file: Option<&str>, level: Level) -> bool {
        let needed = verbosity_of(target, level);
        needed <= self.verbosity.load(Ordering::Relaxed)
            || file.is_some_and(|file| {
                self.modules.iter().any(|item| needed <= item.verbosity && names_file(&item.file_pattern, file))
            })
    }

    fn verbosity_max(&self) -> u32 {
        let modules = self.modules.iter().map(|item| item.verbosity).max().unwrap_or_default();
        modules.max(self.verbosity.load(Ordering::Relaxed))
    }
}

impl<S> Filter<S> for LogFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.takes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.takes(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.verbosity_max() {
            0..4 => LevelFilter::INFO,
            4..6 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }
}

/// Whether a pattern of `vmodule` names the file: by its base name without ending, or by its whole path where the
/// pattern has a slash.
fn names_file(pattern: &str, file: &str) -> bool {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let name = if pattern.contains('/') { path } else { path.rsplit('/').next().unwrap_or(path) };
    matches(pattern.as_bytes(), name.as_bytes())
}

/// `*` stands for any text without a slash, `?` for one character of it.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, text),
        (Some((b'*', rest)), Some((first, tail))) => matches(rest, text) || (*first != b'/' && matches(pattern, tail)),
        (Some((b'?', rest)), Some((first, tail))) => *first != b'/' && matches(rest, tail),
        (Some((wanted, rest)), Some((first, tail))) => wanted == first && matches(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(verbosity: u32, modules: &[(&str, u32)]) -> LogFilter {
        let item = |(pattern, verbosity): &(&str, u32)| VModuleItem {
            file_pattern: (*pattern).to_owned(),
            verbosity: *verbosity,
        };
        LogFilter::new(verbosity, &modules.iter().map(item).collect::<Vec<_>>())
    }

    #[test]
    fn verbosity_opens_levels_step_by_step() {
        for (verbosity, own, foreign) in [
            (0, Level::INFO, Level::WARN),
            (3, Level::INFO, Level::WARN),
            (4, Level::DEBUG, Level::INFO),
            (6, Level::TRACE, Level::INFO),
            (8, Level::TRACE, Level::DEBUG),
            (10, Level::TRACE, Level::TRACE),
        ] {
            let filter = filter(verbosity, &[]);
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                // A more detailed level is the greater one.
                assert_eq!(filter.takes_from("podwright::actors", None, level), level <= own, "-v={verbosity} {level}");
                assert_eq!(filter.takes_from("hyper::proto", None, level), level <= foreign, "-v={verbosity} {level}");
            }
        }
    }

    /// OBS-33, CFG-46.
    #[test]
    fn a_module_may_say_more_than_the_rest() {
        let filter = filter(0, &[("pod_*", 4), ("src/cri/*", 6)]);
        let takes = |file, level| filter.takes_from("podwright::x", Some(file), level);
        assert!(takes("src/actors/pods/pod_manager.rs", Level::DEBUG));
        assert!(!takes("src/actors/pods/pod_manager.rs", Level::TRACE));
        assert!(takes("src/cri/stats.rs", Level::TRACE));
        assert!(!takes("src/cri/grpc/mod.rs", Level::DEBUG), "a star does not cross a slash");
        assert!(!takes("src/actors/root.rs", Level::DEBUG));
    }

    #[test]
    fn patterns_match_as_globs() {
        for (pattern, text, expected) in [
            ("root", "root", true),
            ("root", "roots", false),
            ("r??t", "root", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    /// OBS-33, SRV-29.
    #[test]
    fn the_verbosity_can_be_changed() {
        let filter = filter(0, &[]);
        filter.set_verbosity(5);
        assert!(filter.takes_from("podwright", None, Level::DEBUG));
    }
}
