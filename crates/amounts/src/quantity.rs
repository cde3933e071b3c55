//! Amounts of resources: `100m`, `1.5Gi`, `12e6`.
//!
//! A quantity is exact: a number of up to 36 digits times a power of ten, never smaller than a
//! billionth (what is smaller is rounded away from zero, as upstream does). More digits than that
//! are rounded away from zero too, where upstream has numbers of any length.
//!
//! Upstream: apimachinery/pkg/api/resource/quantity.go

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// The smallest power of ten.
const NANO: i32 = -9;
/// Two digits fewer than an i128 holds, so that an exponent can be brought to a multiple of three.
const DIGITS_LIMIT: i128 = 10_i128.pow(36);
const EXA: i32 = 18;

#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Without trailing zeros, so that equal amounts are equal here; zero has exponent zero.
    mantissa: i128,
    exponent: i32,
    pub format: Format,
}

/// The family of suffixes in which a quantity is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `12M`, `100m`.
    #[default]
    Decimal,
    /// `12Mi`.
    Binary,
    /// `12e6`.
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Form,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of a quantity as written.
struct Written<'a> {
    negative: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { mantissa: 0, exponent: 0, format: Format::Decimal };

    pub fn from_i64(value: i64) -> Quantity {
        Quantity::new(value.into(), 0, Format::Decimal)
    }

    pub fn from_milli(value: i64) -> Quantity {
        Quantity::new(value.into(), -3, Format::Decimal)
    }

    pub fn parse(text: &str) -> Result<Quantity, Error> {
        let written = split(text)?;
        let (scale, format) = suffix(written.suffix)?;
        let (digits, dropped) = digits(&written);
        let fraction = -i32::try_from(written.fraction.len()).map_err(|_| Error::Number)?;
        let quantity = match scale {
            Scale::Ten(exponent) => {
                let exponent = exponent.saturating_add(fraction).saturating_add(dropped);
                Quantity::new(digits, exponent, format)
            }
            Scale::Two(power) => binary(digits, power, fraction.saturating_add(dropped)),
        };
        Ok(if written.negative { quantity.negated() } else { quantity })
    }

    /// From JSON, where a number may stand for its text; null is zero.
    pub fn from_value(value: &Value) -> Result<Quantity, Error> {
        match value {
            Value::Null => Ok(Quantity::ZERO),
            Value::String(text) => Quantity::parse(text.trim()),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => Err(Error::Form),
        }
    }

    /// The amount at a place of an object, if there is one that can be read.
    pub fn read(value: &Value) -> Option<Quantity> {
        // What is not said is not zero.
        if value.is_null() { None } else { Quantity::from_value(value).ok() }
    }

    /// Brings any number into the form that the type keeps.
    fn new(mantissa: i128, exponent: i32, format: Format) -> Quantity {
        let sign = mantissa.signum();
        let (mut mantissa, mut exponent, mut inexact) = (mantissa, exponent, false);
        while mantissa != 0 && (exponent < NANO || mantissa.abs() >= DIGITS_LIMIT) {
            inexact |= mantissa % 10 != 0;
            mantissa /= 10;
            exponent = exponent.saturating_add(1);
        }
        if inexact && mantissa == 0 {
            // The smallest amount there is, however small it was: some is not none.
            return Quantity { mantissa: sign, exponent: NANO, format };
        }
        if inexact {
            mantissa += sign;
        }
        while mantissa != 0 && mantissa % 10 == 0 && exponent < i32::MAX {
            mantissa /= 10;
            exponent += 1;
        }
        let exponent = if mantissa == 0 { 0 } else { exponent };
        Quantity { mantissa, exponent, format }
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    pub fn negated(self) -> Quantity {
        Quantity { mantissa: -self.mantissa, ..self }
    }

    /// In whole units, rounded away from zero, at most what an i64 holds.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// In thousandths, rounded away from zero, at most what an i64 holds.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// In billionths, the smallest amounts there are: exact, at most what an i128 holds.
    pub fn billionths(&self) -> i128 {
        let whole = times_ten(self.mantissa, i64::from(self.exponent) - i64::from(NANO));
        whole.unwrap_or(if self.mantissa < 0 { i128::MIN } else { i128::MAX })
    }

    /// In units of ten to the `scale`.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let whole = match times_ten(self.mantissa, i64::from(self.exponent) - i64::from(scale)) {
            Some(whole) => whole,
            None if self.mantissa < 0 => i128::MIN,
            None => i128::MAX,
        };
        whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The amount without what is smaller than ten to the `scale`, rounded away from zero.
    pub fn rounded_up(&self, scale: i32) -> Quantity {
        if self.exponent >= scale {
            return *self;
        }
        let whole = times_ten(self.mantissa, i64::from(self.exponent) - i64::from(scale));
        Quantity::new(whole.unwrap_or(self.mantissa), scale, self.format)
    }

    pub fn times(&self, factor: i64) -> Quantity {
        // Both sides are cut to what the product holds before it could overflow.
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        loop {
            if let Some(product) = mantissa.checked_mul(factor.into()) {
                return Quantity::new(product, exponent, self.format);
            }
            mantissa = mantissa / 10 + mantissa.signum();
            exponent = exponent.saturating_add(1);
        }
    }

    /// The format of the sum is that of the first that is not zero.
    pub fn plus(&self, other: &Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        if self.is_zero() || other.is_zero() {
            let some = if self.is_zero() { other } else { self };
            return Quantity { format, ..*some };
        }
        let (low, high) =
            if self.exponent <= other.exponent { (self, other) } else { (other, self) };
        let distance = i64::from(high.exponent) - i64::from(low.exponent);
        let aligned = times_ten(high.mantissa, distance)
            .and_then(|mantissa| mantissa.checked_add(low.mantissa));
        match aligned {
            Some(mantissa) => Quantity::new(mantissa, low.exponent, format),
            // Too far apart for the digits there are: the small one does not show.
            None => Quantity { format, ..*high },
        }
    }

    pub fn minus(&self, other: &Quantity) -> Quantity {
        self.plus(&other.negated())
    }

    fn whole(&self) -> Option<i128> {
        if self.exponent < 0 { None } else { times_ten(self.mantissa, self.exponent.into()) }
    }
}

