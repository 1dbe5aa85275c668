//! A pod worker's job that asks the runtime about what its list no longer shows.

use super::site::JobSite;
use crate::actors::runtime::pleg::{container_account, present};
use crate::cri::CriResult;
use crate::cri::pod_mapping::runtime_sandbox;
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
}
