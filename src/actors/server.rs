//! `Server`: keeps the agent's listening sockets open. Their answers are in `crate::server`.
//!
//! Parent: Root. Restarted: after a failure; keeps nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::messages::server::ServerMsg;

/// Wait before a listener that failed is opened again.
const LISTEN_RETRY: Duration = Duration::from_secs(5);

/// One of the agent's listening sockets.
#[async_trait::async_trait]
pub trait Listener: Send + Sync {
    /// The protocol and the place, for people.
    fn name(&self) -> String;
    /// Listens and answers until it fails; says why.
    async fn serve(&self) -> String;
}

/// The actor's arguments.
pub struct Args {
    /// The listeners, with their answers.
    pub listeners: Vec<Arc<dyn Listener>>,
}

/// See the module.
pub struct Server {
    listeners: Vec<Arc<dyn Listener>>,
}

impl Actor for Server {
    const KIND: &'static str = "Server";
    type Msg = ServerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ServerMsg>) -> Self {
        let server = Self { listeners: args.listeners };
        for listener in 0..server.listeners.len() {
            server.listen(listener, context);
        }
        server
    }

    fn receive(&mut self, message: ServerMsg, context: &mut Context<ServerMsg>) {
        match message {
            ServerMsg::ListenerEnded { listener, why } => {
                let why = why.unwrap_or_else(|loss| loss.to_string());
                let name = self.listeners[listener].name();
                tracing::error!(listener = name, why, "listener ended, it is opened again");
                context.after(LISTEN_RETRY, ServerMsg::ListenDue(listener));
            }
            ServerMsg::ListenDue(listener) => self.listen(listener, context),
        }
    }
}

impl Server {
    fn listen(&self, number: usize, context: &mut Context<ServerMsg>) {
        let listener = Arc::clone(&self.listeners[number]);
        let name = listener.name();
        let work = async move { listener.serve().await };
        context.start("listen", name, work, move |why| ServerMsg::ListenerEnded { listener: number, why });
    }
}
