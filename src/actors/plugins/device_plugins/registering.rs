//! Registrations of device plugins, and how each session goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use ractor::RpcReplyPort;

use super::{DevicePlugins, Open};
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::actors::plugins::verdict::verdict;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::device_registration::{self as registration, RegisterRefusal, Registration};
use crate::logic::plugins::device_sessions::{Input, Origin};
use crate::logic::plugins::plugin::{Plugin, Refusal};
use crate::logic::resources::device_manager::devices::{Device, PluginOptions};
use crate::messages::plugins::device_plugins::{DevicePluginsMsg, SessionStep, SocketStep};
use crate::messages::{Ended, Lost};
use crate::platform::observer::Observation;
use crate::platform::plugins::{DeviceList, Registrar};

/// Patience of the socket with this actor, for a registration: its plugin has 10 s to answer.
const REGISTER_LIMIT: Duration = Duration::from_secs(20);
/// The key of waits for the socket.
const SOCKET: &str = "socket";
/// The most resources whose registrations are counted by name.
const COUNTED_MAX: usize = 256;

impl DevicePlugins {
    /// Opens the socket of registrations.
    pub(super) fn serve(&self, context: &mut Context<DevicePluginsMsg>) {
        let (socket, me) = (Arc::clone(&self.args.socket), context.address().clone());
        let registrar: Registrar = Arc::new(move |asked: Registration| {
            let me = me.clone();
            async move {
                let question = |reply| DevicePluginsMsg::Register(asked, reply);
                match me.ask(Cause::outside("device plugin"), REGISTER_LIMIT, question).await {
                    Ok(outcome) => outcome,
                    Err(error) => Err(RegisterRefusal::Unanswered(error.to_string())),
                }
            }
            .boxed()
        });
        let ended = |why| DevicePluginsMsg::Socket(SocketStep::Closed(why));
        context.start("serve registrations", "device plugins", async move { socket.serve(registrar).await }, ended);
    }

    /// Plugins that are in use stay in use.
    pub(super) fn socket_closed(&mut self, why: Result<String, Lost>, context: &mut Context<DevicePluginsMsg>) {
        let why = why.unwrap_or_else(|loss| loss.to_string());
        tracing::error!(error = why, "Error while serving device plugin registration grpc server");
        let wait = self.socket_retries.fail(SOCKET, context.steady());
        context.after(wait.period, DevicePluginsMsg::Socket(SocketStep::OpenDue));
    }

    /// A plugin registers by the agent's socket.
    pub(super) fn register(
        &mut self,
        asked: Registration,
        reply: RpcReplyPort<Result<(), RegisterRefusal>>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let checked = registration::check(&asked);
        if registration::is_resource(&asked.resource) {
            self.count(&asked.resource);
        }
        let endpoint = match checked {
            Ok(endpoint) => endpoint,
            Err(refusal) => {
                tracing::error!(error = %refusal, "Bad registration request from device plugin");
                let _ = reply.send(Err(refusal)); // The plugin may have left.
                return;
            }
        };
        let resource = asked.resource;
        tracing::info!(resource, endpoint, "Got registration request from device plugin with resource");
        self.request += 1;
        self.requests.insert(self.request, reply);
        let (endpoint, origin) = (self.args.socket.endpoint(&endpoint), Origin::Socket { request: self.request });
        self.step(Input::Registered { resource, endpoint, origin }, context);
    }

    /// A label of a metric is a name that somebody else chose, so there is a bound.
    fn count(&mut self, resource: &str) {
        if self.counted.len() < COUNTED_MAX || self.counted.contains(resource) {
            self.counted.insert(resource.to_owned());
            self.args.observer.observe(Observation::DevicePluginRegistered { resource });
        }
    }

