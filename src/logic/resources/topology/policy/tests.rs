//! The policies against upstream's situations and answers.

use serde::Deserialize;

use super::*;

fn hint(bits: u64, preferred: bool) -> Hint {
    Hint { nodes: Some(NumaMask::from_bits(bits)), preferred }
}

fn machine(nodes: u8) -> NumaNodes {
    NumaNodes::new((0..nodes).map(|node| (node, vec![10; usize::from(nodes)])))
}

fn policy(kind: PolicyKind, nodes: u8) -> Policy {
    Policy::new(kind, Options::default(), machine(nodes)).expect("few nodes")
}

fn resource(name: &str, hints: Option<Vec<Hint>>) -> Hints {
    Hints::from([(name.to_owned(), hints)])
}

/// The answers of upstream's code.
#[derive(Deserialize)]
struct Answered {
    policy: String,
    closest: bool,
    nodes: Vec<u8>,
    distances: Vec<Vec<u64>>,
    providers: Vec<BTreeMap<String, Option<Vec<Written>>>>,
    hint: Written,
    admit: bool,
}

#[derive(Deserialize)]
struct Written {
    n: Option<u64>,
    p: bool,
}

impl Written {
    fn hint(&self) -> Hint {
        Hint { nodes: self.n.map(NumaMask::from_bits), preferred: self.p }
    }
}

/// RES-35: 400 situations of 1 to 8 nodes, made by chance; the answers are those of upstream's policies in 1.36.2.
#[test]
fn every_policy_answers_as_upstream_does() {
    let text = include_str!("../../../../../tests/upstream/merges.json");
    let cases: Vec<Answered> = serde_json::from_str(text).expect("a list of cases");
    assert!(cases.len() >= 300);
    for (number, case) in cases.iter().enumerate() {
        let machine = NumaNodes::new(case.nodes.iter().copied().zip(case.distances.iter().cloned()));
        let options = Options { prefer_closest: case.closest, ..Options::default() };
        let policy = Policy::new(case.policy.parse().expect("a policy"), options, machine).expect("few nodes");
        let providers: Vec<Hints> = case.providers.iter().map(hints).collect();
        let expected = Verdict { hint: case.hint.hint(), admit: case.admit };
        assert_eq!(policy.merge(&providers), expected, "case {number}: {providers:?}");
    }
}

fn hints(written: &BTreeMap<String, Option<Vec<Written>>>) -> Hints {
    let list = |list: &Option<Vec<Written>>| list.as_ref().map(|list| list.iter().map(Written::hint).collect());
    written.iter().map(|(name, hints)| (name.clone(), list(hints))).collect()
}

/// RES-35: upstream's situations on two nodes: (name, providers, best-effort and restricted, single-numa-node).
#[test]
fn policies_differ_in_what_they_admit() {
    let any = Hint::ANY;
    let cases = [
        ("nobody has a preference", vec![Hints::new()], hint(0b11, true), any.clone(), true),
        ("a resource without preference", vec![resource("r", None)], hint(0b11, true), any, true),
        (
            "a resource that cannot be met",
            vec![resource("r", Some(vec![]))],
            hint(0b11, false),
            Hint { nodes: None, preferred: false },
            false,
        ),
        (
            "two agree on one node",
            vec![resource("a", Some(vec![hint(0b10, true)])), resource("b", Some(vec![hint(0b10, true)]))],
            hint(0b10, true),
            hint(0b10, true),
            true,
        ),
        (
            "one node for one, both for the other",
            vec![resource("a", Some(vec![hint(0b01, true)])), resource("b", Some(vec![hint(0b11, true)]))],
            hint(0b01, false),
            Hint { nodes: None, preferred: false },
            false,
        ),
        (
            "both nodes for everybody",
            vec![resource("a", Some(vec![hint(0b11, true)])), resource("b", Some(vec![hint(0b11, true)]))],
            hint(0b11, true),
            Hint { nodes: None, preferred: false },
            false,
        ),
    ];
    for (name, providers, merged, single, single_admits) in cases {
        let verdict = policy(PolicyKind::BestEffort, 2).merge(&providers);
        assert_eq!(verdict, Verdict { hint: merged.clone(), admit: true }, "{name}");
        let verdict = policy(PolicyKind::Restricted, 2).merge(&providers);
        assert_eq!(verdict, Verdict { admit: merged.preferred, hint: merged }, "{name}");
        let verdict = policy(PolicyKind::SingleNumaNode, 2).merge(&providers);
        assert_eq!(verdict, Verdict { hint: single, admit: single_admits }, "{name}");
        let verdict = policy(PolicyKind::None, 2).merge(&providers);
        assert_eq!(verdict, Verdict { hint: Hint { nodes: None, preferred: false }, admit: true }, "{name}");
    }
}

