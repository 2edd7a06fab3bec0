//! `hermes cron tick`: jobs that really run, and processes that die while they do.

use std::{
    fs,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use hermes_testkit::{
    model::{ModelScript, ModelServer, ScriptedAnswer},
    platform::PlatformServer,
    wait_until,
};
use serde_json::{Value, json};

use super::job;
use crate::harness::{
    program::{CommandOutput, Hermes, entry, with_tools},
    test_home::{TIMEOUT, assert_gone, read_pids},
};

/// A home that uses this model, with more in its configuration.
fn home(server: &ModelServer, more: &str) -> Hermes {
    Hermes::with_config(&format!(
        "model: {{default: m, provider: custom, base_url: '{}'}}\n{more}",
        server.base_url()
    ))
}

/// A job that repeats and is due now.
fn add_due(hermes: &Hermes, id: &str, more: &[&str]) {
    let args = [&["cron", "create", "every 1h", "--id", id], more].concat();
    hermes.run(&args).ok();
    hermes.run(&["cron", "run", id]).ok();
}

fn tick(hermes: &Hermes) -> CommandOutput {
    hermes.run(&["cron", "tick", "--json"])
}

fn runs(hermes: &Hermes) -> Vec<(String, String)> {
    let json = hermes.run(&["cron", "runs", "--json"]).ok().json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let runs = json["runs"].as_array().unwrap().iter();
    runs.map(|run| (text(&run["job_id"]), text(&run["status"])))
        .collect()
}

/// The names of the tools the model was offered.
fn offered(server: &ModelServer) -> Vec<String> {
    let request = server.requests().pop().unwrap();
    let tools = request.body["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A platform with a home channel, so that jobs may name it.
/// A bot whose platform is not there.
const TELEGRAM: &str =
    "telegram: {token: '1:x', home_channel: '5', extra: {base_url: 'http://127.0.0.1:9/bot'}}\n";

#[test]
fn nothing_due_is_not_work() {
    let hermes = Hermes::new();
    let ran = hermes.run(&["cron", "tick"]).ok();
    assert!(ran.stderr.contains("Nothing is due"), "{ran:?}");
    assert!(!hermes.home.path().join("cron").exists());
    hermes.run(&["cron", "create", "every 1h", "x"]).ok();
    assert_eq!(tick(&hermes).ok().json()["runs"], json!([]));
}

#[test]
fn a_due_job_runs_in_a_session_of_its_own() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::text("Good morning.")]));
    let hermes = home(&server, "");
    hermes.home.write_env("TELEGRAM_BOT_TOKEN=1:not-asked\n");
    add_due(&hermes, "hello", &["Say hello", "--name", "Greeting"]);
    let json = tick(&hermes).ok().json();
    let run = &json["runs"][0];
    assert_eq!(run["status"], "ok");
    assert_eq!(run["text"], "Good morning.");
    let session = run["session_id"].as_str().unwrap();
    assert!(session.starts_with("cron_hello_"), "{session}");

    let request = server.requests().pop().unwrap();
    assert_eq!(request.body["messages"][1]["content"], "Say hello");
    let prompt = request.body["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("[SILENT]"), "{prompt}");
    let tools = offered(&server);
    assert!(tools.contains(&"read_file".to_owned()), "{tools:?}");
    for absent in ["cronjob", "clarify", "send_message"] {
        assert!(!tools.contains(&absent.to_owned()), "{tools:?}");
    }

    let shown = hermes
        .run(&["sessions", "show", session, "--json"])
        .ok()
        .json();
    assert_eq!(shown["session"]["source"], "cron");
    assert_eq!(shown["session"]["end_reason"], "cron_complete");
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2);
    let kept = fs::read_to_string(run["output"].as_str().unwrap()).unwrap();
    assert!(kept.starts_with("# Cron job: Greeting\n"), "{kept}");
    assert!(kept.ends_with("## Response\n\nGood morning.\n"), "{kept}");
    assert_eq!(runs(&hermes), [("hello".into(), "completed".into())]);
    let job = job(&hermes, "hello");
    assert_eq!(job["last_status"], "ok");
    assert_eq!(job["repeat"]["completed"], 1);
    assert_eq!(job["fire_claim"], Value::Null);
    // Its next time is ahead.
    assert_eq!(tick(&hermes).ok().json()["runs"], json!([]));
}

