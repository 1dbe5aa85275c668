//! Stop signals: the API's names (`SIGRTMIN+1`) and the wire's numbers (`SIGRTMINPLUS1`). KEP-4960.

use crate::cri::wire::Signal;

/// The wire's number of a signal that the API names; the image's own signal where there is none, or where the API
/// server let a name pass that this protocol does not have.
pub(super) fn signal_number(name: Option<&str>) -> i32 {
    let wire_name = name.unwrap_or_default().replace("MIN+", "MINPLUS").replace("MAX-", "MAXMINUS");
    Signal::from_str_name(&wire_name).unwrap_or(Signal::RuntimeDefault).into()
}

/// The API's name of a signal of the wire; `None` for the image's own and for numbers that this agent does not know.
pub(super) fn signal_name(number: i32) -> Option<String> {
    match Signal::try_from(number) {
        Ok(Signal::RuntimeDefault) | Err(_) => None,
        Ok(signal) => Some(signal.as_str_name().replace("MINPLUS", "MIN+").replace("MAXMINUS", "MAX-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_of_the_wire_keeps_its_number_through_its_api_name() {
        for number in 1..=65 {
            let name = signal_name(number).expect("has a name");
            assert!(!name.contains("PLUS") && !name.contains("MINUS"), "{name} is an API name");
            assert_eq!(signal_number(Some(&name)), number, "{name}");
        }
    }

    #[test]
    fn names_are_spelled_as_in_the_api() {
        let table = [(23, "SIGTERM"), (35, "SIGRTMIN"), (36, "SIGRTMIN+1"), (51, "SIGRTMAX-14"), (65, "SIGRTMAX")];
        for (number, name) in table {
            assert_eq!(signal_name(number).as_deref(), Some(name));
        }
    }

    #[test]
    fn the_default_and_unknown_signals_have_no_name() {
        for number in [0, 66, -1, i32::MAX] {
            assert_eq!(signal_name(number), None, "{number}");
        }
        for name in [None, Some(""), Some("SIGNONSENSE")] {
            assert_eq!(signal_number(name), 0, "{name:?}");
        }
    }
}
