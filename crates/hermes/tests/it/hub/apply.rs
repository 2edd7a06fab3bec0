//! `hermes tenant apply`, and the commands about what is in a tenant's home.

use std::fs;

use serde_json::json;

use crate::hub::hub_process::HubProcess;

const SKILL: &str = "---\nname: review\ndescription: Reviews.\n---\nRead.\n";

/// The example of the documentation, with the files beside it.
fn write_example(hub: &HubProcess) -> String {
    let directory = hub.home.beside("documents");
    fs::create_dir_all(directory.join("skills/review/references")).unwrap();
    fs::write(directory.join("skills/review/SKILL.md"), SKILL).unwrap();
    fs::write(directory.join("skills/review/references/x.bin"), [0, 255]).unwrap();
    fs::write(directory.join("prices.csv"), [b'a', 0xff, b'\n']).unwrap();
    let guide = include_str!("../../../../../docs/guide/hub-apply.md");
    let (_, example) = guide.split_once("```yml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let file = directory.join("acme.yaml");
    fs::write(&file, example).unwrap();
    file.to_str().unwrap().to_owned()
}

fn prepared() -> (HubProcess, String) {
    let hub = HubProcess::new();
    hub.run(&["group", "create", "division1"]).ok();
    let library = hub.home.beside("minutes");
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("SKILL.md"), SKILL.replace("review", "minutes")).unwrap();
    hub.run(&["skill-library", "put", library.to_str().unwrap()])
        .ok();
    let file = write_example(&hub);
    (hub, file)
}

#[test]
fn the_documented_example_is_applied_as_it_is_written() {
    let (hub, file) = prepared();
    // The variable that it names is one of the command.
    let refused = hub.run(&["tenant", "apply", "-f", &file]).exits_with(2);
    assert!(refused.stderr.contains("line 4, column 8"), "{refused:?}");
    assert!(refused.stderr.contains("ACME_OPENAI"), "{refused:?}");
    let apply = |arguments: &[&str]| {
        let arguments = [&["tenant", "apply", "-f", &file], arguments].concat();
        let mut command = hub.command(&arguments);
        command.env("ACME_OPENAI", "sk-hunter2-hunter2");
        command.stdin(std::process::Stdio::piped());
        let output = crate::harness::program::run(command, "").ok();
        assert!(!output.stdout.contains("hunter2"), "{output:?}");
        assert!(!output.stderr.contains("hunter2"), "{output:?}");
        output
    };
    let planned = apply(&["--dry-run"]);
    assert!(planned.stdout.contains("+ acme: soul\n"), "{planned:?}");
    assert!(!planned.stdout.contains("You work for"), "{planned:?}");
    assert!(planned.stderr.contains("would change"), "{planned:?}");
    hub.run(&["tenant", "get", "acme"]).exits_with(3);
    let planned = apply(&["--diff"]);
    assert!(planned.stdout.contains("+ acme: soul"), "{planned:?}");
    assert!(
        planned.stdout.contains("+ You work for Acme."),
        "{planned:?}"
    );
    hub.run(&["tenant", "get", "acme"]).exits_with(3);
    let made = apply(&[]);
    assert!(made.stdout.contains("+ acme: skills.review"), "{made:?}");
    let home = hub.data().join("tenants/acme/home");
    let bytes = fs::read(home.join("workspace/data/prices.csv")).unwrap();
    assert_eq!(bytes, [b'a', 0xff, b'\n']);
    let bytes = fs::read(home.join("skills/review/references/x.bin")).unwrap();
    assert_eq!(bytes, [0, 255]);
    assert!(home.join("skills/minutes/SKILL.md").exists());
    let again = apply(&[]);
    assert_eq!(again.stdout, "", "{again:?}");
    assert!(again.stderr.contains("0 changed"), "{again:?}");
    let shown = hub.json(&["tenant", "manifest", "acme"]);
    assert_eq!(shown["env"]["OPENAI_API_KEY"], "${env:OPENAI_API_KEY}");
    assert_eq!(shown["model"]["model"], "gpt-5");
}

#[test]
fn several_documents_come_from_stdin_and_one_mistake_stops_them_all() {
    let (hub, _) = prepared();
    let apply = ["tenant", "apply", "-f", "-"];
    let refused = hub
        .run_with_input(&apply, "id: one\n---\nid: two\nsoull: x\n")
        .exits_with(2);
    assert!(refused.stderr.contains("line 4, column 1"), "{refused:?}");
    assert!(
        refused.stderr.contains("did you mean `soul`?"),
        "{refused:?}"
    );
    hub.run(&["tenant", "get", "one"]).exits_with(3);
    let text = "id: one\nsoul: First.\n---\n{\"id\": \"two\", \"soul\": \"Second.\"}\n";
    hub.run_with_input(&apply, text).ok();
    let soul = hub.run(&["tenant", "soul", "two"]).ok();
    assert_eq!(soul.stdout, "Second.");
}

