//! How templates show sizes, times and names.

use std::{borrow::Cow, fmt};

use crate::api_types::Time;

/// A time without scripts: in UTC. Scripts show it in the reader's zone.
pub(super) fn plain_time(time: Time) -> String {
    let iso = time.to_string();
    let (day, clock) = iso.split_once('T').unwrap_or((&iso, ""));
    format!("{day} {} UTC", clock.get(..5).unwrap_or(clock))
}

/// A number of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        let mut rest = self.0;
        let mut tenths = 0;
        while rest >= 1024 && unit + 1 < UNITS.len() {
            tenths = rest % 1024 * 10 / 1024;
            rest /= 1024;
            unit += 1;
        }
        match tenths {
            0 => write!(f, "{rest} {}", UNITS[unit]),
            tenths => write!(f, "{rest}.{tenths} {}", UNITS[unit]),
        }
    }
}

/// A number with its thousands apart, as the language writes them.
pub(super) fn grouped(number: u64, language: &str) -> String {
    let mark = if language == "de" { '.' } else { ',' };
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(mark);
        }
        text.push(digit);
    }
    text
}

/// A name for the middle of a sentence: what turns the direction of writing in it ends with it.
pub(super) fn isolate_direction(name: &str) -> Cow<'_, str> {
    const FIRST_STRONG_ISOLATE: char = '\u{2068}';
    const POP_ISOLATE: char = '\u{2069}';
    if name.is_ascii() {
        return name.into();
    }
    // A name that ends the isolation itself is isolated no more.
    let name = name.replace(
        ['\u{2066}', '\u{2067}', FIRST_STRONG_ISOLATE, POP_ISOLATE],
        "",
    );
    format!("{FIRST_STRONG_ISOLATE}{name}{POP_ISOLATE}").into()
}

/// A time that something took.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5 GiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }

    #[test]
    fn a_name_does_not_turn_the_sentence_around_it() {
        assert_eq!(isolate_direction("Acme"), "Acme");
        let turned = isolate_direction("a\u{202e}b\u{2069}c");
        assert_eq!(turned, "\u{2068}a\u{202e}bc\u{2069}");
    }

    #[test]
    fn thousands_are_apart_as_the_language_writes_them() {
        for (number, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number, "en"), shown);
        }
        assert_eq!(grouped(12_345, "de"), "12.345");
        assert_eq!(duration(12_345), "12.3 s");
        assert_eq!(duration(61_000), "1 min 1 s");
    }
}
