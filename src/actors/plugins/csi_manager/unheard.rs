//! News of `CsiManager` that others may have no room for: it repeats each until there is some.

use super::CsiManager;
use crate::actors::kit::context::Context;
use crate::actors::kit::untold::Untold;
use crate::actors::plugins::verdict::verdict;
use crate::logic::plugins::plugin::{Plugin, Refusal};
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::plugins::csi_manager::{CsiManagerMsg, DriverStep};

/// The subjects of the news.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// Why volumes cannot be used yet, to `NodeStatus`.
    Problem,
    /// The verdict about the driver at this socket, to `PluginWatcher`.
    Verdict(String),
}

/// News that there was no room for.
pub(super) type Unheard = Untold<News, CsiManagerMsg>;

/// No news are owed.
pub(super) fn none() -> Unheard {
    Untold::new(|| CsiManagerMsg::Driver(DriverStep::RetellDue))
}

impl CsiManager {
    /// Without an API server nobody says whether the node is ready.
    pub(super) fn tell_problem(&mut self, context: &mut Context<CsiManagerMsg>) {
        if self.args.api.is_some() {
            let (to, problem) = (self.args.node_status.clone(), self.problem.clone());
            let news = move || NodeStatusMsg::News(NodeNews::StorageProblem(problem.clone()));
            self.unheard.tell(News::Problem, move |context| context.try_tell(&to, news()), context);
        }
    }

    /// Tells what became of a driver.
    pub(super) fn tell_verdict(
        &mut self,
        plugin: &Plugin,
        outcome: Result<(), Refusal>,
        context: &mut Context<CsiManagerMsg>,
    ) {
        let verdict = verdict(&self.args.plugin_watcher, &plugin.socket, plugin.attempt, outcome);
        self.unheard.tell(News::Verdict(plugin.socket.clone()), verdict, context);
    }
}
