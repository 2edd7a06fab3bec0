//! `hermes mcp ps`: the processes of local servers, and the end of one.

use hermes_mcp::process::records::{self, ProcessRecord, ProcessState};
use serde_json::json;

use crate::{
    cli::PsArgs,
    commands::state,
    context::Context,
    failure::{Failure, FailureKind},
    output::{Table, Tone},
};

pub(crate) fn run(context: &Context, args: &PsArgs) -> Result<(), Failure> {
    let processes = records::list_processes(&context.home.run_dir());
    if let Some(name) = &args.kill {
        return kill_server(context, name, &processes);
    }
    print_processes(context, &processes);
    Ok(())
}

fn print_processes(context: &Context, processes: &[ProcessRecord]) {
    let output = context.output;
    let mut table = Table::new(&["SERVER", "PID", "STATE", "MEMORY", "AGE", "HOST"]);
    let now = state::unix_now();
    for process in processes {
        let (word, tone) = match process.state {
            ProcessState::Running => ("running", Tone::Good),
            ProcessState::Orphaned => ("orphaned", Tone::Bad),
        };
        let age = parse_unix_seconds(&process.started_at)
            .map(|started| state::format_span(now.saturating_sub(started)));
        table.row([
            (process.server.to_string(), Tone::Strong),
            (process.pid.to_string(), Tone::Plain),
            (word.to_owned(), tone),
            (format_mebibytes(process.rss_bytes), Tone::Plain),
            (age.unwrap_or_default(), Tone::Plain),
            (process.host_pid.to_string(), Tone::Plain),
        ]);
    }
    if processes.is_empty() {
        output.note("No local server runs.");
    } else {
        output.table(&table);
    }
    output.json(json!({"processes": processes}));
}

fn kill_server(context: &Context, name: &str, processes: &[ProcessRecord]) -> Result<(), Failure> {
    let targets: Vec<&ProcessRecord> = processes
        .iter()
        .filter(|process| process.server.as_str() == name)
        .collect();
    if targets.is_empty() {
        let running = processes.iter().map(|process| process.server.to_string());
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("no process of `{name}` runs"),
        )
        .about(hermes_config::ServerName::new(name))
        .suggest_nearest(name, running)
        .hint("`hermes mcp ps` lists what runs"));
    }
    context.block_on(async {
        for target in &targets {
            records::stop_recorded_process(target)
                .await
                .map_err(|error| Failure::failed(error.to_string()).about(target.server.clone()))?;
        }
        Ok(())
    })?;
    let output = context.output;
    for target in &targets {
        output.line(format!("ended process {} of {name}", target.pid));
    }
    if targets
        .iter()
        .any(|target| target.state == ProcessState::Running)
    {
        output.note(format!(
            "The hermes process that started it will start it again; `hermes mcp disable {name}` keeps it off."
        ));
    }
    let killed: Vec<u32> = targets.iter().map(|target| target.pid).collect();
    output.json(json!({"server": name, "killed": killed}));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn format_mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

/// Seconds since 1970 of a time like `2026-11-15T04:03:12.345Z`.
fn parse_unix_seconds(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Years begin in March here, so that the leap day comes last and months have a regular pattern.
    let year_from_march = if month > 2 {
        year
    } else {
        year.checked_sub(1)?
    };
    let month_from_march = (month + 9) % 12;
    let leap_days = year_from_march / 4 - year_from_march / 100 + year_from_march / 400;
    let days = year_from_march * 365 + leap_days + (153 * month_from_march + 2) / 5 + day;
    let days = days.checked_sub(719_469)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_back() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T00:00:00.000Z", 951_782_400),
            ("2023-12-31T23:59:59.000Z", 1_704_067_199),
            ("2100-03-01T00:00:00.000Z", 4_107_542_400),
        ] {
            assert_eq!(parse_unix_seconds(text), Some(seconds), "{text}");
        }
        assert_eq!(parse_unix_seconds("yesterday"), None);
    }

    #[test]
    fn memory_is_shown_in_mebibytes() {
        assert_eq!(format_mebibytes(1_572_864), "1.5 MiB");
    }
}