#[test]
fn what_the_hub_refuses_is_told_with_its_place_and_nothing_is_made_before() {
    let (hub, _) = prepared();
    let apply = ["tenant", "apply", "-f", "-"];
    for (text, place, reason) in [
        (
            "id: one\n---\nid: two\nmodel:\n  model: gpt-5\n  keyEnv: NOT_THERE\n",
            "line 6, column 3",
            "no variable `NOT_THERE`",
        ),
        (
            "id: one\nmcpServers:\n  time: { comand: uvx }\n",
            "line 3",
            "comand",
        ),
        (
            "id: one\nsoul: x\ncron:\n  - { name: a, schedule: '0 9 * * 1', prompt: x }\n  - { name: b, schedule: whenever, prompt: x }\n",
            "line 5, column 16",
            "cron.b",
        ),
        (
            "id: one\nplatforms:\n  telegram:\n    tokenEnv: TELEGRAM\n",
            "line 4, column 5",
            "no variable `TELEGRAM`",
        ),
    ] {
        let refused = hub.run_with_input(&apply, text);
        assert_ne!(refused.code, 0, "{text}");
        assert!(refused.stderr.contains(place), "{text}: {refused:?}");
        assert!(refused.stderr.contains(reason), "{text}: {refused:?}");
        hub.run(&["tenant", "get", "one"]).exits_with(3);
    }
}

#[test]
fn what_is_in_a_home_is_changed_without_a_shell() {
    let hub = HubProcess::with_acme();
    let local = hub.home.beside("local");
    fs::create_dir_all(local.join("site/css")).unwrap();
    fs::write(local.join("site/index.html"), "<p>").unwrap();
    fs::write(local.join("site/css/a.css"), "p{}").unwrap();
    let path = |name: &str| local.join(name).to_str().unwrap().to_owned();
    let files = |arguments: &[&str]| hub.run(&[&["tenant", "files", "acme"], arguments].concat());
    files(&["upload", &path("site"), "public"]).ok();
    files(&["put", &path("site/index.html"), "notes/a.html"]).ok();
    files(&["mkdir", "empty"]).ok();
    files(&["mv", "notes/a.html", "b.html"]).ok();
    files(&["rm", "notes", "--yes"]).ok();
    let listed = hub.json(&["tenant", "files", "acme"]);
    let names = listed["entries"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["empty", "public", "b.html"]);
    let text = files(&["public/css/a.css", "--cat"]).ok();
    assert_eq!(text.stdout, "p{}");
    files(&["put", &path("missing"), "x"]).exits_with(2);

    hub.run_with_input(&["tenant", "soul", "acme", "-"], "I am Acme's.")
        .ok();
    assert_eq!(
        hub.run(&["tenant", "soul", "acme"]).ok().stdout,
        "I am Acme's."
    );
    hub.run_with_input(&["tenant", "memory", "acme", "user", "-"], "Likes tea")
        .ok();
    let memory = hub.run(&["tenant", "memory", "acme", "user"]).ok();
    assert_eq!(memory.stdout, "Likes tea");

    fs::create_dir_all(local.join("review")).unwrap();
    fs::write(local.join("review/SKILL.md"), SKILL).unwrap();
    let review = path("review");
    hub.run(&["tenant", "skill", "install", "acme", &review])
        .ok();
    hub.run(&["skill-library", "put", &review]).ok();
    hub.run(&["tenant", "skill", "install", "acme", "review", "--library"])
        .ok();
    let shown = hub
        .run(&["skill-library", "show", "review", "SKILL.md"])
        .ok();
    assert_eq!(shown.stdout, SKILL);
    hub.run(&["skill-library", "remove", "review", "--yes"])
        .ok();
    hub.run(&["tenant", "skill", "remove", "acme", "review", "--yes"])
        .ok();
    let skills = hub.json(&["tenant", "skill", "list", "acme"]);
    assert_eq!(skills, json!({"categories": []}));
    let sessions = hub.run(&["tenant", "sessions", "acme", "list"]).ok();
    assert!(sessions.stderr.contains("no conversations"), "{sessions:?}");
    hub.run(&["tenant", "sessions", "acme", "show", "none"])
        .exits_with(3);
    hub.run(&["tenant", "sessions", "acme", "rename", "none", "A title"])
        .exits_with(3);
    let delete = ["tenant", "sessions", "acme", "delete", "none"];
    hub.run(&delete).exits_with(5);
    hub.run(&[&delete[..], &["--yes"]].concat()).exits_with(3);
}
