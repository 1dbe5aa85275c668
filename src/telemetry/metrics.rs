//! Metrics.

use crate::actors::settings::Agent;

/// All metrics of the agent.
#[derive(Default)]
pub struct Metrics {}

impl Metrics {
    /// The text form.
    pub async fn render(&self, _: &Agent) -> String {
        String::new()
    }
}
