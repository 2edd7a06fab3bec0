use jiff::tz::TimeZone;

use super::*;

fn policy(mode: ResetMode) -> ResetPolicy {
    ResetPolicy {
        mode,
        idle_minutes: 60,
        ..ResetPolicy::default()
    }
}

fn at(text: &str) -> Zoned {
    text.parse().unwrap()
}

/// Whether a session that was used last at `updated` begins anew at `now`.
fn due(policy: &ResetPolicy, updated: &str, now: &str) -> Option<ResetReason> {
    let session = SessionActivity {
        updated_at: at(updated).timestamp(),
        has_background_process: false,
    };
    find_due_reset(policy, session, &at(now))
}

#[test]
fn without_a_policy_a_conversation_never_ends() {
    let never = policy(ResetMode::None);
    assert_eq!(
        due(&never, "2020-01-01T00:00[UTC]", "2026-01-01T00:00[UTC]"),
        None
    );
}

#[test]
fn an_idle_conversation_ends_after_its_minutes_and_not_at_them() {
    let idle = policy(ResetMode::Idle);
    let updated = "2026-05-05T12:00[Europe/Zurich]";
    assert_eq!(due(&idle, updated, "2026-05-05T13:00[Europe/Zurich]"), None);
    assert_eq!(
        due(&idle, updated, "2026-05-05T13:00:01[Europe/Zurich]"),
        Some(ResetReason::Idle)
    );
    // Midnight and the daily hour mean nothing to it.
    assert_eq!(
        due(
            &idle,
            "2026-05-05T03:30[Europe/Zurich]",
            "2026-05-05T04:29[Europe/Zurich]"
        ),
        None
    );
}

#[test]
fn a_day_ends_at_its_hour_in_local_time() {
    let daily = policy(ResetMode::Daily);
    for (updated, now, expected) in [
        // At the hour itself the new day has begun; what was said at it belongs to the new day.
        (
            "2026-05-05T03:59:59",
            "2026-05-05T04:00",
            Some(ResetReason::Daily),
        ),
        ("2026-05-05T04:00", "2026-05-05T04:00", None),
        ("2026-05-05T04:00", "2026-05-06T03:59:59", None),
        (
            "2026-05-05T04:00",
            "2026-05-06T04:00",
            Some(ResetReason::Daily),
        ),
        ("2026-05-04T23:00", "2026-05-05T03:00", None),
        (
            "2026-05-04T03:00",
            "2026-05-05T03:00",
            Some(ResetReason::Daily),
        ),
    ] {
        for zone in [
            "Europe/Zurich",
            "America/Los_Angeles",
            "Asia/Kolkata",
            "UTC",
        ] {
            let (updated, now) = (format!("{updated}[{zone}]"), format!("{now}[{zone}]"));
            assert_eq!(due(&daily, &updated, &now), expected, "{updated} {now}");
        }
    }
}

#[test]
fn the_same_moment_is_another_day_in_another_zone() {
    let daily = policy(ResetMode::Daily);
    let updated = "2026-05-05T01:30[UTC]";
    let now = at("2026-05-05T02:30[UTC]");
    let session = SessionActivity {
        updated_at: at(updated).timestamp(),
        has_background_process: false,
    };
    // 03:30 to 04:30 in Zurich, 18:30 to 19:30 the day before in Los Angeles.
    let zurich = now.with_time_zone(TimeZone::get("Europe/Zurich").unwrap());
    assert_eq!(
        find_due_reset(&daily, session, &zurich),
        Some(ResetReason::Daily)
    );
    let los_angeles = now.with_time_zone(TimeZone::get("America/Los_Angeles").unwrap());
    assert_eq!(find_due_reset(&daily, session, &los_angeles), None);
}

#[test]
fn a_day_with_a_missing_or_a_double_hour_has_one_boundary() {
    let mut daily = policy(ResetMode::Daily);
    daily.at_hour = 2;
    // On 29 March 2026 two o'clock is three o'clock in Zurich.
    assert_eq!(
        due(
            &daily,
            "2026-03-29T01:30[Europe/Zurich]",
            "2026-03-29T01:59[Europe/Zurich]"
        ),
        None
    );
    assert_eq!(
        due(
            &daily,
            "2026-03-29T01:30[Europe/Zurich]",
            "2026-03-29T03:00[Europe/Zurich]"
        ),
        Some(ResetReason::Daily)
    );
    // On 25 October 2026 it is two o'clock twice: the first time counts.
    let between = "2026-10-25T02:30+02:00[Europe/Zurich]";
    assert_eq!(
        due(&daily, "2026-10-25T01:59[Europe/Zurich]", between),
        Some(ResetReason::Daily)
    );
    assert_eq!(
        due(&daily, between, "2026-10-25T02:30+01:00[Europe/Zurich]"),
        None
    );
}

#[test]
fn of_both_whichever_comes_first_ends_it() {
    let both = policy(ResetMode::Both);
    assert_eq!(
        due(&both, "2026-05-05T03:30[UTC]", "2026-05-05T04:10[UTC]"),
        Some(ResetReason::Daily)
    );
    assert_eq!(
        due(&both, "2026-05-05T10:00[UTC]", "2026-05-05T11:01[UTC]"),
        Some(ResetReason::Idle)
    );
    assert_eq!(
        due(&both, "2026-05-05T10:00[UTC]", "2026-05-05T10:30[UTC]"),
        None
    );
}

#[test]
fn a_running_process_keeps_a_conversation_open() {
    let session = SessionActivity {
        updated_at: at("2020-01-01T00:00[UTC]").timestamp(),
        has_background_process: true,
    };
    let now = at("2026-01-01T00:00[UTC]");
    assert_eq!(
        find_due_reset(&policy(ResetMode::Both), session, &now),
        None
    );
}

#[test]
fn a_clock_that_went_back_ends_nothing() {
    assert_eq!(
        due(
            &policy(ResetMode::Both),
            "2026-05-06T10:00[UTC]",
            "2026-05-05T10:00[UTC]"
        ),
        None
    );
}

#[test]
fn users_are_told_unless_the_policy_or_their_platform_says_no() {
    let told = ResetPolicy::default();
    assert!(is_user_told(&told, "telegram"));
    assert!(!is_user_told(&told, "api_server"));
    let excluded = ResetPolicy {
        notify_exclude_platforms: vec!["telegram".into()],
        ..ResetPolicy::default()
    };
    assert!(!is_user_told(&excluded, "telegram@work"));
    let silent = ResetPolicy {
        notify: false,
        ..ResetPolicy::default()
    };
    assert!(!is_user_told(&silent, "telegram"));
}

#[test]
fn the_reason_is_told_in_plain_words() {
    let mut policy = ResetPolicy::default();
    let told = |reason, policy: &ResetPolicy| describe_reset(reason, policy);
    assert_eq!(
        told(ResetReason::Idle, &policy),
        "Nothing was said for one day, so this is a new conversation. `/resume` goes back to the earlier one."
    );
    policy.idle_minutes = 90;
    assert!(told(ResetReason::Idle, &policy).contains("90 minutes"));
    policy.idle_minutes = 120;
    assert!(told(ResetReason::Idle, &policy).contains("2 hours"));
    assert!(told(ResetReason::Daily, &policy).starts_with("It is past 04:00, "));
    assert!(note_for_model(ResetReason::Idle).contains("new conversation"));
}
