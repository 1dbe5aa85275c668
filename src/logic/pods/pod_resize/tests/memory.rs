//! Memory that is in use is not taken away (RES-58).

use super::*;

fn mib(count: u64) -> u64 {
    count << 20
}

fn memory(limit: i64) -> PodFigures {
    figures(2, -1, limit)
}

/// An update of the memory limit, in MiB; 0 is none.
fn limited(name: &str, old: i64, new: i64) -> ContainerUpdate {
    update(name, amounts(1, old * MIB), amounts(1, new * MIB))
}

/// RES-58.
#[test]
fn memory_is_not_limited_below_its_use() {
    let check = memory_check(&memory(20 * MIB), &memory(10 * MIB), &[limited("a", 20, 10)]);
    let used = |count: u64| BTreeMap::from([("a".to_owned(), mib(count))]);
    assert_eq!(refusal(&check, Some(mib(9)), &used(8)), None);
    assert_eq!(
        refusal(&check, Some(mib(10)), &used(8)).expect("too much"),
        "cannot decrease memory limits: attempting to set pod memory limit (10485760) below current usage (10485760)"
    );
    assert_eq!(
        refusal(&check, Some(mib(9)), &used(10)).expect("too much"),
        "cannot decrease memory limits: attempting to set container \"a\" memory limit (10485760) below current usage \
         (10485760)"
    );
    assert_eq!(
        refusal(&check, None, &used(11)).expect("too much"),
        "cannot decrease memory limits: [missing pod memory usage, attempting to set container \"a\" memory limit \
         (10485760) below current usage (11534336)]"
    );
    assert_eq!(
        refusal(&check, Some(0), &BTreeMap::new()).expect("not known"),
        "cannot decrease memory limits: missing container \"a\" memory usage"
    );
}

/// Use matters where a limit becomes less, and where there was none.
#[test]
fn the_use_is_looked_at_where_a_limit_becomes_less() {
    for (old, new, expected) in [
        (20 * MIB, 10 * MIB, Some(mib(10))),
        (10 * MIB, 20 * MIB, None),
        (10 * MIB, 10 * MIB, None),
        (-1, 10 * MIB, Some(mib(10))),
        (10 * MIB, -1, None),
        // Less than a page is nothing to the kernel.
        (10 * MIB, 10 * MIB - 4095, None),
        (10 * MIB, 10 * MIB - 4096, Some(mib(10) - 4096)),
    ] {
        assert_eq!(memory_check(&memory(old), &memory(new), &[]).pod, expected, "{old} {new}");
    }
    let uncontrolled = PodFigures { memory_limit: None, ..memory(0) };
    assert!(memory_check(&memory(20 * MIB), &uncontrolled, &[]).is_empty(), "it stays");
    assert!(memory_check(&uncontrolled, &memory(20 * MIB), &[]).is_empty(), "there is no such control");
    for (old, new, looked_at) in [(20, 10, true), (0, 10, true), (10, 20, false), (10, 10, false), (10, 0, false)] {
        let check = memory_check(&memory(-1), &memory(-1), &[limited("a", old, new)]);
        let bytes = mib(u64::try_from(new).expect("positive"));
        let expected = looked_at.then(|| ("a".into(), "a".to_owned(), bytes));
        assert_eq!(check.containers, expected.into_iter().collect::<Vec<_>>(), "{old} {new}");
        assert_eq!(check.is_empty(), !looked_at, "{old} {new}");
    }
}

/// A request is nothing that the kernel holds a container to.
#[test]
fn a_smaller_request_of_memory_takes_nothing_away() {
    let old = Amounts { memory_limit: 20 * MIB, ..amounts(1, 10 * MIB) };
    let less = Amounts { memory_request: MIB, ..old };
    assert!(memory_check(&memory(20 * MIB), &memory(20 * MIB), &[update("a", old, less)]).is_empty());
}

#[test]
fn one_container_that_uses_too_much_holds_up_all() {
    let updates = [limited("a", 20, 10), limited("b", 20, 30), limited("c", 20, 15)];
    let check = memory_check(&memory(60 * MIB), &memory(55 * MIB), &updates);
    let names: Vec<&str> = check.containers.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    let used = |a: u64, c: u64| BTreeMap::from([("a".to_owned(), mib(a)), ("c".to_owned(), mib(c))]);
    assert_eq!(refusal(&check, Some(mib(20)), &used(9, 14)), None);
    assert_eq!(
        refusal(&check, Some(mib(20)), &used(9, 15)).expect("too much"),
        "cannot decrease memory limits: attempting to set container \"c\" memory limit (15728640) below current usage \
         (15728640)"
    );
    let both = refusal(&check, Some(mib(20)), &used(10, 15)).expect("too much");
    assert!(
        both.contains("[attempting to set container \"a\"") && both.contains(", attempting to set container \"c\"")
    );
}

#[test]
fn nothing_to_look_at_is_no_refusal() {
    assert_eq!(refusal(&MemoryCheck::default(), None, &BTreeMap::new()), None);
}