#[test]
fn a_single_job_is_gone_when_it_is_done() {
    let server = ModelServer::start(ModelScript::echo());
    let hermes = home(&server, "");
    hermes
        .run(&["cron", "create", "0m", "Once", "--id", "once"])
        .ok();
    assert_eq!(tick(&hermes).ok().json()["runs"][0]["status"], "ok");
    assert_eq!(job(&hermes, "once"), Value::Null);
    assert_eq!(tick(&hermes).ok().json()["runs"], json!([]));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_went_wrong_is_told_and_kept() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::status(
        400,
        "no such thing",
    )]));
    let hermes = home(&server, "");
    add_due(&hermes, "bad", &["Try"]);
    let ran = tick(&hermes).refused(1, "failed");
    let error = ran.json()["runs"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("no such thing"), "{error}");
    assert_eq!(job(&hermes, "bad")["last_error"], error);
    assert_eq!(runs(&hermes), [("bad".into(), "failed".into())]);
    // A job that failed goes on at its next time.
    assert_eq!(job(&hermes, "bad")["state"], "scheduled");
}

#[test]
fn without_a_model_the_job_fails_with_the_reason() {
    let hermes = Hermes::with_config("model: {autodetect: false}\n");
    add_due(&hermes, "a", &["Try"]);
    let ran = hermes.run(&["cron", "tick"]).exits_with(1);
    assert!(ran.stdout.contains("No model is chosen"), "{ran:?}");
}

#[test]
fn a_script_prepares_the_prompt_or_is_the_message() {
    let server = ModelServer::start(ModelScript::echo());
    let hermes = home(&server, TELEGRAM);
    hermes.home.write_env("SECRET_TOKEN=abcdefghijklmnop\n");
    hermes
        .home
        .write("scripts/disk.sh", "echo \"90% full $SECRET_TOKEN\"\n");
    hermes
        .home
        .write("scripts/say.py", "print('from python')\n");
    hermes.home.write("scripts/quiet.sh", "true\n");
    hermes
        .home
        .write("scripts/broken.sh", "echo oh no >&2; exit 3\n");
    add_due(&hermes, "asked", &["Judge it", "--script", "disk.sh"]);
    add_due(&hermes, "said", &["--script", "say.py", "--no-agent"]);
    add_due(
        &hermes,
        "quiet",
        &[
            "--script",
            "quiet.sh",
            "--no-agent",
            "--deliver",
            "telegram",
        ],
    );
    add_due(
        &hermes,
        "broken",
        &[
            "--script",
            "broken.sh",
            "--no-agent",
            "--deliver",
            "telegram",
        ],
    );
    let json = tick(&hermes).exits_with(1).json();
    let run = |id: &str| {
        let runs = json["runs"].as_array().unwrap();
        runs.iter().find(|run| run["job_id"] == id).unwrap().clone()
    };
    let asked = run("asked")["text"].as_str().unwrap().to_owned();
    assert!(
        asked.contains("# Output of the script `disk.sh`\n\n90% full\n"),
        "{asked}"
    );
    assert!(asked.ends_with("Judge it"), "{asked}");
    assert_eq!(run("said")["text"], "from python");
    assert_eq!(run("said")["session_id"], Value::Null);
    // Nothing to say is nothing to deliver; a failure always is.
    assert_eq!(run("quiet")["delivery_error"], Value::Null);
    let broken = run("broken");
    assert!(
        broken["error"]
            .as_str()
            .unwrap()
            .contains("exit code 3.\noh no"),
        "{broken}"
    );
    assert!(
        broken["delivery_error"]
            .as_str()
            .unwrap()
            .contains("not delivered to `telegram`"),
        "{broken}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_cannot_be_delivered_is_not_a_failure_of_the_job() {
    let script = ModelScript::echo().rule("quiet", ScriptedAnswer::text("Looked.\n[SILENT]"));
    let server = ModelServer::start(script);
    let hermes = home(&server, TELEGRAM);
    add_due(&hermes, "loud", &["Speak", "--deliver", "local,telegram"]);
    add_due(&hermes, "quiet", &["Be quiet", "--deliver", "telegram"]);
    tick(&hermes).ok();
    let loud = job(&hermes, "loud");
    assert_eq!(loud["last_status"], "ok");
    assert_eq!(loud["last_error"], Value::Null);
    let error = loud["last_delivery_error"].as_str().unwrap();
    assert!(error.contains("not delivered to `telegram`"), "{error}");
    assert_eq!(loud["last_delivery_status"], "failed");
    let quiet = job(&hermes, "quiet");
    assert_eq!(quiet["last_delivery_error"], Value::Null);
    assert_eq!(quiet["last_delivery_status"], "none");
    let runs = hermes.run(&["cron", "runs", "loud", "--json"]).ok().json();
    let run = &runs["runs"][0];
    assert_eq!(
        (&run["status"], &run["delivery_status"]),
        (&json!("completed"), &json!("failed"))
    );
    assert_eq!(run["deliveries"][0]["target"], "telegram");
    assert_eq!(run["deliveries"][0]["message_id"], Value::Null);
    let shown = hermes.run(&["cron", "runs", "loud"]).ok();
    assert!(shown.stdout.contains("DELIVERY"), "{shown:?}");
}

#[test]
fn a_message_is_sent_at_once_where_no_gateway_runs() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::text("Good morning.")]));
    let telegram = PlatformServer::telegram("1:x");
    let bot = format!(
        "telegram: {{token: '1:x', home_channel: '5', extra: {{base_url: '{}'}}}}\n",
        telegram.base_url()
    );
    let hermes = home(&server, &bot);
    add_due(&hermes, "hello", &["Say hello", "--deliver", "telegram"]);
    let json = tick(&hermes).ok().json();
    let delivery = &json["runs"][0]["deliveries"][0];
    assert!(delivery["message_id"].is_string(), "{json}");
    let sent = telegram.requests();
    assert!(
        sent.iter()
            .any(|it| it.body.to_string().contains("Good morning")),
        "{sent:?}"
    );
    assert_eq!(job(&hermes, "hello")["last_delivery_status"], "delivered");
}