/// `mantissa` times a power of ten, which may be negative: then rounded away from zero. None if
/// there are not digits enough.
fn times_ten(mantissa: i128, power: i64) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    match u32::try_from(power) {
        Ok(power) => 10_i128.checked_pow(power)?.checked_mul(mantissa),
        Err(_) => {
            let divisor = u32::try_from(-power).ok().and_then(|power| 10_i128.checked_pow(power));
            let Some(divisor) = divisor else { return Some(mantissa.signum()) };
            let rest = if mantissa % divisor == 0 { 0 } else { mantissa.signum() };
            Some(mantissa / divisor + rest)
        }
    }
}

fn split(text: &str) -> Result<Written<'_>, Error> {
    if text.is_empty() {
        return Err(Error::Form);
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, rest) = take_digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => take_digits(rest),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let power = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !power.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::Form);
    }
    Ok(Written { negative, whole: whole.trim_start_matches('0'), fraction, suffix })
}

fn take_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn suffix(text: &str) -> Result<(Scale, Format), Error> {
    let decimal = |power| Ok((Scale::Ten(power), Format::Decimal));
    let binary = |power| Ok((Scale::Two(power), Format::Binary));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(EXA),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = text.strip_prefix(['e', 'E']).ok_or(Error::Suffix)?;
            let power = power.parse().map_err(|_| Error::Suffix)?;
            Ok((Scale::Ten(power), Format::Exponent))
        }
    }
}

