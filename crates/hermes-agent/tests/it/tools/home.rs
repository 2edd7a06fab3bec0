//! Tools for sessions, skills and jobs of a home.

use std::{fs, sync::Arc};

use hermes_agent::tools::home::{
    cronjob::{CronjobTool, HomeJobs},
    session_search::SessionSearchTool,
    skills::{SkillViewTool, SkillsListTool},
};
use hermes_config::{Settings, Variables};
use hermes_store::{Access, NewMessage, NewSession, Role, SessionId, Store, skills};
use serde_json::{Value, json};

use crate::tool_session::ToolSession;

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn settings() -> Settings {
    Settings::parse("timezone: Europe/Zurich\n", Variables::default()).unwrap()
}

#[tokio::test]
async fn other_sessions_are_searched_and_read() {
    let session = ToolSession::new();
    let store = Store::open(&session.context.home, Access::ReadWrite)
        .await
        .unwrap();
    for (name, text) in [
        ("first", "the heron stands"),
        ("second", "no bird"),
        ("session", "a heron of today"),
    ] {
        let id = SessionId::parse(name).unwrap();
        store
            .create_session(&NewSession::new(id.clone(), "cli"))
            .await
            .unwrap();
        for message in [
            NewMessage::new(Role::User, text),
            NewMessage::new(Role::Assistant, "I see"),
        ] {
            store.append(&id, &message).await.unwrap();
        }
    }
    let tool = SessionSearchTool::new(Arc::new(store));
    let found = value(&session.succeed(&tool, json!({"query": "heron"})).await);
    assert_eq!(found["sessions"].as_array().unwrap().len(), 1, "{found}");
    let first = &found["sessions"][0];
    assert_eq!(first["session_id"], "first");
    let message = first["matches"][0]["message_id"].clone();
    let resolve_context = json!({"session_id": "first", "around_message_id": message});
    let resolve_context = value(&session.succeed(&tool, resolve_context).await);
    assert_eq!(
        resolve_context["messages"][1]["text"], "I see",
        "{resolve_context}"
    );
    let whole = value(
        &session
            .succeed(&tool, json!({"session_id": "second"}))
            .await,
    );
    assert_eq!(whole["messages"][0]["text"], "no bird", "{whole}");
    let recent = value(&session.succeed(&tool, json!({"limit": 5})).await);
    let names: Vec<&Value> = recent["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["session_id"])
        .collect();
    assert_eq!(names.len(), 2, "{recent}");
    assert!(!names.contains(&&json!("session")), "{recent}");
    session.fail(&tool, json!({"session_id": "../x"})).await;
}

#[tokio::test]
async fn skills_of_the_home_are_listed_and_shown() {
    let session = ToolSession::new();
    let directory = session.root.join("home/skills/work/review");
    fs::create_dir_all(directory.join("references")).unwrap();
    fs::write(
        directory.join("SKILL.md"),
        "---\nname: review\ndescription: Reads code\n---\nLook twice.\n",
    )
    .unwrap();
    fs::write(directory.join("references/list.md"), "one, two").unwrap();
    let about = directory.with_file_name("DESCRIPTION.md");
    fs::write(about, "What comes up at work.\n").unwrap();
    let skills = Arc::new(skills::Skills::new(&session.context.home, &settings()));
    let list = value(
        &session
            .succeed(&SkillsListTool::new(skills.clone()), json!({}))
            .await,
    );
    let expected = json!({"name": "review", "description": "Reads code", "category": "work"});
    assert_eq!(list["skills"], json!([expected]));
    assert_eq!(
        list["categories"],
        json!({"work": "What comes up at work."})
    );
    let view = SkillViewTool::new(skills);
    let text = session.succeed(&view, json!({"name": "review"})).await;
    assert!(
        text.starts_with("Look twice.") && text.contains("references/list.md"),
        "{text}"
    );
    let file = json!({"name": "review", "file_path": "references/list.md"});
    assert_eq!(session.succeed(&view, file).await, "one, two");
    session
        .fail(
            &view,
            json!({"name": "review", "file_path": "../../../.env"}),
        )
        .await;
}

#[tokio::test]
async fn jobs_of_the_home_are_made_changed_and_removed() {
    let session = ToolSession::new();
    let jobs = HomeJobs::new(
        session.context.home.clone(),
        &settings(),
        Some(json!({"platform": "telegram"})),
    );
    let tool = CronjobTool::new(Arc::new(jobs));
    let created = json!({"action": "create", "schedule": "every 2h", "prompt": "look", "name": "Looking", "repeat": 3});
    let created = value(&session.succeed(&tool, created).await);
    let job = &created["job"];
    assert_eq!(
        (&job["state"], &job["deliver"]),
        (&json!("scheduled"), &json!("origin")),
        "{created}"
    );
    assert_eq!(job["repeat"], json!({"times": 3, "completed": 0}));
    let updated = json!({"action": "update", "job_id": "looking", "schedule": "0 9 * * *", "deliver": "local", "skills": ["a"]});
    let updated = value(&session.succeed(&tool, updated).await);
    assert_eq!(
        (&updated["job"]["deliver"], &updated["job"]["skills"]),
        (&json!("local"), &json!(["a"]))
    );
    assert!(
        updated["job"]["next_run_at"]
            .as_str()
            .unwrap()
            .contains("T09:00:00"),
        "{updated}"
    );
    for (action, state) in [
        ("pause", "paused"),
        ("resume", "scheduled"),
        ("run", "scheduled"),
    ] {
        let result = value(
            &session
                .succeed(&tool, json!({"action": action, "job_id": job["id"]}))
                .await,
        );
        assert_eq!(result["job"]["state"], state, "{action}");
    }
    let mistyped = json!({"action": "pause", "job_id": "loking"});
    let told = session.fail(&tool, mistyped).await;
    assert!(told.contains("did you mean `Looking`?"), "{told}");
    session
        .succeed(&tool, json!({"action": "remove", "job_id": job["id"]}))
        .await;
    let listed = value(&session.succeed(&tool, json!({"action": "list"})).await);
    assert_eq!(listed["count"], 0);
    let problem = session
        .fail(
            &tool,
            json!({"action": "create", "schedule": "soon", "prompt": "x"}),
        )
        .await;
    assert!(!problem.is_empty());
}
