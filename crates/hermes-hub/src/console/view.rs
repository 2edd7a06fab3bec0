//! How templates show sizes, times and names.

use std::borrow::Cow;

use super::texts::Texts;
use crate::api_types::Time;

/// A time without scripts: in UTC. Scripts show it in the reader's zone.
pub(super) fn plain_time(time: Time) -> String {
    let iso = time.to_string();
    let (day, clock) = iso.split_once('T').unwrap_or((&iso, ""));
    format!("{day} {} UTC", clock.get(..5).unwrap_or(clock))
}

/// A number of bytes, in the unit that fits.
pub(super) fn bytes(texts: &Texts, bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut rest = bytes;
    let mut tenths = 0;
    while rest >= 1024 && unit + 1 < UNITS.len() {
        tenths = rest % 1024 * 10 / 1024;
        rest /= 1024;
        unit += 1;
    }
    let whole = texts.number(rest);
    match tenths {
        0 => format!("{whole} {}", UNITS[unit]),
        tenths => format!(
            "{whole}{} {}",
            texts.decimal(&format!(".{tenths}")),
            UNITS[unit]
        ),
    }
}

/// A number with a mark between its thousands.
pub(super) fn grouped(number: u64, mark: &str) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push_str(mark);
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
pub(super) fn duration(texts: &Texts, millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => {
            let seconds = format!("{}.{}", millis / 1000, millis % 1000 / 100);
            format!("{} s", texts.decimal(&seconds))
        }
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(language: &str) -> &'static Texts {
        Texts::in_language(language).unwrap()
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        for (number, shown) in [
            (0, "0 B"),
            (1023, "1,023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5 GiB"),
        ] {
            assert_eq!(bytes(texts("en"), number), shown);
        }
        assert_eq!(bytes(texts("de"), 1536), "1,5 KiB");
        assert_eq!(bytes(texts("de"), 5 << 50), "5.120 TiB");
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
            assert_eq!(texts("en").number(number), shown);
        }
        assert_eq!(texts("de").number(12_345), "12.345");
        assert_eq!(duration(texts("en"), 12_345), "12.3 s");
        assert_eq!(duration(texts("de"), 12_345), "12,3 s");
        assert_eq!(duration(texts("en"), 61_000), "1 min 1 s");
    }
}
