//! `hermes cron …`.

mod tick;

use serde_json::{Value, json};

use crate::harness::program::Hermes;

fn job(hermes: &Hermes, reference: &str) -> Value {
    let json = hermes.run(&["cron", "list", "--all", "--json"]).ok().json();
    let jobs = json["jobs"].as_array().unwrap().clone();
    let is_it = |job: &&Value| job["id"] == reference || job["name"] == reference;
    jobs.iter().find(is_it).cloned().unwrap_or_default()
}

/// A home with a job by the clock, far away, and one that is paused.
fn filled() -> Hermes {
    let hermes = Hermes::with_config("timezone: Asia/Tokyo\n");
    hermes
        .run(&[
            "cron",
            "create",
            "0 9 1 1 *",
            "Wish a happy new year",
            "--id",
            "wish",
            "--name",
            "New year",
        ])
        .ok();
    hermes
        .run(&["cron", "create", "every 2h", "Look around", "--id", "look"])
        .ok();
    hermes
        .run(&["cron", "pause", "look", "--reason", "holiday"])
        .ok();
    hermes
}

#[test]
fn reading_makes_nothing() {
    let hermes = Hermes::new();
    for args in [
        &["cron", "list"][..],
        &["cron", "status"],
        &["cron", "runs"],
    ] {
        hermes.run(args).ok();
    }
    for verb in ["pause", "resume", "run", "remove"] {
        hermes
            .run(&["cron", verb, "x", "--json"])
            .refused(3, "not_found");
    }
    hermes
        .run(&["cron", "edit", "x", "--name", "y", "--json"])
        .refused(3, "not_found");
    assert!(!hermes.home.path().join("cron").exists());
    let json = hermes.run(&["cron", "list", "--json"]).ok().json();
    assert_eq!(json, json!({"ok": true, "jobs": []}));
}

