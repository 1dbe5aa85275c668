//! `PluginWatcher`: finds plugins in the registry, asks each who it is, hands it to the actor that uses its kind (RES-47).
//!
//! Parent: Root. Restarted: after a failure; the registry shows every plugin again. How far each registration is, is decided
//! by `logic::plugins::plugin_states`. Each call to a plugin is an operation with a deadline of its own, so a plugin that
//! hangs keeps nobody else. Keeps no connection: the adapters of the protocols have those.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use strum::IntoEnumIterator;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::kit::trace::Cause;
use crate::actors::kit::untold::Untold;
use crate::logic::model::time::Steady;
use crate::logic::plugins::plugin::{PluginKind, Refusal};
use crate::logic::plugins::plugin_states::{Action, Input, PluginStates};
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::plugins::plugin_watcher::{PluginWatcherMsg, RegistryStep, taker};
use crate::messages::root::Child;
use crate::platform::plugins::{PluginRegistration, PluginRegistry};

/// Wait before a broken watch is set up again.
const WATCH_RETRY: Duration = Duration::from_secs(1);
/// Wait before a look that nothing hinted at: the watch may have missed something.
const SCAN_PERIOD: Duration = Duration::from_secs(60);
/// Quiet time after a hint, so that sockets which appear together are looked at once.
const SETTLE: Duration = Duration::from_millis(10);

/// The actor's means.
#[derive(Clone)]
pub struct Args {
    /// Where plugins appear.
    pub registry: Arc<dyn PluginRegistry>,
    /// The handshake with them.
    pub registration: Arc<dyn PluginRegistration>,
    /// Uses storage drivers.
    pub csi_manager: Address<CsiManagerMsg>,
    /// Uses device plugins.
    pub device_plugins: Address<DevicePluginsMsg>,
    /// Uses drivers of resource claims.
    pub claim_manager: Address<ClaimManagerMsg>,
}

/// See the module.
pub struct PluginWatcher {
    args: Args,
    states: PluginStates,
    /// Those who use plugins know which sockets there were at the first look, and which are left.
    looked: bool,
    scans: SingleFlight<()>,
    scan_timer: Option<OperationId>,
    wake: Option<(Steady, OperationId)>,
    /// Plugins whose users had no room for the news that they are gone, by the attempt of their registration. The users get
    /// no other plugin of that kind meanwhile: a newer one at the same socket would go instead.
    untold: Untold<(PluginKind, u64), PluginWatcherMsg>,
}

impl Actor for PluginWatcher {
    const KIND: &'static str = "PluginWatcher";
    type Msg = PluginWatcherMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<PluginWatcherMsg>) -> Self {
        let taken: BTreeSet<PluginKind> = PluginKind::iter().filter(|kind| taker(*kind).is_some()).collect();
        let states = PluginStates::new(taken);
        let mut watcher = Self {
            args,
            states,
            looked: false,
            scans: SingleFlight::default(),
            scan_timer: None,
            wake: None,
            untold: Untold::new(|| PluginWatcherMsg::RetellDue),
        };
        watcher.watch(context);
        watcher.scan(context);
        watcher
    }

    fn receive(&mut self, message: PluginWatcherMsg, context: &mut Context<PluginWatcherMsg>) {
        let input = match message {
            PluginWatcherMsg::Registry(step) => match self.registry(step, context) {
                Some(input) => input,
                None => return,
            },
            PluginWatcherMsg::Greeted { socket, attempt, outcome } => {
                Input::Greeted { socket, attempt, outcome: outcome.into_result() }
            }
            PluginWatcherMsg::Judged { socket, attempt, outcome } => Input::Judged { socket, attempt, outcome },
            PluginWatcherMsg::Notified { socket, attempt, outcome } => {
                Input::Notified { socket, attempt, outcome: outcome.into_result() }
            }
            PluginWatcherMsg::Repeat(child) => {
                self.untold.keep_only(|(kind, _)| taker(*kind) != Some(child)); // It knows of no plugin.
                let lost = PluginKind::iter().filter(|kind| taker(*kind) == Some(child));
                lost.collect::<Vec<_>>().into_iter().for_each(|kind| self.step(Input::TakerLost(kind), context));
                return;
            }
            PluginWatcherMsg::RetryDue => {
                self.wake = None;
                Input::Due
            }
            PluginWatcherMsg::RetellDue => return self.untold.tell_again(context),
            PluginWatcherMsg::List(reply) => {
                let _ = reply.send(self.states.views()); // The asker may have left.
                return;
            }
        };
        self.step(input, context);
    }
}

