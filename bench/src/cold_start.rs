//! Starting the program and ending it: `hermes --version` and `hermes mcp list` beside `true`.

use std::{
    io::Write,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use hermes_mcp::Era;
use serde_json::{Map, Value, json};

use crate::{
    environment,
    environment::{Effort, Programs, light_server},
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

/// 12 MB in KiB.
const MEMORY_LIMIT: Quantity = Quantity::Memory(11_718);

/// 45 MB in KiB.
const SIZE_LIMIT: Quantity = Quantity::Memory(43_945);

pub(crate) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let home = environment::home_with_servers(&ten_servers(programs));
    let nothing = || Command::new("true");
    let version = || hermes_command(programs, home.path(), &["--version"]);
    let list = || hermes_command(programs, home.path(), &["mcp", "list"]);
    let mut runs: [(&dyn Fn() -> Command, Samples, u32); 3] = [
        (&nothing, Samples::default(), 0),
        (&version, Samples::default(), 0),
        (&list, Samples::default(), 0),
    ];
    for round in 0..=effort.times(300) {
        for (command, samples, peak) in &mut runs {
            let (time, memory) = run_measured(&command())?;
            if round > 0 {
                samples.push(time);
                *peak = memory.max(*peak);
            }
        }
    }
    let [
        (_, nothing, floor),
        (_, version, version_peak),
        (_, list, list_peak),
    ] = runs;
    report.add(ReportRow::times(
        "hermes --version",
        &version,
        &nothing,
        Target::Ratio(3.0),
    ));
    let ten_milliseconds = Target::Longer(Duration::from_millis(10));
    report.add(ReportRow::times(
        "hermes mcp list, 10 servers",
        &list,
        &nothing,
        ten_milliseconds,
    ));
    for (measure, peak) in [
        ("hermes --version, peak RSS", version_peak),
        ("hermes mcp list, peak RSS", list_peak),
    ] {
        let (peak, floor) = (Quantity::Memory(peak), Quantity::Memory(floor));
        report.add(ReportRow::new(
            measure,
            peak,
            Some(floor),
            Target::Below(MEMORY_LIMIT),
        ));
    }
    let bytes = std::fs::metadata(&programs.hermes)?.len();
    report.add(ReportRow::new(
        "size of the program",
        Quantity::Memory(u32::try_from(bytes / 1024)?),
        None,
        Target::Below(SIZE_LIMIT),
    ));
    Ok(())
}

pub(crate) fn ten_servers(programs: &Programs) -> Value {
    let local = |number: u32| {
        let mut entry = programs.stdio_entry(&light_server(Era::Legacy));
        entry["env"] = json!({"TOKEN": "${API_KEY}"});
        (format!("local_{number}"), entry)
    };
    let remote = |number: u32| {
        let url = format!("https://mcp-{number}.example.com/mcp");
        (
            format!("remote_{number}"),
            json!({"url": url, "headers": {"Authorization": "Bearer ${API_KEY}"}}),
        )
    };
    (0..5)
        .map(local)
        .chain((0..5).map(remote))
        .collect::<Map<_, _>>()
        .into()
}

fn hermes_command(programs: &Programs, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&programs.hermes);
    command.args(arguments).env("HERMES_HOME", home);
    command
}

/// Runs a command to its end and returns its time and its peak of memory in KiB.
///
/// A process has the peak of the one that started it on its account. So this program starts itself anew, which is
/// small then, and that one starts the command.
pub(crate) fn run_measured(command: &Command) -> Result<(Duration, u32)> {
    let mut starter = Command::new(std::env::current_exe()?);
    starter
        .arg("start")
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        starter.current_dir(directory);
    }
    let output = starter.output()?;
    let line = String::from_utf8(output.stdout)?;
    let measured = line.trim().split_once(' ');
    match measured.filter(|_| output.status.success()) {
        Some((nanoseconds, memory)) => {
            Ok((Duration::from_nanos(nanoseconds.parse()?), memory.parse()?))
        }
        None => bail!("{command:?} failed"),
    }
}

/// The hidden mode: runs a command to its end and prints its time in nanoseconds and its peak of memory in KiB.
pub(crate) fn run_child(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let began = Instant::now();
    let child = command.spawn()?;
    let (is_success, memory) = wait_for_child(child.id())?;
    let time = began.elapsed().as_nanos();
    writeln!(std::io::stdout(), "{time} {memory}")?;
    Ok(if is_success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits for a child; says whether it succeeded, and its peak of memory in KiB.
///
/// The kernel counts the memory of the parent at the time of the fork too, so the parent should be small.
#[expect(
    unsafe_code,
    reason = "no safe interface tells what one child has used"
)]
fn wait_for_child(pid: u32) -> Result<(bool, u32)> {
    let pid = libc::pid_t::try_from(pid)?;
    let mut status = 0;
    // SAFETY: all zero is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right type.
    if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((status == 0, u32::try_from(usage.ru_maxrss)?))
}
