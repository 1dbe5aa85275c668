//! `/debug/plugins`: every plugin as it is now, and the calls that it has open (RES-47).

use std::time::Duration;

use crate::actors::kit::trace::Cause;
use crate::logic::model::time::Moment;
use crate::logic::plugins::device_registration::VERSION;
use crate::logic::plugins::device_sessions::DevicePluginView;
use crate::logic::plugins::plugin::PluginKind;
use crate::logic::plugins::plugin_states::PluginView;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::platform::plugins::OpenCall;
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;
use crate::server::views::{CallShown, DevicesShown, PluginRow};

/// Patience with each actor.
const PATIENCE: Duration = Duration::from_secs(5);

/// All plugins: those of the registry by socket, then device plugins that came by the agent's socket, by resource.
pub(in crate::server) async fn answer(shared: &Shared) -> Reply {
    let (watcher, devices) = (&shared.directory.plugin_watcher, &shared.directory.device_plugins);
    let cause = || Cause::outside("server");
    let views = match watcher.ask(cause(), PATIENCE, PluginWatcherMsg::List).await {
        Ok(views) => views,
        Err(error) => return reply::unanswered("PluginWatcher", error),
    };
    let sessions = match devices.ask(cause(), PATIENCE, DevicePluginsMsg::List).await {
        Ok(sessions) => sessions,
        Err(error) => return reply::unanswered("DevicePlugins", error),
    };
    let mut open = shared.plugins.csi.open_calls();
    open.extend(shared.plugins.devices.open_calls());
    reply::json(&rows(&views, &sessions, &open, shared.trace.clock().now()))
}

fn rows(
    views: &[PluginView],
    sessions: &[DevicePluginView],
    open: &[(String, OpenCall)],
    now: Moment,
) -> Vec<PluginRow> {
    let of_registry = |view: &PluginView| {
        let mut row = row(view, open, now);
        // Its socket may have been replaced by that of another plugin of the resource.
        let session = sessions.iter().find(|session| session.registry_socket.as_ref() == Some(&view.socket));
        if let Some(session) = session {
            row.devices = Some(devices_of(session));
            row.last_error = Some(row.last_error).filter(|why| !why.is_empty()).unwrap_or(last_error(session));
        }
        row
    };
    let by_socket = sessions.iter().filter(|session| match &session.registry_socket {
        None => true,
        // One that is gone from the registry.
        Some(socket) => views.iter().all(|view| view.socket != *socket),
    });
    views.iter().map(of_registry).chain(by_socket.map(|session| device_row(session, open, now))).collect()
}

fn device_row(session: &DevicePluginView, open: &[(String, OpenCall)], now: Moment) -> PluginRow {
    PluginRow {
        kind: PluginKind::Device.to_string(),
        name: session.resource.clone(),
        socket: session.registry_socket.clone().unwrap_or_default(),
        endpoint: session.endpoint.clone(),
        versions: vec![VERSION.to_owned()],
        state: session.stage.to_string(),
        age_seconds: age(now, session.since),
        last_error: last_error(session),
        calls: calls_of(&session.endpoint, open, now),
        devices: Some(devices_of(session)),
    }
}

fn last_error(session: &DevicePluginView) -> String {
    session.last_error.clone().unwrap_or_default()
}

fn devices_of(session: &DevicePluginView) -> DevicesShown {
    DevicesShown { healthy: session.healthy, all: session.devices }
}

fn age(now: Moment, since: Moment) -> Option<f64> {
    Some(now.since(since).as_secs_f64())
}

fn calls_of(endpoint: &str, open: &[(String, OpenCall)], now: Moment) -> Vec<CallShown> {
    let own = open.iter().filter(|(at, _)| !endpoint.is_empty() && at == endpoint);
    let call = |(_, call): &(String, OpenCall)| CallShown {
        method: call.method.to_owned(),
        about: call.about.clone(),
        age_seconds: age(now, call.since),
    };
    own.map(call).collect()
}

fn row(view: &PluginView, open: &[(String, OpenCall)], now: Moment) -> PluginRow {
    let plugin = view.plugin.as_deref();
    let endpoint = plugin.map(|plugin| plugin.endpoint.clone()).unwrap_or_default();
    PluginRow {
        kind: plugin.map(|plugin| plugin.kind.to_string()).unwrap_or_default(),
        name: plugin.map(|plugin| plugin.name.clone()).unwrap_or_default(),
        socket: view.socket.clone(),
        versions: plugin.map(|plugin| plugin.versions.clone()).unwrap_or_default(),
        state: view.stage.to_string(),
        age_seconds: age(now, view.since),
        last_error: view.last_error.clone().unwrap_or_default(),
        calls: calls_of(&endpoint, open, now),
        devices: None,
        endpoint,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::logic::plugins::device_sessions::Stage as DeviceStage;
    use crate::logic::plugins::plugin::Plugin;
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
    /// RES-39: device plugins by either way, each once.
    #[test]
    fn device_plugins_are_shown_with_their_devices() {
        let session = |resource: &str, registry_socket: Option<&str>| DevicePluginView {
            resource: resource.into(),
            endpoint: format!("/d/{resource}.sock"),
            registry_socket: registry_socket.map(str::to_owned),
            stage: DeviceStage::Stopped,
            since: Moment(1_000_000_000),
            last_error: Some("it died".into()),
            healthy: 0,
            devices: 2,
        };
        let view = PluginView {
            socket: "/r/d.sock".into(),
            plugin: None,
            stage: Stage::Registered,
            since: Moment(0),
            last_error: None,
        };
        let sessions = [session("a", None), session("b", Some("/r/d.sock")), session("c", Some("/r/gone.sock"))];
        let call = OpenCall { method: "Allocate", about: "x".into(), since: Moment(2_000_000_000) };
        let shown = rows(&[view], &sessions, &[("/d/a.sock".into(), call)], Moment(3_000_000_000));
        let devices = Some(DevicesShown { healthy: 0, all: 2 });
        assert!(shown.iter().all(|row| row.devices == devices && row.last_error == "it died"), "{shown:?}");
        let cells: Vec<_> = shown.iter().map(|row| (&*row.name, &*row.state, row.calls.len())).collect();
        assert_eq!(cells, [("", "registered", 0), ("a", "stopped", 1), ("c", "stopped", 0)]);
    }
}
