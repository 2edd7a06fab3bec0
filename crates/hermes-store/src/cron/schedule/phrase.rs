//! Schedules in words, such as `every monday 9am`, and cron fields with names of days and months.

use super::Schedule;

const DAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Names of days from 0, Sunday.
pub(super) fn day_name(number: u32) -> Option<&'static str> {
    DAYS.get(usize::try_from(number % 7).ok()?).copied()
}

/// Names of months from 1.
pub(super) fn month_name(number: u32) -> Option<&'static str> {
    MONTHS
        .get(usize::try_from(number.checked_sub(1)?).ok()?)
        .copied()
}

/// What a phrase in lower case means, if it is one.
pub(super) fn parse_phrase(text: &str) -> Option<Schedule> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (first, rest) = words.split_first()?;
    match (*first, rest) {
        ("hourly", []) => Some(Schedule::Interval { minutes: 60 }),
        ("every", [unit]) if unit_minutes(unit).is_some() => Some(Schedule::Interval {
            minutes: unit_minutes(unit)?,
        }),
        ("daily", rest) | ("every", ["day", rest @ ..]) => schedule_on_days("*", rest),
        ("every", rest) => parse_named_days(rest),
        (_, _) => parse_named_days(&words),
    }
}

/// One of a unit, in minutes.
fn unit_minutes(unit: &str) -> Option<i64> {
    Some(match unit {
        "minute" => 1,
        "hour" => 60,
        "day" => 60 * 24,
        "week" => 60 * 24 * 7,
        _ => return None,
    })
}

/// `monday and thursday at 9am`: days up to `at` or the first word that is none, then a time.
fn parse_named_days(words: &[&str]) -> Option<Schedule> {
    let is_day_part = |word: &&&str| **word == "and" || parse_days(word).is_some();
    let count = words.iter().take_while(is_day_part).count();
    let (named, time) = words.split_at(count);
    let named: Vec<String> = named
        .iter()
        .filter(|word| **word != "and")
        .filter_map(|word| parse_days(word))
        .collect();
    if named.is_empty() {
        return None;
    }
    schedule_on_days(&named.join(","), time)
}

fn schedule_on_days(days: &str, time: &[&str]) -> Option<Schedule> {
    let time = match time {
        ["at", rest @ ..] => rest,
        time => time,
    };
    let (hour, minute) = parse_time_of_day(&time.concat())?;
    Some(Schedule::Cron {
        expression: format!("{minute} {hour} * * {days}"),
    })
}

/// Days of the week as a cron field: `monday`, `mon,thu`, `mon-fri`, `weekdays`.
fn parse_days(word: &str) -> Option<String> {
    match word {
        "weekday" | "weekdays" => return Some("1-5".into()),
        "weekend" | "weekends" => return Some("0,6".into()),
        _ => {}
    }
    let parts: Option<Vec<String>> = word
        .trim_end_matches(',')
        .split(',')
        .map(|part| named_range(part, &DAYS, 0, Plural::Allowed))
        .collect();
    parts.map(|parts| parts.join(","))
}

/// `9am`, `9:30pm`, `18:30`, `noon`; the hour first.
fn parse_time_of_day(text: &str) -> Option<(u32, u32)> {
    match text {
        "noon" => return Some((12, 0)),
        "midnight" => return Some((0, 0)),
        _ => {}
    }
    let (digits, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        _ => (text, None),
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, "0"));
    let is_number =
        |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(hour) || !is_number(minute) {
        return None;
    }
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    (hour < 24 && minute < 60).then_some((hour, minute))
}

/// Five fields with digits for names: `0 9 * JAN MON-FRI` is `0 9 * 1 1-5`.
pub(super) fn cron_fields(text: &str) -> Option<String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        return None;
    };
    let plain = |field: &str| is_plain(field).then(|| field.to_owned());
    Some(
        [
            plain(minute)?,
            plain(hour)?,
            plain(day)?,
            named_field(month, &MONTHS, 1)?,
            named_field(weekday, &DAYS, 0)?,
        ]
        .join(" "),
    )
}

fn is_plain(field: &str) -> bool {
    !field.is_empty()
        && field
            .chars()
            .all(|c| c.is_ascii_digit() || "*-,/".contains(c))
}

