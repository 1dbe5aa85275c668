//! Drivers: who they are, whether they are there, and what of theirs goes from the API once they are not (RES-48, RES-49).

use std::sync::Arc;

use super::ClaimManager;
use super::operations::{watch, wipe};
use crate::actors::kit::context::Context;
use crate::actors::plugins::verdict::verdict;
use crate::logic::model::time::Steady;
use crate::logic::plugins::claims::drivers::choose;
use crate::logic::plugins::plugin::{Plugin, Refusal};
use crate::messages::Ended;
use crate::messages::plugins::PluginNews;
use crate::messages::plugins::claim_manager::{ClaimManagerMsg, DriverStep};

impl ClaimManager {
    pub(super) fn take_news(&mut self, news: PluginNews, context: &mut Context<ClaimManagerMsg>) {
        match news {
            PluginNews::Came(plugin) => self.came(plugin, context),
            PluginNews::Gone(plugin) => self.gone(&plugin, context),
            PluginNews::Sockets(sockets) => {
                let lost = self.drivers.all().filter(|instance| !sockets.contains(&instance.plugin.socket));
                let lost: Vec<Arc<Plugin>> = lost.map(|instance| Arc::clone(&instance.plugin)).collect();
                lost.iter().for_each(|plugin| self.gone(plugin, context));
            }
        }
    }

    fn came(&mut self, plugin: Arc<Plugin>, context: &mut Context<ClaimManagerMsg>) {
        let added = choose(&plugin).map_err(Refusal::Invalid).and_then(|service| {
            self.drivers.add(Arc::clone(&plugin), service, context.steady()).map_err(Refusal::Failed)
        });
        let verdict = verdict(&self.args.plugin_watcher, &plugin.socket, plugin.attempt, added.clone());
        self.untold.tell(plugin.socket.clone(), verdict, context);
        if added.is_ok() {
            self.watch(plugin, context);
        }
    }

    fn watch(&mut self, plugin: Arc<Plugin>, context: &mut Context<ClaimManagerMsg>) {
        let (socket, of, about) = (plugin.socket.clone(), Arc::clone(&plugin), plugin.name.clone());
        let work = watch(Arc::clone(&self.args.calls), plugin, self.args.gates.health, context.address().clone());
        let ended =
            move |outcome: Result<_, _>| ClaimManagerMsg::Driver(DriverStep::WatchEnded(of, Ended::from(outcome)));
        let watched = context.start("watch driver", about, work, ended);
        if let Some(former) = self.watches.insert(socket, watched) {
            context.cancel(former);
        }
    }

    fn gone(&mut self, plugin: &Plugin, context: &mut Context<ClaimManagerMsg>) {
        if let Some(watched) = self.watches.remove(&plugin.socket) {
            context.cancel(watched);
        }
        self.drivers.remove(plugin, context.steady());
        self.forget_health(plugin, context);
    }

    pub(super) fn driver_step(&mut self, step: DriverStep, context: &mut Context<ClaimManagerMsg>) {
        match step {
            DriverStep::Connected(plugin, connected) => {
                self.drivers.set_connected(&plugin, connected, context.steady());
                if connected && let Some(wiping) = self.wiping.remove(&Some(plugin.name.clone())) {
                    context.cancel(wiping); // It came back while the API server could not be reached.
                }
            }
            DriverStep::Health(plugin, devices) => self.take_health(&plugin, devices, context),
            DriverStep::WatchEnded(plugin, outcome) => {
                tracing::error!(driver = plugin.name, ?outcome, "the watch over a driver failed");
                if self.drivers.all().any(|instance| instance.plugin.attempt == plugin.attempt) {
                    self.drivers.set_connected(&plugin, false, context.steady());
                    self.watch(plugin, context);
                }
            }
            DriverStep::Due => {
                self.wake = None;
                for driver in self.drivers.take_wipes(context.steady()) {
                    self.wipe(Some(driver), context);
                }
                self.expire_health(context);
            }
            DriverStep::RetellDue => self.untold.tell_again(context),
            DriverStep::Wiped(driver, outcome) => {
                self.wiping.remove(&driver);
                if let Ended::Lost(why) = outcome {
                    tracing::error!(%why, driver, "ResourceSlices are not deleted");
                }
            }
            DriverStep::HealthWritten(outcome) => self.health_written(outcome, context),
        }
    }

    /// Deletes ResourceSlices of this node: those of a driver, or all. Without an API server there are none.
    pub(super) fn wipe(&mut self, driver: Option<String>, context: &mut Context<ClaimManagerMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let (of, about) = (driver.clone(), driver.clone().unwrap_or_else(|| "all drivers".to_owned()));
        let work = wipe(api, self.args.node_name.clone(), driver.clone(), Arc::clone(context.clock()));
        let ended = |outcome: Result<_, _>| ClaimManagerMsg::Driver(DriverStep::Wiped(of, outcome.into()));
        let wiping = context.start("delete ResourceSlices", about, work, ended);
        if let Some(former) = self.wiping.insert(driver, wiping) {
            context.cancel(former);
        }
    }

    /// One timer, for what is due next.
    pub(super) fn arm(&mut self, context: &mut Context<ClaimManagerMsg>) {
        let health: Option<Steady> = self.devices.look_at();
        let due = self.drivers.wake_at().into_iter().chain(health).min();
        if self.wake.as_ref().map(|(at, _)| *at) == due {
            return;
        }
        if let Some((_, timer)) = self.wake.take() {
            context.cancel(timer);
        }
        if let Some(at) = due {
            let message = ClaimManagerMsg::Driver(DriverStep::Due);
            self.wake = Some((at, context.alarm(at.since(context.steady()), message)));
        }
    }
}
