// SPDX-License-Identifier: Apache-2.0
//! Tables taken from Kubernetes 1.36: text, value in nanos and canonical form as `k8s.io/apimachinery` gives them.

use proptest::prelude::*;

use super::*;

const ACCEPTED: &[(&str, i128, &str)] = &[
    ("0", 0, "0"),
    ("0n", 0, "0"),
    ("0Ki", 0, "0"),
    ("0e5", 0, "0"),
    ("1", 1_000_000_000, "1"),
    ("+1", 1_000_000_000, "1"),
    ("-1", -1_000_000_000, "-1"),
    ("007", 7_000_000_000, "7"),
    ("100", 100_000_000_000, "100"),
    ("1000", 1_000_000_000_000, "1k"),
    ("1500", 1_500_000_000_000, "1500"),
    ("1.5", 1_500_000_000, "1500m"),
    ("1.", 1_000_000_000, "1"),
    (".5", 500_000_000, "500m"),
    (".5Ki", 512_000_000_000, "512"),
    ("0.5", 500_000_000, "500m"),
    ("0.1", 100_000_000, "100m"),
    ("1.2345", 1_234_500_000, "1234500u"),
    ("1n", 1, "1n"),
    ("0.9n", 1, "1n"),
    ("0.1n", 1, "1n"),
    ("12u", 12_000, "12u"),
    ("100m", 100_000_000, "100m"),
    ("1000m", 1_000_000_000, "1"),
    ("1500m", 1_500_000_000, "1500m"),
    ("0.5m", 500_000, "500u"),
    ("0.0005", 500_000, "500u"),
    ("100k", 100_000_000_000_000, "100k"),
    ("1k", 1_000_000_000_000, "1k"),
    ("1M", 1_000_000_000_000_000, "1M"),
    ("2500M", 2_500_000_000_000_000_000, "2500M"),
    ("1G", 1_000_000_000_000_000_000, "1G"),
    ("1T", 1_000_000_000_000_000_000_000, "1T"),
    ("1P", 1_000_000_000_000_000_000_000_000, "1P"),
    ("1E", 1_000_000_000_000_000_000_000_000_000, "1E"),
    ("10E", 10_000_000_000_000_000_000_000_000_000, "10E"),
    ("1Ki", 1_024_000_000_000, "1Ki"),
    ("4Ki", 4_096_000_000_000, "4Ki"),
    ("1.5Gi", 1_610_612_736_000_000_000, "1536Mi"),
    ("1536Mi", 1_610_612_736_000_000_000, "1536Mi"),
    ("1024Mi", 1_073_741_824_000_000_000, "1Gi"),
    ("1023", 1_023_000_000_000, "1023"),
    ("1023Ki", 1_047_552_000_000_000, "1023Ki"),
    ("1024", 1_024_000_000_000, "1024"),
    ("1024Ki", 1_048_576_000_000_000, "1Mi"),
    ("0.5Mi", 524_288_000_000_000, "512Ki"),
    ("0.1Mi", 104_857_600_000_000, "104857600m"),
    ("1.1Mi", 1_153_433_600_000_000, "1153433600m"),
    ("0.0001Gi", 107_374_182_400_000, "107374182400u"),
    ("16Gi", 17_179_869_184_000_000_000, "16Gi"),
    ("1Ti", 1_099_511_627_776_000_000_000, "1Ti"),
    ("1Pi", 1_125_899_906_842_624_000_000_000, "1Pi"),
    ("1Ei", 1_152_921_504_606_846_976_000_000_000, "1Ei"),
    ("7Ei", 8_070_450_532_247_928_832_000_000_000, "7Ei"),
    ("8Ei", 9_223_372_036_854_775_807_000_000_000, "9223372036854775807"),
    ("100Ei", 9_223_372_036_854_775_807_000_000_000, "9223372036854775807"),
    ("-8Ei", -9_223_372_036_854_775_807_000_000_000, "-9223372036854775807"),
    ("-1.5Gi", -1_610_612_736_000_000_000, "-1536Mi"),
    ("-100m", -100_000_000, "-100m"),
    ("9223372036854775807", 9_223_372_036_854_775_807_000_000_000, "9223372036854775807"),
    ("9223372036854775808", 9_223_372_036_854_775_808_000_000_000, "9223372036854775808"),
    ("18446744073709551616", 18_446_744_073_709_551_616_000_000_000, "18446744073709551616"),
    ("1e3", 1_000_000_000_000, "1e3"),
    ("1E3", 1_000_000_000_000, "1e3"),
    ("1e6", 1_000_000_000_000_000, "1e6"),
    ("12e6", 12_000_000_000_000_000, "12e6"),
    ("1.5e3", 1_500_000_000_000, "1500"),
    ("100e-1", 10_000_000_000, "10"),
    ("1e-3", 1_000_000, "1e-3"),
    ("1e-9", 1, "1e-9"),
    ("1e-10", 1, "1e-9"),
    ("5e-12", 1, "1e-9"),
    ("1e0", 1_000_000_000, "1"),
    ("123456e2", 12_345_600_000_000_000, "12345600"),
    ("+1.5e+3", 1_500_000_000_000, "1500"),
    ("-5e3", -5_000_000_000_000, "-5e3"),
    ("1E", 1_000_000_000_000_000_000_000_000_000, "1E"),
    ("129e6", 129_000_000_000_000_000, "129e6"),
    ("129M", 129_000_000_000_000_000, "129M"),
    ("123Mi", 128_974_848_000_000_000, "123Mi"),
    ("128974848", 128_974_848_000_000_000, "128974848"),
    ("129000000", 129_000_000_000_000_000, "129M"),
    ("12.75Mi", 13_369_344_000_000_000, "13056Ki"),
    ("3.141592653589793", 3_141_592_654, "3141592654n"),
    ("0.000000001", 1, "1n"),
    ("0.0000000011", 2, "2n"),
    ("1.000000000000000000000000000001", 1_000_000_001, "1000000001n"),
    ("4194304Ki", 4_294_967_296_000_000_000, "4Gi"),
    ("7935Mi", 8_320_450_560_000_000_000, "7935Mi"),
    ("3920m", 3_920_000_000, "3920m"),
    ("110", 110_000_000_000, "110"),
    ("1.0Ki", 1_024_000_000_000, "1Ki"),
    ("2047", 2_047_000_000_000, "2047"),
    ("2048Ki", 2_097_152_000_000_000, "2Mi"),
];