fn named_field(field: &str, names: &[&str], first: usize) -> Option<String> {
    if is_plain(field) {
        return Some(field.to_owned());
    }
    let field = field.to_ascii_lowercase();
    let parts: Option<Vec<String>> = field
        .split(',')
        .map(|part| {
            let (range, step) = part
                .split_once('/')
                .map_or((part, None), |(range, step)| (range, Some(step)));
            let range = if is_plain(range) {
                range.to_owned()
            } else {
                named_range(range, names, first, Plural::Refused)?
            };
            match step {
                None => Some(range),
                Some(step) if step.bytes().all(|b| b.is_ascii_digit()) => {
                    Some(format!("{range}/{step}"))
                }
                Some(_) => None,
            }
        })
        .collect();
    parts.map(|parts| parts.join(","))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plural {
    Allowed,
    Refused,
}

/// A name, or one to another. A range that goes past the last begins anew with the first.
fn named_range(text: &str, names: &[&str], first: usize, plural: Plural) -> Option<String> {
    let number = |name: &str| {
        let name = match plural {
            Plural::Allowed if name.len() > 3 => name.strip_suffix('s').unwrap_or(name),
            _ => name,
        };
        let is_it = |known: &&str| *known == name || (name.len() == 3 && known.starts_with(name));
        names.iter().position(is_it)
    };
    let Some((from, to)) = text.split_once('-') else {
        return Some((number(text)? + first).to_string());
    };
    let (from, to) = (number(from)?, number(to)?);
    if from <= to {
        return Some(format!("{}-{}", from + first, to + first));
    }
    let around = (from..names.len()).chain(0..=to);
    let numbers: Vec<String> = around.map(|number| (number + first).to_string()).collect();
    Some(numbers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> Option<String> {
        match parse_phrase(text)? {
            Schedule::Cron { expression } => Some(expression),
            Schedule::Interval { minutes } => Some(format!("every {minutes}m")),
            Schedule::Once { .. } => None,
        }
    }

    #[test]
    fn phrases_name_days_and_a_time() {
        for (text, expected) in [
            ("every monday 9am", "0 9 * * 1"),
            ("every monday at 9:30 pm", "30 21 * * 1"),
            ("mondays at 9", "0 9 * * 1"),
            ("weekdays at 9am", "0 9 * * 1-5"),
            ("every weekday at noon", "0 12 * * 1-5"),
            ("weekends at midnight", "0 0 * * 0,6"),
            ("every mon, wed and fri at 18:30", "30 18 * * 1,3,5"),
            ("mon,thu 07:05", "5 7 * * 1,4"),
            ("every fri-mon at 12am", "0 0 * * 5,6,0,1"),
            ("daily at 18:30", "30 18 * * *"),
            ("every day at 12pm", "0 12 * * *"),
            ("every hour", "every 60m"),
            ("hourly", "every 60m"),
            ("every week", "every 10080m"),
        ] {
            assert_eq!(expression(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn phrases_without_a_day_or_a_time_are_none() {
        for text in [
            "every monday",
            "daily",
            "monday",
            "every now and then",
            "and at 9am",
            "daily at 25:00",
            "daily at 13pm",
            "daily at 9:75",
            "every may at 9am",
            "every monday at 9am sharp",
        ] {
            assert_eq!(expression(text), None, "{text}");
        }
    }

    #[test]
    fn names_in_cron_fields_become_numbers() {
        for (text, expected) in [
            ("0 9 * * MON-FRI", "0 9 * * 1-5"),
            ("0 9 1 JAN,jul *", "0 9 1 1,7 *"),
            ("0 9 * * Monday", "0 9 * * 1"),
            ("*/5 * * NOV-FEB MON/2", "*/5 * * 11,12,1,2 1/2"),
            ("0 9 * * 1-5", "0 9 * * 1-5"),
        ] {
            assert_eq!(cron_fields(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "0 9 * MON *",
            "0 9 * * JAN",
            "MON 9 * * *",
            "0 9 * * MON,",
            "0 9 * *",
        ] {
            assert_eq!(cron_fields(text), None, "{text}");
        }
    }
}