#[test]
fn jobs_are_listed_with_their_times_in_the_zone_of_the_home() {
    let hermes = filled();
    let ran = hermes.run(&["cron", "list"]).ok();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"20\d\d-", "YYYY-");
    settings.bind(|| {
        insta::assert_snapshot!(ran.stdout, @r"
        ID    NAME      SCHEDULE   NEXT RUN          LAST RUN  DELIVER  DELIVERY  STATE
        wish  New year  0 9 1 1 *  YYYY-01-01 09:00  -         local    -         scheduled
        ");
        insta::assert_snapshot!(hermes.run(&["cron", "list", "--all"]).ok().stdout, @r"
        ID    NAME         SCHEDULE    NEXT RUN          LAST RUN  DELIVER  DELIVERY  STATE
        wish  New year     0 9 1 1 *   YYYY-01-01 09:00  -         local    -         scheduled
        look  Look around  every 120m  -                 -         local    -         paused: holiday
        ");
        insta::assert_snapshot!(hermes.run(&["cron", "status"]).ok().stdout, @r"
        No ticker is running, so jobs do not start by themselves: start `hermes gateway`, or run what is due once with `hermes cron tick`.
        2 jobs, 1 waiting
        next: New year (`wish`) at YYYY-01-01 09:00
        ");
    });
    assert!(ran.stderr.contains("--all"), "{ran:?}");
    let next = job(&hermes, "wish")["next_run_at"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(next.ends_with("-01-01T09:00:00.000000+09:00"), "{next}");
}

#[test]
fn a_target_that_cannot_be_resolved_is_refused_with_the_reason() {
    let hermes = filled();
    let create = |deliver: &str| {
        let words = ["cron", "create", "every 1h", "Look", "--deliver", deliver];
        hermes.run(&words)
    };
    let refused = create("telegram").exits_with(2);
    assert!(
        refused.stderr.contains("`telegram` cannot be delivered to"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("not configured"), "{refused:?}");
    let refused = create("all").exits_with(2);
    assert!(refused.stderr.contains("home channel"), "{refused:?}");
    let edited = hermes.run(&["cron", "edit", "New year", "--deliver", "nonsense:5"]);
    let edited = edited.exits_with(2);
    assert!(edited.stderr.contains("nonsense"), "{edited:?}");
    hermes.home.write(".env", "TELEGRAM_BOT_TOKEN=1:x\n");
    let refused = create("telegram").exits_with(2);
    assert!(refused.stderr.contains("No home channel"), "{refused:?}");
    let refused = create("telegram:Team").exits_with(2);
    assert!(refused.stderr.contains("Could not resolve"), "{refused:?}");
    for deliver in ["telegram:-100123:7", "local", "origin"] {
        create(deliver).ok();
    }
}

#[test]
fn a_job_has_what_it_was_given() {
    let hermes = filled();
    hermes.home.write("scripts/check.sh", "echo fine\n");
    hermes.home.write("skills/plan/SKILL.md", "Plan.\n");
    let directory = hermes.user();
    let ran = hermes.run(&[
        "cron",
        "create",
        "every 90m",
        "Check the disk",
        "--repeat",
        "3",
        "--deliver",
        "local",
        "--skill",
        "plan",
        "-m",
        "gpt-5",
        "--provider",
        "openai",
        "--script",
        "check.sh",
        "--context-from",
        "New year",
        "-t",
        "file,time",
        "--workdir",
        directory.to_str().unwrap(),
        "--json",
    ]);
    let made = ran.ok().json()["job"].clone();
    let expected = json!({
        "name": "Check the disk", "repeat": {"times": 3, "completed": 0}, "deliver": "local",
        "skills": ["plan"], "skill": "plan", "model": "gpt-5", "provider": "openai", "script": "check.sh",
        "context_from": ["wish"], "enabled_toolsets": ["file", "time"], "schedule_display": "every 90m",
        "workdir": directory, "no_agent": false,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&made[key], value, "{key}");
    }
    assert_eq!(made["id"].as_str().unwrap().len(), 12);
}

#[test]
fn what_cannot_work_is_refused() {
    let hermes = filled();
    for (args, part) in [
        (&["whenever", "x"][..], "every 30m"),
        (&["2001-01-01T00:00", "x"], "past"),
        (&["0 9 * * MOON", "x"], "is not a schedule"),
        (&["1h"], "needs a prompt"),
        (&["1h", "x", "--script", "../config.yaml"], "no script"),
        (&["1h", "x", "--script", "absent.sh"], "no script"),
        (&["1h", "--no-agent"], "needs a script"),
        (&["1h", "x", "--id", "wish"], "cannot be the id"),
        (
            &["1h", "x", "--workdir", "/no/such/place"],
            "is not a directory",
        ),
    ] {
        let args = [&["cron", "create"], args, &["--json"]].concat();
        let ran = hermes.run(&args).refused(2, "usage");
        assert!(ran.stdout.contains(part), "{ran:?}");
    }
    hermes
        .run(&["cron", "create", "1h", "x", "--skill", "absent", "--json"])
        .refused(3, "not_found");
    let json = hermes.run(&["cron", "list", "--all", "--json"]).ok().json();
    assert_eq!(json["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_job_is_changed_by_id_or_name() {
    let hermes = filled();
    hermes
        .run(&[
            "cron", "edit", "new YEAR", "--prompt", "Sing", "--model", "gpt-5", "-t", "file",
            "--repeat", "2",
        ])
        .ok();
    let changed = job(&hermes, "wish");
    assert_eq!(changed["prompt"], "Sing");
    assert_eq!(changed["enabled_toolsets"], json!(["file"]));
    assert_eq!(changed["repeat"]["times"], 2);
    assert_eq!(changed["schedule_display"], "0 9 1 1 *");
    hermes
        .run(&[
            "cron",
            "edit",
            "wish",
            "--schedule",
            "every 1d",
            "--model",
            "",
            "-t",
            "",
        ])
        .ok();
    let changed = job(&hermes, "wish");
    assert_eq!(changed["model"], json!(null));
    assert_eq!(changed["enabled_toolsets"], json!(null));
    assert_eq!(changed["schedule"]["minutes"], 1440);
    hermes
        .run(&["cron", "edit", "wish", "--json"])
        .refused(2, "usage");
    hermes
        .run(&["cron", "edit", "wish", "--no-agent", "--json"])
        .refused(2, "usage");
}

#[test]
fn a_mistyped_job_is_told_with_the_nearest_one() {
    let hermes = filled();
    for command in [
        &["cron", "pause", "wsh"][..],
        &["cron", "resume", "lok"],
        &["cron", "run", "New yaer"],
        &["cron", "remove", "wsh"],
        &["cron", "edit", "wsh", "--prompt", "x"],
        &["cron", "runs", "wsh"],
        &["cron", "create", "1h", "x", "--context-from", "wsh"],
    ] {
        let ran = hermes.run(command).exits_with(3);
        assert!(ran.stderr.contains("did you mean `"), "{ran:?}");
    }
    let ran = hermes.run(&["cron", "runs", "quite another"]).exits_with(3);
    assert!(!ran.stderr.contains("did you mean"), "{ran:?}");
}

#[test]
fn several_jobs_of_one_name_need_an_id() {
    let hermes = filled();
    hermes
        .run(&["cron", "create", "1h", "x", "--name", "Same", "--id", "a"])
        .ok();
    hermes
        .run(&["cron", "create", "1h", "x", "--name", "same", "--id", "b"])
        .ok();
    let ran = hermes
        .run(&["cron", "pause", "same", "--json"])
        .refused(2, "usage");
    assert!(ran.stdout.contains("a, b"), "{ran:?}");
}

#[test]
fn a_paused_job_goes_on_from_now() {
    let hermes = filled();
    let paused = job(&hermes, "look");
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["paused_reason"], "holiday");
    let resumed = hermes
        .run(&["cron", "resume", "look", "--json"])
        .ok()
        .json();
    assert_eq!(resumed["job"]["state"], "scheduled");
    assert_eq!(resumed["job"]["paused_reason"], json!(null));
    let next = hermes.run(&["cron", "run", "look", "--json"]).ok().json();
    assert!(next["job"]["next_run_at"].as_str() < resumed["job"]["next_run_at"].as_str());
}

#[test]
fn a_removed_job_takes_its_output_along() {
    let hermes = filled();
    let output = hermes
        .home
        .write("cron/output/look/2026-03-04_05-06-07.md", "old");
    hermes.run(&["cron", "remove", "Look around"]).ok();
    assert!(!output.exists());
    assert_eq!(job(&hermes, "look"), Value::Null);
}
