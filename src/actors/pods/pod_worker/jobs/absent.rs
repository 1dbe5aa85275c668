//! A pod worker's questions to the runtime about what its lists no longer show, or do not show yet.

use std::collections::BTreeSet;

use super::site::JobSite;
use crate::actors::runtime::pleg::{container_account, present};
use crate::cri::pod_mapping::{labels, runtime_sandbox};
use crate::cri::{ContainerFilter, CriResult, Labels};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::pods::pod_lifecycle::{Absent, Found, JobEnd};

impl JobSite {
    /// Asks about each by its ID.
    pub(in super::super) async fn confirm(self, asked: Absent) -> JobEnd {
        let found = self.try_confirm(&asked).await;
        JobEnd::Confirmed(asked, found.map_err(|error| error.to_string()))
    }

    async fn try_confirm(&self, asked: &Absent) -> CriResult<Found> {
        let (runtime, files) = (&self.tools.adapters.runtime, &*self.tools.adapters.files);
        let stop_signals = self.tools.settings.containers.stop_signals;
        let mut found = Found::default();
        for id in &asked.sandboxes {
            let status = present(runtime.pod_sandbox_status(id).await)?;
            found.sandboxes.extend(status.map(|status| runtime_sandbox(&status)));
        }
        for (id, sandbox) in &asked.containers {
            if let Some(status) = present(runtime.container_status(id).await)? {
                found.containers.push(container_account(files, stop_signals, &self.uid, &status, sandbox).await);
            }
        }
        Ok(found)
    }

    /// Asks for instances of a container that no look showed, although its logs tell of one: by the pod's label, and by the IDs
    /// in the links to its logs. A list alone never leads to a second instance, also one that another agent started.
    ///
    /// # Errors
    /// Says which instance there is, or why that is not known.
    pub(super) async fn deny_unseen(&self, container: &str, seen: Option<&RuntimePod>) -> Result<(), String> {
        let linked = self.tools.adapters.files.linked_containers(&self.place(), container).await;
        let linked = linked.map_err(|error| error.to_string())?;
        let found = self.find_unseen(container, linked, seen).await.map_err(|error| error.words().into_owned())?;
        match found {
            Some(id) => Err(format!("the runtime holds container {id}, which its list lacked: it is looked at again")),
            None => Ok(()),
        }
    }

    async fn find_unseen(
        &self,
        container: &str,
        linked: BTreeSet<ContainerId>,
        seen: Option<&RuntimePod>,
    ) -> CriResult<Option<ContainerId>> {
        let runtime = &self.tools.adapters.runtime;
        let label_selector: Labels = [(labels::POD_UID.to_owned(), self.uid.to_string())].into();
        let listed = runtime.list_containers(&ContainerFilter { label_selector, ..ContainerFilter::default() }).await?;
        let mut ids = linked;
        ids.extend(listed.into_iter().filter(|one| one.metadata.name == container).map(|one| one.id));
        let is_seen = |id: &ContainerId| seen.is_some_and(|seen| seen.containers.iter().any(|one| one.id == *id));
        for id in ids.into_iter().filter(|id| !is_seen(id)) {
            if present(runtime.container_status(&id).await)?.is_some() {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}
