//! How long somebody waits from `hermes up` to a page of the console: at the first start, which makes the Hub, and at a later
//! one, which finds it.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use hermes_testkit::{ReservedPort, TemporaryHome, wait_until};
use serde_json::json;

use crate::{
    environment::{self, Effort, Programs, RuntimeFlavour},
    hub::wire::RawConnection,
    report::{Quantity, Report, ReportRow, Target},
    samples::Samples,
};

const LIMIT: Target = Target::Below(Quantity::Time(Duration::from_millis(300)));
/// Timeout for the page.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn measure(programs: &Programs, effort: Effort, report: &mut Report) -> Result<()> {
    let (mut first, mut later) = (Samples::default(), Samples::default());
    for _ in 0..effort.times(20) {
        let home = environment::home_with_servers(&json!({}));
        let data = TemporaryHome::new();
        first.push(time_start(programs, home.path(), data.path())?);
        later.push(time_start(programs, home.path(), data.path())?);
    }
    for (name, samples) in [("first start", first), ("later start", later)] {
        let name = format!("hermes up to a page that answers, {name}");
        report.add(ReportRow::time(name, &samples, LIMIT));
    }
    Ok(())
}

/// `hermes up`. It ends when this is dropped.
struct StartedUp(Child);

impl Drop for StartedUp {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Starts it and asks until the sign-in page is there.
fn time_start(programs: &Programs, home: &Path, data: &Path) -> Result<Duration> {
    let reserved = ReservedPort::reserve()?;
    let port = reserved.number();
    let mut command = Command::new(&programs.hermes);
    command
        .args(["up", "--no-open", "--port", &port.to_string()])
        .env("HERMES_HOME", home)
        .env("XDG_DATA_HOME", data)
        .env("HERMES_HUB_METRICS__LISTEN", "off")
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    let _up = StartedUp(command.spawn()?);
    let answers = wait_until(TIMEOUT, || sign_in_page_is_there(port));
    let took = begun.elapsed();
    ensure!(answers, "`hermes up` shows no page");
    Ok(took)
}

fn sign_in_page_is_there(port: u16) -> bool {
    let request = format!("GET /sign-in HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let status = RuntimeFlavour::OneThread.run(async move {
        let mut connection = RawConnection::open(port).await?;
        let reply = connection.exchange(request.as_bytes()).await?;
        Ok(reply.status)
    });
    status.is_ok_and(|status| status == 200)
}
