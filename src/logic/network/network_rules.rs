//! The packet filter rules that a node's agent keeps, as arguments of `iptables` and `ip6tables`; what their answers mean.
//!
//! Pure. Other programs parse the names, so all of them are upstream's: `KUBE-IPTABLES-HINT` says which flavour of
//! iptables the node uses, `KUBE-KUBELET-CANARY` vanishes when somebody flushes the tables, and `KUBE-FIREWALL` drops
//! packets for 127.0.0.0/8 from elsewhere (CVE-2020-8558). kube-proxy makes the same rule: its text must not differ.

use std::fmt;

const HINT: &str = "KUBE-IPTABLES-HINT";
const CANARY: &str = "KUBE-KUBELET-CANARY";
const FIREWALL: &str = "KUBE-FIREWALL";
const FIREWALL_RULE: &[&str] = &[
    "-m",
    "comment",
    "--comment",
    "block incoming localnet connections",
    "--dst",
    "127.0.0.0/8",
    "!",
    "--src",
    "127.0.0.0/8",
    "-m",
    "conntrack",
    "!",
    "--ctstate",
    "RELATED,ESTABLISHED,DNAT",
    "-j",
    "DROP",
];
/// Tables with a canary, the one that is looked at first.
const CANARY_TABLES: [&str; 3] = ["mangle", "nat", "filter"];
/// Wait for the lock that all programs of this kind share, in seconds; upstream's.
const WAIT: [&str; 2] = ["-w", "5"];

/// The generation of the internet protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `iptables`.
    Ipv4,
    /// `ip6tables`.
    Ipv6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    /// The program that sets its rules.
    pub fn program(self) -> &'static str {
        match self {
            Self::Ipv4 => "iptables",
            Self::Ipv6 => "ip6tables",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// Something that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A chain of a table.
    Chain(&'static str, &'static str),
    /// A rule: its place among others, table, chain, what it says.
    Rule(Place, &'static str, &'static str, &'static [&'static str]),
}

/// Where a rule is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
}

/// The items that a family's tables must hold, in the order in which they are made; the canaries come last: they vouch
/// for the rest.
pub fn items(family: Family) -> Vec<Item> {
    let mut items = vec![Item::Chain("mangle", HINT)];
    // Only the older protocol has a network of its own for the machine itself.
    if family == Family::Ipv4 {
        items.extend([
            Item::Chain("filter", FIREWALL),
            Item::Rule(Place::First, "filter", "OUTPUT", &["-j", FIREWALL]),
            Item::Rule(Place::First, "filter", "INPUT", &["-j", FIREWALL]),
            Item::Rule(Place::Last, "filter", FIREWALL, FIREWALL_RULE),
        ]);
    }
    items.extend(CANARY_TABLES.map(|table| Item::Chain(table, CANARY)));
    items
}

/// The items that a look at a family's tables asks for, in order. The canary alone would not show that somebody flushed
/// `filter` and nothing else, so the rule that protects the node is asked for, too.
pub fn looked_at(family: Family) -> Vec<Item> {
    let canary = Item::Chain(CANARY_TABLES[0], CANARY);
    let rule = Item::Rule(Place::Last, "filter", FIREWALL, FIREWALL_RULE);
    if family == Family::Ipv4 { vec![canary, rule] } else { vec![canary] }
}

/// The items that are looked at while somebody flushes: the canaries that go after the first one.
pub fn other_canaries() -> Vec<Item> {
    CANARY_TABLES[1..].iter().map(|table| Item::Chain(table, CANARY)).collect()
}

/// Asks whether this machine has a family's tables at all.
pub fn is_supported() -> Vec<&'static str> {
    arguments("-S", "nat", "POSTROUTING", &[])
}

impl Item {
    /// Asks whether it is there.
    pub fn ask(self) -> Vec<&'static str> {
        match self {
            Self::Chain(table, chain) => arguments("-S", table, chain, &[]),
            Self::Rule(_, table, chain, rule) => arguments("-C", table, chain, rule),
        }
    }

    /// Makes it.
    pub fn make(self) -> Vec<&'static str> {
        match self {
            Self::Chain(table, chain) => arguments("-N", table, chain, &[]),
            Self::Rule(Place::First, table, chain, rule) => arguments("-I", table, chain, rule),
            Self::Rule(Place::Last, table, chain, rule) => arguments("-A", table, chain, rule),
        }
    }

    /// Whether making it twice makes two of it; it is asked for first then.
    pub fn piles_up(self) -> bool {
        matches!(self, Self::Rule(..))
    }
}