const REJECTED: &[&str] = &[
    "1e",
    "1e+",
    "",
    " 1",
    "1 ",
    "1i",
    "1mi",
    "1KI",
    "1ki",
    "1K",
    "1kk",
    "1MiB",
    "1GB",
    "1.1.1",
    "1.1.M",
    "1+1.0M",
    "0.1mi",
    "0.1am",
    "aoeu",
    ".5i",
    "-3.01i",
    "-3.01e-",
    "1e1.5",
    "1e5k",
    "--1",
    "+-1",
    "0x10",
    "1_000",
    "½",
    "1e99999999999999999999",
];

#[test]
fn text_is_read_and_written_as_kubernetes_does() {
    for (text, nano, canonical) in ACCEPTED {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.nano(), *nano, "{text}");
        assert_eq!(quantity.to_string(), *canonical, "{text}");
    }
}

#[test]
fn text_that_kubernetes_rejects_is_an_error_that_names_it() {
    for text in REJECTED {
        let error = text.parse::<Quantity>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{text:?} is not a quantity")), "{error}");
    }
}

#[test]
fn text_without_a_digit_is_an_error() {
    for text in ["e3", "-", "+", ".", "-.", "Ki", "m"] {
        assert!(text.parse::<Quantity>().is_err(), "{text:?}");
    }
}

