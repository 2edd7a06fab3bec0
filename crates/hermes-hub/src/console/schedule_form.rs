//! The schedule editor: plain fields in, a schedule as jobs take it out; and back, for a job that is edited.
//!
//! The fields have the name of the argument in front: `job.schedule:schedule` is the kind, `job.schedule:time` the time
//! of day, and so on.

use super::{
    form_fields::{Fields, find_field},
    texts::Texts,
};
use crate::Problem;

/// What the fields of the editor hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScheduleFields {
    /// The kind that is chosen.
    pub(super) kind: &'static str,
    pub(super) every: String,
    pub(super) unit: &'static str,
    pub(super) time: String,
    /// The days of a week, 1 for Monday to 7 for Sunday.
    pub(super) weekdays: Vec<String>,
    pub(super) day: String,
    pub(super) at: String,
    pub(super) custom: String,
}

pub(super) const KINDS: [&str; 7] = [
    "daily", "weekdays", "weekly", "monthly", "every", "once", "custom",
];

impl Default for ScheduleFields {
    fn default() -> Self {
        Self {
            kind: "daily",
            every: "30".into(),
            unit: "m",
            time: "09:00".into(),
            weekdays: vec!["1".into()],
            day: "1".into(),
            at: String::new(),
            custom: String::new(),
        }
    }
}

impl ScheduleFields {
    pub(super) fn is_kind(&self, kind: impl AsRef<str>) -> bool {
        self.kind == kind.as_ref()
    }

    pub(super) fn is_unit(&self, unit: impl AsRef<str>) -> bool {
        self.unit == unit.as_ref()
    }

    /// The days of a week, and whether each is chosen.
    pub(super) fn days(&self) -> Vec<(u32, bool)> {
        let days = 1..=7_u32;
        days.map(|day| (day, self.weekdays.contains(&day.to_string())))
            .collect()
    }

    /// The fields for a schedule as jobs show it: `every 30m`, five cron fields, or any other text.
    pub(super) fn of(schedule: &str) -> Self {
        let usual = Self {
            custom: schedule.to_owned(),
            ..Self::default()
        };
        if let Some((every, unit)) = schedule.strip_prefix("every ").and_then(interval) {
            return Self {
                kind: "every",
                every,
                unit,
                ..usual
            };
        }
        of_expression(schedule, &usual).unwrap_or(Self {
            kind: "custom",
            ..usual
        })
    }
}

/// `30m` as a number and a unit, the largest that fits.
fn interval(text: &str) -> Option<(String, &'static str)> {
    let minutes: u64 = text.trim().strip_suffix('m')?.parse().ok()?;
    Some(match minutes {
        0 => return None,
        minutes if minutes % (24 * 60) == 0 => ((minutes / (24 * 60)).to_string(), "d"),
        minutes if minutes % 60 == 0 => ((minutes / 60).to_string(), "h"),
        minutes => (minutes.to_string(), "m"),
    })
}

fn of_expression(expression: &str, usual: &ScheduleFields) -> Option<ScheduleFields> {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let [minute, hour, day, "*", weekday] = fields.as_slice() else {
        return None;
    };
    let (minute, hour): (u32, u32) = (minute.parse().ok()?, hour.parse().ok()?);
    let at_time = ScheduleFields {
        time: format!("{hour:02}:{minute:02}"),
        ..usual.clone()
    };
    match (*day, *weekday) {
        ("*", "*") => Some(ScheduleFields {
            kind: "daily",
            ..at_time
        }),
        ("*", "1-5" | "MON-FRI" | "mon-fri") => Some(ScheduleFields {
            kind: "weekdays",
            ..at_time
        }),
        ("*", days) => {
            let days = days.split(',').map(|day| match day.parse::<u32>() {
                Ok(0) => Some("7".to_owned()),
                Ok(day @ 1..=7) => Some(day.to_string()),
                _ => None,
            });
            Some(ScheduleFields {
                kind: "weekly",
                weekdays: days.collect::<Option<_>>()?,
                ..at_time
            })
        }
        (day, "*") => Some(ScheduleFields {
            kind: "monthly",
            day: day.parse::<u32>().ok()?.to_string(),
            ..at_time
        }),
        _ => None,
    }
}

