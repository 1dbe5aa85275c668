//! `UserNamespaces`: gives each pod with `hostUsers: false` a range of the host's IDs of its own (RES-63, SEC-26).
//!
//! Parent: Root. Restarted: after a failure; the files of pods have all that was answered for. Nobody is answered before they
//! were read, and no range before the disk has it: so it is the pod's whenever the agent ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::RpcReplyPort;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::actors::kit::held::Held;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::user_namespaces::IdRange;
use crate::logic::resources::user_namespaces::assignments::{AssignmentError, Assignments, Released, Wanted};
use crate::logic::resources::user_namespaces::mapping_file::print;
use crate::logic::resources::user_namespaces::space::IdSpace;
use crate::messages::Ended;
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::platform::host::chance::Chance;
use crate::platform::pods::user_namespace_files::UserNamespaceFiles;

#[cfg(test)]
mod tests;

/// Wait before files that could not be read are read again.
const READ_RETRY: Duration = Duration::from_secs(1);

/// The actor's arguments.
pub struct Args {
    /// The IDs that pods may have.
    pub space: IdSpace,
    /// The files of pods.
    pub files: Arc<dyn UserNamespaceFiles>,
    /// Picks ranges.
    pub chance: Arc<dyn Chance>,
}

type AssignReply = RpcReplyPort<Result<IdRange, AssignmentError>>;

/// See the module.
pub struct UserNamespaces {
    args: Args,
    /// `None` until the files were read; what came before that is held.
    assignments: Option<Assignments>,
    held: Held<UserNamespacesMsg>,
    /// Askers whose pod's file is being written or removed.
    wanting: BTreeMap<PodUid, Vec<AssignReply>>,
    /// Those who wait for the file to be gone.
    releasing: BTreeMap<PodUid, Vec<RpcReplyPort<()>>>,
}

impl Actor for UserNamespaces {
    const KIND: &'static str = "UserNamespaces";
    type Msg = UserNamespacesMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<UserNamespacesMsg>) -> Self {
        read_files(&args, context);
        let (wanting, releasing) = (BTreeMap::new(), BTreeMap::new());
        Self { args, assignments: None, held: Held::default(), wanting, releasing }
    }

    fn receive(&mut self, message: UserNamespacesMsg, context: &mut Context<UserNamespacesMsg>) {
        match message {
            UserNamespacesMsg::Read(read) => self.take_read(read, context),
            UserNamespacesMsg::ReadDue => read_files(&self.args, context),
            early if self.assignments.is_none() => self.hold(early),
            UserNamespacesMsg::Assign(uid, reply) => self.assign(uid, reply, context),
            UserNamespacesMsg::Release(uid, reply) => {
                self.releasing.entry(uid.clone()).or_default().push(reply);
                self.release(uid, context);
            }
            UserNamespacesMsg::Known(known) => self.release_unknown(&known, context),
            UserNamespacesMsg::Written(uid, outcome) => self.take_written(uid, outcome.into_result(), context),
            UserNamespacesMsg::Removed(uid, outcome) => self.take_removed(uid, outcome.into_result(), context),
        }
    }
}

impl UserNamespaces {
    fn assignments(&mut self) -> &mut Assignments {
        self.assignments.as_mut().expect("invariant: what needs the files is held until they were read")
    }

    /// An asker without room hears nothing, and asks again.
    fn hold(&mut self, early: UserNamespacesMsg) {
        if matches!(early, UserNamespacesMsg::Known(_)) {
            self.held.forget(|held| matches!(held, UserNamespacesMsg::Known(_)));
        }
        let is_left = |held: &UserNamespacesMsg| match held {
            UserNamespacesMsg::Assign(_, reply) => reply.is_closed(),
            UserNamespacesMsg::Release(_, reply) => reply.is_closed(),
            _ => false,
        };
        drop(self.held.push(early, is_left));
    }

    fn take_read(
        &mut self,
        read: Ended<BTreeMap<PodUid, Result<Vec<u8>, String>>>,
        context: &mut Context<UserNamespacesMsg>,
    ) {
        let files = match read.into_result() {
            Ok(files) => files,
            Err(why) => {
                tracing::error!(why, "user namespaces of pods cannot be read");
                context.address().record().set_note(Some(format!("waits for the files of pods: {why}")));
                context.after(READ_RETRY, UserNamespacesMsg::ReadDue);
                return;
            }
        };
        context.address().record().set_note(None);
        let assignments = Assignments::of(self.args.space, files);
        for (pod, problem) in assignments.problems() {
            tracing::error!(%pod, %problem, "the user namespace of a pod cannot be followed");
        }
        self.assignments = Some(assignments);
        for message in self.held.take() {
            self.receive(message, context);
        }
    }

