//! One timer for several wishes: its message comes when the first of them is due.
//!
//! Owned by the actor. A wait that is long must not hold up a shorter one, whichever was wished for first.

use std::time::Duration;

use super::context::{Context, OperationId};
use crate::logic::model::time::Steady;
use crate::messages::Describe;

/// See the module.
#[derive(Debug, Default)]
pub struct Earliest(Option<(Steady, OperationId)>);

impl Earliest {
    /// Has `message` told after `delay` at the latest.
    pub fn within<M: Describe + Send + 'static>(&mut self, delay: Duration, message: M, context: &mut Context<M>) {
        let due = context.steady().plus(delay);
        match self.0 {
            Some((at, _)) if at <= due => return,
            Some((_, later)) => context.cancel(later),
            None => {}
        }
        self.0 = Some((due, context.after(delay, message)));
    }

    /// The message has come.
    pub fn came(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kit::actor::{Actor, spawn};
    use crate::actors::kit::address::Address;
    use crate::actors::kit::trace::Cause;
    use crate::actors::node::tests::played_agent;
    use crate::actors::played_api::ObjectServer;
    use crate::messages::describe;

    #[derive(Debug, strum::IntoStaticStr)]
    enum WakeMsg {
        Due,
        Counted(ractor::RpcReplyPort<usize>),
    }

    describe!(WakeMsg, _message => None);

    /// Wants to be woken within each of these seconds, and again within 40 when it was.
    struct Sleeper {
        timer: Earliest,
        woken: usize,
    }

    impl Actor for Sleeper {
        const KIND: &'static str = "Sleeper";
        type Msg = WakeMsg;
        type Args = Vec<u64>;

        fn begin(wishes: Vec<u64>, context: &mut Context<WakeMsg>) -> Self {
            let mut timer = Earliest::default();
            wishes.into_iter().for_each(|wish| timer.within(Duration::from_secs(wish), WakeMsg::Due, context));
            Self { timer, woken: 0 }
        }

        fn receive(&mut self, message: WakeMsg, context: &mut Context<WakeMsg>) {
            match message {
                WakeMsg::Due => {
                    self.timer.came();
                    self.woken += 1;
                    self.timer.within(Duration::from_secs(40), WakeMsg::Due, context);
                }
                WakeMsg::Counted(reply) => reply.send(self.woken).expect("the test waits"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_wish_counts_whenever_it_was_made() {
        let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
        for wishes in [vec![100, 5, 30], vec![5, 100], vec![30, 5, 5]] {
            let address = Address::new(&agent.trace, &format!("{wishes:?}"), "Sleeper", "Root", 4);
            spawn::<Sleeper>(&address, wishes.clone(), None);
            for (seconds, woken) in [(4, 0), (2, 1), (38, 1), (2, 2), (39, 2)] {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let counted = address.ask(Cause::outside("test"), Duration::from_secs(1), WakeMsg::Counted).await;
                assert_eq!(counted, Ok(woken), "{wishes:?}");
            }
        }
    }
}