#[test]
fn toolsets_limit_the_tools_and_servers_stay_unless_named() {
    let server = ModelServer::start(ModelScript::echo());
    let servers = json!({
        "clock": entry(&with_tools(&["now"])),
        "shop": entry(&with_tools(&["buy"])),
    });
    let hermes = home(&server, &format!("mcp_servers: {servers}\n"));
    for (toolsets, expected) in [
        (
            "file",
            vec![
                "mcp_clock_now",
                "mcp_shop_buy",
                "patch",
                "read_file",
                "search_files",
                "write_file",
            ],
        ),
        ("todo,shop", vec!["mcp_shop_buy", "todo"]),
        ("todo,no_mcp", vec!["todo"]),
    ] {
        add_due(&hermes, "a", &["x", "-t", toolsets]);
        tick(&hermes).ok();
        let mut tools = offered(&server);
        // Those for prompts and resources come with every server.
        tools.retain(|tool| !tool.contains("prompt") && !tool.contains("resource"));
        tools.sort();
        assert_eq!(tools, expected, "{toolsets}");
        hermes.run(&["cron", "remove", "a"]).ok();
    }
}

#[test]
fn a_server_that_no_job_needs_is_neither_started_nor_waited_for() {
    let server = ModelServer::start(ModelScript::echo());
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let slow = with_tools(&["buy"]).process(|process| {
        process.start_delay_ms = 600_000;
        process.pid_file = Some(started.clone());
    });
    let servers = json!({"clock": entry(&with_tools(&["now"])), "shop": entry(&slow)});
    let hermes = home(&server, &format!("mcp_servers: {servers}\n"));
    add_due(&hermes, "a", &["x", "-t", "todo,clock"]);
    tick(&hermes).ok();
    assert!(!started.exists(), "it was started");
    assert!(offered(&server).contains(&"mcp_clock_now".to_owned()));
    let prompt = server.requests().pop().unwrap().body["messages"][0].to_string();
    assert!(!prompt.contains("shop"), "{prompt}");
}

#[test]
fn a_job_may_have_its_model_elsewhere() {
    let (usual, other) = (
        ModelServer::start(ModelScript::echo()),
        ModelServer::start(ModelScript::echo()),
    );
    let hermes = home(&usual, "");
    add_due(&hermes, "a", &["x", "--model", "heron"]);
    let path = hermes.home.path().join("cron/jobs.json");
    let mut file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    file["jobs"][0]["base_url"] = json!(other.base_url());
    fs::write(&path, file.to_string()).unwrap();
    tick(&hermes).ok();
    assert!(usual.requests().is_empty());
    assert_eq!(other.requests()[0].body["model"], "heron");
}

#[test]
fn one_job_reads_what_another_has_written() {
    let server = ModelServer::start(ModelScript::echo());
    let hermes = home(&server, "");
    add_due(&hermes, "news", &["The news of today"]);
    tick(&hermes).ok();
    add_due(&hermes, "sum", &["Sum it up", "--context-from", "news"]);
    let json = tick(&hermes).ok().json();
    let text = json["runs"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("# Last output of the job `news`\n\nThe news of today\n"),
        "{text}"
    );
}

#[test]
fn a_run_without_a_sign_of_life_is_stopped() {
    let server = ModelServer::start(ModelScript::new([ScriptedAnswer::Silence]));
    let hermes = home(&server, "");
    hermes.home.write_env("HERMES_CRON_TIMEOUT=1\n");
    hermes.home.write("scripts/sleep.sh", "sleep 600\n");
    add_due(&hermes, "a", &["x"]);
    add_due(&hermes, "b", &["--script", "sleep.sh", "--no-agent"]);
    let json = tick(&hermes).exits_with(1).json();
    for run in json["runs"].as_array().unwrap() {
        let error = run["error"].as_str().unwrap();
        assert!(error.contains("for 1 s"), "{error}");
    }
}

