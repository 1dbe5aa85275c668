//! `EventRecorder`: what was said about each pod and the node, the last of it, with equal ones counted; and from it the
//! Events that the API server has, where one is named. `History` has the last of the whole node.
//!
//! Parent: Root. Restarted: after a failure. Keeps nothing that must survive: the recorder sends each Event once, and logs
//! it then. Those that had not reached the API server yet are lost with it, and equal events are counted from one again, in
//! new objects.

mod history;
mod memory;
mod outlet;

use std::sync::Arc;

use ractor::RpcReplyPort;

use self::history::History;
use self::memory::Memory;
pub use self::memory::{EVENTS_PER_POD_MAX, PODS_MAX};
use self::outlet::Outlet;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::messages::event_recorder::{EventRecorderMsg, PodEvent};
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::host::chance::Chance;

/// The actor's arguments.
pub struct Args {
    /// The node's name: it is the source of every Event.
    pub node_name: String,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Spreads tries.
    pub chance: Arc<dyn Chance>,
}

/// See the module.
pub struct EventRecorder {
    memory: Memory,
    history: History,
    /// Where an API server is named.
    outlet: Option<Outlet>,
    /// Root waits until nothing is on its way.
    flusher: Option<RpcReplyPort<()>>,
}

impl Actor for EventRecorder {
    const KIND: &'static str = "EventRecorder";
    type Msg = EventRecorderMsg;
    type Args = Args;

    fn begin(args: Args, _: &mut Context<EventRecorderMsg>) -> Self {
        let outlet = args.api.as_ref().map(|api| Outlet::new(api, &args.node_name, &args.chance));
        if outlet.is_none() {
            tracing::info!("No api server defined - no events will be sent to API server");
        }
        Self { memory: Memory::default(), history: History::default(), outlet, flusher: None }
    }

    fn receive(&mut self, message: EventRecorderMsg, context: &mut Context<EventRecorderMsg>) {
        match message {
            EventRecorderMsg::Recorded(event) => self.record(event.bounded(), context),
            EventRecorderMsg::SendEnded(outcome) => {
                if let Some(outlet) = &mut self.outlet {
                    outlet.ended(outcome, context);
                }
                self.answer_flusher();
            }
            EventRecorderMsg::RetryDue => {
                if let Some(outlet) = &mut self.outlet {
                    outlet.wait_over(context);
                }
            }
            EventRecorderMsg::Flush(reply) => {
                self.flusher = Some(reply);
                if let Some(outlet) = &mut self.outlet {
                    outlet.hurry(context);
                }
                self.answer_flusher();
            }
            EventRecorderMsg::PodForgotten(uid) => self.memory.forget(&uid),
            EventRecorderMsg::OfPod(uid, reply) => {
                let _ = reply.send(Arc::new(self.memory.of_pod(&uid))); // The asker may have left.
            }
            EventRecorderMsg::Last(watcher, reply) => self.history.answer(watcher, context.now(), reply),
        }
    }
}

impl EventRecorder {
    fn answer_flusher(&mut self) {
        if self.outlet.as_ref().is_none_or(Outlet::is_at_rest)
            && let Some(flusher) = self.flusher.take()
        {
            let _ = flusher.send(()); // Root may have gone on.
        }
    }

    fn record(&mut self, event: PodEvent, context: &mut Context<EventRecorderMsg>) {
        let kind = if event.warning { "Warning" } else { "Normal" };
        if event.is_about_node() {
            let node = &event.full_name.name;
            tracing::info!(target: "podwright::event", node = %node, kind, reason = event.reason.as_str(), "{}", event.message);
        } else if event.is_claim {
            let claim = &event.full_name;
            tracing::info!(target: "podwright::event", claim = %claim, kind, reason = event.reason.as_str(), "{}", event.message);
        } else {
            tracing::info!(
                target: "podwright::event",
                pod = %event.full_name, uid = %event.uid, object = event.field_path,
                kind, reason = event.reason.as_str(), "{}", event.message
            );
        }
        if let Some(outlet) = &mut self.outlet {
            outlet.take(event.clone(), context);
        }
        let event = Arc::new(event);
        self.history.record(&event, context.now());
        // Nobody asks for those of claims alone, and nobody says when they may go.
        if !event.is_claim {
            self.memory.record(event, context.now());
        }
    }
}
