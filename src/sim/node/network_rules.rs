//! The simulated node's packet filter: tables, chains and rules, as `iptables` and `ip6tables` keep them.
//!
//! Its orders are checked: a rule or chain that is made twice, or a chain that is used and not there, fails as
//! the program would fail.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use async_trait::async_trait;

use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::logic::network::network_rules::{Answer, Family};
use crate::platform::network::network_rules::{NetworkRules, Ran, RulesError};

/// How long a program runs.
const CALL: Duration = Duration::from_millis(3);

/// A table's chains, each with its rules.
type Table = BTreeMap<String, Vec<String>>;

/// See the module.
#[derive(Debug)]
pub struct Firewall {
    /// Whether the machine has the programs and the tables.
    pub supported: bool,
    /// Tables by family and name.
    pub tables: BTreeMap<(Family, &'static str), Table>,
    /// Calls so far.
    pub calls: u64,
}

impl Default for Firewall {
    fn default() -> Self {
        let chains = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), vec![])).collect::<Table>();
        let of = |family| {
            [
                ((family, "mangle"), chains(&["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"])),
                ((family, "nat"), chains(&["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"])),
                ((family, "filter"), chains(&["INPUT", "FORWARD", "OUTPUT"])),
            ]
        };
        Self { supported: true, tables: Family::ALL.into_iter().flat_map(of).collect(), calls: 0 }
    }
}

impl Firewall {
    /// Removes the rules and the chains of others from these tables, as `iptables -F` and `-X` do.
    pub fn flush(&mut self, tables: &[&str]) {
        for ((_, name), table) in &mut self.tables {
            if tables.contains(name) {
                table.retain(|chain, _| !chain.starts_with("KUBE-"));
                table.values_mut().for_each(Vec::clear);
            }
        }
    }

    /// The rules of a chain; `None` when it is not there.
    pub fn rules(&self, family: Family, table: &str, chain: &str) -> Option<Vec<String>> {
        let found = self.tables.iter().find(|((of, name), _)| *of == family && *name == table);
        found.and_then(|(_, chains)| chains.get(chain)).cloned()
    }

    fn call(&mut self, family: Family, arguments: &[&'static str]) -> Answer {
        self.calls += 1;
        let ["-w", "5", operation, chain, "-t", table, rule @ ..] = arguments else { return Answer::Wrong };
        let (Some(chains), rule) = (self.tables.get_mut(&(family, *table)), rule.join(" ")) else {
            return Answer::Wrong;
        };
        let answer = |yes: bool| if yes { Answer::Yes } else { Answer::No };
        match (*operation, chains.get_mut(*chain)) {
            ("-N", None) => answer(chains.insert((*chain).to_owned(), vec![]).is_none()),
            ("-S", there) => answer(there.is_some()),
            ("-C", Some(rules)) => answer(rules.contains(&rule)),
            ("-I", Some(rules)) => {
                rules.insert(0, rule);
                Answer::Yes
            }
            ("-A", Some(rules)) => {
                rules.push(rule);
                Answer::Yes
            }
            _ => Answer::No,
        }
    }
}

#[async_trait]
impl NetworkRules for Outlet {
    async fn call(&self, family: Family, arguments: Vec<&'static str>) -> Result<Ran, RulesError> {
        let number = self.begin_call().await;
        self.pass(CALL).await;
        let answer = {
            let mut firewall = lock(&self.node().firewall);
            if !firewall.supported {
                firewall.calls += 1;
                let problem = io::ErrorKind::NotFound.into();
                return Err(RulesError::NotStarted { program: family.program(), problem });
            }
            firewall.call(family, &arguments)
        };
        self.end_call(number).await;
        Ok(Ran { answer, complaint: String::new() })
    }
}