#[test]
fn a_time_missed_by_too_much_is_passed_over() {
    let server = ModelServer::start(ModelScript::echo());
    let hermes = home(&server, "");
    hermes
        .run(&["cron", "create", "every 10m", "x", "--id", "late"])
        .ok();
    let jobs = hermes.read("cron/jobs.json");
    let next = job(&hermes, "late")["next_run_at"]
        .as_str()
        .unwrap()
        .to_owned();
    hermes.home.write(
        "cron/jobs.json",
        &jobs.replace(&next, "2020-01-01T00:00:00+00:00"),
    );
    assert_eq!(tick(&hermes).ok().json()["runs"], json!([]));
    assert_eq!(server.requests().len(), 0);
    let json = hermes.run(&["cron", "runs", "late", "--json"]).ok().json();
    let error = json["runs"][0]["error"].as_str().unwrap();
    assert!(
        error.contains("skipped the run of 2020-01-01 00:00"),
        "{error}"
    );
    assert!(job(&hermes, "late")["next_run_at"].as_str().unwrap() > "2026");
}

/// Starts a tick that is not waited for.
fn start(hermes: &Hermes) -> Child {
    let mut command = hermes.command(&["cron", "tick"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn ticks_at_the_same_time_run_a_job_once() {
    let hermes = Hermes::new();
    hermes.home.write(
        "scripts/count.sh",
        "echo run >> \"$HOME/runs\"; sleep 0.2\n",
    );
    for id in ["a", "b", "c"] {
        add_due(&hermes, id, &["--script", "count.sh", "--no-agent"]);
    }
    let ticks: Vec<Child> = (0..4).map(|_| start(&hermes)).collect();
    for mut tick in ticks {
        tick.wait().unwrap();
    }
    assert_eq!(hermes.read("user/runs"), "run\nrun\nrun\n");
}

#[test]
fn a_run_that_was_killed_is_not_repeated() {
    let server = ModelServer::start(ModelScript::new([
        ScriptedAnswer::Silence,
        ScriptedAnswer::Silence,
    ]));
    let hermes = home(&server, "");
    hermes
        .run(&["cron", "create", "0m", "Once", "--id", "once"])
        .ok();
    add_due(&hermes, "often", &["Often"]);
    let mut child = start(&hermes);
    wait_until(Duration::from_secs(30), || server.requests().len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(job(&hermes, "once")["repeat"]["completed"], 1);

    assert_eq!(tick(&hermes).ok().json()["runs"], json!([]));
    assert_eq!(server.requests().len(), 2);
    assert!(
        runs(&hermes).iter().all(|(_, status)| status == "unknown"),
        "{:?}",
        runs(&hermes)
    );
    assert_eq!(job(&hermes, "once"), Value::Null);
    // What repeats is free again for its next time.
    hermes.run(&["cron", "run", "often"]).ok();
    assert_eq!(tick(&hermes).ok().json()["runs"][0]["status"], "ok");
}

#[test]
fn a_script_ends_with_a_tick_that_is_killed() {
    let hermes = Hermes::new();
    let script = "sleep 621 & echo $! >>\"$HOME/pids\"; wait\n";
    hermes.home.write("scripts/long.sh", script);
    let args = ["cron", "create", "0m", "--script", "long.sh", "--no-agent"];
    hermes.run(&args).ok();
    let mut child = start(&hermes);
    let pids = hermes.user().join("pids");
    assert!(wait_until(TIMEOUT, || read_pids(&pids).len() == 1));
    let pids = read_pids(&pids);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone(&pids, TIMEOUT);
}

#[test]
fn no_moment_to_die_makes_a_job_run_twice() {
    let hermes = Hermes::new();
    for moment in 0..15_u64 {
        let id = format!("job{moment}");
        let script = format!("scripts/{id}.sh");
        hermes
            .home
            .write(&script, &format!("echo run >> \"$HOME/{id}\"\n"));
        let name = format!("{id}.sh");
        let args = [
            "cron",
            "create",
            "0m",
            "--id",
            &id,
            "--script",
            &name,
            "--no-agent",
        ];
        hermes.run(&args).ok();
        let mut child = start(&hermes);
        thread::sleep(Duration::from_millis(moment * 4));
        child.kill().unwrap();
        child.wait().unwrap();
        tick(&hermes);
        tick(&hermes);
        let runs = hermes.read(&format!("user/{id}"));
        assert!(runs.is_empty() || runs == "run\n", "{moment}: {runs}");
        assert_eq!(job(&hermes, &id), Value::Null, "{moment}");
    }
}
