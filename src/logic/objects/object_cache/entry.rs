//! One object that pods refer to. Owned by [`super::ObjectCache`]; keeps its newest state and the questions that wait.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Answer, Heard, Object, ObjectError, Order, ReadFor, not_found, not_registered, not_synced};
use crate::logic::model::ids::PodUid;
use crate::logic::objects::object_references::ObjectKey;

/// The content of the object as it is known, and its source.
#[derive(Default)]
pub(super) enum State {
    /// Nobody asked, or not for long.
    #[default]
    Unknown,
    /// It is watched; `None` until everything was heard once.
    Watched(Option<Option<Object>>),
    /// It cannot change any more, so it is not watched.
    Kept(Object),
    /// It was read.
    Read(Copy),
    /// It is being read; with what was there before.
    Reading(Copy),
}

/// An object as it was read.
#[derive(Default)]
pub(super) struct Copy {
    object: Option<Object>,
    /// The uptime until which it counts as fresh; `None` when it does not.
    fresh_until: Option<Duration>,
    /// Somebody new came while it was read: it is to be read once more.
    again: bool,
    /// It is read from the server's cache, which may be older than what was read before.
    cached: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) pods: BTreeSet<PodUid>,
    pub(super) state: State,
    /// Why nothing can be heard at present.
    pub(super) trouble: Option<ObjectError>,
    /// The last content before the watch rested: it stands while nothing newer can be heard.
    rested: Option<Object>,
    /// The last answer that was not the watch's word: what a question got, `None` for a refusal.
    unheard: Option<Option<Object>>,
    asked_at: Duration,
    waiting: Vec<u64>,
}

impl Entry {
    /// Makes the copy count no more, as upstream: a new pod is not to get content older than itself, even where nothing can
    /// be read.
    pub(super) fn outdate(&mut self) {
        match &mut self.state {
            State::Read(copy) => *copy = Copy::default(),
            State::Reading(copy) => copy.again = true,
            State::Unknown | State::Watched(_) | State::Kept(_) => {}
        }
    }

    /// Nobody refers to it any more.
    pub(super) fn end(self, key: &ObjectKey) -> Vec<Order> {
        let unwatch = matches!(self.state, State::Watched(_)).then(|| Order::Unwatch(key.clone()));
        let answers = self.waiting.into_iter().map(|question| Order::Answer(question, Err(not_registered(key))));
        unwatch.into_iter().chain(answers).collect()
    }

    pub(super) fn ask_watched(&mut self, key: &ObjectKey, question: u64, now: Duration) -> Vec<Order> {
        self.asked_at = now;
        let known = match &self.state {
            State::Kept(object) => return vec![Order::Answer(question, Ok(object.clone()))],
            State::Watched(known) => known.as_ref(),
            State::Unknown | State::Read(_) | State::Reading(_) => {
                self.state = State::Watched(None);
                self.waiting.push(question);
                return vec![Order::Watch(key.clone()), Order::Wait(question)];
            }
        };
        if let Some(known) = known {
            return vec![Order::Answer(question, known.clone().ok_or_else(|| not_found(key)))];
        }
        if let (Some(_), Some(object)) = (&self.trouble, self.last_resort()) {
            self.unheard = Some(Some(object.clone()));
            return vec![Order::Answer(question, Ok(object))];
        }
        self.waiting.push(question);
        vec![Order::Wait(question)]
    }

    pub(super) fn hear(&mut self, key: &ObjectKey, heard: Heard) -> Vec<Order> {
        let State::Watched(known) = &mut self.state else { return vec![] };
        let object = match heard {
            Heard::Trouble(error) => {
                self.trouble = Some(error);
                return vec![];
            }
            Heard::Is(object) => object,
        };
        (self.trouble, self.rested) = (None, None);
        // Not by versions alone: one that was given before a store was restored from a copy may be given once more.
        let is_news = match (known.as_ref(), self.unheard.take()) {
            (Some(before), _) => *before != object,
            // A question that was refused has an answer now.
            (None, Some(answered)) => answered.is_none() || answered != object,
            (None, None) => false,
        };
        let mut orders = answers(&mut self.waiting, &object.clone().ok_or_else(|| not_found(key)));
        orders.extend(is_news.then(|| Order::Changed(self.pods.clone())));
        match object {
            Some(object) if object.is_immutable() => {
                self.state = State::Kept(object);
                orders.push(Order::Unwatch(key.clone()));
            }
            object => *known = Some(object),
        }
        orders
    }