fn arguments(
    operation: &'static str,
    table: &'static str,
    chain: &'static str,
    rule: &'static [&'static str],
) -> Vec<&'static str> {
    WAIT.into_iter().chain([operation, chain, "-t", table]).chain(rule.iter().copied()).collect()
}

/// The meaning of a program's exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there, or was made.
    Yes,
    /// It is not there; of a chain that was to be made: it was there before.
    No,
    /// Somebody else has the lock, or the kernel had no memory: nothing is known.
    Busy,
    /// The question was not understood, or the program was killed.
    Wrong,
}

impl Answer {
    /// Of a program that ended with this status; none of one that was killed.
    pub fn from_status(status: Option<i32>) -> Self {
        match status {
            Some(0) => Self::Yes,
            Some(1) => Self::No,
            Some(4) => Self::Busy,
            _ => Self::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(items: &[Item], words: fn(Item) -> Vec<&'static str>) -> Vec<String> {
        items.iter().map(|item| words(*item).join(" ")).collect()
    }

    /// CVE-2020-8558, SEC-54: the rule's text is the same as kube-proxy's.
    #[test]
    fn cve_2020_8558_sec_54_both_families_get_their_chains_and_the_older_one_its_rule() {
        assert_eq!(
            lines(&items(Family::Ipv4), Item::make),
            [
                "-w 5 -N KUBE-IPTABLES-HINT -t mangle",
                "-w 5 -N KUBE-FIREWALL -t filter",
                "-w 5 -I OUTPUT -t filter -j KUBE-FIREWALL",
                "-w 5 -I INPUT -t filter -j KUBE-FIREWALL",
                "-w 5 -A KUBE-FIREWALL -t filter -m comment --comment block incoming localnet connections \
                 --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
                "-w 5 -N KUBE-KUBELET-CANARY -t mangle",
                "-w 5 -N KUBE-KUBELET-CANARY -t nat",
                "-w 5 -N KUBE-KUBELET-CANARY -t filter",
            ]
        );
        assert_eq!(
            lines(&items(Family::Ipv6), Item::make),
            [
                "-w 5 -N KUBE-IPTABLES-HINT -t mangle",
                "-w 5 -N KUBE-KUBELET-CANARY -t mangle",
                "-w 5 -N KUBE-KUBELET-CANARY -t nat",
                "-w 5 -N KUBE-KUBELET-CANARY -t filter",
            ]
        );
        assert_eq!([Family::Ipv4, Family::Ipv6].map(Family::program), ["iptables", "ip6tables"]);
    }

    #[test]
    fn a_look_asks_for_the_canary_and_for_the_rule() {
        assert_eq!(
            lines(&looked_at(Family::Ipv4), Item::ask),
            [
                "-w 5 -S KUBE-KUBELET-CANARY -t mangle",
                "-w 5 -C KUBE-FIREWALL -t filter -m comment --comment block incoming localnet connections \
                 --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
            ]
        );
        assert_eq!(lines(&looked_at(Family::Ipv6), Item::ask), ["-w 5 -S KUBE-KUBELET-CANARY -t mangle"]);
        assert_eq!(is_supported().join(" "), "-w 5 -S POSTROUTING -t nat");
        let chains = |items: Vec<Item>| items.iter().filter(|item| !item.piles_up()).count();
        assert_eq!((chains(items(Family::Ipv4)), chains(other_canaries())), (5, 2));
    }

    #[test]
    fn answers_are_exit_statuses() {
        let cases = [
            (Some(0), Answer::Yes),
            (Some(1), Answer::No),
            (Some(4), Answer::Busy),
            (Some(2), Answer::Wrong),
            (None, Answer::Wrong),
        ];
        for (status, expected) in cases {
            assert_eq!(Answer::from_status(status), expected, "{status:?}");
        }
    }
}
