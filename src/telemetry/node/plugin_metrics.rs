//! `plugin_manager_total_plugins`: sockets in the registry of plugins, and those that are used, read at a scrape.

use prometheus::proto::MetricFamily;

use crate::logic::plugins::plugin_states::{PluginView, Stage};
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::telemetry::registry::families::Family;
use crate::telemetry::registry::scrape::{ASK_LIMIT, SCRAPE};
use crate::telemetry::sources::Sources;

/// All families; none when `PluginWatcher` does not answer.
pub(in crate::telemetry) async fn families(sources: &Sources, into: &mut Vec<MetricFamily>) {
    if let Ok(plugins) = sources.directory.plugin_watcher.ask(SCRAPE, ASK_LIMIT, PluginWatcherMsg::List).await {
        of(&plugins, into);
    }
}

fn of(plugins: &[PluginView], into: &mut Vec<MetricFamily>) {
    let mut family = Family::gauge("plugin_manager_total_plugins", "[ALPHA] Number of plugins in Plugin Manager");
    for plugin in plugins {
        let is_used = plugin.stage == Stage::Registered;
        for state in ["desired_state_of_world"].into_iter().chain(is_used.then_some("actual_state_of_world")) {
            family.sample(&[("socket_path", plugin.socket.as_str()), ("state", state)], 1.0);
        }
    }
    family.finish(into);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::time::Moment;

    #[test]
    fn a_socket_is_wanted_and_a_registered_plugin_is_there() {
        let plugin = |socket: &str, stage| PluginView {
            socket: socket.to_owned(),
            plugin: None,
            stage,
            since: Moment::EPOCH,
            last_error: None,
        };
        let mut families = vec![];
        of(&[plugin("/r/a.sock", Stage::Registered), plugin("/r/b.sock", Stage::Failed)], &mut families);
        let text = prometheus::TextEncoder::new().encode_to_string(&families).expect("families");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"plugin_manager_total_plugins{socket_path="/r/a.sock",state="desired_state_of_world"} 1"#,
                r#"plugin_manager_total_plugins{socket_path="/r/a.sock",state="actual_state_of_world"} 1"#,
                r#"plugin_manager_total_plugins{socket_path="/r/b.sock",state="desired_state_of_world"} 1"#,
            ]
        );
    }
}
