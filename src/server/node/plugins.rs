//! `/debug/plugins`: every plugin as it is now, and the calls that it has open (RES-47).

use std::time::Duration;

use crate::actors::kit::trace::Cause;
use crate::logic::model::time::Moment;
use crate::logic::plugins::plugin_states::PluginView;
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::platform::plugins::OpenCall;
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;
use crate::server::views::{CallShown, PluginRow};

/// Patience with `PluginWatcher`.
const PATIENCE: Duration = Duration::from_secs(5);

/// All plugins, by socket.
pub(in crate::server) async fn answer(shared: &Shared) -> Reply {
    let watcher = &shared.directory.plugin_watcher;
    match watcher.ask(Cause::outside("server"), PATIENCE, PluginWatcherMsg::List).await {
        Ok(views) => {
            let (open, now) = (shared.csi.open_calls(), shared.trace.clock().now());
            reply::json(&views.iter().map(|view| row(view, &open, now)).collect::<Vec<_>>())
        }
        Err(error) => reply::unanswered("PluginWatcher", error),
    }
}

fn row(view: &PluginView, open: &[(String, OpenCall)], now: Moment) -> PluginRow {
    let age = |since: Moment| Some(now.since(since).as_secs_f64());
    let plugin = view.plugin.as_deref();
    let endpoint = plugin.map(|plugin| plugin.endpoint.clone()).unwrap_or_default();
    let own = open.iter().filter(|(at, _)| !endpoint.is_empty() && *at == endpoint);
    let call = |(_, call): &(String, OpenCall)| CallShown {
        method: call.method.to_owned(),
        about: call.about.clone(),
        age_seconds: age(call.since),
    };
    PluginRow {
        kind: plugin.map(|plugin| plugin.kind.to_string()).unwrap_or_default(),
        name: plugin.map(|plugin| plugin.name.clone()).unwrap_or_default(),
        socket: view.socket.clone(),
        versions: plugin.map(|plugin| plugin.versions.clone()).unwrap_or_default(),
        state: view.stage.to_string(),
        age_seconds: age(view.since),
        last_error: view.last_error.clone().unwrap_or_default(),
        calls: own.map(call).collect(),
        endpoint,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::logic::plugins::plugin::{Plugin, PluginKind};
    use crate::logic::plugins::plugin_states::Stage;

    /// RES-47.
    #[test]
    fn a_plugin_is_shown_with_its_own_open_calls() {
        let plugin = Plugin {
            socket: "/r/d.sock".into(),
            attempt: 1,
            kind: PluginKind::Csi,
            name: "drv".into(),
            endpoint: "/csi.sock".into(),
            versions: vec!["1.0.0".into()],
        };
        let view = |plugin: Option<Plugin>| PluginView {
            socket: "/r/d.sock".into(),
            plugin: plugin.map(Arc::new),
            stage: Stage::Registered,
            since: Moment(1_000_000_000),
            last_error: Some("no answer".into()),
        };
        let call = |method| OpenCall { method, about: "h-1".into(), since: Moment(2_000_000_000) };
        let open = [("/csi.sock".to_owned(), call("NodeStageVolume")), ("/other.sock".to_owned(), call("NodeGetInfo"))];
        let shown = row(&view(Some(plugin)), &open, Moment(5_000_000_000));
        assert_eq!(
            (shown.kind.as_str(), shown.name.as_str(), shown.state.as_str()),
            ("CSIPlugin", "drv", "registered")
        );
        assert_eq!((shown.age_seconds, shown.last_error.as_str()), (Some(4.0), "no answer"));
        let expected = CallShown { method: "NodeStageVolume".into(), about: "h-1".into(), age_seconds: Some(3.0) };
        assert_eq!(shown.calls, [expected]);
        assert_eq!(row(&view(None), &open, Moment(0)).calls, [], "one that has not said where it serves has none");
    }
}
