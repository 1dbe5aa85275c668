//! Calls to device plugins for others: each is an operation, and whoever asked has the answer from it.

use std::sync::Arc;

use ractor::RpcReplyPort;

use super::DevicePlugins;
use crate::actors::kit::context::Context;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::resources::device_manager::devices::DeviceGrant;
use crate::messages::plugins::device_plugins::{DeviceCallError, DevicePluginsMsg, DeviceUse, Preference, SessionStep};
use crate::messages::{Ended, Lost};
use crate::platform::observer::Observation;

/// Calls of one resource that are open or wait for a place; more are refused at once.
const CALLS_MAX: usize = 256;

/// Takes the answer to a call.
type Reply<T> = RpcReplyPort<Result<T, DeviceCallError>>;

impl DevicePlugins {
    /// Without the plugin's wish for such calls it prefers nothing.
    pub(super) fn prefer(
        &mut self,
        wanted: Preference,
        reply: Reply<Vec<String>>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let Preference { resource, available, required, count } = wanted;
        let Some(plugin) = self.sessions.live(&resource) else { return stopped(resource, reply) };
        if !plugin.options.preferred {
            let _ = reply.send(Ok(vec![])); // The asker may have left.
            return;
        }
        let calls = Arc::clone(&self.args.calls);
        let work = async move { calls.prefer(&plugin.endpoint, available, required, count).await };
        self.call("GetPreferredAllocation", resource, reply, work, context);
    }

    /// Gives devices to a container.
    pub(super) fn allocate(
        &mut self,
        wanted: DeviceUse,
        reply: Reply<DeviceGrant>,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let DeviceUse { resource, ids } = wanted;
        let Some(plugin) = self.sessions.live(&resource) else { return stopped(resource, reply) };
        let (calls, observer) = (Arc::clone(&self.args.calls), Arc::clone(&self.args.observer));
        let (clock, name) = (Arc::clone(context.clock()), resource.clone());
        let work = async move {
            let began = clock.uptime();
            let outcome = calls.allocate(&plugin.endpoint, ids).await;
            let took = clock.uptime().saturating_sub(began);
            observer.observe(Observation::DevicesAllocated { resource: &name, took });
            outcome
        };
        self.call("Allocate", resource, reply, work, context);
    }

    /// As upstream, a plugin that never wanted such calls need not be there, nor one that an earlier run of the agent knew.
    pub(super) fn pre_start(&mut self, wanted: DeviceUse, reply: Reply<()>, context: &mut Context<DevicePluginsMsg>) {
        let DeviceUse { resource, ids } = wanted;
        if !self.sessions.options(&resource).pre_start {
            let _ = reply.send(Ok(())); // The asker may have left.
            return;
        }
        let Some(plugin) = self.sessions.live(&resource) else { return stopped(resource, reply) };
        let calls = Arc::clone(&self.args.calls);
        let work = async move { calls.pre_start(&plugin.endpoint, ids).await };
        self.call("PreStartContainer", resource, reply, work, context);
    }

    fn call<T: Send + 'static>(
        &mut self,
        method: &'static str,
        resource: String,
        reply: Reply<T>,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
        context: &mut Context<DevicePluginsMsg>,
    ) {
        let calling = self.calling.entry(resource.clone()).or_default();
        if *calling >= CALLS_MAX {
            let error = CallError { method, problem: CallProblem::Busy { open: CALLS_MAX } };
            let _ = reply.send(Err(DeviceCallError::Call(error))); // The asker may have left.
            return;
        }
        *calling += 1;
        let about = resource.clone();
        let work = async move {
            let outcome = work.await;
            let failed = outcome.as_ref().err().cloned();
            let _ = reply.send(outcome.map_err(DeviceCallError::Call)); // The asker may have left.
            failed.map_or(Ok(()), Err)
        };
        let ended = move |outcome: Result<Result<(), CallError>, Lost>| {
            DevicePluginsMsg::Session(SessionStep::Called { resource, outcome: outcome.into() })
        };
        context.start(method, about, work, ended);
    }

    /// A call ended.
    pub(super) fn called(&mut self, resource: &str, outcome: Ended<(), CallError>) {
        if let Some(calling) = self.calling.get_mut(resource) {
            *calling = calling.saturating_sub(1);
            if *calling == 0 {
                self.calling.remove(resource);
            }
        }
        if let Err(error) = outcome.into_result() {
            tracing::warn!(resource, error, "a call to a device plugin failed");
            self.sessions.note_error(resource, error);
        }
    }
}

fn stopped<T>(resource: String, reply: Reply<T>) {
    let _ = reply.send(Err(DeviceCallError::Stopped(resource))); // The asker may have left.
}