/// The digits as one number, and how many had to be dropped at the end of it.
fn digits(written: &Written<'_>) -> (i128, i32) {
    let (mut number, mut dropped, mut inexact) = (0_i128, 0_i32, false);
    for byte in written.whole.bytes().chain(written.fraction.bytes()) {
        let digit = i128::from(byte - b'0');
        if number < DIGITS_LIMIT / 10 {
            number = number * 10 + digit;
        } else {
            inexact |= digit != 0;
            dropped = dropped.saturating_add(1);
        }
    }
    (number + i128::from(inexact), dropped)
}

/// A number times a power of two; at most what an i64 holds.
fn binary(digits: i128, power: u32, exponent: i32) -> Quantity {
    let largest = Quantity::new(i64::MAX.into(), 0, Format::Binary);
    if Quantity::new(digits, exponent, Format::Binary) > largest {
        return largest;
    }
    // Of very many digits those that do not fit are far beyond a billionth.
    let (mut digits, mut exponent) = (digits, exponent);
    let amount = loop {
        if let Some(mantissa) = digits.checked_mul(1 << power) {
            break Quantity::new(mantissa, exponent, Format::Binary);
        }
        digits = digits / 10 + 1;
        exponent = exponent.saturating_add(1);
    };
    if amount > largest {
        return largest;
    }
    let one = Quantity::from_i64(1);
    let format = if amount < one && !amount.is_zero() { Format::Decimal } else { Format::Binary };
    Quantity { format, ..amount }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.mantissa == other.mantissa && self.exponent == other.exponent
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By amount; the format does not count.
impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs != Ordering::Equal || self.exponent == other.exponent {
            return signs.then(self.mantissa.cmp(&other.mantissa));
        }
        let distance = i64::from(self.exponent) - i64::from(other.exponent);
        let sign = self.mantissa.signum().cmp(&0);
        if distance > 0 {
            match times_ten(self.mantissa, distance) {
                Some(mantissa) => mantissa.cmp(&other.mantissa),
                None => sign,
            }
        } else {
            match times_ten(other.mantissa, -distance) {
                Some(mantissa) => self.mantissa.cmp(&mantissa),
                None => sign.reverse(),
            }
        }
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that loses nothing.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return formatter.write_str("0");
        }
        if self.format == Format::Binary
            && let Some(whole) = self.whole()
            && whole.abs() >= 1024
        {
            return write_binary(formatter, whole);
        }
        let up = self.exponent.rem_euclid(3);
        let mantissa = self.mantissa * 10_i128.pow(up as u32);
        let exponent = self.exponent - up;
        match exponent {
            0 => write!(formatter, "{mantissa}"),
            // There is no suffix beyond exa, so the exponent is written out.
            _ if self.format == Format::Exponent || exponent > EXA => {
                write!(formatter, "{mantissa}e{exponent}")
            }
            _ => {
                const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                write!(formatter, "{mantissa}{}", SUFFIXES[((exponent - NANO) / 3) as usize])
            }
        }
    }
}

fn write_binary(formatter: &mut fmt::Formatter<'_>, whole: i128) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut whole, mut power) = (whole, 0);
    while whole % 1024 == 0 && power + 1 < SUFFIXES.len() {
        whole /= 1024;
        power += 1;
    }
    write!(formatter, "{whole}{}", SUFFIXES[power])
}

/// The text that the server answers with for a quantity it was given.
///
/// Mostly the canonical form, but upstream keeps what was written where a quick look finds no
/// reason to change it (`1.500` and `+1` stay), and clients compare the text.
pub fn rewritten(text: &str) -> Result<String, Error> {
    let quantity = Quantity::parse(text)?;
    if text == "0" || stays_as_written(text)? {
        Ok(text.to_owned())
    } else {
        Ok(quantity.to_string())
    }
}

