//! Health checks: whether the agent still does its work. Asks nobody, so that a stuck actor cannot hold up the answer.
//!
//! Owned by a listener. Keeps what it saw of a few counters and since when, because standing still is what it looks for.

use std::sync::Mutex;
use std::time::Duration;

use axum::http::StatusCode;

use crate::actors::kit::trace::lock;
use crate::actors::root::STUCK_AFTER;
use crate::platform::observer::{Observation, Observer};
use crate::server::backend::Backend;
use crate::server::reply::{self, Reply};
use crate::telemetry::log_progress;

/// The checks, in the order of the page.
pub const CHECKS: [&str; 4] = ["ping", "log", "syncloop", "device-plugin"];
/// A turn that is open for longer fails the check.
const TURN_MAX: Duration = Duration::from_secs(2 * STUCK_AFTER.as_secs());
/// `PodManager` may be between two incarnations for this long.
const DOWN_MAX: Duration = Duration::from_secs(30);
/// `PodManager` may be without a turn for this long, or twice the sync period (upstream's rule for its sync loop).
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// One line of the log may take this long to write.
const LOG_LINE_MAX: Duration = Duration::from_secs(60);

/// Since when a value has been the same, as far as was looked.
#[derive(Default)]
struct Standstill(Mutex<Option<(u64, Duration)>>);

impl Standstill {
    fn age(&self, value: u64, uptime: Duration) -> Duration {
        let mut seen = lock(&self.0);
        match *seen {
            Some((known, since)) if known == value => uptime.saturating_sub(since),
            _ => {
                *seen = Some((value, uptime));
                Duration::ZERO
            }
        }
    }
}

/// See the module.
#[derive(Default)]
pub(in crate::server) struct Health {
    manager_up: Standstill,
    manager_turns: Standstill,
    log_line: Standstill,
}

impl Health {
    /// One check by its name.
    fn check(&self, name: &'static str, backend: &Backend) -> Result<(), String> {
        let outcome = self.look(name, backend);
        backend.metrics.observe(Observation::HealthChecked { name, healthy: outcome.is_ok() });
        outcome
    }

    fn look(&self, name: &str, backend: &Backend) -> Result<(), String> {
        match name {
            "log" => self.check_log(backend),
            "syncloop" => self.check_sync_loop(backend),
            "device-plugin" => backend.plugins.device_socket.problem().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    fn check_log(&self, backend: &Backend) -> Result<(), String> {
        let progress = log_progress();
        let age = self.log_line.age(progress.begun, backend.trace.clock().uptime());
        let held_up = progress.begun != progress.ended && age > LOG_LINE_MAX;
        if held_up { Err(format!("a line of the log has been in writing for {age:?}")) } else { Ok(()) }
    }

    fn check_sync_loop(&self, backend: &Backend) -> Result<(), String> {
        if let Some((actor, message, open)) = backend.trace.stuck(TURN_MAX) {
            return Err(format!("{actor} has been handling {message} for {open:?}"));
        }
        let (manager, uptime) = (&backend.directory.pod_manager, backend.trace.clock().uptime());
        let is_up = manager.is_up();
        let up_age = self.manager_up.age(u64::from(is_up), uptime);
        if !is_up && up_age > DOWN_MAX {
            return Err(format!("PodManager has been down for {up_age:?}"));
        }
        let silence = self.manager_turns.age(manager.record().turns(), uptime);
        let silence_max = SILENCE_MAX.max(2 * backend.sync_period);
        if silence > silence_max {
            return Err(format!("sync loop took longer than expected: {silence:?}"));
        }
        Ok(())
    }

    /// Answers `/healthz` as upstream words it.
    pub(in crate::server) fn answer_all(&self, backend: &Backend, query: Option<&str>) -> Reply {
        let mut excluded = reply::query_values(query, "exclude");
        excluded.sort();
        excluded.dedup();
        let (mut lines, mut failed) = (String::new(), Vec::new());
        for name in CHECKS {
            if let Some(place) = excluded.iter().position(|other| other == name) {
                excluded.remove(place);
                lines.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            match self.check(name, backend) {
                Ok(()) => lines.push_str(&format!("[+]{name} ok\n")),
                Err(why) => {
                    lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    failed.push(format!("{name}: {why}"));
                }
            }
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        if !failed.is_empty() {
            tracing::warn!(failed = failed.join("; "), "healthz check failed");
            return reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}healthz check failed\n"));
        }
        let verbose = !reply::query_values(query, "verbose").is_empty();
        let body = if verbose { format!("{lines}healthz check passed\n") } else { "ok".to_owned() };
        reply::text(StatusCode::OK, body)
    }

    /// Answers `/healthz/<name>`; `None` when there is no such check.
    pub(in crate::server) fn answer_one(&self, backend: &Backend, name: &str) -> Option<Reply> {
        let name = CHECKS.into_iter().find(|known| *known == name)?;
        Some(match self.check(name, backend) {
            Ok(()) => reply::text(StatusCode::OK, "ok"),
            Err(why) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_that_stays_grows_old() {
        let (still, at) = (Standstill::default(), Duration::from_secs);
        assert_eq!(still.age(1, at(10)), at(0));
        assert_eq!(still.age(1, at(25)), at(15));
        assert_eq!(still.age(2, at(30)), at(0));
        assert_eq!(still.age(2, at(31)), at(1));
    }
}
