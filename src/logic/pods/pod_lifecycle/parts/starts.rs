//! Containers on their way to run: their images, the starts under way, why starts failed, and instances that were made and
//! never started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::room::shrink;
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::RuntimeContainer;
use crate::logic::model::start_reason::StartReason;

/// How long a container may be made and not started before it counts as half-made: the call to start it comes at once, and
/// one whose caller failed meanwhile may still come.
pub const HALF_MADE_AGE: Duration = Duration::from_secs(10);

/// Why a container that is to be started does not run: the API's waiting reason and message.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StartError {
    /// One word: `CrashLoopBackOff`, `ErrImagePull`, ….
    pub reason: StartReason,
    /// A sentence.
    pub message: String,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    images: BTreeMap<String, ImageInUse>,
    /// By container that is being started, the hash that it is made with.
    hashes: BTreeMap<String, String>,
    errors: BTreeMap<String, StartError>,
    /// Containers that were made and that nobody starts: until when, in uptime, a start may still come; `None` once one last
    /// look was asked for.
    half_made: BTreeMap<ContainerId, Option<Duration>>,
}

/// The orders about containers that were made and never started.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HalfMade {
    /// Their names: nothing is made in their stead before they are gone.
    pub names: BTreeSet<String>,
    /// Those that go now.
    pub remove: Vec<ContainerId>,
    /// Some are to go, unless one more look shows that they run.
    pub last_look: bool,
    /// Those whose start may still come, and until when, in uptime.
    pub waits: Vec<(String, Duration)>,
}

impl Starts {
    /// The image that the container is to use, once it is there.
    pub fn image(&self, container: &str) -> Option<&ImageInUse> {
        self.images.get(container)
    }

    /// The container's image is there.
    pub fn set_image(&mut self, container: String, image: ImageInUse) {
        self.images.insert(container, image);
    }

    /// The container's image is to be looked for again.
    pub fn forget_image(&mut self, container: &str) {
        self.images.remove(container);
    }

    /// The container begins to be started, made with this hash.
    pub fn begin(&mut self, container: &str, hash: String) {
        self.hashes.insert(container.to_owned(), hash);
    }

    /// The container was started; gives the reference of its image and its hash.
    pub fn end(&mut self, container: &str) -> (String, String) {
        self.errors.remove(container);
        let image = self.images.remove(container).map(|image| image.reference);
        (image.unwrap_or_default(), self.hashes.remove(container).unwrap_or_default())
    }

    /// Why containers did not start, by name (upstream's reason cache, POD-40).
    pub fn errors(&self) -> &BTreeMap<String, StartError> {
        &self.errors
    }

    /// Why a container is not started.
    pub fn note_error(&mut self, container: String, reason: StartReason, message: String) {
        self.errors.insert(container, StartError { reason, message });
    }

    /// All containers start over.
    pub fn clear_errors(&mut self) {
        self.errors.clear();
    }

    /// Looks after instances that were made and never started. A start that nobody waits for any more may still come: it
    /// gets its time, and then must find nothing to start. Nothing starts any more in a sandbox other than `home`.
    pub fn look_after_half_made<'a>(
        &mut self,
        made: impl Iterator<Item = &'a RuntimeContainer>,
        home: Option<&SandboxId>,
        uptime: Duration,
    ) -> HalfMade {
        let mut found = HalfMade::default();
        for made in made {
            found.names.insert(made.name.clone());
            let wait = (home == Some(&made.sandbox_id)).then(|| uptime + HALF_MADE_AGE);
            let until = self.half_made.entry(made.id.clone()).or_insert(wait);
            match *until {
                None => found.remove.push(made.id.clone()),
                Some(due) if due > uptime => found.waits.push((made.name.clone(), due)),
                Some(_) => {
                    *until = None;
                    found.last_look = true;
                }
            }
        }
        found
    }

    /// Forgets instances that the runtime no longer holds.
    pub fn keep_only(&mut self, held: &BTreeSet<ContainerId>) {
        self.half_made.retain(|id, _| held.contains(id));
    }

    /// See [`shrink`].
    pub fn shrink(&mut self) {
        shrink(&mut self.images);
        shrink(&mut self.hashes);
        shrink(&mut self.errors);
        shrink(&mut self.half_made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::runtime_pod::ContainerState;

    fn made(sandbox: &str) -> RuntimeContainer {
        RuntimeContainer { sandbox_id: sandbox.into(), ..RuntimeContainer::sample("c", "web", ContainerState::Created) }
    }

    #[test]
    fn a_half_made_container_gets_its_time_then_a_last_look_then_goes() {
        let (mut starts, made, home) = (Starts::default(), made("s0"), SandboxId::from("s0"));
        let mut look = |seconds| {
            let found = starts.look_after_half_made([&made].into_iter(), Some(&home), Duration::from_secs(seconds));
            assert_eq!(found.names, ["web".to_owned()].into(), "nothing is made in its stead");
            (found.waits.len(), found.last_look, found.remove.len())
        };
        assert_eq!(look(100), (1, false, 0));
        assert_eq!(look(109), (1, false, 0));
        assert_eq!(look(110), (0, true, 0));
        assert_eq!(look(110), (0, false, 1));
    }

    #[test]
    fn one_that_went_and_came_back_gets_its_time_anew() {
        let (mut starts, made, home) = (Starts::default(), made("s0"), SandboxId::from("s0"));
        for seconds in [100, 110] {
            let uptime = Duration::from_secs(seconds);
            let found = starts.look_after_half_made([&made].into_iter(), Some(&home), uptime);
            assert_eq!(found.waits, [("web".to_owned(), uptime + HALF_MADE_AGE)]);
            starts.keep_only(&BTreeSet::new());
        }
    }

    #[test]
    fn one_in_a_former_sandbox_goes_at_once() {
        let made = made("s0");
        for home in [None, Some(SandboxId::from("s1"))] {
            let found =
                Starts::default().look_after_half_made([&made].into_iter(), home.as_ref(), Duration::from_secs(1));
            assert_eq!(found.remove, [ContainerId::from("c")]);
        }
    }

    #[test]
    fn a_start_takes_its_image_and_its_error_along() {
        let mut starts = Starts::default();
        starts.note_error("web".to_owned(), StartReason::RunContainerError, "no".to_owned());
        starts.set_image("web".to_owned(), ImageInUse { reference: "app:1".to_owned(), ..ImageInUse::default() });
        starts.begin("web", "hash".to_owned());
        assert_eq!(starts.end("web"), ("app:1".to_owned(), "hash".to_owned()));
        assert!(starts.errors().is_empty() && starts.image("web").is_none(), "upstream looks again at each start");
        assert_eq!(starts.end("web"), (String::new(), String::new()));
    }
}