impl PluginWatcher {
    fn registry(&mut self, step: RegistryStep, context: &mut Context<PluginWatcherMsg>) -> Option<Input> {
        match step {
            // The look under way may have passed the place before the plugin appeared there.
            RegistryStep::Hinted if self.scans.is_under_way() => self.scans.later(()),
            RegistryStep::Hinted => self.scan_in(SETTLE, context),
            RegistryStep::WatchEnded(why) => {
                let why = why.unwrap_or_else(|loss| loss.to_string());
                tracing::debug!(why, "watch of the plugins' registry ended");
                context.after(WATCH_RETRY, PluginWatcherMsg::Registry(RegistryStep::WatchDue));
            }
            RegistryStep::WatchDue => self.watch(context),
            RegistryStep::ScanDue => {
                self.scan_timer = None;
                self.scan(context);
            }
            RegistryStep::Scanned(outcome) => {
                let (_, wanted) = self.scans.end();
                self.scan_in(if wanted.is_some() { SETTLE } else { context.until_repair(SCAN_PERIOD) }, context);
                match outcome.into_result() {
                    Ok(sockets) => {
                        if !self.looked {
                            self.keep_only(Arc::new(sockets.keys().cloned().collect()), context);
                        }
                        return Some(Input::Seen(sockets));
                    }
                    Err(error) => tracing::warn!(error, "plugins cannot be looked for"),
                }
            }
        }
        None
    }

    fn watch(&self, context: &mut Context<PluginWatcherMsg>) {
        let (registry, me) = (Arc::clone(&self.args.registry), context.address().clone());
        let hint = move || {
            // Refused, the look that comes anyway finds what there is.
            let _ = me.tell(Cause::outside("inotify"), PluginWatcherMsg::Registry(RegistryStep::Hinted));
        };
        let work = async move {
            match registry.watch().await {
                Err(error) => error.to_string(),
                Ok(mut hints) => {
                    // Sockets that appeared before the watch began are found by looking once more.
                    hint();
                    while hints.next().await.is_some() {
                        hint();
                    }
                    "the kernel ended it".to_owned()
                }
            }
        };
        let ended = |outcome| PluginWatcherMsg::Registry(RegistryStep::WatchEnded(outcome));
        context.start("watch registry", "plugins", work, ended);
    }

    fn scan(&mut self, context: &mut Context<PluginWatcherMsg>) {
        if self.scans.want(()).is_none() {
            return;
        }
        let registry = Arc::clone(&self.args.registry);
        let ended = |outcome: Result<_, _>| PluginWatcherMsg::Registry(RegistryStep::Scanned(outcome.into()));
        context.start(
            "look for plugins",
            "registry",
            async move { registry.scan().await.map_err(|error| error.to_string()) },
            ended,
        );
    }

    /// Looks after a while; one timer at a time, the newest counts.
    fn scan_in(&mut self, delay: Duration, context: &mut Context<PluginWatcherMsg>) {
        if let Some(timer) = self.scan_timer.take() {
            context.cancel(timer);
        }
        self.scan_timer = Some(context.alarm(delay, PluginWatcherMsg::Registry(RegistryStep::ScanDue)));
    }

    fn step(&mut self, input: Input, context: &mut Context<PluginWatcherMsg>) {
        for action in self.states.step(input, context.clocks()) {
            self.perform(action, context);
        }
        self.arm(context);
    }