fn stays_as_written(text: &str) -> Result<bool, Error> {
    /// Digits of which upstream is sure that they fit in 64 bits.
    const SURE_DECIMAL: usize = 18;
    const SURE_BINARY: usize = 15;
    let written = split(text)?;
    let whole = if written.whole.is_empty() { "0" } else { written.whole };
    let count = whole.len() + written.fraction.len();
    let stays = match suffix(written.suffix)?.0 {
        Scale::Ten(power) => {
            let shifted = [whole, written.fraction].concat();
            let exponent = i64::from(power) - written.fraction.len() as i64;
            count <= SURE_DECIMAL
                && exponent >= NANO.into()
                && exponent % 3 == 0
                && !shifted.ends_with("000")
                && !shifted.starts_with('0')
        }
        Scale::Two(power) => {
            let sure = whole.len() + power as usize * 3 / 10 < SURE_BINARY;
            let odd = whole.parse::<i64>().is_ok_and(|number| number & 7 != 0);
            written.fraction.is_empty() && sure && odd
        }
    };
    Ok(stays)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn the_canonical_form_has_no_fraction_and_the_largest_suffix() {
        let cases = [
            ("0", "0"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("000", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("007", "7"),
            ("1.", "1"),
            (".5", "500m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("-1.5", "-1500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100m", "100m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1200", "1200"),
            ("12000", "12k"),
            ("1000k", "1M"),
            ("1.2M", "1200k"),
            ("1000000", "1M"),
            ("1E", "1E"),
            ("1000E", "1e21"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e6", "12e6"),
            ("1e4", "10e3"),
            ("1e-3", "1e-3"),
            ("1e0", "1"),
            ("100e-2", "1"),
            ("1.5e3", "1500"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("0.5Ki", "512"),
            ("1025Ki", "1025Ki"),
            ("1.1Ki", "1126400m"),
            ("0.0001Ki", "102400u"),
            ("-1Gi", "-1Gi"),
            ("8Ei", "9223372036854775807"),
            ("100Ei", "9223372036854775807"),
            ("-9Ei", "-9223372036854775807"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1e-100", "1e-9"),
            ("1.1n", "2n"),
            ("-0.1n", "-1n"),
            ("0.000000001", "1n"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1u", "1u"),
            ("10u", "10u"),
            ("0.25", "250m"),
            ("2.5G", "2500M"),
            ("3P", "3P"),
            ("999Pi", "999Pi"),
            (".", "0"),
            ("1e2147483647", "10e2147483646"),
        ];
        for (text, canonical) in cases {
            assert_eq!(parsed(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn broken_text_is_refused_with_the_reason() {
        let cases = [
            ("", Error::Form),
            ("x", Error::Form),
            (" 1", Error::Form),
            ("1 ", Error::Form),
            ("1.1.1", Error::Form),
            ("--1", Error::Suffix),
            ("1_000", Error::Form),
            ("1Kb", Error::Form),
            ("é", Error::Form),
            ("1Ti1x", Error::Form),
            ("1i", Error::Suffix),
            ("1mi", Error::Suffix),
            ("1K", Error::Suffix),
            ("1ki", Error::Suffix),
            ("1e", Error::Suffix),
            ("1e+", Error::Suffix),
            ("1Ki1", Error::Suffix),
            ("1e99999999999999999999", Error::Suffix),
        ];
        for (text, error) in cases {
            assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn whole_values_are_rounded_away_from_zero_and_capped() {
        let cases = [
            ("1", 1, 1000),
            ("100m", 1, 100),
            ("-100m", -1, -100),
            ("1.5", 2, 1500),
            ("1500u", 1, 2),
            ("1n", 1, 1),
            ("2Ki", 2048, 2_048_000),
            ("0", 0, 0),
            ("1e30", i64::MAX, i64::MAX),
            ("-1e30", i64::MIN, i64::MIN),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("8Ei", i64::MAX, i64::MAX),
        ];
        for (text, value, milli) in cases {
            let quantity = parsed(text);
            assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
        }
        assert_eq!(parsed("1.0001").rounded_up(-3).to_string(), "1001m");
        assert_eq!(parsed("1.5").rounded_up(-3).to_string(), "1500m");
    }

    #[test]
    fn arithmetic_is_exact_and_keeps_the_first_format() {
        let plus = [
            ("1", "1", "2"),
            ("100m", "900m", "1"),
            ("1Gi", "512Mi", "1536Mi"),
            ("0", "1Gi", "1Gi"),
            ("1Gi", "1", "1073741825"),
            ("1", "1Ki", "1025"),
            ("1e3", "1", "1001"),
            ("1E", "1n", "1000000000000000000000000001n"),
            ("1e100", "1", "10e99"),
            ("1", "-1", "0"),
        ];
        for (left, right, sum) in plus {
            assert_eq!(parsed(left).plus(&parsed(right)).to_string(), sum, "{left} + {right}");
        }
        assert_eq!(parsed("1Gi").minus(&parsed("512Mi")).to_string(), "512Mi");
        assert_eq!(parsed("1").minus(&parsed("1500m")).to_string(), "-500m");
        assert_eq!(parsed("250m").times(8).to_string(), "2");
        assert_eq!(parsed("1Gi").times(-3).to_string(), "-3Gi");
        assert_eq!(parsed("1e100").times(i64::MAX).value(), i64::MAX);
        assert_eq!(Quantity::from_i64(5000).to_string(), "5k");
        assert_eq!(Quantity::from_milli(1500).to_string(), "1500m");
    }

    #[test]
    fn order_is_by_amount() {
        let ascending = [
            "-1e100", "-1Gi", "-1", "-1n", "0", "1n", "100m", "1", "1001m", "1k", "1Ki", "1Gi",
            "1E", "1e30", "1e100", "1e101",
        ];
        for (index, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(parsed(left).cmp(&parsed(right)), index.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(parsed("1000m"), parsed("1"));
        assert_eq!(parsed("1Ki"), parsed("1024"));
        assert_eq!(parsed("1e3"), parsed("1k"));
    }

    #[test]
    fn the_server_keeps_what_needs_no_change() {
        let cases = [
            ("1000m", "1"),
            ("1.500", "1.500"),
            ("+1", "+1"),
            ("0.100", "100m"),
            ("100Mi", "100Mi"),
            ("1024Mi", "1Gi"),
            ("8Mi", "8Mi"),
            ("0.5Gi", "512Mi"),
            ("1E3", "1E3"),
            ("0", "0"),
            ("1000", "1k"),
            ("1.5", "1500m"),
        ];
        for (text, kept) in cases {
            assert_eq!(rewritten(text).unwrap(), kept, "{text}");
        }
        assert!(rewritten("1x").is_err());
    }

    #[test]
    fn json_numbers_are_quantities_too() {
        let cases =
            [(serde_json::json!(2), "2"), (serde_json::json!(0.5), "500m"), (Value::Null, "0")];
        for (value, text) in cases {
            assert_eq!(Quantity::from_value(&value).unwrap().to_string(), text);
        }
        assert_eq!(Quantity::from_value(&serde_json::json!(" 1Gi ")).unwrap(), parsed("1Gi"));
        assert!(Quantity::from_value(&serde_json::json!({})).is_err());
    }

    proptest! {
        #[test]
        fn the_canonical_form_says_the_same_amount_and_is_stable(
            text in "[+-]?[0-9]{0,24}(\\.[0-9]{0,14})?([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,3})?"
        ) {
            prop_assume!(!text.is_empty());
            let quantity = parsed(&text);
            let canonical = quantity.to_string();
            let again = parsed(&canonical);
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), canonical);
            prop_assert_eq!(parsed(&rewritten(&text).unwrap()), quantity);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}|[0-9.eEKi+-]{0,60}") {
            let _ = rewritten(&text);
        }

        #[test]
        fn adding_and_taking_away_is_no_change(left in any::<i64>(), right in any::<i64>()) {
            let (left, right) = (Quantity::from_milli(left), Quantity::from_i64(right));
            prop_assert_eq!(left.plus(&right).minus(&right), left);
            prop_assert_eq!(left.plus(&right), right.plus(&left));
        }
    }
}
