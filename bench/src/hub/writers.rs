//! A hundred who append to the files of one share at the same time: nothing may be lost.

use std::fs;

use anyhow::Result;
use hermes_testkit::TemporaryHome;
use serde_json::json;

use super::{load, search::share_with};
use crate::{
    environment::{Effort, Programs},
    hub::hub_process::HubProcess,
    report::{Quantity, Report, ReportRow, Target},
};

const WRITERS: usize = 100;
const FILES: usize = 5;
const GROUP: &str = "minutes";
const TENANT: &str = "clerk";

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let lines = match effort {
        Effort::Full => 5_000,
        Effort::Quick => 200,
    };
    let directory = TemporaryHome::new();
    let hub = HubProcess::start(programs, directory.path())?;
    share_with(&hub, GROUP, TENANT)?;
    let path = format!("/v1/tenants/{TENANT}/shares/{GROUP}/files/content");
    let requests = (0..lines)
        .map(|number| {
            let body = json!({
                "path": format!("file-{}.md", number % FILES),
                "content": format!("line {number}\n"),
                "mode": "append",
            });
            hub.request("PUT", &path, Some(&body))
        })
        .collect();
    load::send_each_once(hub.port, requests, WRITERS)?;
    let mut written = Vec::new();
    for file in 0..FILES {
        let text = fs::read_to_string(hub.share(GROUP).join(format!("file-{file}.md")))?;
        written.extend(text.lines().map(str::to_owned));
    }
    written.sort_unstable();
    written.dedup();
    let count = |number: usize| Quantity::Count(u32::try_from(number).unwrap_or(u32::MAX));
    report.add(ReportRow::new(
        format!("{WRITERS} writers on a share: lines that are there"),
        count(written.len()),
        Some(count(lines)),
        Target::Equal,
    ));
    hub.stop()
}
