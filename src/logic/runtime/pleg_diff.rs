//! Changes between two looks at the runtime: lifecycle events and the pods they concern.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::model::ids::{ContainerId, FullName, PodUid, SandboxId};
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod, SandboxState};
use crate::logic::model::time::Stamp;

/// A sandbox or a container; both live and die alike here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectId {
    /// A sandbox.
    Sandbox(SandboxId),
    /// A container.
    Container(ContainerId),
}

/// The states of one pod's sandboxes and containers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodRecord(BTreeMap<ObjectId, ContainerState>);

impl PodRecord {
    /// Notes a sandbox: a ready one counts as running, another as ended.
    pub fn add_sandbox(&mut self, id: SandboxId, state: SandboxState) {
        let state = match state {
            SandboxState::Ready => ContainerState::Running,
            SandboxState::NotReady => ContainerState::Exited,
        };
        self.0.insert(ObjectId::Sandbox(id), state);
    }

    /// Notes a container.
    pub fn add_container(&mut self, id: ContainerId, state: ContainerState) {
        self.0.insert(ObjectId::Container(id), state);
    }

    fn sandboxes(&self) -> impl Iterator<Item = (&SandboxId, SandboxState)> {
        self.0.iter().filter_map(|(id, state)| match (id, state) {
            (ObjectId::Sandbox(id), ContainerState::Running) => Some((id, SandboxState::Ready)),
            (ObjectId::Sandbox(id), _) => Some((id, SandboxState::NotReady)),
            (ObjectId::Container(_), _) => None,
        })
    }

