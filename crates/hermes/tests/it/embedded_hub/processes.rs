//! Agents as processes: started, killed, hung, too large, and left behind by a Hub that was killed.

mod deadlines;
mod neighbours;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use hermes::embedded_hub::runtime::{ConfinementMode, Isolation, IsolationSupport, ProcessRuntime};
use hermes_hub::{
    TenantId,
    tenants::runtime::{AgentEvent, Confinement, ExitCause, ProcessStatus, Runtime, RuntimeError},
};
use hermes_testkit::{
    eventually, eventually_some,
    model::{ModelScript, ScriptedAnswer},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::task::JoinSet;

use super::{HubDir, TestTenant, has_landlock, launch, pid, run, runtime, setup};
use crate::harness::test_home::{stop_process, wait_until};

fn last(events: &[AgentEvent]) -> &'static str {
    events.last().unwrap().event.name()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn is_there(pid: u32) -> bool {
    hermes_mcp::process::start_time(pid)
        .is_some_and(|start| hermes_mcp::process::may_be_running(pid, start))
}

fn terminal(command: &str) -> ModelScript {
    ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": command})),
        ScriptedAnswer::text("done"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_terminal_reaches_its_workspace_and_not_its_neighbours() {
    let directory = HubDir::new();
    let neighbour = TestTenant::new(&directory, "b", ModelScript::echo());
    let command = format!(
        "cat own.txt; cat {}/secret.txt {data}/hub.db {data}/shares/division1/a.md; env",
        neighbour.home.display(),
        data = directory.data().display(),
    );
    let tenant = TestTenant::new(&directory, "a", terminal(&command));
    fs::create_dir(tenant.home.join("workspace")).unwrap();
    fs::write(tenant.home.join("workspace/own.txt"), "secret of a").unwrap();
    let runtime = runtime(&directory, Isolation::default());
    let confinement = runtime.start(tenant.launch()).await.unwrap();
    let events = run(&runtime, &tenant.id, "look around").await;
    assert_eq!(last(&events), "run.completed", "{events:?}");
    let told = tenant.tool_results();
    assert!(told.contains("secret of a"), "{told}");
    let is_closed = confinement
        .iter()
        .any(|means| means.in_force && ["Sandboxed", "OwnUser"].contains(&means.means));
    assert!(is_closed || !has_landlock(), "{confinement:?}");
    for foreign in ["secret of b", "the Hub's own", "shared"] {
        assert!(
            !is_closed || !told.contains(foreign),
            "{foreign} was read: {told}"
        );
    }
    assert!(!told.contains("hub_rt_"), "{told}");
    runtime.close(Duration::from_secs(5)).await;
    assert_eq!(runtime.status(&tenant.id).await, ProcessStatus::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_starts_nobody_without_landlock() {
    let directory = HubDir::new();
    let tenant = TestTenant::new(&directory, "a", ModelScript::echo());
    let isolation = |mode| Isolation {
        mode,
        ..Isolation::default()
    };
    let mut setup = setup(&directory.data(), isolation(ConfinementMode::Strict));
    setup.support = IsolationSupport {
        landlock: None,
        ..setup.support
    };
    let strict = ProcessRuntime::new(setup.clone()).unwrap();
    let error = strict.start(tenant.launch()).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::StartFailed(reason) if reason.contains("isolation.mode")),
        "{error}"
    );
    setup.isolation = isolation(ConfinementMode::Auto);
    let auto = ProcessRuntime::new(setup).unwrap();
    let confinement = auto.start(tenant.launch()).await.unwrap();
    let sandboxed = confinement
        .iter()
        .find(|means| means.means == "Sandboxed")
        .unwrap();
    assert!(!sandboxed.in_force, "{sandboxed:?}");
    auto.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_died_or_hangs_is_started_again_on_demand() {
    let directory = HubDir::new();
    let tenant = TestTenant::new(&directory, "a", ModelScript::echo());
    let runtime = runtime(&directory, Isolation::default());
    runtime.start(tenant.launch()).await.unwrap();
    let first = pid(&runtime, &tenant.id).await;
    runtime.start(tenant.launch()).await.unwrap();
    assert_eq!(
        pid(&runtime, &tenant.id).await,
        first,
        "a well agent was started anew"
    );

    signal(first, Signal::KILL);
    wait_until("its end is known", || !is_there(first));
    // Who has not heard of it is told, and decides when to try again.
    let died = runtime.start(tenant.launch()).await;
    match died {
        Err(RuntimeError::Exited(death)) => assert_eq!(death.cause, ExitCause::Signal(9)),
        other => panic!("{other:?}"),
    }
    runtime.start(tenant.launch()).await.unwrap();
    let second = pid(&runtime, &tenant.id).await;
    assert_eq!(
        last(&run(&runtime, &tenant.id, "hi").await),
        "run.completed"
    );

    stop_process(second);
    runtime.start(tenant.launch()).await.unwrap();
    let third = pid(&runtime, &tenant.id).await;
    assert!(third != second && !is_there(second));
    assert_eq!(
        last(&run(&runtime, &tenant.id, "hi").await),
        "run.completed"
    );
    runtime.close(Duration::from_secs(5)).await;
    assert!(!is_there(third));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_above_its_memory_is_ended_and_no_other() {
    let directory = HubDir::new();
    // `tail` keeps what it may have to print.
    let mut large = TestTenant::new(
        &directory,
        "large",
        terminal("head -c 900m /dev/zero | tail -c 900m | sleep 60"),
    );
    large.memory_bytes = 600 << 20;
    let small = TestTenant::new(&directory, "small", ModelScript::echo());
    let runtime = runtime(&directory, Isolation::default());
    runtime.start(large.launch()).await.unwrap();
    runtime.start(small.launch()).await.unwrap();
    let other = pid(&runtime, &small.id).await;
    let events = run(&runtime, &large.id, "take it all").await;
    assert_ne!(last(&events), "run.completed");
    let reason = ended(&runtime, &large.id).await;
    assert!(reason.contains("600 MiB"), "{reason}");
    assert_eq!(pid(&runtime, &small.id).await, other);
    assert_eq!(last(&run(&runtime, &small.id, "hi").await), "run.completed");
    runtime.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_limit_of_processes_holds_up_no_other() {
    let means = IsolationSupport::detect();
    if means.cgroups.is_none() && !means.is_root {
        println!("!!! NOT TESTED: needs cgroup v2, or root to give each tenant a user !!!");
        return;
    }
    let directory = HubDir::new();
    let many = "import subprocess\nall = []\ntry:\n  \
                while len(all) < 500: all.append(subprocess.Popen(['sleep', '60']))\n\
                except OSError: pass\nprint('started=%d;' % len(all))";
    let greedy = TestTenant::new(
        &directory,
        "greedy",
        terminal(&format!("python3 -c \"{many}\"")),
    );
    let modest = TestTenant::new(&directory, "modest", ModelScript::echo());
    let runtime = runtime(&directory, Isolation::default());
    let mut launch = greedy.launch();
    launch.limits.pids = 100;
    let confinement = runtime.start(launch).await.unwrap();
    let is_limited = |found: &Confinement| found.means == "PidsLimited" && found.in_force;
    assert!(confinement.iter().any(is_limited), "{confinement:?}");
    runtime.start(modest.launch()).await.unwrap();
    let events = run(&runtime, &greedy.id, "take them all").await;
    let told = greedy.tool_results();
    let started = told.split("started=").last().unwrap();
    let started: u32 = started.split(';').next().unwrap().parse().unwrap();
    assert!(started < 100, "{told} {events:?}");
    assert_eq!(
        last(&run(&runtime, &modest.id, "hi").await),
        "run.completed"
    );
    runtime.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_goes_on_where_its_commands_leave_no_process() {
    let means = IsolationSupport::detect();
    if means.cgroups.is_some() || !means.is_root {
        println!("!!! NOT TESTED: needs root, to give each tenant a user, and no cgroup v2 !!!");
        return;
    }
    let directory = HubDir::new();
    // All are taken, and each that somebody leaves is taken, too.
    let take = "import os, subprocess, time\nall = []\nwhile not os.path.exists('over'):\n  \
                try: all.append(subprocess.Popen(['sleep', '60']))\n  \
                except OSError:\n    open('full', 'w').close()\n    time.sleep(0.001)\n\
                print('started=%d;' % len(all))";
    let tenant = TestTenant::new(&directory, "a", terminal(&format!("python3 -c \"{take}\"")));
    let runtime = runtime(&directory, Isolation::default());
    let mut launch = tenant.launch();
    launch.limits.pids = 60;
    runtime.start(launch).await.unwrap();
    let agent = pid(&runtime, &tenant.id).await;
    let workspace = tenant.home.join("workspace");
    let others = async {
        let mut ends = Vec::new();
        let is_full = || workspace.join("full").exists();
        assert!(eventually(Duration::from_mins(1), is_full).await);
        for _ in 0..6 {
            let events = run(&runtime, &tenant.id, "hi").await;
            ends.push(last(&events));
        }
        fs::write(workspace.join("over"), "").unwrap();
        ends
    };
    let (events, ends) = tokio::join!(run(&runtime, &tenant.id, "take them all"), others);
    assert_eq!(ends, ["run.completed"; 6]);
    assert_eq!(last(&events), "run.completed", "{events:?}");
    let told = tenant.tool_results();
    assert!(told.contains("started="), "{told}");
    assert_eq!(pid(&runtime, &tenant.id).await, agent);
    runtime.close(Duration::from_secs(5)).await;
}

/// Waits until nothing of an agent is left, and returns why it ended.
async fn ended(runtime: &ProcessRuntime, tenant: &TenantId) -> String {
    let exited = eventually_some(Duration::from_mins(1), async || {
        match runtime.status(tenant).await {
            ProcessStatus::Exited(exit) => Some(exit.to_string()),
            _ => None,
        }
    });
    exited.await.unwrap()
}

/// In a container, say, into which somebody has come from outside: the kernel has no number for such a session.
#[test]
fn a_hub_whose_session_began_outside_its_namespace_watches_all_the_same() {
    let inside = |program: &Path, arguments: &[&str]| {
        Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
            .arg(program)
            .args(arguments)
            .output()
    };
    if !inside(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        println!("!!! NO NAMESPACES HERE: a session from outside is NOT tested !!!");
        return;
    }
    let stat = inside(Path::new("cat"), &["/proc/self/stat"])
        .unwrap()
        .stdout;
    let stat = String::from_utf8(stat).unwrap();
    assert_eq!(stat.split(' ').nth(5), Some("0"), "{stat}");
    let name = "embedded_hub::processes::a_tenant_above_its_memory_is_ended_and_no_other";
    let output = inside(&std::env::current_exe().unwrap(), &[name, "--exact"]).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

/// Names the data directory to the child process.
const PLACE: &str = "HERMES_TEST_HUB";

/// Not a test by itself: the Hub that the test below kills.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the part of a process in another test"]
async fn hub_process() {
    let data = std::env::var(PLACE).expect("another test starts this");
    let data = Path::new(&data);
    let tenant = TenantId::parse("a").unwrap();
    let home = data.join("tenants/a/home");
    let runtime = ProcessRuntime::new(setup(data, Isolation::default())).unwrap();
    runtime
        .start(launch(&tenant, &home, 1 << 30))
        .await
        .unwrap();
    println!("\npid {}", pid(&runtime, &tenant).await);
    run(&runtime, &tenant, "begin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_hub_leaves_no_process_and_the_next_waits_for_that() {
    let directory = HubDir::new();
    // It cuts all ties to its parent, and its name is found among all processes.
    let mark = format!("6{}", std::process::id());
    let script = terminal(&format!("setsid -f sleep {mark}; sleep 600"));
    let tenant = TestTenant::new(&directory, "a", script);
    let mut hub = Command::new(std::env::current_exe().unwrap())
        .args([
            "embedded_hub::processes::hub_process",
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
    assert!(is_there(agent));
    wait_until("the process without ties", || sleepers(&mark).len() == 1);
    hub.kill().unwrap();
    hub.wait().unwrap();
    // At once: there must never be two agents of one home.
    let next = runtime(&directory, Isolation::default());
    next.start(tenant.launch()).await.unwrap();
    assert!(!is_there(agent), "two agents");
    assert!(sleepers(&mark).is_empty(), "something was left");
    next.close(Duration::from_secs(5)).await;
}

/// Which processes sleep that long.
fn sleepers(mark: &str) -> Vec<u32> {
    let wanted = format!("sleep\0{mark}\0");
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The kernel shares out processors by session, and the niceness of a process means nothing beyond its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_does_not_get_ahead_by_opening_sessions() {
    let session = |pid: u32| fs::read_to_string(format!("/proc/{pid}/autogroup"));
    let directory = HubDir::new();
    let mark = format!("7{}", std::process::id());
    let script = terminal(&format!("setsid -f sleep {mark}; sleep 600"));
    let tenant = TestTenant::new(&directory, "a", script);
    let runtime = Arc::new(runtime(&directory, Isolation::default()));
    let confinement = runtime.start(tenant.launch()).await.unwrap();
    let limited = |means: &Confinement| means.means == "CpuLimited" && means.in_force;
    let own = session(std::process::id()).unwrap_or_default();
    if own.is_empty() || confinement.iter().any(limited) {
        println!("!!! NOT TESTED: this kernel does not share out processors by session !!!");
        runtime.close(Duration::from_secs(5)).await;
        return;
    }
    let agent = pid(&runtime, &tenant.id).await;
    let (hub, id) = (Arc::clone(&runtime), tenant.id.clone());
    let mut running = JoinSet::new();
    running.spawn(async move { run(&hub, &id, "begin").await });
    wait_until("the session", || sleepers(&mark).len() == 1);
    let sleeper = sleepers(&mark)[0];
    assert_ne!(session(agent).unwrap(), session(sleeper).unwrap());
    wait_until("both sessions to stand back", || {
        [agent, sleeper]
            .iter()
            .all(|pid| session(*pid).is_ok_and(|group| group.ends_with("nice 5\n")))
    });
    runtime.close(Duration::from_secs(5)).await;
    running.shutdown().await;
}