/// RES-38.
#[test]
fn options_are_read_with_upstreams_texts() {
    let parse = |pairs: &[(&str, &str)]| {
        Options::parse(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    };
    let expected = Options { prefer_closest: true, nodes_max: 12 };
    assert_eq!(parse(&[(PREFER_CLOSEST, "true"), (NODES_MAX, "12")]), Ok(expected));
    assert_eq!(parse(&[(NODES_MAX, "8")]), Ok(Options::default()));
    let texts = |pairs: &[(&str, &str)]| {
        parse(pairs).expect_err("wrong options").iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // Upstream tells the first of them alone.
    assert_eq!(
        texts(&[("fancy", "1"), (NODES_MAX, "7"), (PREFER_CLOSEST, "not a boolean")]),
        [
            "unknown Topology Manager Policy option: \"fancy\"",
            "the minimum value of \"max-allowable-numa-nodes\" should not be less than 8",
            "bad value for option \"prefer-closest-numa-nodes\": strconv.ParseBool: parsing \"not a boolean\": invalid syntax",
        ]
    );
    assert_eq!(
        texts(&[(NODES_MAX, "can't parse to int")]),
        ["unable to convert policy option to integer \"max-allowable-numa-nodes\": strconv.Atoi: parsing \
             \"can't parse to int\": invalid syntax"]
    );
    assert_eq!("x".parse::<PolicyKind>().expect_err("no policy").to_string(), "unknown policy: \"x\"");
    assert_eq!("x".parse::<Scope>().expect_err("no scope").to_string(), "unknown scope: \"x\"");
}

/// RES-38.
#[test]
fn a_machine_may_have_eight_nodes_or_as_many_as_the_option_says() {
    let make = |kind, nodes, options| Policy::new(kind, options, machine(nodes)).map(|policy| policy.kind());
    let twelve = Options { nodes_max: 12, ..Options::default() };
    for kind in [PolicyKind::BestEffort, PolicyKind::Restricted, PolicyKind::SingleNumaNode] {
        assert_eq!(make(kind, 8, Options::default()), Ok(kind));
        let error = make(kind, 9, Options::default()).expect_err("too many nodes");
        assert_eq!(error.to_string(), "unsupported on machines with more than 8 NUMA Nodes");
        assert_eq!(make(kind, 12, twelve), Ok(kind));
        assert_eq!(make(kind, 13, twelve), Err(TopologyError::TooManyNodes(12)));
    }
    assert_eq!(make(PolicyKind::None, 64, Options::default()), Ok(PolicyKind::None));
    let blind = NumaNodes::new([(0, vec![]), (1, vec![])]);
    let closest = Options { prefer_closest: true, ..Options::default() };
    let error = Policy::new(PolicyKind::Restricted, closest, blind.clone()).expect_err("no distances");
    assert_eq!(error.to_string(), "cannot discover NUMA topology: error getting NUMA distances from cadvisor");
    assert!(Policy::new(PolicyKind::Restricted, Options::default(), blind).is_ok());
}