    fn containers(&self) -> impl Iterator<Item = (&ContainerId, ContainerState)> {
        self.0.iter().filter_map(|(id, state)| match id {
            ObjectId::Container(id) => Some((id, *state)),
            ObjectId::Sandbox(_) => None,
        })
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The parts of a pod, as lists tell them: a look at it begins here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodParts {
    /// When the lists were asked for.
    pub taken: Stamp,
    /// The pod's name, if anything tells it.
    pub full_name: Option<FullName>,
    /// Its sandboxes.
    pub sandboxes: Vec<(SandboxId, SandboxState)>,
    /// Its containers, each with its sandbox.
    pub containers: Vec<(ContainerId, SandboxId, ContainerState)>,
}

impl PodParts {
    /// Those that a pod had when it was last seen, for a look that begins now.
    pub fn of_known(taken: Stamp, known: &RuntimePod) -> Self {
        let sandboxes = known.sandboxes.iter().map(|one| (one.id.clone(), one.state)).collect();
        let containers =
            known.containers.iter().map(|one| (one.id.clone(), one.sandbox_id.clone(), one.state)).collect();
        Self { taken, full_name: Some(known.full_name.clone()), sandboxes, containers }
    }

    /// Those that a relist showed, which save the two lists of this pod alone. `None` where the relist lacks something that
    /// was there before, for what is gone is looked for twice; where it does not tell which sandbox a container is in; and
    /// where the pod was looked at since the relist began: it may show a later time than that look, but would count as older.
    pub fn of_relist(
        taken: Stamp,
        full_name: FullName,
        record: &PodRecord,
        known: Option<&RuntimePod>,
    ) -> Option<Self> {
        if known.is_some_and(|known| known.taken > taken) {
            return None;
        }
        let sandboxes: Vec<_> = record.sandboxes().map(|(id, state)| (id.clone(), state)).collect();
        let has = |id: ObjectId| record.0.contains_key(&id);
        let lacks_none = known.is_none_or(|known| {
            known.sandboxes.iter().all(|sandbox| has(ObjectId::Sandbox(sandbox.id.clone())))
                && known.containers.iter().all(|container| has(ObjectId::Container(container.id.clone())))
        });
        let sandbox_of = |id: &ContainerId, state| {
            let known = known.and_then(|known| known.containers.iter().find(|container| container.id == *id));
            match (known, &*sandboxes) {
                (Some(known), _) => Some(known.sandbox_id.clone()),
                // It runs, or is about to: its sandbox is there.
                (None, [(only, _)]) if state != ContainerState::Exited => Some(only.clone()),
                (None, _) => None,
            }
        };
        let containers = record.containers().map(|(id, state)| Some((id.clone(), sandbox_of(id, state)?, state)));
        let containers = containers.collect::<Option<Vec<_>>>().filter(|_| lacks_none)?;
        Some(Self { taken, full_name: Some(full_name), sandboxes, containers })
    }
}

impl From<&RuntimePod> for PodRecord {
    fn from(pod: &RuntimePod) -> Self {
        let mut record = Self::default();
        for sandbox in &pod.sandboxes {
            record.add_sandbox(sandbox.id.clone(), sandbox.state);
        }
        for container in &pod.containers {
            record.add_container(container.id.clone(), container.state);
        }
        record
    }
}

/// One look at the runtime.
pub type Relist = BTreeMap<PodUid, PodRecord>;

/// The kind of an event of an object; named as upstream's `PodLifecycleEventType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, serde::Serialize)]
pub enum EventKind {
    /// It runs now.
    ContainerStarted,
    /// It no longer runs.
    ContainerDied,
    /// The runtime no longer holds it.
    ContainerRemoved,
    /// It is there and neither runs nor has ended. Upstream does not deliver this to anyone.
    ContainerChanged,
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleEvent {
    /// The pod's UID.
    pub uid: PodUid,
    /// The object that it happened to.
    pub object: ObjectId,
    /// The event.
    pub kind: EventKind,
}

/// All that changed between two looks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Diff {
    /// In the order of UIDs, in a pod sandboxes first, an object's end before its removal.
    pub events: Vec<LifecycleEvent>,
    /// The pods of which anything differs, be it without an event.
    pub changed: BTreeSet<PodUid>,
}

/// Compares two looks at the runtime.
pub fn diff(old: &Relist, new: &Relist) -> Diff {
    let mut diff = Diff::default();
    let nothing = PodRecord::default();
    let uids: BTreeSet<&PodUid> = old.keys().chain(new.keys()).collect();
    for uid in uids {
        let (before, after) = (old.get(uid).unwrap_or(&nothing), new.get(uid).unwrap_or(&nothing));
        if before == after {
            continue;
        }
        diff.changed.insert(uid.clone());
        let objects: BTreeSet<&ObjectId> = before.0.keys().chain(after.0.keys()).collect();
        for object in objects {
            for kind in events(before.0.get(object).copied(), after.0.get(object).copied()) {
                diff.events.push(LifecycleEvent { uid: uid.clone(), object: object.clone(), kind: *kind });
            }
        }
    }
    diff
}

fn events(before: Option<ContainerState>, after: Option<ContainerState>) -> &'static [EventKind] {
    use ContainerState::{Created, Exited, Running, Unknown};
    match (before, after) {
        (None, None) => &[],
        (Some(before), Some(after)) if before == after => &[],
        // One kind of state to upstream: there, but neither running nor ended.
        (Some(Created | Unknown), Some(Created | Unknown)) => &[],
        (_, Some(Running)) => &[EventKind::ContainerStarted],
        (_, Some(Exited)) => &[EventKind::ContainerDied],
        (_, Some(Created | Unknown)) => &[EventKind::ContainerChanged],
        (Some(Exited), None) => &[EventKind::ContainerRemoved],
        (Some(_), None) => &[EventKind::ContainerDied, EventKind::ContainerRemoved],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::model::runtime_pod::{RuntimeContainer, testing};

    fn relist(objects: &[(&str, &str, ContainerState)]) -> Relist {
        let mut relist = Relist::new();
        for (uid, id, state) in objects {
            relist.entry(PodUid::from(*uid)).or_default().add_container(ContainerId::from(*id), *state);
        }
        relist
    }

    /// CRI-28.
    #[test]
    fn every_change_of_state_has_its_events() {
        use ContainerState::{Created, Exited, Running, Unknown};
        use EventKind::{ContainerChanged, ContainerDied, ContainerRemoved, ContainerStarted};
        let cases: &[(Option<ContainerState>, Option<ContainerState>, &[EventKind])] = &[
            (None, Some(Running), &[ContainerStarted]),
            (None, Some(Exited), &[ContainerDied]),
            (None, Some(Created), &[ContainerChanged]),
            (None, Some(Unknown), &[ContainerChanged]),
            (Some(Created), Some(Running), &[ContainerStarted]),
            (Some(Created), Some(Unknown), &[]),
            (Some(Running), Some(Running), &[]),
            (Some(Running), Some(Exited), &[ContainerDied]),
            (Some(Running), Some(Unknown), &[ContainerChanged]),
            (Some(Unknown), Some(Exited), &[ContainerDied]),
            (Some(Exited), None, &[ContainerRemoved]),
            (Some(Running), None, &[ContainerDied, ContainerRemoved]),
            (Some(Unknown), None, &[ContainerDied, ContainerRemoved]),
            (Some(Created), None, &[ContainerDied, ContainerRemoved]),
        ];
        for (before, after, expected) in cases {
            let one =
                |state: &Option<ContainerState>| state.map_or_else(Relist::new, |state| relist(&[("u", "c", state)]));
            let found = diff(&one(before), &one(after));
            let kinds: Vec<EventKind> = found.events.iter().map(|event| event.kind).collect();
            assert_eq!(kinds, *expected, "{before:?} -> {after:?}");
            assert_eq!(found.changed.is_empty(), before == after, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn a_sandbox_that_is_no_longer_ready_died() {
        let look = |state| {
            let mut record = PodRecord::default();
            record.add_sandbox(SandboxId::from("s"), state);
            Relist::from([(PodUid::from("u"), record)])
        };
        let found = diff(&look(SandboxState::Ready), &look(SandboxState::NotReady));
        assert_eq!(found.events.len(), 1);
        assert_eq!(found.events[0].kind, EventKind::ContainerDied);
        assert_eq!(found.events[0].object, ObjectId::Sandbox(SandboxId::from("s")));
    }

    /// CRI-28: what a relist shows of a pod is asked for no second time, unless something is gone or cannot be placed.
    #[test]
    fn a_look_begins_with_what_the_relist_showed() {
        use ContainerState::{Created, Exited, Running};
        let record = |sandboxes: &[&str], containers: &[(&str, ContainerState)]| {
            let mut record = PodRecord::default();
            sandboxes.iter().for_each(|id| record.add_sandbox((*id).into(), SandboxState::Ready));
            containers.iter().for_each(|(id, state)| record.add_container((*id).into(), *state));
            record
        };
        let name = FullName::new("web", "ns");
        let known = RuntimePod {
            sandboxes: vec![testing::sandbox("s", SandboxState::Ready)],
            containers: vec![RuntimeContainer::sample("a", "a", Running)],
            ..RuntimePod::empty(PodUid::from("u"), name.clone(), Stamp(1))
        };
        let cases = [
            ("as it was", record(&["s"], &[("a", Exited)]), true, Some(vec!["a in s"])),
            ("one more", record(&["s"], &[("a", Running), ("b", Created)]), true, Some(vec!["a in s", "b in s"])),
            ("two sandboxes", record(&["s", "t"], &[("a", Running)]), true, Some(vec!["a in s"])),
            ("in one of two", record(&["s", "t"], &[("a", Running), ("b", Running)]), true, None),
            ("ended unseen", record(&["s"], &[("a", Running), ("b", Exited)]), true, None),
            ("a container is gone", record(&["s"], &[]), true, None),
            ("the sandbox is gone", record(&["t"], &[("a", Exited)]), true, None),
            ("never seen", record(&["t"], &[("a", Running)]), false, Some(vec!["a in t"])),
            ("never seen, empty", record(&["t"], &[]), false, Some(vec![])),
        ];
        for (case, record, is_known, expected) in cases {
            let known = Some(&known).filter(|_| is_known);
            let parts = PodParts::of_relist(Stamp(7), name.clone(), &record, known);
            let placed = parts.as_ref().map(|parts| {
                parts.containers.iter().map(|(id, sandbox, _)| format!("{id} in {sandbox}")).collect::<Vec<_>>()
            });
            assert_eq!(placed, expected.map(|placed| placed.iter().map(ToString::to_string).collect()), "{case}");
            let before_the_last_look = PodParts::of_relist(Stamp(0), name.clone(), &record, known);
            assert!(known.is_none() || before_the_last_look.is_none(), "{case}: it began before the last look");
            if let Some(parts) = parts {
                assert_eq!(
                    (parts.taken, parts.full_name, parts.sandboxes.len()),
                    (Stamp(7), Some(name.clone()), record.sandboxes().count())
                );
            }
        }
    }

    #[test]
    fn only_pods_that_changed_are_named() {
        use ContainerState::{Exited, Running};
        let before = relist(&[("a", "1", Running), ("b", "2", Running), ("c", "3", Exited)]);
        let after = relist(&[("a", "1", Running), ("b", "2", Exited), ("d", "4", Running)]);
        let changed: Vec<String> = diff(&before, &after).changed.iter().map(ToString::to_string).collect();
        assert_eq!(changed, ["b", "c", "d"]);
    }

    prop_compose! {
        fn any_relist()(objects in prop::collection::btree_map((0_u8..4, 0_u8..4), 0_u8..4, 0..10)) -> Relist {
            let mut relist = Relist::new();
            for ((uid, id), state) in objects {
                let state = [ContainerState::Created, ContainerState::Running, ContainerState::Exited, ContainerState::Unknown]
                    [usize::from(state)];
                let record = relist.entry(PodUid::from(format!("u{uid}"))).or_default();
                record.add_container(ContainerId::from(format!("u{uid}c{id}")), state);
            }
            relist
        }
    }

    proptest! {
        #[test]
        fn following_the_events_gives_the_same_running_containers(before in any_relist(), after in any_relist()) {
            let running = |relist: &Relist| -> BTreeSet<ObjectId> {
                relist.values().flat_map(|record| record.0.iter())
                    .filter(|(_, state)| **state == ContainerState::Running).map(|(id, _)| id.clone()).collect()
            };
            let mut followed = running(&before);
            let found = diff(&before, &after);
            for event in &found.events {
                prop_assert!(found.changed.contains(&event.uid));
                match event.kind {
                    EventKind::ContainerStarted => followed.insert(event.object.clone()),
                    _ => followed.remove(&event.object),
                };
            }
            prop_assert_eq!(followed, running(&after));
            prop_assert_eq!(diff(&after, &after), Diff::default());
        }
    }
}