    fn assign(&mut self, uid: PodUid, reply: AssignReply, context: &mut Context<UserNamespacesMsg>) {
        let chance = self.args.chance.next();
        let answer = match self.assignments().want(&uid, chance) {
            Wanted::Ready(range) => Ok(range),
            Wanted::Refused(error) => Err(error),
            Wanted::Wait => return self.wanting.entry(uid).or_default().push(reply),
            Wanted::Write(range) => {
                self.wanting.entry(uid.clone()).or_default().push(reply);
                return self.write(uid, range, context);
            }
        };
        let _ = reply.send(answer); // The asker may have left.
    }

    fn write(&self, uid: PodUid, range: IdRange, context: &mut Context<UserNamespacesMsg>) {
        let (files, of) = (Arc::clone(&self.args.files), uid.clone());
        let work = async move { files.write(&of, print(range)).await.map_err(|error| error.to_string()) };
        context.start("keep user namespace", uid.to_string(), work, |outcome| {
            UserNamespacesMsg::Written(uid, outcome.into())
        });
    }

    fn take_written(&mut self, uid: PodUid, outcome: Result<(), String>, context: &mut Context<UserNamespacesMsg>) {
        self.assignments().written(&uid, outcome.is_ok());
        let askers = self.wanting.remove(&uid).unwrap_or_default();
        match outcome {
            // The range is theirs; a release that came meanwhile is later than their questions.
            Ok(()) => askers.into_iter().for_each(|reply| self.assign(uid.clone(), reply, context)),
            Err(why) => {
                let error = AssignmentError::NotWritten(why);
                askers.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
            }
        }
        if self.releasing.contains_key(&uid) {
            self.release(uid, context);
        }
    }

    /// Has the pod's file removed; those who wait for that are in `releasing`.
    fn release(&mut self, uid: PodUid, context: &mut Context<UserNamespacesMsg>) {
        match self.assignments().release(&uid) {
            Released::Nothing => self.tell_released(&uid),
            Released::Wait => {}
            Released::Remove => {
                let (files, of) = (Arc::clone(&self.args.files), uid.clone());
                let work = async move { files.remove(&of).await.map_err(|error| error.to_string()) };
                context.start("forget user namespace", uid.to_string(), work, |outcome| {
                    UserNamespacesMsg::Removed(uid, outcome.into())
                });
            }
        }
    }

    fn release_unknown(&mut self, known: &BTreeSet<PodUid>, context: &mut Context<UserNamespacesMsg>) {
        for uid in self.assignments().unknown(known) {
            self.release(uid, context);
        }
    }

    /// A file that stays keeps nobody waiting: its range is not free, and housekeeping tries again.
    fn take_removed(&mut self, uid: PodUid, outcome: Result<(), String>, context: &mut Context<UserNamespacesMsg>) {
        self.assignments().removed(&uid, outcome.is_ok());
        if let Err(why) = outcome {
            tracing::warn!(pod = %uid, why, "the user namespace of a pod that has ended is not free yet");
        }
        self.tell_released(&uid);
        for reply in self.wanting.remove(&uid).unwrap_or_default() {
            self.assign(uid.clone(), reply, context);
        }
    }

    fn tell_released(&mut self, uid: &PodUid) {
        for reply in self.releasing.remove(uid).unwrap_or_default() {
            let _ = reply.send(()); // The asker may have left.
        }
    }
}

fn read_files(args: &Args, context: &mut Context<UserNamespacesMsg>) {
    let files = Arc::clone(&args.files);
    context.start("read user namespaces", "files of pods", async move { read_all(&*files).await }, |read| {
        UserNamespacesMsg::Read(read.into())
    });
}

async fn read_all(files: &dyn UserNamespaceFiles) -> Result<BTreeMap<PodUid, Result<Vec<u8>, String>>, String> {
    let read = files.read_all().await.map_err(|error| error.to_string())?;
    Ok(read.into_iter().map(|(uid, file)| (uid, file.map_err(|error| error.to_string()))).collect())
}
