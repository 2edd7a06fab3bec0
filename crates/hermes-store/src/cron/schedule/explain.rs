//! What a schedule means, in words for people.

use jiff::Zoned;
use serde_json::{Value, json};

use super::{
    Schedule,
    phrase::{day_name, month_name},
};
use crate::clock::zoned_iso;

/// How many next runs are shown.
const RUNS_SHOWN: usize = 3;

/// A schedule in words, with its next runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleExplanation {
    pub words: String,
    /// When it runs next, at most three times.
    pub next: Vec<Zoned>,
}

impl ScheduleExplanation {
    /// As replies have it: `{"words": "every hour", "next": [...]}`.
    pub fn to_json(&self) -> Value {
        json!({"words": self.words, "next": self.times()})
    }

    /// When it runs next, as jobs have their times.
    pub fn times(&self) -> Vec<String> {
        self.next.iter().map(zoned_iso).collect()
    }
}

impl Schedule {
    /// What it means, with the runs from `first` on; without one, none is to come.
    pub fn explain(&self, first: Option<&Zoned>, now: &Zoned) -> ScheduleExplanation {
        let mut next: Vec<Zoned> = first.cloned().into_iter().collect();
        while let Some(last) = next
            .last()
            .filter(|_| next.len() < RUNS_SHOWN && self.is_recurring())
        {
            let Some(following) = self.next_run(Some(last), last) else {
                break;
            };
            next.push(following);
        }
        ScheduleExplanation {
            words: self.describe(now),
            next,
        }
    }

    /// In words; times of day with the zone they are in.
    fn describe(&self, now: &Zoned) -> String {
        let zone = now
            .time_zone()
            .iana_name()
            .map_or_else(|| now.strftime("UTC%:z").to_string(), str::to_owned);
        match self {
            Self::Once { at, .. } => {
                let at = at.with_time_zone(now.time_zone().clone());
                format!("once, on {} ({zone})", at.strftime("%A %-d %B %Y at %H:%M"))
            }
            Self::Interval { minutes } => format!("every {}", describe_interval(*minutes)),
            Self::Cron { expression } => format!("{} ({zone})", describe_expression(expression)),
        }
    }
}

/// `30 minutes`, `hour`, `2 days`: what stands after `every`.
fn describe_interval(minutes: i64) -> String {
    let (count, unit) = match minutes {
        minutes if minutes % (60 * 24) == 0 => (minutes / (60 * 24), "day"),
        minutes if minutes % 60 == 0 => (minutes / 60, "hour"),
        minutes => (minutes, "minute"),
    };
    if count == 1 {
        unit.to_owned()
    } else {
        format!("{count} {unit}s")
    }
}

fn describe_expression(expression: &str) -> String {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        return format!("`{expression}`");
    };
    let mut days = Vec::new();
    if *day != "*" {
        days.push(format!(
            "on day {} of the month",
            describe_field(day, &|n| Some(n.to_string()))
        ));
    }
    if *weekday != "*" {
        let name = |number| day_name(number).map(capitalize);
        days.push(format!("on {}", describe_field(weekday, &name)));
    }
    let time = describe_time(minute, hour);
    let is_any_day = days.is_empty();
    let mut words = match (days.join(" or "), time) {
        (_, DayTime::At(times)) if is_any_day => format!("every day at {times}"),
        (_, DayTime::Often(words)) if is_any_day => words,
        (days, DayTime::At(times)) => format!("{days} at {times}"),
        (days, DayTime::Often(words)) => format!("{words}, {days}"),
    };
    if *month != "*" {
        let name = |number| month_name(number).map(capitalize);
        words = format!("{words}, in {}", describe_field(month, &name));
    }
    words
}

/// When on a day.
enum DayTime {
    At(String),
    Often(String),
}

