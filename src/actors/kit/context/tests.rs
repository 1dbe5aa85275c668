//! Operations of many parts, under paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::actors::node::tests::played_agent;
use crate::actors::played_api::ObjectServer;
use crate::messages::describe;

type Ends = Vec<(u8, Result<Duration, String>)>;

#[derive(Debug, strum::IntoStaticStr)]
enum PlayMsg {
    Ended(Ends),
    CancelDue,
    EndsSoFar(ractor::RpcReplyPort<Vec<Ends>>),
}

describe!(PlayMsg, _message => None);

/// Begins works of so many seconds each, all at once; one of 0 s panics. Cancels the last after a second and a half.
struct Player {
    parts: Vec<Part>,
    heard: Vec<Ends>,
}

impl Actor for Player {
    const KIND: &'static str = "Player";
    type Msg = PlayMsg;
    type Args = Vec<u8>;

    fn begin(lengths: Vec<u8>, context: &mut Context<PlayMsg>) -> Self {
        let work = |length: u8| async move {
            let length = Duration::from_secs(length.into());
            assert!(!length.is_zero(), "too short");
            tokio::time::sleep(length).await;
            length
        };
        let works = lengths.into_iter().enumerate().map(|(number, length)| (number, work(length))).collect();
        let parts = context.start_each("play", "all", works, |ends| {
            let end = |(number, outcome): (usize, Result<Duration, Panicked>)| {
                (u8::try_from(number).expect("few"), outcome.map_err(|panicked| panicked.0))
            };
            PlayMsg::Ended(ends.into_iter().map(end).collect())
        });
        context.after(Duration::from_millis(1500), PlayMsg::CancelDue);
        Self { parts, heard: vec![] }
    }

    fn receive(&mut self, message: PlayMsg, _: &mut Context<PlayMsg>) {
        match message {
            PlayMsg::Ended(mut ends) => {
                ends.sort();
                self.heard.push(ends);
            }
            PlayMsg::CancelDue => self.parts.last().into_iter().for_each(Part::cancel),
            PlayMsg::EndsSoFar(reply) => {
                let _ = reply.send(self.heard.clone()); // The test may have failed.
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn parts_that_end_together_are_one_message_and_a_panic_is_its_parts_own() {
    let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
    let address = Address::new(&agent.trace, "player", "Player", "Root", 4);
    spawn::<Player>(&address, vec![1, 3, 0, 1, 5], None);
    let heard = async |seconds: f64| {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        let limit = Duration::from_secs(1);
        address.ask(Cause::outside("test"), limit, PlayMsg::EndsSoFar).await.expect("answered")
    };
    let second = |length: u64| Ok(Duration::from_secs(length));
    let mut expected = vec![vec![(2, Err("too short".to_owned()))]];
    assert_eq!(heard(0.5).await, expected);
    expected.push(vec![(0, second(1)), (3, second(1))]);
    assert_eq!(heard(0.7).await, expected);
    assert_eq!(agent.trace.open_operations(), ["play"]);
    // Nothing more comes of the cancelled one, and the operation's end does not wait for it.
    expected.push(vec![(1, second(3))]);
    assert_eq!(heard(2.0).await, expected);
    assert!(agent.trace.open_operations().is_empty());
    assert_eq!(heard(3.0).await, expected);
}

/// Counts the incarnations that nobody could have told anything when they began.
struct Early;

impl Actor for Early {
    const KIND: &'static str = "Early";
    type Msg = PlayMsg;
    type Args = Arc<AtomicUsize>;

    fn begin(unreachable: Self::Args, context: &mut Context<PlayMsg>) -> Self {
        if !context.address().is_up() {
            unreachable.fetch_add(1, Ordering::SeqCst);
        }
        Self
    }

    fn receive(&mut self, message: PlayMsg, _: &mut Context<PlayMsg>) {
        if let PlayMsg::EndsSoFar(reply) = message {
            let _ = reply.send(vec![]); // The test may have failed.
        }
    }
}

/// The answer to an actor's first words may come before its parent goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_can_be_reached_from_its_beginning_on_whatever_thread_it_begins() {
    let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
    let unreachable = Arc::new(AtomicUsize::new(0));
    for _ in 0..2000 {
        let address = Address::new(&agent.trace, "early", "Early", "Root", 4);
        let cell = spawn::<Early>(&address, Arc::clone(&unreachable), None);
        let limit = Duration::from_secs(60);
        address.ask(Cause::outside("test"), limit, PlayMsg::EndsSoFar).await.expect("answered");
        cell.stop(None);
    }
    assert_eq!(unreachable.load(Ordering::SeqCst), 0);
}
