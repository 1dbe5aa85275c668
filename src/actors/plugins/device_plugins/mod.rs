//! `DevicePlugins`: talks to device plugins: takes their registrations, follows their devices, calls them for others.
//!
//! Parent: Root. Restarted: after a failure; the socket of registrations is then made anew, so that plugins register once
//! more, and `PluginWatcher` hands over those of its registry. How far each session is, is decided by
//! `logic::plugins::device_sessions`; which device a container gets, by `AllocationManager`. Each call is an operation with a
//! deadline, so a plugin that hangs keeps nobody else.

mod calls;
mod registering;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::untold::Untold;
use crate::logic::model::backoff::{Backoff, BackoffPolicy};
use crate::logic::model::time::Steady;
use crate::logic::plugins::device_registration::RegisterRefusal;
use crate::logic::plugins::device_sessions::{Action, DeviceSessions, Input};
use crate::messages::Ended;
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::device_plugins::{DevicePluginsMsg, SessionStep, SocketStep};
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg};
use crate::platform::observer::Observer;
use crate::platform::plugins::{DeviceCalls, DeviceList, DeviceSocket};

/// Waits before the socket of registrations is opened again.
const SOCKET_RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
    reset: Duration::from_secs(600),
};
/// Wait before the inventory goes again to one who had no room for it.
const TELL_RETRY: Duration = Duration::from_secs(1);

/// The actor's means.
pub struct Args {
    /// Calls plugins.
    pub calls: Arc<dyn DeviceCalls>,
    /// Where plugins register.
    pub socket: Arc<dyn DeviceSocket>,
    /// Counts registrations, and measures calls.
    pub observer: Arc<dyn Observer>,
    /// Hears the verdicts about plugins of its registry.
    pub plugin_watcher: Address<PluginWatcherMsg>,
    /// Hears which devices there are, and tells the Node of them once the disk names them.
    pub allocation_manager: Address<AllocationManagerMsg>,
}

/// A session with a plugin.
struct Open {
    /// The question to the plugin that waits for an answer.
    waits: OperationId,
    /// Its devices, once they are followed.
    list: Option<Arc<dyn DeviceList>>,
}

/// See the module.
pub struct DevicePlugins {
    args: Args,
    sessions: DeviceSessions,
    open: BTreeMap<u64, Open>,
    /// Registrations by the agent's socket that wait for their answer, by number.
    requests: BTreeMap<u64, RpcReplyPort<Result<(), RegisterRefusal>>>,
    /// The number of the last one.
    request: u64,
    /// Calls that are open or wait, by resource.
    calling: BTreeMap<String, usize>,
    /// Resources whose registrations are counted.
    counted: BTreeSet<String>,
    socket_retries: Backoff,
    /// Somebody had no room for the newest inventory.
    is_untold: bool,
    /// Verdicts that `PluginWatcher` had no room for, by socket.
    untold: Untold<String, DevicePluginsMsg>,
    wake: Option<(Steady, OperationId)>,
}