#[test]
fn a_decimal_magnitude_is_capped_at_ten_to_the_29th() {
    let cap = 10_i128.pow(38);
    for (text, nano) in [
        ("100000000000E", cap),
        ("1e29", cap),
        ("1e400", cap),
        ("-1e400", -cap),
        ("1e9223372036854775807", cap),
        ("0e9223372036854775807", 0),
        ("1e-9223372036854775807", 1),
        ("99999999999999999999999999999999999999999999999", cap),
        ("99999999999999999999999999999.999999999", cap - 1),
    ] {
        assert_eq!(text.parse::<Quantity>().unwrap().nano(), nano, "{text}");
    }
}

#[test]
fn decimals_beyond_the_precision_only_decide_about_rounding() {
    let zeros = "0".repeat(60);
    assert_eq!(format!("0.{zeros}1").parse::<Quantity>().unwrap().nano(), 1);
    assert_eq!(format!("0.{zeros}1Ei").parse::<Quantity>().unwrap().nano(), 1);
    assert_eq!(format!("{zeros}7.{zeros}").parse::<Quantity>().unwrap().nano(), 7_000_000_000);
    assert_eq!(format!("1.{zeros}Gi").parse::<Quantity>().unwrap().nano(), 1_073_741_824_000_000_000);
}

#[test]
fn a_value_beyond_the_largest_suffix_is_written_with_an_exponent() {
    assert_eq!("1000E".parse::<Quantity>().unwrap().to_string(), "1e21");
}

#[test]
fn bytes_below_1024_are_written_in_decimal() {
    for (units, written) in [(1000, "1k"), (1023, "1023"), (1024, "1Ki"), (-1000, "-1k"), (2000, "2000")] {
        assert_eq!(Quantity::from_milli(units * 1000, Format::BinarySi).to_string(), written);
    }
}

#[test]
fn thousandths_and_units_round_away_from_zero() {
    for (text, milli, units) in
        [("1500m", 1500, 2), ("-1500m", -1500, -2), ("1n", 1, 1), ("-1n", -1, -1), ("2", 2000, 2), ("0.0011", 2, 1)]
    {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!((quantity.milli(), quantity.units()), (milli, units), "{text}");
    }
}

#[test]
fn json_numbers_are_quantities_too() {
    let read: Vec<Quantity> = serde_json::from_str(r#"["1.5Gi", 2, -3, 0.5]"#).unwrap();
    assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1536Mi", "2", "-3", "500m"]);
    assert!(serde_json::from_str::<Quantity>("[1]").is_err());
    assert!(serde_json::from_str::<Quantity>(r#""1 GB""#).is_err());
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        drop(text.parse::<Quantity>());
    }

    #[test]
    fn text_that_looks_like_a_quantity_never_panics(text in "[+-]?[0-9]{0,45}[.]?[0-9]{0,45}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{0,20})?") {
        drop(text.parse::<Quantity>());
    }

    #[test]
    fn the_canonical_form_reads_back_as_the_same_value(
        nano in -10_i128.pow(38)..=10_i128.pow(38),
        format in prop_oneof![Just(Format::DecimalSi), Just(Format::DecimalExponent)],
    ) {
        let written = Quantity::from_nano(nano, format).to_string();
        prop_assert_eq!(written.parse::<Quantity>().unwrap().nano(), nano, "{}", written);
    }

    #[test]
    fn bytes_written_in_powers_of_1024_read_back_as_the_same_value(bytes in any::<i64>()) {
        // The smallest i64 is the one value that lies beyond the binary cap.
        prop_assume!(bytes != i64::MIN);
        let written = Quantity::from_milli(i128::from(bytes) * 1000, Format::BinarySi).to_string();
        prop_assert_eq!(written.parse::<Quantity>().unwrap().units(), i128::from(bytes), "{}", written);
    }
}
