//! What the policy allows of cron jobs.

use hermes_store::cron::{CronFile, Schedule};
use jiff::Zoned;

use crate::{Code, Problem, service::documents::CronLimits};

/// Refuses one job too many, and one that would run too often.
pub(super) fn check(
    file: &CronFile,
    schedule: &Schedule,
    limits: &CronLimits,
    now: &Zoned,
) -> Result<(), Problem> {
    let most = limits.max_jobs as usize;
    if file.jobs.len() >= most {
        let problem = Problem::new(
            Code::Unprocessable,
            format!("the policy allows {most} jobs for a tenant; delete one first"),
        );
        return Err(problem.because("max_jobs").at("/cron/maxJobs", "reached"));
    }
    check_interval(schedule, limits, now)
}

/// Refuses a schedule that comes round too often.
pub(super) fn check_interval(
    schedule: &Schedule,
    limits: &CronLimits,
    now: &Zoned,
) -> Result<(), Problem> {
    if !schedule.is_recurring() {
        return Ok(());
    }
    let mut times = std::iter::successors(schedule.next_run(None, now), |time| {
        schedule.next_run(Some(time), time)
    });
    let mut before = times.next();
    let least = i64::from(limits.min_interval_minutes) * 60;
    // Enough to see a day of any ordinary expression that comes round too often somewhere.
    for time in times.take(60) {
        if let Some(before) = before
            && time.timestamp().as_second() - before.timestamp().as_second() < least
        {
            let minutes = limits.min_interval_minutes;
            let problem = Problem::new(
                Code::Unprocessable,
                format!(
                    "the policy allows a run every {minutes} minutes at most; choose a longer interval"
                ),
            );
            return Err(problem.because("min_interval").at("schedule", "too often"));
        }
        before = Some(time);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(schedule: &str, minutes: u32) -> bool {
        let now: Zoned = "2026-11-15T12:00:00[UTC]".parse().unwrap();
        let schedule = Schedule::parse(schedule, &now).unwrap();
        let limits = CronLimits {
            max_jobs: 1,
            min_interval_minutes: minutes,
        };
        check_interval(&schedule, &limits, &now).is_ok()
    }

    #[test]
    fn schedules_may_not_come_round_too_often() {
        assert!(is_allowed("every 30m", 30));
        assert!(!is_allowed("every 29m", 30));
        assert!(is_allowed("0 9 * * *", 60));
        assert!(!is_allowed("0,5 9 * * *", 10));
        assert!(is_allowed("30m", 60), "once is never too often");
    }
}
