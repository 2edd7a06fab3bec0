//! A schedule in words of the reader's language. What has no words of its own is shown as it is written.

use hermes_store::cron::Schedule;
use jiff::{Zoned, tz::TimeZone};
use serde_json::Value;

use super::texts::Texts;
use crate::api_types::Time;

/// How many next times are told.
const TIMES: usize = 5;
const DAY_NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A schedule as a job stores it, told to a reader.
pub(super) struct ScheduleWords {
    texts: &'static Texts,
    zone: TimeZone,
}

/// A time in the reader's zone, and as it is in the job's.
pub(super) struct NextTime {
    pub(super) at: Time,
    pub(super) there: String,
}

impl ScheduleWords {
    /// For jobs of a tenant in this zone.
    pub(super) fn new(texts: &'static Texts, zone: &str) -> Self {
        Self {
            texts,
            zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC),
        }
    }

    fn local(&self, time: Time) -> Zoned {
        time.timestamp().to_zoned(self.zone.clone())
    }

    /// What a schedule means.
    pub(super) fn tell(&self, schedule: &Value, display: &str, now: Time) -> String {
        match Schedule::from_json(schedule, &self.local(now)) {
            Some(Schedule::Once { at, .. }) => {
                let at = at.with_time_zone(self.zone.clone());
                self.texts.fill("schedule.once_at", &self.clock(&at))
            }
            Some(Schedule::Interval { minutes }) => self.describe_interval(minutes),
            Some(Schedule::Cron { expression }) => {
                self.describe_expression(&expression).unwrap_or(expression)
            }
            None => display.to_owned(),
        }
    }

    /// The next times from `first` on.
    pub(super) fn next_times(&self, schedule: &Value, first: Time) -> Vec<NextTime> {
        let mut times = vec![self.local(first)];
        if let Some(schedule) = Schedule::from_json(schedule, &times[0])
            && schedule.is_recurring()
        {
            while let Some(last) = times.last().filter(|_| times.len() < TIMES) {
                let Some(next) = schedule.next_run(Some(last), last) else {
                    break;
                };
                times.push(next);
            }
        }
        let times = times.iter();
        times
            .map(|time| NextTime {
                at: time.timestamp().into(),
                there: self.clock(time),
            })
            .collect()
    }

    /// `Mo 2026-11-23 09:00 CET`.
    fn clock(&self, time: &Zoned) -> String {
        let day = format!("weekday.short.{}", time.weekday().to_monday_one_offset());
        let day = self.texts.get(&day);
        format!("{day} {}", time.strftime("%Y-%m-%d %H:%M %Z"))
    }

    fn describe_interval(&self, minutes: i64) -> String {
        let (key, count) = match minutes {
            minutes if minutes % (24 * 60) == 0 => ("schedule.days", minutes / (24 * 60)),
            minutes if minutes % 60 == 0 => ("schedule.hours", minutes / 60),
            minutes => ("schedule.minutes", minutes),
        };
        self.texts.count(key, u64::try_from(count).unwrap_or(0))
    }

    fn describe_expression(&self, expression: &str) -> Option<String> {
        let fields: Vec<&str> = expression.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return None;
        };
        let is_every_day = (*day, *month, *weekday) == ("*", "*", "*");
        if is_every_day && let Some(words) = self.describe_repeated(minute, hour) {
            return Some(words);
        }
        let times = self.times_of_day(minute, hour)?;
        let with_days = |key: &str, days: &str| {
            let words = self.texts.fill(key, days);
            words.replace("{n}", &times)
        };
        match (*day, *month, *weekday) {
            ("*", "*", "*") => Some(with_days("schedule.daily", "")),
            ("*", "*", "1-5" | "MON-FRI") => Some(with_days("schedule.weekdays", "")),
            ("*", "*", days) => {
                let days: Option<Vec<String>> =
                    days.split(',').map(|day| self.day_name(day)).collect();
                Some(with_days("schedule.weekly", &self.join(&days?)))
            }
            (day, "*", "*") => {
                let days: Option<Vec<u32>> = day.split(',').map(|day| day.parse().ok()).collect();
                let days: Vec<String> = days?.iter().map(u32::to_string).collect();
                Some(with_days("schedule.monthly", &self.join(&days)))
            }
            _ => None,
        }
    }

    /// More often than at times of a day.
    fn describe_repeated(&self, minute: &str, hour: &str) -> Option<String> {
        let step = |field: &str| field.strip_prefix("*/")?.parse::<u64>().ok();
        match (minute, hour) {
            ("*", "*") => Some(self.texts.count("schedule.minutes", 1)),
            (minute, "*") => {
                if let Some(step) = step(minute) {
                    return Some(self.texts.count("schedule.minutes", step));
                }
                let minute: u32 = minute.parse().ok()?;
                Some(self.texts.fill("schedule.hourly", &minute.to_string()))
            }
            (minute, hour) => {
                let minute: u32 = minute.parse().ok()?;
                let words = self.texts.count("schedule.hours", step(hour)?);
                let at = self.texts.fill("schedule.at_minute", &minute.to_string());
                Some(format!("{words} {at}"))
            }
        }
    }

    fn times_of_day(&self, minute: &str, hour: &str) -> Option<String> {
        let minute: u32 = minute.parse().ok()?;
        let hours: Option<Vec<u32>> = hour.split(',').map(|hour| hour.parse().ok()).collect();
        let times: Vec<String> = hours?
            .iter()
            .map(|hour| format!("{hour:02}:{minute:02}"))
            .collect();
        Some(self.join(&times))
    }

    fn day_name(&self, day: &str) -> Option<String> {
        let number = day.parse::<usize>().ok().or_else(|| {
            let upper = day.to_ascii_uppercase();
            DAY_NAMES.iter().position(|name| *name == upper)
        })?;
        let number = if number == 0 { 7 } else { number };
        self.texts
            .find(&format!("weekday.{number}"))
            .map(str::to_owned)
    }

    fn join(&self, parts: &[String]) -> String {
        match parts {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., last] => {
                format!("{} {} {last}", first.join(", "), self.texts.get("and"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(language: &str) -> ScheduleWords {
        let mut all = Texts::all().iter();
        let texts = all.find(|texts| texts.language == language).unwrap();
        ScheduleWords::new(texts, "Europe/Berlin")
    }

    fn told(language: &str, expression: &str) -> String {
        let schedule = json!({"kind": "cron", "expr": expression});
        words(language).tell(&schedule, "?", Time::from_millis(0))
    }

    #[test]
    fn usual_expressions_are_told_in_both_languages() {
        for (expression, english, german) in [
            ("0 9 * * *", "every day at 09:00", "jeden Tag um 09:00"),
            ("30 18 * * 1-5", "on weekdays at 18:30", "werktags um 18:30"),
            ("0 9 * * 1", "on Monday at 09:00", "am Montag um 09:00"),
            (
                "0 9 * * MON,5",
                "on Monday and Friday at 09:00",
                "am Montag und Freitag um 09:00",
            ),
            (
                "5 8,20 * * *",
                "every day at 08:05 and 20:05",
                "jeden Tag um 08:05 und 20:05",
            ),
            (
                "0 7 1,15 * *",
                "on day 1 and 15 of every month at 07:00",
                "am Tag 1 und 15 jedes Monats um 07:00",
            ),
            ("*/5 * * * *", "every 5 minutes", "alle 5 Minuten"),
            ("* * * * *", "every minute", "jede Minute"),
            (
                "10 * * * *",
                "every hour at minute 10",
                "jede Stunde zur Minute 10",
            ),
            (
                "0 */2 * * *",
                "every 2 hours at minute 0",
                "alle 2 Stunden zur Minute 0",
            ),
        ] {
            assert_eq!(told("en", expression), english);
            assert_eq!(told("de", expression), german);
        }
    }

    #[test]
    fn what_has_no_words_is_shown_as_it_is_written() {
        for expression in ["*/7 9-17 * * 1", "0 9 1 2 *", "0 9 * * 1#2", "nonsense"] {
            assert_eq!(told("en", expression), expression);
        }
        let unknown = words("en").tell(&json!({"kind": "moon"}), "full moon", Time::now());
        assert_eq!(unknown, "full moon");
    }

    #[test]
    fn intervals_and_single_times_are_told() {
        let tell = |schedule: Value| words("en").tell(&schedule, "?", Time::from_millis(0));
        assert_eq!(
            tell(json!({"kind": "interval", "minutes": 90})),
            "every 90 minutes"
        );
        assert_eq!(
            tell(json!({"kind": "interval", "minutes": 120})),
            "every 2 hours"
        );
        assert_eq!(
            tell(json!({"kind": "interval", "minutes": 1440})),
            "every day"
        );
        let once = tell(json!({"kind": "once", "run_at": "2027-01-02T03:04:00+01:00"}));
        assert_eq!(once, "once, Sat 2027-01-02 03:04 CET");
    }

    #[test]
    fn five_next_times_are_told_over_a_change_of_the_clock() {
        let schedule = json!({"kind": "cron", "expr": "0 9 * * *"});
        let first: Time = serde_json::from_value(json!("2027-03-27T09:00:00+01:00")).unwrap();
        let times = words("en").next_times(&schedule, first);
        let there: Vec<&str> = times.iter().map(|time| time.there.as_str()).collect();
        assert_eq!(there.len(), TIMES);
        assert_eq!(there[0], "Sat 2027-03-27 09:00 CET");
        assert_eq!(there[1], "Sun 2027-03-28 09:00 CEST");
        let once = json!({"kind": "once", "run_at": "2027-03-27T09:00:00+01:00"});
        assert_eq!(words("en").next_times(&once, first).len(), 1);
    }
}