    pub(super) fn ask_read(&mut self, key: &ObjectKey, question: u64, now: Duration) -> Vec<Order> {
        let before = match std::mem::take(&mut self.state) {
            State::Read(Copy { object: Some(object), fresh_until: Some(until), .. }) if now < until => {
                let answer = Order::Answer(question, Ok(object.clone()));
                let fresh_until = Some(until);
                self.state = State::Read(Copy { object: Some(object), fresh_until, ..Copy::default() });
                return vec![answer];
            }
            State::Reading(copy) => {
                self.state = State::Reading(copy);
                self.waiting.push(question);
                return vec![];
            }
            State::Read(copy) => copy,
            State::Unknown | State::Watched(_) | State::Kept(_) => Copy::default(),
        };
        self.waiting.push(question);
        // An object that was fresh once is only to be kept up: the server's cache will do.
        let cached = before.object.is_some() && before.fresh_until.is_some();
        self.state = State::Reading(Copy { again: false, cached, ..before });
        vec![Order::Read { read: ReadFor { key: key.clone(), question: None }, cached }]
    }

    pub(super) fn take_read(&mut self, key: &ObjectKey, answer: Answer, now: Duration, ttl: Duration) -> Vec<Order> {
        let before = match std::mem::take(&mut self.state) {
            State::Reading(before) => before,
            other => {
                self.state = other;
                return vec![];
            }
        };
        let older = |new: &Object| {
            if !before.cached {
                return false; // It is the newest, whatever its version.
            }
            let old = before.object.as_ref().and_then(Object::version);
            matches!((old, new.version()), (Some(old), Some(new)) if new < old)
        };
        if before.again {
            self.state = State::Reading(Copy::default());
            return vec![Order::Read { read: ReadFor { key: key.clone(), question: None }, cached: false }];
        }
        let (object, fresh_until) = match &answer {
            Ok(new) if !older(new) => (Some(new.clone()), Some(now.saturating_add(ttl))),
            Err(ObjectError::NotFound(_)) => (None, None),
            // The newest that is known stands. The cache may be of a store that was restored: the next question asks past it.
            Ok(_) => (before.object, None),
            // Trouble tells nothing, so the next question reads again.
            Err(_) => (before.object, before.fresh_until),
        };
        let told = object.clone().map_or(answer, Ok);
        self.state = State::Read(Copy { object, fresh_until, ..Copy::default() });
        answers(&mut self.waiting, &told)
    }

    /// The last content before the watch rested, unless this node may not read it any more.
    fn last_resort(&self) -> Option<Object> {
        let forbidden = matches!(self.trouble, Some(ObjectError::Forbidden(_)));
        self.rested.clone().filter(|_| !forbidden)
    }

    /// The question waits no longer; gives the answer for want of the watch's word, unless it did not wait here.
    pub(super) fn give_up(&mut self, key: &ObjectKey, question: u64) -> Option<Answer> {
        let place = self.waiting.iter().position(|waiting| *waiting == question)?;
        self.waiting.remove(place);
        let object = self.last_resort();
        self.unheard = Some(object.clone());
        Some(object.ok_or_else(|| not_synced(key, self.trouble.as_ref())))
    }

    /// Whether it was watched for nobody; it is no longer.
    pub(super) fn rest(&mut self, now: Duration, idle_max: Duration) -> bool {
        let idle = matches!(self.state, State::Watched(_))
            && self.waiting.is_empty()
            && now.saturating_sub(self.asked_at) > idle_max;
        if idle {
            if let State::Watched(Some(known)) = std::mem::take(&mut self.state) {
                self.rested = known;
            }
            (self.trouble, self.unheard) = (None, None);
        }
        idle
    }
}

fn answers(waiting: &mut Vec<u64>, answer: &Answer) -> Vec<Order> {
    std::mem::take(waiting).into_iter().map(|question| Order::Answer(question, answer.clone())).collect()
}
