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
            let end = |(number, outcome): (usize, Result<Duration, Lost>)| {
                (u8::try_from(number).expect("few"), outcome.map_err(|loss| loss.to_string()))
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
    let mut expected = vec![vec![(2, Err("operation panicked: too short".to_owned()))]];
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

/// Begins an operation of each name; none ends by itself.
struct Waiter(Vec<Ends>);

impl Actor for Waiter {
    const KIND: &'static str = "Waiter";
    type Msg = PlayMsg;
    type Args = Vec<&'static str>;

    fn begin(names: Self::Args, context: &mut Context<PlayMsg>) -> Self {
        for (number, name) in (0..).zip(names) {
            context.start(name, "all", std::future::pending::<Duration>(), move |end| {
                PlayMsg::Ended(vec![(number, end.map_err(|loss| loss.to_string()))])
            });
        }
        Self(vec![])
    }

    fn receive(&mut self, message: PlayMsg, _: &mut Context<PlayMsg>) {
        match message {
            PlayMsg::Ended(ends) => self.0.push(ends),
            PlayMsg::CancelDue => {}
            PlayMsg::EndsSoFar(reply) => {
                let _ = reply.send(self.0.clone()); // The test may have failed.
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_late_and_reading_is_given_up() {
    let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
    let address = Address::new(&agent.trace, "waiter", "Waiter", "Root", 4);
    spawn::<Waiter>(&address, vec!["watch node", "clean up", "relist", "pull image"], None);
    let waited = async |minutes: u64| {
        tokio::time::sleep(Duration::from_mins(minutes)).await;
        let limit = Duration::from_secs(1);
        let ends = address.ask(Cause::outside("test"), limit, PlayMsg::EndsSoFar).await.expect("answered");
        let late: Vec<&str> = agent.trace.late().iter().map(|late| late.name).collect();
        (ends, late, agent.trace.load()["Waiter"].late)
    };
    assert_eq!(waited(5).await, (vec![], vec![], 0), "it is late after its time, not at it");
    assert_eq!(waited(1).await, (vec![], vec!["clean up", "relist"], 2));
    let told = agent.trace.late()[0].to_string();
    assert_eq!(told, "waiter is late: clean up (all) has been under way for 360 s, and should end within 300 s");
    let given_up = vec![vec![(2, Err("operation given up after 1800 s".to_owned()))]];
    assert_eq!(waited(25).await, (given_up.clone(), vec!["clean up"], 1));
    assert_eq!(agent.trace.kinds()["Waiter"].given_up, 1);
    assert_eq!(waited(30).await, (given_up, vec!["clean up", "pull image"], 2));
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
