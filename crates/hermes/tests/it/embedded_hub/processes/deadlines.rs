//! Agents whose Hub may not work for their tenant any more, and cannot say so.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hermes::embedded_hub::runtime::{Isolation, ProcessRuntime};
use hermes_hub::{
    TenantId,
    tenants::runtime::{ExitCause, ProcessStatus, Runtime as _},
};
use hermes_testkit::{eventually_some, model::ModelScript};

use super::{PLACE, is_there};
use crate::{
    embedded_hub::{HubDir, TestTenant, launch, pid, runtime, setup},
    harness::test_home::{TIMEOUT, stop_process, wait_until},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_processes_are_killed_at_their_deadline_unless_it_is_moved() {
    let directory = HubDir::new();
    let tenant = TestTenant::new(&directory, "a", ModelScript::echo());
    let runtime = runtime(&directory, Isolation::default());
    runtime.set_deadline(&tenant.id, Instant::now() + Duration::from_mins(10));
    runtime.start(tenant.launch()).await.unwrap();
    let agent = pid(&runtime, &tenant.id).await;
    runtime.set_deadline(&tenant.id, Instant::now() + Duration::from_mins(20));
    assert!(is_there(agent));
    runtime.set_deadline(&tenant.id, Instant::now());
    wait_until("the agent is killed", || !is_there(agent));
    let exit = eventually_some(TIMEOUT, async || match runtime.status(&tenant.id).await {
        ProcessStatus::Exited(exit) => Some(exit),
        _ => None,
    });
    let exit = exit.await.expect("its end is not noticed");
    assert_eq!(exit.cause, ExitCause::Signal(9));
    // What is over is over for the next one, too.
    assert!(runtime.start(tenant.launch()).await.is_err());
    runtime.set_deadline(&tenant.id, Instant::now() + Duration::from_mins(10));
    runtime.start(tenant.launch()).await.unwrap();
    runtime.close(Duration::from_secs(5)).await;
}

/// Not a test by itself: the Hub that the test below stops.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the part of a process in another test"]
async fn hub_with_deadline() {
    let data = std::env::var(PLACE).expect("another test starts this");
    let data = Path::new(&data);
    let tenant = TenantId::parse("a").unwrap();
    let home = data.join("tenants/a/home");
    let runtime = ProcessRuntime::new(setup(data, Isolation::default())).unwrap();
    let launch = launch(&tenant, &home, 1 << 30);
    // Before the start, so that the guard knows it when this process is stopped.
    runtime.set_deadline(&tenant, Instant::now() + Duration::from_secs(12));
    runtime.start(launch).await.unwrap();
    println!("\npid {}", pid(&runtime, &tenant).await);
    std::future::pending::<()>().await;
}

#[test]
fn a_hub_that_stands_still_does_not_keep_its_tenants() {
    let directory = HubDir::new();
    let _tenant = TestTenant::new(&directory, "a", ModelScript::echo());
    let mut hub = Command::new(std::env::current_exe().unwrap())
        .args([
            "embedded_hub::processes::deadlines::hub_with_deadline",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(PLACE, directory.data())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(hub.stdout.take().unwrap()).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("pid ")?.parse().ok());
    let agent = pid.expect("the Hub does not start");
    stop_process(hub.id());
    wait_until("the agent is killed", || !is_there(agent));
    hub.kill().unwrap();
    hub.wait().unwrap();
}