    fn perform(&mut self, action: Action, context: &mut Context<PluginWatcherMsg>) {
        let registration = Arc::clone(&self.args.registration);
        match action {
            Action::Greet { socket, attempt } => {
                let (of, about) = (socket.clone(), socket.clone());
                let ended = move |outcome: Result<_, _>| PluginWatcherMsg::Greeted {
                    socket: of,
                    attempt,
                    outcome: outcome.into(),
                };
                context.start(
                    "ask plugin",
                    about,
                    async move { registration.info(&socket).await.map_err(|error| error.to_string()) },
                    ended,
                );
            }
            Action::Notify { socket, attempt, refusal } => {
                if let Some(refusal) = &refusal {
                    tracing::warn!(socket, refusal, "plugin is not used");
                }
                let (of, about) = (socket.clone(), socket.clone());
                let ended = move |outcome: Result<_, _>| PluginWatcherMsg::Notified {
                    socket: of,
                    attempt,
                    outcome: outcome.into(),
                };
                let work = async move {
                    registration.notify(&socket, refusal.as_deref()).await.map_err(|error| error.to_string())
                };
                context.start("tell plugin", about, work, ended);
            }
            Action::HandOver(plugin) => {
                tracing::info!(kind = %plugin.kind, name = plugin.name, endpoint = plugin.endpoint, "plugin found");
                let is_held_up = self.untold.subjects().any(|(kind, _)| *kind == plugin.kind);
                if is_held_up || !tell(&self.args, plugin.kind, PluginNews::Came(Arc::clone(&plugin)), context) {
                    let (socket, attempt) = (plugin.socket.clone(), plugin.attempt);
                    let outcome = Err(Refusal::Failed("too many plugins at a time".to_owned()));
                    self.step(Input::Judged { socket, attempt, outcome }, context);
                }
            }
            Action::TakeBack(plugin) => {
                tracing::info!(kind = %plugin.kind, name = plugin.name, "plugin is gone");
                let (to, subject) = (self.args.clone(), (plugin.kind, plugin.attempt));
                let gone = move |context: &Context<PluginWatcherMsg>| {
                    tell(&to, plugin.kind, PluginNews::Gone(Arc::clone(&plugin)), context)
                };
                self.untold.tell(subject, gone, context);
            }
            Action::KeepOnly(sockets) => self.keep_only(sockets, context),
        }
    }

    /// Tells all who use plugins that there are no others. Where somebody had no room, it does so again after the next look.
    fn keep_only(&mut self, sockets: Arc<BTreeSet<String>>, context: &Context<PluginWatcherMsg>) {
        let kinds = PluginKind::iter().filter(|kind| taker(*kind).is_some());
        let told = kinds.map(|kind| tell(&self.args, kind, PluginNews::Sockets(Arc::clone(&sockets)), context));
        // Each one gets the news, whether or not the one before had room.
        self.looked = !told.collect::<Vec<_>>().contains(&false);
    }

    /// One timer, for the next try.
    fn arm(&mut self, context: &mut Context<PluginWatcherMsg>) {
        let due = self.states.wake_at(context.steady());
        if self.wake.as_ref().map(|(at, _)| *at) == due {
            return;
        }
        if let Some((_, timer)) = self.wake.take() {
            context.cancel(timer);
        }
        if let Some(at) = due {
            let delay = at.since(context.steady()) + Duration::from_millis(1);
            self.wake = Some((at, context.after(delay, PluginWatcherMsg::RetryDue)));
        }
    }
}

/// Tells the actor that uses such plugins; says whether there was room. One that is down has all repeated.
fn tell(to: &Args, kind: PluginKind, news: PluginNews, context: &Context<PluginWatcherMsg>) -> bool {
    match taker(kind) {
        Some(Child::CsiManager) => context.try_tell(&to.csi_manager, CsiManagerMsg::Plugin(news)),
        Some(Child::DevicePlugins) => context.try_tell(&to.device_plugins, DevicePluginsMsg::Plugin(news)),
        Some(Child::ClaimManager) => context.try_tell(&to.claim_manager, ClaimManagerMsg::Plugin(news)),
        _ => false,
    }
}
