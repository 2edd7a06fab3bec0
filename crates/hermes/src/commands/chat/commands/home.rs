//! What the home keeps: skills and scheduled jobs.

use std::{collections::BTreeMap, fmt::Write as _};

use hermes_agent::tools::home::cronjob::{CronJobs, HomeJobs};
use hermes_store::skills::Skill;
use serde_json::Value;

use super::{ChatContext, CommandOutcome};
use crate::{commands::chat::rendering::wrap, failure::Failure};

#[expect(clippy::unnecessary_wraps, reason = "all commands end alike")]
pub(super) fn skills(chat: &ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let kept = chat.conversation.agent().skills();
    let skills = kept.list();
    if skills.is_empty() {
        let directory = chat.context.home.path().join("skills");
        return Ok(CommandOutcome::text(format!(
            "There is no skill. One is a directory with a `SKILL.md` below `{}`.",
            directory.display()
        )));
    }
    Ok(CommandOutcome::text(skill_list(
        &skills,
        &kept.categories(&skills),
        chat.screen.width(),
    )))
}

fn skill_list(skills: &[Skill], about: &BTreeMap<String, String>, width: usize) -> String {
    let mut text = String::new();
    let mut category = None;
    for skill in skills {
        if skill.category != category {
            let name = skill.category.as_deref().unwrap_or("others");
            let line = match about.get(name) {
                Some(about) => format!("{name}: {}", wrap::first_line(about, width)),
                None => name.to_owned(),
            };
            let _ = writeln!(text, "{}", wrap::truncate_line(&line, width));
            category.clone_from(&skill.category);
        }
        let line = format!(
            "  /{:<24} {}",
            skill.name,
            wrap::first_line(&skill.description, width)
        );
        let _ = writeln!(text, "{}", wrap::truncate_line(&line, width));
    }
    text.trim_end().to_owned()
}

pub(super) fn cron(chat: &ChatContext<'_>, rest: &str) -> Result<CommandOutcome, Failure> {
    let settings = chat.conversation.agent().settings();
    let jobs = HomeJobs::new(chat.context.home.clone(), &settings, None);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let changed = match words.as_slice() {
        [] | ["list"] => {
            let jobs = jobs.list().map_err(Failure::failed)?;
            return Ok(CommandOutcome::text(job_list(&jobs, chat.screen.width())));
        }
        ["pause", job] => jobs.pause(job),
        ["resume", job] => jobs.resume(job),
        ["run", job] => jobs.run(job),
        _ => {
            return Err(Failure::usage(
                "`/cron` takes nothing, `pause JOB`, `resume JOB` or `run JOB`",
            ));
        }
    };
    let job = changed.map_err(|error| Failure::failed(error).hint("`/cron` lists the jobs"))?;
    Ok(CommandOutcome::text(job_line(&job, chat.screen.width())))
}

fn job_list(jobs: &[Value], width: usize) -> String {
    if jobs.is_empty() {
        return "There is no scheduled job; ask for one, or see `hermes cron`.".to_owned();
    }
    let lines: Vec<String> = jobs.iter().map(|job| job_line(job, width)).collect();
    lines.join("\n")
}

fn job_line(job: &Value, width: usize) -> String {
    let text = |key: &str| wrap::first_line(job[key].as_str().unwrap_or_default(), 80);
    let next = match text("next_run_at").as_str() {
        "" => String::new(),
        next => format!(", next at {next}"),
    };
    let line = format!(
        "{}  {} ({}, {}{next})",
        text("id"),
        text("name"),
        text("schedule_display"),
        text("state")
    );
    wrap::truncate_line(&line, width)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_one_line() {
        let job = json!({"id": "ab12", "name": "news", "schedule_display": "every 1h", "state": "scheduled",
            "next_run_at": "2026-11-15T08:00:00+01:00"});
        assert_eq!(
            job_list(&[job], 100),
            "ab12  news (every 1h, scheduled, next at 2026-11-15T08:00:00+01:00)"
        );
        assert!(job_list(&[], 80).contains("no scheduled job"));
    }
}
