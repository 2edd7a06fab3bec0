//! Faults around a whole Hub: a disk without room, agents that die or hang.

use std::{fs, path::PathBuf, time::Duration};

use hermes_testkit::model::{ModelScript, ReplyEnding, ScriptedAnswer};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::real_hub::RealHub;
use crate::harness::test_home::{TestHome, signal_process, stop_process};

/// Mounts a small file system in the place of the Hub's data, seen by the Hub alone.
const MOUNT_SMALL_DISK: &str =
    "mkdir -p \"$ROOM\" && mount -t tmpfs -o size=40m,mode=0700 tmpfs \"$ROOM\" && exec \"$@\"";

/// A Hub whose disk is small, if this machine lets us make one.
fn on_a_small_disk() -> Option<RealHub> {
    let may_mount = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !may_mount {
        return None;
    }
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let hub = home.command(&["hub", "serve", "--set", "runtime=mock"]);
    let mut command = std::process::Command::new("unshare");
    command
        .args([
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            MOUNT_SMALL_DISK,
            "sh",
        ])
        .arg(hub.get_program())
        .args(hub.get_args())
        .env_clear()
        .envs(
            hub.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("ROOM", home.beside(".local/share/hermes-hub"));
    Some(RealHub::by_command(home, command))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_keeps_what_is_there_and_goes_on() {
    let Some(hub) = on_a_small_disk() else {
        println!("!!! NO MOUNTS HERE: a full disk is NOT tested !!!");
        return;
    };
    let data = hub.data();
    let inside =
        PathBuf::from(format!("/proc/{}/root", hub.pid)).join(data.strip_prefix("/").unwrap());
    hub.request(Method::POST, "/v1/groups", &json!({"id": "team"}))
        .await
        .expect(201);
    let tenant = json!({"id": "acme", "groups": [{"id": "team", "access": "write"}]});
    hub.request(Method::POST, "/v1/tenants", &tenant)
        .await
        .expect(201);
    hub.wait_for("/v1/tenants/acme", |tenant| tenant["status"] == "ready")
        .await;
    let content = "/v1/tenants/acme/shares/team/files/content";
    let write = |path: &str, text: String| json!({"path": path, "content": text});
    hub.request(Method::PUT, content, &write("old.md", "old".into()))
        .await
        .expect(201);
    // Fills the disk to the last page.
    let filler = inside.join("filler");
    let mut size: usize = 32 << 20;
    let mut file = fs::File::create(&filler).unwrap();
    while size > 0 {
        match std::io::Write::write(&mut file, &vec![b'x'; size]) {
            Ok(count) if count > 0 => {}
            _ => size /= 2,
        }
    }
    let full = [
        (
            Method::PUT,
            content.to_owned(),
            write("old.md", "x".repeat(300_000)),
        ),
        (
            Method::POST,
            "/v1/tenants/acme/agent-cron".to_owned(),
            json!({"schedule": "0 9 * * *", "prompt": "x"}),
        ),
        (
            Method::POST,
            "/v1/tenants".to_owned(),
            json!({"id": "second", "labels": {"x": "y".repeat(60)}}),
        ),
    ];
    for (method, path, body) in &full {
        let said = hub.request(method.clone(), path, body).await;
        assert!([503, 507].contains(&said.status), "{path}: {said:?}");
    }
    let read = hub.get(&format!("{content}?path=old.md")).await;
    assert_eq!(read["content"], "old");
    let ready = hub.request(Method::GET, "/v1/readyz", &Value::Null).await;
    assert_eq!(ready.status, 503, "{ready:?}");

    drop(file);
    fs::remove_file(filler).unwrap();
    for (method, path, body) in &full {
        // The database may need a moment to notice.
        let said = hermes_testkit::eventually_some(Duration::from_mins(1), async || {
            let said = hub.request(method.clone(), path, body).await;
            (said.status != 503).then_some(said)
        });
        let said = said.await.expect("it stays unavailable");
        assert!((200..300).contains(&said.status), "{path}: {said:?}");
    }
    let verified = hub.get("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
    let ready = hub.request(Method::GET, "/v1/readyz", &Value::Null).await;
    assert_eq!(ready.status, 200, "{ready:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_or_hangs_fails_alone_and_works_again() {
    let hub = RealHub::start();
    let stalled = ScriptedAnswer::text("begun").with(|reply| reply.ending = ReplyEnding::Stalled);
    let script = ModelScript::default().rule("stall", stalled);
    let _bad = hub.tenant("bad", json!({}), script).await;
    let _good = hub.tenant("good", json!({}), ModelScript::echo()).await;
    assert_eq!(hub.run("good", "hi").await["output"], "hi");
    let pid = async || {
        let agent = hub.get("/v1/tenants/bad/agent").await;
        let pid = agent["pid"].as_u64().unwrap_or_else(|| panic!("{agent}"));
        u32::try_from(pid).unwrap()
    };
    // In the middle of a run.
    let run = hub.start_run("bad", "stall").await;
    hub.wait_for(&run, |run| run["lastEventId"].as_u64() > Some(1))
        .await;
    signal_process(pid().await, Signal::KILL);
    assert_eq!(hub.run("good", "hi").await["output"], "hi");
    // Its cause is left, and it counts: the agent waits before it is there again.
    let agent = hub
        .wait_for("/v1/tenants/bad/agent", |agent| {
            agent["lastError"].is_string() && agent["restarts"].as_u64() > Some(0)
        })
        .await;
    let error = agent["lastError"].as_str().unwrap();
    assert!(error.contains("was killed (signal 9)"), "{agent}");
    // Where it is left for others is written after it is known here.
    let is_told = |tenant: &Value| {
        let mut conditions = tenant["conditions"].as_array().unwrap().iter();
        let healthy = conditions.find(|one| one["type"] == "AgentHealthy");
        let message = healthy.and_then(|healthy| healthy["message"].as_str());
        message.is_some_and(|message| message.contains("was killed (signal 9)"))
    };
    hub.wait_for("/v1/tenants/bad", is_told).await;
    hub.wait_for("/v1/audit?tenant=bad&action=agent_ended", |log| {
        log["entries"][0]["target"] == "signal:9"
    })
    .await;
    hub.request(Method::POST, &format!("{run}/stop"), &json!({}))
        .await
        .expect(202);
    let over = hub.wait_for_end(&run).await;
    assert_ne!(over["status"], "completed", "{over}");
    let again = hub.run("bad", "hello").await;
    assert_eq!(again["output"], "hello", "{again}");

    // Between runs: whoever asks it next waits until there is another one.
    stop_process(pid().await);
    let waiting = hub.start_run("bad", "hello").await;
    assert_eq!(hub.run("good", "hi").await["output"], "hi");
    let again = hub.wait_for_end(&waiting).await;
    assert_eq!(again["output"], "hello", "{again}");
}
