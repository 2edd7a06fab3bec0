//! Measures hermes against raw rmcp and a bare pipe: `hermes-bench host|agent|bridge|hub|scale|gateway|console [--json] [--quick]`.
//!
//! Machines differ and are busy, so absolute times say little. Every target is a ratio or a difference, and the sides
//! take turns within one run: in the same process, or in processes that are started in the same way.

mod agent;
mod baseline;
mod bridge;
mod calls;
mod client;
mod cold_start;
mod console;
mod discovery;
mod echo_http;
mod endurance;
mod environment;
mod filled_store;
mod gateway;
mod hub;
mod parallel;
mod parts;
mod raw_discovery;
mod report;
mod samples;
mod scale;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod start_order;
mod whole_commands;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};

use crate::environment::{Effort, Programs};
use report::Report;

const USAGE: &str = "usage: hermes-bench host|agent|bridge|hub|scale|gateway|console [--json] [--quick]\n       hermes-bench hub|scale|gateway|console PART [--json] [--quick]";

#[derive(Clone, Copy)]
enum Format {
    Table,
    Json,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [
            subject @ ("host" | "agent" | "bridge" | "hub" | "scale" | "gateway" | "console"),
            options @ ..,
        ] => {
            let (mut format, mut effort, mut only) = (Format::Table, Effort::Full, None);
            for option in options {
                match *option {
                    part if matches!(*subject, "hub" | "scale" | "gateway" | "console")
                        && !part.starts_with('-') =>
                    {
                        only = Some(part);
                    }
                    "--json" => format = Format::Json,
                    "--quick" => effort = Effort::Quick,
                    other => bail!("unknown option `{other}`\n\n{USAGE}"),
                }
            }
            let programs = Programs::find()?;
            let mut report = Report::new();
            let outcome = match *subject {
                "host" => measure_host(&programs, effort, &mut report),
                "bridge" => bridge::measure(&programs, effort, &mut report),
                "hub" => hub::measure(&programs, effort, only, &mut report),
                "scale" => scale::measure(&programs, effort, only, &mut report),
                "console" => console::measure(&programs, effort, only, &mut report),
                "gateway" => gateway::measure(&programs, effort, only, &mut report),
                _ => agent::measure(&programs, effort, &mut report),
            };
            // What was measured before something failed took minutes, too.
            let code = print_report(&report, format)?;
            outcome.map(|()| code)
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        ["order", map] => start_order::print_order(&Programs::find()?, map.as_ref()),
        // The rest is how this program starts itself.
        ["discover", side, era, flavour, home] => discovery::child(side, era, flavour, home),
        ["endure", home, restarts] => {
            endurance::child(home, restarts.parse().context("number of restarts")?)
        }
        ["discover-raw", era, servers, tools] => raw_discovery::child(era, servers, tools),
        ["start", program, arguments @ ..] => cold_start::run_child(program, arguments),
        ["write", home] => bridge::writer::child(home),
        [echo_http::MODE] => echo_http::serve(),
        [hub::echo::MODE] => hub::echo::serve(),
        [hub::saturate::MODE, what @ ..] => hub::saturate::run_saturation(what),
        _ => bail!("say what to measure\n\n{USAGE}"),
    }
}

fn measure_host(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    // A process starts with its parent's peak of memory on its account, so the small ones come first.
    report_progress("cold start")?;
    cold_start::measure(programs, effort, report)?;
    report_progress("discovery")?;
    discovery::measure(programs, effort, report)?;
    report_progress("whole commands")?;
    whole_commands::measure(programs, effort, report)?;
    report_progress("restarts and calls")?;
    endurance::measure(programs, effort, report)?;
    report_progress("calls")?;
    calls::measure(programs, effort, report)?;
    report_progress("parallel calls")?;
    parallel::measure(programs, effort, report)
}

fn print_report(report: &Report, format: Format) -> Result<ExitCode> {
    let text = match format {
        Format::Table => report.to_text(),
        Format::Json => format!("{:#}\n", report.to_json()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if report.all_targets_hold() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says on stderr what is being measured: it takes minutes.
fn report_progress(what: &str) -> Result<()> {
    writeln!(std::io::stderr(), "measuring: {what}")?;
    Ok(())
}
