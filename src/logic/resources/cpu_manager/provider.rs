//! The CPU manager as the topology manager asks it: from where CPUs could come, and to give them.
//!
//! Pure. Upstream: `cpumanager.Manager` as a `HintProvider`.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::manager::CpuManager;
use super::refusal::Refusal;
use crate::logic::resources::topology::admission::{AllocationFailure, Provider};
use crate::logic::resources::topology::hints::{Hint, Hints};

impl Provider for CpuManager {
    fn hints(&self, pod: &Pod, container: &Container) -> Hints {
        Self::hints(self, pod, container)
    }

    fn pod_hints(&self, pod: &Pod) -> Hints {
        Self::pod_hints(self, pod)
    }

    fn allocate(&mut self, pod: &Pod, container: &Container, affinity: &Hint) -> Result<(), AllocationFailure> {
        let given = Self::allocate(self, pod, container, affinity.nodes)?;
        self.note_given(container.name.clone(), given);
        Ok(())
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: &Hint) -> Result<(), AllocationFailure> {
        let given = Self::allocate_pod(self, pod, affinity.nodes)?;
        self.note_given(String::new(), given);
        Ok(())
    }

    fn mark(&mut self) {
        self.set_mark();
    }

    fn revert(&mut self) {
        self.return_to_mark();
    }
}

impl From<Refusal> for AllocationFailure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotEnough(few) => Self::Unexpected(few.to_string()),
            Refusal::SplitsCore { .. } | Refusal::FewCores { .. } | Refusal::EmptyPool(_) => {
                Self::Reasoned { reason: refusal.reason(), message: refusal.to_string() }
            }
        }
    }
}
