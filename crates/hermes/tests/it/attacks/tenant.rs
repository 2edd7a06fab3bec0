//! In a tenant: of a Hub that is root's, with a user for each tenant, and of one that is an ordinary user's.

use std::{num::NonZeroU64, process::Command, time::Duration};

use hermes::embedded_hub::runtime::Isolation;
use hermes_hub::tenants::runtime::{AgentLaunch, Runtime as _};
use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use serde_json::json;

use super::{
    attacks, failures, honest_commands, outputs, plant_secrets, script, snapshot_files, successes,
};
use crate::embedded_hub::{HubDir, TestTenant, has_landlock, run, runtime};

/// A tenant with keys of its own.
fn launch(tenant: &TestTenant) -> AgentLaunch {
    let mut launch = tenant.launch();
    launch.runtime_key = "hub_rt_planted-runtime-key".to_owned().into();
    let key = "sk-planted-provider-key".to_owned().into();
    launch.env.insert("OPENAI_API_KEY".into(), key);
    launch
}

async fn attack() {
    if !has_landlock() {
        return;
    }
    let directory = HubDir::new();
    let commands: Vec<String> = attacks().into_iter().chain(honest_commands()).collect();
    let tenant = TestTenant::new(&directory, "a", script(&commands));
    plant_secrets(&tenant.home);
    let hub = tenant.home.ancestors().nth(3).unwrap();
    std::fs::write(hub.join("admin.token"), "planted-hub-token\n").unwrap();
    let before = snapshot_files(&tenant.home);
    let runtime = runtime(&directory, Isolation::default());
    let confinement = runtime.start(launch(&tenant)).await.unwrap();
    let is_in_force = |name: &str| {
        let mut all = confinement.iter();
        all.any(|means| means.means == name && means.in_force)
    };
    assert!(is_in_force("CommandsConfined"), "{confinement:?}");
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(is_in_force("OwnUser"), is_root, "{confinement:?}");
    let events = run(&runtime, &tenant.id, "begin").await;
    let last = events.last().unwrap().event.name();
    assert_eq!(last, "run.completed", "{events:?}");
    let outputs = outputs(&tenant.model);
    let attacks = attacks();
    let (attacked, worked) = outputs.split_at(attacks.len());
    let successes = successes(&attacks, attacked);
    assert!(successes.is_empty(), "{successes:#?}");
    let failures = failures(worked);
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(snapshot_files(&tenant.home), before);
    runtime.close(Duration::from_secs(5)).await;
}

/// The questions of a tenant are decided by the Hub, not by what the tenant runs.
async fn decide_own_approvals() {
    if !has_landlock() {
        return;
    }
    let directory = HubDir::new();
    let decide = "import glob,json,os,socket,sqlite3,time\n\
        home=os.environ['HERMES_HOME']\n\
        end=time.time()+30\n\
        while time.time()<end:\n    \
            time.sleep(0.05)\n    \
            try:\n        \
                c=sqlite3.connect(home+'/runtime.db',timeout=1)\n        \
                c.execute(\"update approvals set state='answered', answer='once', answered_by='owner' where state='open'\")\n        \
                c.commit(); c.close()\n    \
            except Exception: pass\n    \
            for p in glob.glob(home+'/run/*.sock'):\n        \
                try:\n            \
                    s=socket.socket(socket.AF_UNIX); s.connect(p); s.sendall(b'{}\\n')\n        \
                except Exception: pass\n";
    let command = format!("/usr/bin/python3 - <<'END'\n{decide}\nEND");
    let script = ModelScript::new([
        ScriptedAnswer::call("terminal", &json!({"command": command, "background": true})),
        ScriptedAnswer::call("write_file", &json!({"path": "made.txt", "content": "x"})),
        ScriptedAnswer::text("done"),
    ]);
    let tenant = TestTenant::new(&directory, "a", script);
    let runtime = runtime(&directory, Isolation::default());
    let mut launch = launch(&tenant);
    launch.directives.policy.tools.require_approval = vec!["write_file".into()];
    launch.directives.approval_timeout_seconds = NonZeroU64::new(3).unwrap();
    runtime.start(launch).await.unwrap();
    run(&runtime, &tenant.id, "begin").await;
    let outputs = outputs(&tenant.model);
    assert!(outputs[0].contains("running"), "{outputs:?}");
    assert!(outputs[1].contains("nobody answered"), "{outputs:?}");
    assert!(!tenant.home.join("workspace/made.txt").exists());
    runtime.close(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_of_a_tenant_reaches_keys_or_what_limits_it() {
    attack().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_of_a_tenant_decides_its_approvals() {
    decide_own_approvals().await;
}

/// Not a test by itself: what the one below runs as another user.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the part of a process in another test"]
async fn as_an_ordinary_user() {
    assert!(!rustix::process::geteuid().is_root());
    attack().await;
    decide_own_approvals().await;
}

#[test]
fn the_same_holds_under_the_hub_of_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        println!("This user is an ordinary one, so the tests above have tried it.");
        return;
    }
    let said = as_user("attacks::tenant::as_an_ordinary_user", &["--ignored"]);
    assert!(said.contains("1 passed"), "{said}");
}

/// Runs a test as an ordinary user, and tells what it said.
pub(super) fn as_user(test: &str, more: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    let user = 54_321;
    std::os::unix::fs::chown(place.path(), Some(user), Some(user)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .args(more)
        .env("TMPDIR", place.path())
        .env("HOME", place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    format!("{said}\n{errors}")
}
