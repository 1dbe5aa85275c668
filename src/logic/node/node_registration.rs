//! How the node comes to be in the API server: create it, or take over the one that is there (NODE-04 to NODE-06).
//!
//! Pure; owned by `NodeStatus`. Keeps where it is and how long to wait next.

use std::time::Duration;

/// Wait before the first try; doubled before each further one.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(7);

/// Why the API server refused to create the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is a node of this name.
    AlreadyExists,
    /// The agent may not create nodes; there may be one all the same.
    Forbidden,
    /// Anything else.
    Other,
}

/// The event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The wait is over.
    WaitOver,
    /// The node was created.
    Created,
    /// The node was not created.
    Refused(Refusal),
    /// The existing node was read; whether it needs to be reconciled.
    Read {
        /// It differs from what it should be.
        differs: bool,
    },
    /// The existing node was reconciled.
    Patched,
    /// The existing node could not be read or reconciled.
    Failed,
}

/// The next step of the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait, then say so.
    Wait(Duration),
    /// Build the node anew and create it.
    Create,
    /// Read the existing one.
    Read,
    /// Reconcile the one that was read.
    Patch,
    /// Nothing: the node is registered.
    Done,
    /// Nothing: the input does not fit, so it is an old one.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Creating,
    Reading,
    Patching,
    Done,
}

/// See the module. A registered node stays registered for as long as the agent runs, even if somebody deletes it.
#[derive(Clone, Debug)]
pub struct Registration {
    stage: Stage,
    wait_next: Duration,
    /// Gate `KubeletRegistrationGetOnExistsOnly`: a node that may not be created is not looked for.
    read_on_exists_only: bool,
}

impl Registration {
    /// A registration that has not begun, and how long to wait before it does.
    pub fn begin(read_on_exists_only: bool) -> (Self, Action) {
        let mut registration = Self { stage: Stage::Waiting, wait_next: WAIT_FIRST, read_on_exists_only };
        let action = registration.wait();
        (registration, action)
    }

    /// One for a node that somebody else creates (`registerNode: false`, NODE-12).
    pub fn not_wanted() -> Self {
        Self { stage: Stage::Done, wait_next: WAIT_FIRST, read_on_exists_only: false }
    }

    /// Whether the node is registered.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Takes one input; says what to do about it.
    pub fn step(&mut self, input: Input) -> Action {
        match (self.stage, input) {
            (Stage::Waiting, Input::WaitOver) => self.enter(Stage::Creating, Action::Create),
            (Stage::Creating, Input::Created) => self.enter(Stage::Done, Action::Done),
            (Stage::Creating, Input::Refused(Refusal::AlreadyExists)) => self.enter(Stage::Reading, Action::Read),
            (Stage::Creating, Input::Refused(Refusal::Forbidden)) if !self.read_on_exists_only => {
                self.enter(Stage::Reading, Action::Read)
            }
            (Stage::Creating, Input::Refused(_) | Input::Failed) => self.wait(),
            (Stage::Reading, Input::Read { differs: true }) => self.enter(Stage::Patching, Action::Patch),
            (Stage::Reading, Input::Read { differs: false }) => self.enter(Stage::Done, Action::Done),
            (Stage::Patching, Input::Patched) => self.enter(Stage::Done, Action::Done),
            (Stage::Reading | Stage::Patching, Input::Failed) => self.wait(),
            _ => Action::Ignore,
        }
    }

    fn enter(&mut self, stage: Stage, action: Action) -> Action {
        self.stage = stage;
        action
    }

    fn wait(&mut self) -> Action {
        self.stage = Stage::Waiting;
        let wait = self.wait_next;
        self.wait_next = (wait * 2).min(WAIT_MAX);
        Action::Wait(wait)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn begun() -> Registration {
        let (mut registration, wait) = Registration::begin(false);
        assert_eq!(wait, Action::Wait(WAIT_FIRST));
        assert_eq!(registration.step(Input::WaitOver), Action::Create);
        registration
    }

    #[test]
    fn a_new_node_is_created_once() {
        let mut registration = begun();
        assert_eq!(registration.step(Input::Created), Action::Done);
        assert!(registration.is_done());
        assert_eq!(registration.step(Input::WaitOver), Action::Ignore);
    }

    #[test]
    fn an_existing_node_is_read_and_reconciled_where_it_differs() {
        for refusal in [Refusal::AlreadyExists, Refusal::Forbidden] {
            let mut registration = begun();
            assert_eq!(registration.step(Input::Refused(refusal)), Action::Read);
            assert_eq!(registration.step(Input::Read { differs: false }), Action::Done);
            let mut registration = begun();
            registration.step(Input::Refused(refusal));
            assert_eq!(registration.step(Input::Read { differs: true }), Action::Patch);
            assert!(!registration.is_done());
            assert_eq!(registration.step(Input::Patched), Action::Done);
        }
    }

    /// NODE-06.
    #[test]
    fn the_gate_keeps_a_forbidden_node_from_being_read() {
        let (mut registration, _) = Registration::begin(true);
        registration.step(Input::WaitOver);
        assert!(matches!(registration.step(Input::Refused(Refusal::Forbidden)), Action::Wait(_)));
        registration.step(Input::WaitOver);
        assert_eq!(registration.step(Input::Refused(Refusal::AlreadyExists)), Action::Read);
    }

    /// NODE-04.
    #[test]
    fn waits_double_up_to_seven_seconds() {
        let mut registration = begun();
        let waits: Vec<u128> = (0..8)
            .map(|_| {
                let Action::Wait(wait) = registration.step(Input::Refused(Refusal::Other)) else { panic!("a wait") };
                registration.step(Input::WaitOver);
                wait.as_millis()
            })
            .collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 7000, 7000]);
    }

    #[test]
    fn a_node_that_others_create_is_never_created() {
        let mut registration = Registration::not_wanted();
        assert!(registration.is_done());
        assert_eq!(registration.step(Input::WaitOver), Action::Ignore);
    }

    fn any_input() -> impl Strategy<Value = Input> {
        prop_oneof![
            Just(Input::WaitOver),
            Just(Input::Created),
            Just(Input::Patched),
            Just(Input::Failed),
            any::<bool>().prop_map(|differs| Input::Read { differs }),
            prop_oneof![Just(Refusal::AlreadyExists), Just(Refusal::Forbidden), Just(Refusal::Other)]
                .prop_map(Input::Refused),
        ]
    }

    proptest! {
        #[test]
        fn what_is_registered_stays_so_and_waits_only_grow(inputs in proptest::collection::vec(any_input(), 0..60)) {
            let (mut registration, _) = Registration::begin(false);
            let (mut wait_before, mut done) = (WAIT_FIRST, false);
            for input in inputs {
                let action = registration.step(input);
                if let Action::Wait(wait) = action {
                    prop_assert!(wait >= wait_before && wait <= WAIT_MAX);
                    wait_before = wait;
                }
                prop_assert!(!done || (registration.is_done() && action == Action::Ignore));
                done = registration.is_done();
            }
        }
    }
}
