//! The tables of quantities, and what must hold for every one.

use proptest::prelude::*;

use super::{Format, Quantity, QuantityError};

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_notation_reads_and_prints_in_canonical_form() {
    // text, canonical text, whole units, thousandths
    let cases: &[(&str, &str, i64, i64)] = &[
        ("0", "0", 0, 0),
        ("0n", "0", 0, 0),
        ("-0", "0", 0, 0),
        (".", "0", 0, 0),
        ("m", "0", 0, 0),
        ("Ki", "0", 0, 0),
        ("0Ki", "0", 0, 0),
        ("1", "1", 1, 1_000),
        ("+1", "1", 1, 1_000),
        ("-1", "-1", -1, -1_000),
        ("1n", "1n", 1, 1),
        ("100u", "100u", 1, 1),
        ("1m", "1m", 1, 1),
        ("100m", "100m", 1, 100),
        ("1500m", "1500m", 2, 1_500),
        ("1.5", "1500m", 2, 1_500),
        ("0.5", "500m", 1, 500),
        (".5", "500m", 1, 500),
        ("5.", "5", 5, 5_000),
        ("1.Gi", "1Gi", 1 << 30, 1000 << 30),
        ("2.0", "2", 2, 2_000),
        ("100000", "100k", 100_000, 100_000_000),
        ("1024", "1024", 1024, 1_024_000),
        ("1k", "1k", 1_000, 1_000_000),
        ("1000k", "1M", 1_000_000, 1_000_000_000),
        ("12G", "12G", 12_000_000_000, 12_000_000_000_000),
        ("1T", "1T", 1_000_000_000_000, 1_000_000_000_000_000),
        ("1P", "1P", 1_000_000_000_000_000, 1_000_000_000_000_000_000),
        ("1E", "1E", 1_000_000_000_000_000_000, i64::MAX),
        ("1000E", "1000E", i64::MAX, i64::MAX),
        ("1Ki", "1Ki", 1 << 10, 1000 << 10),
        ("1024Ki", "1Mi", 1 << 20, 1000 << 20),
        ("1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
        ("1.5Gi", "1536Mi", 3 << 29, (3 << 29) * 1000),
        ("64Mi", "64Mi", 64 << 20, (64 << 20) * 1000),
        ("1Ti", "1Ti", 1 << 40, 1000 << 40),
        ("1Pi", "1Pi", 1 << 50, 1000 << 50),
        ("1Ei", "1Ei", 1 << 60, i64::MAX),
        // Below 1024, or with a fraction left, binary notation prints in decimal.
        ("0.5Ki", "512", 512, 512_000),
        ("1.1Ki", "1126400m", 1_127, 1_126_400),
        ("0.0001Ki", "102400u", 1, 103),
        ("-1Ki", "-1Ki", -1024, -1_024_000),
        // The cap of binary notation.
        ("8Ei", "9223372036854775807", i64::MAX, i64::MAX),
        ("-8Ei", "-9223372036854775807", -i64::MAX, i64::MIN),
        ("99999999999999999999Ki", "9223372036854775807", i64::MAX, i64::MAX),
        // Exponents.
        ("1e3", "1e3", 1_000, 1_000_000),
        ("1E3", "1e3", 1_000, 1_000_000),
        ("12e-3", "12e-3", 1, 12),
        ("1e4", "10e3", 10_000, 10_000_000),
        ("123e0", "123", 123, 123_000),
        ("1.5e1", "15", 15, 15_000),
        ("1e+2", "100", 100, 100_000),
        // A value that is too small becomes the smallest amount, one with too many places is rounded up.
        ("0.1n", "1n", 1, 1),
        ("1e-40", "1e-9", 1, 1),
        ("1.0000000001", "1000000001n", 2, 1_001),
        ("-0.1n", "-1n", -1, -1),
    ];
    for &(text, canonical, units, milli) in cases {
        let read = quantity(text);
        assert_eq!(read.to_string(), canonical, "canonical form of {text}");
        assert_eq!(read.value(), units, "units of {text}");
        assert_eq!(read.milli_value(), milli, "thousandths of {text}");
    }
}

#[test]
fn texts_that_are_no_quantity_are_refused() {
    use QuantityError::{Format as Shape, Suffix};
    let cases = [
        ("", Shape),
        ("1.1.M", Shape),
        ("1+1.0M", Shape),
        ("0.1am", Shape),
        ("aoeu", Shape),
        (" 1", Shape),
        ("1 ", Shape),
        ("1Ki ", Shape),
        ("--1", Suffix),
        ("1e3.5", Shape),
        ("0x10", Shape),
        ("0.1mi", Suffix),
        (".5i", Suffix),
        ("1i", Suffix),
        ("-3.01i", Suffix),
        ("-3.01e-", Suffix),
        ("1K", Suffix),
        ("1ki", Suffix),
        ("1e99999999999999999999", Suffix),
        ("1Ki1", Suffix),
        ("1٣", Shape),
    ];
    for (text, error) in cases {
        assert_eq!(Quantity::parse(text).map(|read| read.to_string()), Err(error), "{text:?}");
    }
    assert_eq!(Quantity::parse(&"9".repeat(257)).map(|read| read.value()), Err(Shape));
}

#[test]
fn a_sum_keeps_the_notation_of_its_first_part_unless_that_is_zero() {
    assert_eq!(quantity("1Gi").plus(quantity("1k")).format(), Format::BinarySi);
    assert_eq!(quantity("0").plus(quantity("1Gi")).to_string(), "1Gi");
    assert_eq!(quantity("1Gi").plus(quantity("512Mi")).to_string(), "1536Mi");
    assert_eq!(quantity("2").minus(quantity("500m")).to_string(), "1500m");
    assert_eq!(Quantity::ZERO.minus(quantity("1Ki")).to_string(), "-1Ki");
    assert_eq!(Quantity::from_milli(1_500).to_string(), "1500m");
    assert_eq!(Quantity::from_units(1 << 31, Format::BinarySi).to_string(), "2Gi");
}

#[test]
fn quantities_compare_by_amount() {
    assert_eq!(quantity("1Ki"), quantity("1024"));
    assert!(quantity("1Ki") > quantity("1k"));
    assert!(quantity("-1") < quantity("0"));
    assert!(quantity("1n") > quantity("0"));
}

fn any_text() -> impl Strategy<Value = String> {
    let suffix = prop::sample::select(vec![
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-6", "E12",
    ]);
    ("[+-]?[0-9]{1,10}(\\.[0-9]{0,12})?", suffix).prop_map(|(number, suffix)| format!("{number}{suffix}"))
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_as_the_same_amount(text in any_text()) {
        let first = quantity(&text);
        let second = quantity(&first.to_string());
        prop_assert_eq!(first, second);
        // Read back, `64000` of `62.5Ki` is decimal, and printed as `64k`. From then on the text stays.
        prop_assert_eq!(quantity(&second.to_string()).to_string(), second.to_string());
        prop_assert!(!first.to_string().contains('.'));
    }

    #[test]
    fn readings_never_round_towards_zero(text in any_text()) {
        let read = quantity(&text);
        prop_assert!(i128::from(read.value()).abs() * 1_000 >= i128::from(read.milli_value()).abs());
        prop_assert_eq!(read.value() == 0, read.is_zero());
        prop_assert_eq!(read.milli_value() == 0, read.is_zero());
    }

    #[test]
    fn adding_and_taking_away_again_changes_nothing(one in any_text(), two in any_text()) {
        let (one, two) = (quantity(&one), quantity(&two));
        prop_assert_eq!(one.plus(two).minus(two), one);
        prop_assert_eq!(one.plus(two), two.plus(one));
        prop_assert_eq!(one.cmp(&two), one.minus(two).cmp(&Quantity::ZERO));
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text);
    }
}
