//! Verdicts about plugins, on their way to `PluginWatcher`: a plugin without one waits for ever, and nobody repeats it.

use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::logic::plugins::plugin::Refusal;
use crate::messages::Describe;
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;

/// Tells a verdict; says whether there was room.
pub(super) fn verdict<M: Describe + Send + 'static>(
    watcher: &Address<PluginWatcherMsg>,
    socket: &str,
    attempt: u64,
    outcome: Result<(), Refusal>,
) -> impl Fn(&Context<M>) -> bool + Send + 'static + use<M> {
    let (watcher, socket) = (watcher.clone(), socket.to_owned());
    move |context: &Context<M>| {
        let (socket, outcome) = (socket.clone(), outcome.clone());
        context.try_tell(&watcher, PluginWatcherMsg::Judged { socket, attempt, outcome })
    }
}

#[cfg(test)]
mod tests;
