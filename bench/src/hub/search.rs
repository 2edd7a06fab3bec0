//! A search through a large share, against ripgrep with one thread on the same files.

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::load;
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Report, ReportRow, Target},
    report_progress,
    samples::Samples,
};

const GROUP: &str = "library";
const TENANT: &str = "reader";
/// What is looked for; few files have it.
const NEEDLE: &str = "needle-[0-9]+-found";
const FILE_BYTES: usize = 10_000;
const LIMIT: f64 = 1.5;

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (files, rounds) = match effort {
        Effort::Full => (100_000, 10),
        Effort::Quick => (1_000, 2),
    };
    let directory = TemporaryHome::new();
    let hub = HubProcess::start(programs, directory.path())?;
    share_with(&hub, GROUP, TENANT)?;
    let share = hub.share(GROUP);
    let needles = write_files(&share, files)?;

    let path = format!("/v1/tenants/{TENANT}/shares/{GROUP}/grep");
    let request = hub.request(
        "POST",
        &path,
        Some(&json!({"pattern": NEEDLE, "max": 1000})),
    );
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for round in 0..=rounds {
        let began = Instant::now();
        let told = load::send_once(hub.port, request.clone())?;
        let taken = began.elapsed();
        let found = told["matches"].as_array().map_or(0, Vec::len);
        ensure!(
            found == needles && told["truncated"] == false,
            "{found} of {needles} lines were found"
        );
        let other = ripgrep(&share, needles)?;
        if round > 0 {
            ours.push(taken);
            if let Some(other) = other {
                theirs.push(other);
            }
        }
    }
    let measure = format!("grep_share, {files} files of {FILE_BYTES} bytes");
    report.add(if theirs.count() > 0 {
        ReportRow::times(measure, &ours, &theirs, Target::Ratio(LIMIT))
    } else {
        report_progress("there is no `rg` here to compare grep_share with; install ripgrep")?;
        ReportRow::time(measure, &ours, Target::Nothing)
    });
    hub.stop()
}

/// A group, and a tenant that may write to its share.
pub(super) fn share_with(hub: &HubProcess, group: &str, tenant: &str) -> Result<()> {
    let body = json!({"id": group});
    load::send_once(hub.port, hub.request("POST", "/v1/groups", Some(&body)))?;
    let body = json!({
        "id": tenant,
        "groups": [{"id": group, "access": "write"}],
        "agent": {"autoStart": false},
        "start": false,
    });
    load::send_once(hub.port, hub.request("POST", "/v1/tenants", Some(&body)))?;
    Ok(())
}

/// Text files in directories of a hundred. Returns how many lines match.
fn write_files(share: &Path, files: usize) -> Result<usize> {
    let mut needles = 0;
    for number in 0..files {
        let directory = share.join(format!("d{:04}", number / 100));
        if number.is_multiple_of(100) {
            fs::create_dir_all(&directory)?;
        }
        let mut text = String::with_capacity(FILE_BYTES + 100);
        if number % (files / 50).max(1) == 7 {
            needles += 1;
            writeln!(text, "here is needle-{number}-found, as it should be")?;
        }
        let mut line = number;
        while text.len() < FILE_BYTES {
            line = line.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            writeln!(text, "line {line:x} of a report that nobody needs today")?;
        }
        fs::write(directory.join(format!("f{number:06}.md")), text)?;
    }
    Ok(needles)
}

/// The time that ripgrep takes; `None` where there is none.
fn ripgrep(share: &Path, needles: usize) -> Result<Option<std::time::Duration>> {
    let began = Instant::now();
    let ran = Command::new("rg")
        .args(["-uuu", "-j1", "--no-config", NEEDLE])
        .arg(share)
        .stdin(Stdio::null())
        .output();
    let output = match ran {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        ran => ran.context("`rg` does not run")?,
    };
    let taken = began.elapsed();
    let found = String::from_utf8_lossy(&output.stdout).lines().count();
    ensure!(found == needles, "`rg` found {found} of {needles} lines");
    Ok(Some(taken))
}
