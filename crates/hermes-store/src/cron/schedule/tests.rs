use super::*;

fn at(text: &str) -> Zoned {
    text.parse().unwrap()
}

fn berlin(text: &str) -> Zoned {
    at(&format!("{text}[Europe/Berlin]"))
}

fn parse(text: &str) -> Result<Schedule, ScheduleError> {
    Schedule::parse(text, &berlin("2026-02-01T12:00:00"))
}

#[test]
fn durations_run_once_that_far_ahead() {
    for (text, expected) in [
        ("30m", "2026-02-01T12:30:00"),
        ("2h", "2026-02-01T14:00:00"),
        ("1 day", "2026-02-02T12:00:00"),
        ("90 MINS", "2026-02-01T13:30:00"),
        ("1hr", "2026-02-01T13:00:00"),
        ("in 30m", "2026-02-01T12:30:00"),
        ("In 2 hours", "2026-02-01T14:00:00"),
    ] {
        match parse(text).unwrap() {
            Schedule::Once { at, .. } => assert_eq!(at, berlin(expected), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn every_makes_an_interval() {
    for (text, minutes) in [
        ("every 30m", 30),
        ("Every 2 hours", 120),
        ("every 1d", 1440),
        ("every hour", 60),
        ("Every Day", 1440),
    ] {
        assert_eq!(parse(text).unwrap(), Schedule::Interval { minutes });
    }
    assert!(parse("every 0m").is_err());
    assert!(parse("every now and then").is_err());
}

#[test]
fn five_fields_or_days_with_a_time_are_cron() {
    assert_eq!(
        parse(" 0 9  * * 1-5 ").unwrap(),
        Schedule::Cron {
            expression: "0 9 * * 1-5".into()
        }
    );
    for (text, expected) in [
        ("0 9 * * MON-FRI", "0 9 * * 1-5"),
        ("0 9 1 JAN *", "0 9 1 1 *"),
        ("every monday 9am", "0 9 * * 1"),
        ("Weekdays at 9am", "0 9 * * 1-5"),
        ("daily at 18:30", "30 18 * * *"),
    ] {
        let expression = expected.to_owned();
        assert_eq!(
            parse(text).unwrap(),
            Schedule::Cron { expression },
            "{text}"
        );
    }
    for bad in [
        "0 9 * * MOON",
        "0 9 * *",
        "* * * * * *",
        "@daily",
        "every monday",
    ] {
        assert!(
            matches!(parse(bad), Err(ScheduleError::Unknown { .. })),
            "{bad}"
        );
    }
    for bad in ["61 9 * * *", "0 9 30 2 *", "0 25 * * *"] {
        assert!(
            matches!(parse(bad), Err(ScheduleError::BadExpression { .. })),
            "{bad}: {:?}",
            parse(bad)
        );
    }
}

#[test]
fn times_without_a_zone_are_in_the_configured_one() {
    for (text, expected) in [
        ("2026-02-03T14:00", "2026-02-03T14:00:00"),
        ("2026-02-03 14:00", "2026-02-03T14:00:00"),
        ("2026-02-03", "2026-02-03T00:00:00"),
        ("2026-02-03T14:00:00Z", "2026-02-03T15:00:00"),
        ("2026-02-03T14:00:00-05:00", "2026-02-03T20:00:00"),
    ] {
        match parse(text).unwrap() {
            Schedule::Once { at, .. } => assert_eq!(at, berlin(expected), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        parse("2026-13-03"),
        Err(ScheduleError::BadTime { .. })
    ));
}

#[test]
fn a_single_time_may_be_two_minutes_late() {
    assert!(parse("2026-02-01T11:58:00").is_ok());
    assert!(matches!(
        parse("2026-02-01T11:57:59"),
        Err(ScheduleError::Past { .. })
    ));
}

#[test]
fn the_error_names_all_forms() {
    let message = parse("tomorrow").unwrap_err().to_string();
    for form in [
        "`30m`",
        "`every 30m`",
        "`weekdays at 9am`",
        "`0 9 * * MON-FRI`",
        "`2026-02-03T14:00`",
    ] {
        assert!(message.contains(form), "{message}");
    }
}

#[test]
fn the_stored_form_reads_back() {
    let now = berlin("2026-02-01T12:00:00");
    for text in ["30m", "every 2h", "0 9 * * *", "2026-02-03T14:00"] {
        let schedule = parse(text).unwrap();
        let stored = schedule.to_json();
        assert_eq!(
            Schedule::from_json(&stored, &now),
            Some(schedule.clone()),
            "{stored}"
        );
        assert_eq!(stored["display"], schedule.display());
    }
    let python = json!({"kind": "once", "run_at": "2026-02-03T14:00:00+00:00", "display": "x"});
    assert!(Schedule::from_json(&python, &now).is_some());
    assert_eq!(Schedule::from_json(&json!({"kind": "moon"}), &now), None);
}

#[test]
fn intervals_count_from_the_last_run_across_a_change_of_the_clock() {
    let schedule = Schedule::Interval { minutes: 120 };
    let last = berlin("2026-03-29T01:30:00");
    assert_eq!(
        schedule.next_run(Some(&last), &last).unwrap(),
        berlin("2026-03-29T04:30:00")
    );
}

#[test]
fn a_skipped_time_runs_at_the_next_minute_there_is() {
    let schedule = parse("30 2 * * *").unwrap();
    let last = berlin("2026-03-28T02:30:00");
    let next = schedule.next_run(Some(&last), &last).unwrap();
    assert_eq!(next, berlin("2026-03-29T03:00:00"));
    let after = schedule.next_run(Some(&next), &next).unwrap();
    assert_eq!(after, berlin("2026-03-30T02:30:00"));
}

#[test]
fn a_doubled_time_runs_once() {
    let schedule = parse("30 2 * * *").unwrap();
    let last = berlin("2026-10-24T02:30:00");
    let first = schedule.next_run(Some(&last), &last).unwrap();
    assert_eq!(first, at("2026-10-25T02:30:00+02:00[Europe/Berlin]"));
    let second = schedule.next_run(Some(&first), &first).unwrap();
    assert_eq!(second, berlin("2026-10-26T02:30:00"));
}

#[test]
fn days_of_month_and_week_are_either_or() {
    let schedule = parse("0 0 13 * 5").unwrap();
    let now = berlin("2026-02-01T12:00:00");
    let first = schedule.next_run(None, &now).unwrap();
    assert_eq!(first, berlin("2026-02-06T00:00:00"));
    let second = schedule.next_run(Some(&first), &now).unwrap();
    assert_eq!(second, berlin("2026-02-13T00:00:00"));
}

#[test]
fn a_single_time_comes_once() {
    let schedule = parse("2026-02-03T14:00").unwrap();
    let now = berlin("2026-02-01T12:00:00");
    let run = schedule.next_run(None, &now).unwrap();
    assert_eq!(run, berlin("2026-02-03T14:00:00"));
    assert_eq!(schedule.next_run(Some(&run), &now), None);
}

#[test]
fn half_a_period_late_is_not_too_late() {
    let due = berlin("2026-02-01T12:00:00");
    let tolerance = |text: &str| {
        parse(text)
            .unwrap()
            .tolerance(&due)
            .map(|tolerance| tolerance.as_secs())
    };
    assert_eq!(tolerance("every 1m"), Some(120));
    assert_eq!(tolerance("every 60m"), Some(1800));
    assert_eq!(tolerance("0 9 * * *"), Some(7200));
    assert_eq!(tolerance("30m"), None);
}