    /// A plugin of the plugins' registry waits for the verdict.
    pub(super) fn came(&mut self, plugin: &Plugin, context: &mut Context<DevicePluginsMsg>) {
        let origin = Origin::Registry { socket: plugin.socket.clone(), attempt: plugin.attempt };
        if let Err(why) = registration::check_plugin(plugin) {
            return self.judge(plugin.socket.clone(), plugin.attempt, Err(Refusal::Invalid(why)), context);
        }
        let (resource, endpoint) = (plugin.name.clone(), plugin.endpoint.clone());
        self.step(Input::Registered { resource, endpoint, origin }, context);
    }

    /// Plugins of the registry whose socket is not among these are gone.
    pub(super) fn keep_only(&mut self, sockets: &BTreeSet<String>, context: &mut Context<DevicePluginsMsg>) {
        let known = self.sessions.views().into_iter().filter_map(|view| view.registry_socket);
        let gone: BTreeSet<String> = known.filter(|socket| !sockets.contains(socket)).collect();
        gone.into_iter().for_each(|socket| self.step(Input::Gone(socket), context));
    }

    /// Tells the one who registered how that ended.
    pub(super) fn answer(
        &mut self,
        origin: Origin,
        outcome: Result<(), RegisterRefusal>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        if let Err(refusal) = &outcome {
            tracing::error!(error = %refusal, "Error connecting to device plugin client");
        }
        match origin {
            Origin::Socket { request } => {
                if let Some(reply) = self.requests.remove(&request) {
                    let _ = reply.send(outcome); // The plugin may have left.
                }
            }
            Origin::Registry { socket, attempt } => {
                let outcome = outcome.map_err(|refusal| Refusal::Failed(refusal.to_string()));
                self.judge(socket, attempt, outcome, context);
            }
        }
    }

    fn judge(
        &mut self,
        socket: String,
        attempt: u64,
        outcome: Result<(), Refusal>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let verdict = verdict(&self.args.plugin_watcher, &socket, attempt, outcome);
        self.untold.tell(socket, verdict, context);
    }

    /// Asks a plugin which calls it wants.
    pub(super) fn connect(
        &mut self,
        session: u64,
        resource: String,
        endpoint: String,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let calls = Arc::clone(&self.args.calls);
        let refusal = |error: CallError| match error.problem {
            CallProblem::Unreachable(why) => RegisterRefusal::Dial(why),
            _ => RegisterRefusal::Options(error.to_string()),
        };
        let ended = move |outcome: Result<Result<PluginOptions, _>, Lost>| {
            DevicePluginsMsg::Session(SessionStep::Connected { session, outcome: outcome.into() })
        };
        let work = async move { calls.connect(&endpoint).await.map_err(refusal) };
        let waits = context.start("ask plugin", resource, work, ended);
        self.open.insert(session, Open { waits, list: None });
    }

    /// Waits until a plugin tells its devices.
    pub(super) fn follow(
        &mut self,
        session: u64,
        resource: String,
        list: Arc<dyn DeviceList>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let asked = Arc::clone(&list);
        let ended = move |outcome: Result<Result<_, CallError>, Lost>| {
            DevicePluginsMsg::Session(SessionStep::Listed { session, outcome: outcome.into() })
        };
        let waits = context.start("wait for devices", resource, async move { asked.next().await }, ended);
        self.open.insert(session, Open { waits, list: Some(list) });
    }

    /// A plugin told its devices, or tells no more.
    pub(super) fn listed(
        &mut self,
        session: u64,
        outcome: Ended<Option<BTreeMap<String, Device>>, CallError>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let Some(list) = self.open.get(&session).and_then(|open| open.list.clone()) else { return };
        let why = match outcome.into_result() {
            Ok(Some(devices)) => {
                let resource = self.sessions.resource_of(session).unwrap_or_default();
                self.step(Input::Listed { session, devices }, context);
                return self.follow(session, resource, list, context);
            }
            Ok(None) => "the plugin ended its list of devices".to_owned(),
            Err(error) => error,
        };
        let resource = self.sessions.resource_of(session);
        tracing::error!(resource, error = why, "ListAndWatch ended unexpectedly for device plugin");
        self.step(Input::Ended { session, why }, context);
    }
}