/// The schedule that the fields mean; none if they are empty.
pub(super) fn compose(
    name: &str,
    kind: &str,
    fields: &Fields,
    texts: &'static Texts,
) -> Result<Option<String>, Problem> {
    let wrong = |key: &str| {
        let message = texts.get(key);
        Problem::invalid(message).with_detail("schedule", message)
    };
    let field = |part: &str| find_field(fields, &format!("{name}:{part}")).map(str::trim);
    let required = |part: &str, key: &str| field(part).ok_or_else(|| wrong(key));
    let clock = || {
        let time = required("time", "schedule.needs_time")?;
        let parsed = time.split_once(':').and_then(|(hour, minute)| {
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some((hour, minute))
        });
        parsed.ok_or_else(|| wrong("schedule.wrong_time"))
    };
    let schedule = match kind {
        "every" => {
            let wanted = "schedule.needs_interval";
            let every = required("every", wanted)?.parse::<u64>();
            let every = every.map_err(|_| wrong(wanted))?;
            let unit = match field("unit") {
                Some("d") => 24 * 60,
                Some("h") => 60,
                _ => 1,
            };
            format!("every {}m", every.saturating_mul(unit))
        }
        "daily" => {
            let (hour, minute) = clock()?;
            format!("{minute} {hour} * * *")
        }
        "weekdays" => {
            let (hour, minute) = clock()?;
            format!("{minute} {hour} * * 1-5")
        }
        "weekly" => {
            let (hour, minute) = clock()?;
            let wanted = format!("{name}:weekday");
            let days = fields.iter().filter(|(name, _)| *name == wanted);
            let days: Vec<&str> = days
                .map(|(_, day)| if day == "7" { "0" } else { day.as_str() })
                .collect();
            if days.is_empty() {
                return Err(wrong("schedule.needs_weekday"));
            }
            format!("{minute} {hour} * * {}", days.join(","))
        }
        "monthly" => {
            let (hour, minute) = clock()?;
            let day = required("day", "schedule.needs_day")?;
            format!("{minute} {hour} {day} * *")
        }
        "once" => required("at", "schedule.needs_moment")?.to_owned(),
        _ => return Ok(field("custom").map(str::to_owned)),
    };
    Ok(Some(schedule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(kind: &str, parts: &[(&str, &str)]) -> Result<Option<String>, Problem> {
        let parts = parts.iter();
        let fields: Fields = parts
            .map(|(part, value)| (format!("s:{part}"), (*value).to_owned()))
            .collect();
        compose("s", kind, &fields, Texts::in_language("en").unwrap())
    }

    #[test]
    fn every_kind_of_the_editor_is_a_schedule() {
        let time = ("time", "09:05");
        for (kind, parts, schedule) in [
            ("every", vec![("every", "15"), ("unit", "m")], "every 15m"),
            ("daily", vec![time], "5 9 * * *"),
            ("weekdays", vec![time], "5 9 * * 1-5"),
            (
                "weekly",
                vec![time, ("weekday", "1"), ("weekday", "7")],
                "5 9 * * 1,0",
            ),
            ("monthly", vec![time, ("day", "31")], "5 9 31 * *"),
            ("once", vec![("at", "2027-01-02T03:04")], "2027-01-02T03:04"),
            ("custom", vec![("custom", "*/5 * * * *")], "*/5 * * * *"),
        ] {
            assert_eq!(composed(kind, &parts).unwrap().as_deref(), Some(schedule));
        }
        assert_eq!(composed("custom", &[]).unwrap(), None);
        assert!(composed("daily", &[("time", "25:00")]).is_err());
        assert!(composed("weekly", &[time]).is_err());
    }

    #[test]
    fn a_schedule_comes_back_into_the_fields_that_made_it() {
        for (schedule, kind) in [
            ("every 90m", "every"),
            ("5 9 * * *", "daily"),
            ("5 9 * * 1-5", "weekdays"),
            ("5 9 * * 1,0", "weekly"),
            ("5 9 31 * *", "monthly"),
            ("*/5 9 * * *", "custom"),
            ("once at 2027-01-02 03:04", "custom"),
            ("5 9 1 2 *", "custom"),
        ] {
            let fields = ScheduleFields::of(schedule);
            assert_eq!(fields.kind, kind, "{schedule}");
        }
        let fields = ScheduleFields::of("every 120m");
        assert_eq!((fields.every.as_str(), fields.unit), ("2", "h"));
        let fields = ScheduleFields::of("5 9 * * 1,0");
        let days = fields
            .days()
            .into_iter()
            .filter(|(_, is_chosen)| *is_chosen);
        assert_eq!(days.map(|(day, _)| day).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(fields.time, "09:05");
    }
}
