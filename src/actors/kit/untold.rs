//! News that a full mailbox refused, told again until there is room.
//!
//! Owned by the actor that tells. For news that nobody else repeats. Of each subject the newest counts alone, so that the
//! things which the actor knows bound it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::{Context, OperationId};
use crate::messages::Describe;

/// Wait before refused news go out again; doubled as long as there is no room, up to [`WAIT_MAX`].
const WAIT: Duration = Duration::from_millis(100);
/// The longest such wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Tells the news; says whether there was room.
type Tell<M> = Box<dyn Fn(&Context<M>) -> bool + Send>;

/// See the module.
pub struct Untold<K, M> {
    /// Makes the message of the timer.
    due: fn() -> M,
    news: BTreeMap<K, Tell<M>>,
    timer: Option<OperationId>,
    wait: Duration,
}

impl<K: Ord, M: Describe + Send + 'static> Untold<K, M> {
    /// Nothing is owed. The actor calls [`Self::tell_again`] when it gets the message that `due` makes.
    pub fn new(due: fn() -> M) -> Self {
        Self { due, news: BTreeMap::new(), timer: None, wait: WAIT }
    }

    /// Tells news of a subject, in the place of older ones. `tell` says whether there was room, and is called again where
    /// there was none.
    pub fn tell(&mut self, subject: K, tell: impl Fn(&Context<M>) -> bool + Send + 'static, context: &mut Context<M>) {
        if tell(context) {
            self.news.remove(&subject);
        } else {
            self.news.insert(subject, Box::new(tell));
            self.arm(context);
        }
    }

    /// The timer ran out: tells all that is owed.
    pub fn tell_again(&mut self, context: &mut Context<M>) {
        self.timer = None;
        self.news.retain(|_, tell| !tell(context));
        self.arm(context);
    }

    /// The subjects whose news are owed.
    pub fn subjects(&self) -> impl Iterator<Item = &K> {
        self.news.keys()
    }

    /// Keeps only news of these subjects: of others there is nothing to tell any more.
    pub fn keep_only(&mut self, is_kept: impl Fn(&K) -> bool) {
        self.news.retain(|subject, _| is_kept(subject));
    }

    fn arm(&mut self, context: &mut Context<M>) {
        if self.news.is_empty() {
            self.wait = WAIT;
        } else if self.timer.is_none() {
            self.timer = Some(context.alarm(self.wait, (self.due)()));
            self.wait = (self.wait * 2).min(WAIT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kit::actor::{Actor, spawn};
    use crate::actors::kit::address::Address;
    use crate::actors::kit::tests::{Heard, fill, listen, make_room};
    use crate::actors::kit::trace::Cause;
    use crate::actors::node::tests::played_agent;
    use crate::actors::played_api::ObjectServer;
    use crate::messages::describe;

    #[derive(Debug, strum::IntoStaticStr)]
    enum SpeakMsg {
        Say(&'static str, u32),
        Forget(&'static str),
        Due,
    }

    describe!(SpeakMsg);

    #[derive(Debug, strum::IntoStaticStr)]
    enum WordMsg {
        #[expect(dead_code, reason = "the test reads its debug form")]
        Word(&'static str, u32),
    }

    describe!(WordMsg);

    /// Tells a listener numbers, each about a subject.
    struct Speaker {
        listener: Address<WordMsg>,
        untold: Untold<&'static str, SpeakMsg>,
    }

    impl Actor for Speaker {
        const KIND: &'static str = "Speaker";
        type Msg = SpeakMsg;
        type Args = Address<WordMsg>;

        fn begin(listener: Self::Args, _: &mut Context<SpeakMsg>) -> Self {
            Self { listener, untold: Untold::new(|| SpeakMsg::Due) }
        }

        fn receive(&mut self, message: SpeakMsg, context: &mut Context<SpeakMsg>) {
            match message {
                SpeakMsg::Say(subject, number) => {
                    let to = self.listener.clone();
                    let tell = move |context: &Context<SpeakMsg>| context.try_tell(&to, WordMsg::Word(subject, number));
                    self.untold.tell(subject, tell, context);
                }
                SpeakMsg::Forget(subject) => self.untold.keep_only(|owed| *owed != subject),
                SpeakMsg::Due => self.untold.tell_again(context),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_news_arrive_once_there_is_room_and_only_the_newest_of_each_subject() {
        let agent = played_agent(ObjectServer::default().api(), |_, _| {}).agent;
        let listener = Address::new(&agent.trace, "listener", "Listener", "Root", 8);
        let speaker = Address::new(&agent.trace, "speaker", "Speaker", "Root", 8);
        let heard: Heard = listen(&listener);
        spawn::<Speaker>(&speaker, listener.clone(), None);
        let say = async |message: SpeakMsg| {
            speaker.tell(Cause::outside("test"), message).expect("has room");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        fill(&listener);
        for message in [SpeakMsg::Say("a", 1), SpeakMsg::Say("b", 1), SpeakMsg::Say("a", 2), SpeakMsg::Say("c", 1)] {
            say(message).await;
        }
        say(SpeakMsg::Forget("b")).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(heard.take(), [""; 0], "there was no room");
        let refused = agent.trace.kinds()["Listener"].refused;
        assert!((60 * 2..90 * 2).contains(&refused), "{refused}: told again each second, not more often");
        make_room(&listener);
        tokio::time::sleep(WAIT_MAX).await;
        assert_eq!(heard.take(), [r#"Word("a", 2)"#, r#"Word("c", 1)"#]);
        say(SpeakMsg::Say("a", 3)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(heard.take(), [r#"Word("a", 3)"#], "nothing is told twice");
    }
}
