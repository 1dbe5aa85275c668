//! `NetworkRules`: the packet filter rules that other components expect of a node (`makeIPTablesUtilChains`).
//!
//! Parent: Root. Restarted: after a failure; it makes again what is not there. The agent itself needs none of the rules,
//! so no trouble here is more than a line in the log. A family without support when the actor starts is left alone, as
//! upstream does: nothing on such a machine can look for the rules.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::logic::network::network_rules::{Answer, Family, Item, is_supported, items, looked_at, other_canaries};
use crate::messages::Lost;
use crate::messages::node::network_rules::{Kept, NetworkRulesMsg};
use crate::platform::network::network_rules;

/// Wait between looks; upstream's.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// While somebody flushes: how often the other tables are looked at, and how many times (5 s together, as upstream).
const FLUSH_POLLS: (u32, Duration) = (10, Duration::from_millis(500));

/// The actor's arguments.
pub struct Args {
    /// `makeIPTablesUtilChains`: whether there are to be any rules.
    pub wanted: bool,
    /// The machine's packet filter.
    pub network_rules: Arc<dyn network_rules::NetworkRules>,
}

/// See the module.
pub struct NetworkRules {
    args: Args,
    /// The last outcome of each family: the log has each once.
    said: BTreeMap<Family, Kept>,
}

impl Actor for NetworkRules {
    const KIND: &'static str = "NetworkRules";
    type Msg = NetworkRulesMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<NetworkRulesMsg>) -> Self {
        let rules = Self { args, said: BTreeMap::new() };
        if rules.args.wanted {
            for family in Family::ALL {
                let rules = Arc::clone(&rules.args.network_rules);
                let work = async move { begin_to_keep(&*rules, family).await };
                start(family, work, context);
            }
        }
        rules
    }

    fn receive(&mut self, message: NetworkRulesMsg, context: &mut Context<NetworkRulesMsg>) {
        match message {
            NetworkRulesMsg::Kept(family, outcome) => self.kept(family, outcome, context),
            NetworkRulesMsg::LookDue(family) => {
                let rules = Arc::clone(&self.args.network_rules);
                let was_there = matches!(self.said.get(&family), Some(Kept::There { .. }));
                let work =
                    async move { if was_there { look(&*rules, family).await } else { make(&*rules, family).await } };
                start(family, work, context);
            }
        }
    }
}

fn start(family: Family, work: impl Future<Output = Kept> + Send + 'static, context: &mut Context<NetworkRulesMsg>) {
    context.start("keep rules", family.program(), work, move |outcome| NetworkRulesMsg::Kept(family, outcome));
}

impl NetworkRules {
    fn kept(&mut self, family: Family, outcome: Result<Kept, Lost>, context: &mut Context<NetworkRulesMsg>) {
        let kept = outcome.unwrap_or_else(|loss| Kept::Failed(loss.to_string()));
        let before = self.said.insert(family, kept.clone());
        match &kept {
            Kept::Unsupported(problem) => {
                tracing::debug!(protocol = %family, problem, "no support for iptables");
                let nobody = |said: &Kept| matches!(said, Kept::Unsupported(_));
                if self.said.len() == Family::ALL.len() && self.said.values().all(nobody) {
                    tracing::info!("No iptables support on this system; not creating the KUBE-IPTABLES-HINT chain");
                }
                return;
            }
            Kept::There { .. } if !matches!(before, Some(Kept::There { .. })) => {
                tracing::info!(protocol = %family, "Initialized iptables rules.");
            }
            Kept::There { made: true } => tracing::info!(protocol = %family, "iptables rules made again after a flush"),
            Kept::There { made: false } => {}
            Kept::Failed(problem) if before.as_ref() != Some(&kept) => {
                let text = "Failed to initialize iptables rules; some functionality may be missing.";
                tracing::warn!(protocol = %family, problem, "{text}");
            }
            Kept::Failed(_) => {}
        }
        context.after(LOOK_PERIOD, NetworkRulesMsg::LookDue(family));
    }
}

/// The first time: only where the machine has the family's tables.
async fn begin_to_keep(rules: &dyn network_rules::NetworkRules, family: Family) -> Kept {
    match rules.call(family, is_supported()).await {
        Ok(ran) if ran.answer == Answer::Yes => make(rules, family).await,
        // Somebody holds the lock: whether there are tables shows when the rules are made.
        Ok(ran) if ran.answer == Answer::Busy => make(rules, family).await,
        Ok(ran) => Kept::Unsupported(ran.complaint),
        Err(error) => Kept::Unsupported(error.to_string()),
    }
}

/// Makes what is not there.
async fn make(rules: &dyn network_rules::NetworkRules, family: Family) -> Kept {
    let mut made = false;
    for item in items(family) {
        match make_one(rules, family, item).await {
            Ok(one) => made |= one,
            Err(problem) => return Kept::Failed(problem),
        }
    }
    Kept::There { made }
}

/// Makes one item unless it is there; whether it was made.
async fn make_one(rules: &dyn network_rules::NetworkRules, family: Family, item: Item) -> Result<bool, String> {
    let call = async |arguments: Vec<&'static str>| {
        let what = arguments[2..].join(" ");
        match rules.call(family, arguments).await {
            Ok(ran) if matches!(ran.answer, Answer::Yes | Answer::No) => Ok((ran, what)),
            Ok(ran) => Err(format!("{what}: {}", ran.complaint)),
            Err(error) => Err(error.to_string()),
        }
    };
    if item.piles_up() && call(item.ask()).await?.0.answer == Answer::Yes {
        return Ok(false);
    }
    let (ran, what) = call(item.make()).await?;
    match ran.answer {
        Answer::Yes => Ok(true),
        // A chain that is there cannot be made.
        _ if !item.piles_up() => Ok(false),
        _ => Err(format!("{what}: {}", ran.complaint)),
    }
}

/// Looks whether the rules are still there, and makes them again where they are not.
async fn look(rules: &dyn network_rules::NetworkRules, family: Family) -> Kept {
    let there = async |item: Item| match rules.call(family, item.ask()).await {
        // Where nothing is known, nothing is done.
        Ok(ran) => matches!(ran.answer, Answer::Yes | Answer::Busy),
        Err(_) => true,
    };
    let looked_at = looked_at(family);
    for (index, item) in looked_at.into_iter().enumerate() {
        if there(item).await {
            continue;
        }
        let (polls, wait) = if index == 0 { FLUSH_POLLS } else { (0, Duration::ZERO) };
        // A flush goes table by table: what is made before its end would be lost again.
        for _ in 0..polls {
            let mut left = false;
            for canary in other_canaries() {
                left |= there(canary).await;
            }
            if !left {
                break;
            }
            tokio::time::sleep(wait).await;
        }
        return make(rules, family).await;
    }
    Kept::There { made: false }
}