impl Actor for DevicePlugins {
    const KIND: &'static str = "DevicePlugins";
    type Msg = DevicePluginsMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<DevicePluginsMsg>) -> Self {
        let plugins = Self {
            args,
            sessions: DeviceSessions::default(),
            open: BTreeMap::new(),
            requests: BTreeMap::new(),
            request: 0,
            calling: BTreeMap::new(),
            counted: BTreeSet::new(),
            socket_retries: Backoff::new(SOCKET_RETRY),
            is_untold: false,
            untold: Untold::new(|| DevicePluginsMsg::Session(SessionStep::RetellDue)),
            wake: None,
        };
        plugins.serve(context);
        plugins
    }

    fn receive(&mut self, message: DevicePluginsMsg, context: &mut Context<DevicePluginsMsg>) {
        match message {
            DevicePluginsMsg::Plugin(PluginNews::Came(plugin)) => self.came(&plugin, context),
            DevicePluginsMsg::Plugin(PluginNews::Gone(plugin)) => {
                self.step(Input::Gone(plugin.socket.clone()), context);
            }
            DevicePluginsMsg::Plugin(PluginNews::Sockets(sockets)) => self.keep_only(&sockets, context),
            DevicePluginsMsg::Register(registration, reply) => self.register(registration, reply, context),
            DevicePluginsMsg::Prefer(preference, reply) => self.prefer(preference, reply, context),
            DevicePluginsMsg::Allocate(wanted, reply) => self.allocate(wanted, reply, context),
            DevicePluginsMsg::PreStart(wanted, reply) => self.pre_start(wanted, reply, context),
            DevicePluginsMsg::Remembered(names) => {
                self.step(Input::Remembered(names), context);
                self.publish(context);
            }
            DevicePluginsMsg::Socket(SocketStep::Closed(why)) => self.socket_closed(why, context),
            DevicePluginsMsg::Socket(SocketStep::OpenDue) => self.serve(context),
            DevicePluginsMsg::Session(step) => self.session(step, context),
            DevicePluginsMsg::List(reply) => {
                let _ = reply.send(self.sessions.views()); // The asker may have left.
            }
            DevicePluginsMsg::Repeat => self.publish(context),
        }
    }
}

impl DevicePlugins {
    fn session(&mut self, step: SessionStep, context: &mut Context<DevicePluginsMsg>) {
        match step {
            SessionStep::Connected { session, outcome } => {
                let outcome = match outcome {
                    Ended::Done(options) => Ok(options),
                    Ended::Failed(refusal) => Err(refusal),
                    Ended::Lost(loss) => Err(RegisterRefusal::Options(loss.to_string())),
                };
                self.step(Input::Connected { session, outcome }, context);
            }
            SessionStep::Listed { session, outcome } => self.listed(session, outcome, context),
            SessionStep::Called { resource, outcome } => self.called(&resource, outcome),
            SessionStep::RetellDue => self.untold.tell_again(context),
            SessionStep::Due => {
                self.wake = None;
                if self.is_untold {
                    self.publish(context);
                }
                self.step(Input::Due, context);
            }
        }
    }

    fn step(&mut self, input: Input, context: &mut Context<DevicePluginsMsg>) {
        for action in self.sessions.step(input, context.clocks()) {
            self.perform(action, context);
        }
        self.arm(context);
    }

    fn perform(&mut self, action: Action, context: &mut Context<DevicePluginsMsg>) {
        match action {
            Action::Connect { session, resource, endpoint } => self.connect(session, resource, endpoint, context),
            Action::Watch { session, resource, endpoint } => {
                tracing::info!(resource, endpoint, "device plugin connected");
                let list = self.args.calls.list(&endpoint);
                self.follow(session, resource, list, context);
            }
            Action::Drop { session } => {
                if let Some(open) = self.open.remove(&session) {
                    context.cancel(open.waits);
                }
            }
            Action::Answer { origin, outcome } => self.answer(origin, outcome, context),
            Action::Publish => self.publish(context),
        }
    }

    /// Tells the newest inventory to the one who gives devices, who waits for the first one.
    fn publish(&mut self, context: &mut Context<DevicePluginsMsg>) {
        let message = AllocationManagerMsg::Hardware(HardwareMsg::Devices(Arc::new(self.sessions.inventory())));
        self.is_untold = !context.try_tell(&self.args.allocation_manager, message);
        self.arm(context);
    }

    /// One timer, for whatever is next.
    fn arm(&mut self, context: &mut Context<DevicePluginsMsg>) {
        let again = self.is_untold.then(|| context.steady().plus(TELL_RETRY));
        let due = self.sessions.wake_at().into_iter().chain(again).min();
        if let (Some((at, _)), Some(due)) = (&self.wake, due)
            && *at <= due
        {
            return; // It comes early enough.
        }
        if let Some((_, timer)) = self.wake.take() {
            context.cancel(timer);
        }
        if let Some(at) = due {
            let delay = at.since(context.steady()) + Duration::from_millis(1);
            self.wake = Some((at, context.alarm(delay, DevicePluginsMsg::Session(SessionStep::Due))));
        }
    }
}