fn describe_time(minute: &str, hour: &str) -> DayTime {
    let number = |text: &str| text.parse::<u32>().ok();
    let hours: Option<Vec<u32>> = hour.split(',').map(number).collect();
    match (number(minute), hours) {
        (Some(minute), Some(hours)) => {
            let times = hours.iter().map(|hour| format!("{hour:02}:{minute:02}"));
            return DayTime::At(join_parts(&times.collect::<Vec<_>>()));
        }
        (Some(minute), None) => {
            let every = match hour.strip_prefix("*/") {
                _ if hour == "*" => Some("every hour".to_owned()),
                Some(step) => Some(format!("every {step} hours")),
                None => None,
            };
            if let Some(every) = every {
                return DayTime::Often(format!("{every} at minute {minute}"));
            }
        }
        (None, _) => {}
    }
    let minutes = match minute.strip_prefix("*/") {
        _ if minute == "*" => "every minute".to_owned(),
        Some(step) => format!("every {step} minutes"),
        None => format!(
            "at minute {}",
            describe_field(minute, &|n| Some(n.to_string()))
        ),
    };
    if hour == "*" {
        return DayTime::Often(if minute.starts_with('*') {
            minutes
        } else {
            format!("{minutes} of every hour")
        });
    }
    let hours = match hour.strip_prefix("*/") {
        Some(step) => format!("every {step} hours"),
        None => describe_field(hour, &|hour| Some(format!("{hour:02}"))),
    };
    DayTime::Often(format!("{minutes}, hour {hours}"))
}

/// A field in words: `1-5` is `Monday to Friday`, `1,3` is `Monday and Wednesday`.
fn describe_field(field: &str, name: &dyn Fn(u32) -> Option<String>) -> String {
    let one = |text: &str| text.parse().ok().and_then(name);
    let part = |part: &str| {
        let (range, step) = part
            .split_once('/')
            .map_or((part, None), |(range, step)| (range, Some(step)));
        let words = match range.split_once('-') {
            _ if range == "*" => "any".to_owned(),
            Some((from, to)) => match (one(from), one(to)) {
                (Some(from), Some(to)) => format!("{from} to {to}"),
                _ => range.to_owned(),
            },
            None => one(range).unwrap_or_else(|| range.to_owned()),
        };
        match step {
            Some(step) => format!("{words} in steps of {step}"),
            None => words,
        }
    };
    join_parts(&field.split(',').map(part).collect::<Vec<_>>())
}

fn join_parts(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn capitalize(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(text: &str) -> ScheduleExplanation {
        let now: Zoned = "2026-02-01T12:00:00[Europe/Berlin]".parse().unwrap();
        let schedule = Schedule::parse(text, &now).unwrap();
        let first = schedule.next_run(None, &now);
        schedule.explain(first.as_ref(), &now)
    }

    #[test]
    fn schedules_are_told_in_words() {
        for (text, expected) in [
            (
                "in 30m",
                "once, on Sunday 1 February 2026 at 12:30 (Europe/Berlin)",
            ),
            ("every 30m", "every 30 minutes"),
            ("every hour", "every hour"),
            ("every 2 days", "every 2 days"),
            ("every 90m", "every 90 minutes"),
            ("daily at 18:30", "every day at 18:30 (Europe/Berlin)"),
            ("every monday 9am", "on Monday at 09:00 (Europe/Berlin)"),
            (
                "weekdays at 9am",
                "on Monday to Friday at 09:00 (Europe/Berlin)",
            ),
            (
                "0 9,18 * * *",
                "every day at 09:00 and 18:00 (Europe/Berlin)",
            ),
            ("*/15 * * * *", "every 15 minutes (Europe/Berlin)"),
            ("0 * * * *", "every hour at minute 0 (Europe/Berlin)"),
            (
                "0 */6 * * SAT,SUN",
                "every 6 hours at minute 0, on Saturday and Sunday (Europe/Berlin)",
            ),
            (
                "0 9 1 JAN *",
                "on day 1 of the month at 09:00, in January (Europe/Berlin)",
            ),
            (
                "0 9 1 * MON",
                "on day 1 of the month or on Monday at 09:00 (Europe/Berlin)",
            ),
            (
                "*/5 8-17 * * *",
                "every 5 minutes, hour 08 to 17 (Europe/Berlin)",
            ),
            (
                "10,40 * * * *",
                "at minute 10 and 40 of every hour (Europe/Berlin)",
            ),
        ] {
            assert_eq!(understood(text).words, expected, "{text}");
        }
    }

    #[test]
    fn the_next_three_times_are_told_and_of_a_single_run_one() {
        let times = |text: &str| -> Vec<String> {
            let next = understood(text).next;
            next.iter()
                .map(|time| time.datetime().to_string())
                .collect()
        };
        assert_eq!(
            times("every monday 9am"),
            [
                "2026-02-02T09:00:00",
                "2026-02-09T09:00:00",
                "2026-02-16T09:00:00"
            ]
        );
        assert_eq!(
            times("every 30m"),
            [
                "2026-02-01T12:30:00",
                "2026-02-01T13:00:00",
                "2026-02-01T13:30:00"
            ]
        );
        assert_eq!(times("in 30m"), ["2026-02-01T12:30:00"]);
    }
}
