//! Questions to the user, and tools that need something of the home.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use hermes_agent::tools::{
    ToolDeps, built_in_tools,
    clarify::{ClarifyTool, Question, Questioner},
    home::{
        cronjob::{CronJobs, CronjobTool, JobRequest},
        session_search::{
            FoundMessage, FoundSession, SessionQuery, SessionSearch, SessionSearchTool,
        },
        skills::{SkillSummary, SkillText, SkillViewTool, Skills, SkillsListTool},
    },
};
use serde_json::{Value, json};

use crate::tool_session::ToolSession;

struct FixedAnswer(Option<String>);

impl Questioner for FixedAnswer {
    fn ask_question(&self, question: Question) -> BoxFuture<'_, Option<String>> {
        assert_eq!(question.choices, ["red", "blue"]);
        Box::pin(std::future::ready(self.0.clone()))
    }
}

#[tokio::test]
async fn the_user_is_asked_if_there_is_one() {
    let session = ToolSession::new();
    let question = json!({"question": "Which?", "choices": ["red", "blue", " "]});
    let clarify = ClarifyTool::new(Some(Arc::new(FixedAnswer(Some("blue".into())))));
    let text = session.succeed(&clarify, question.clone()).await;
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["user_response"],
        "blue"
    );
    let silent = ClarifyTool::new(Some(Arc::new(FixedAnswer(None))));
    assert!(
        session
            .fail(&silent, question.clone())
            .await
            .contains("did not answer")
    );
    assert!(
        session
            .fail(&ClarifyTool::new(None), question)
            .await
            .contains("no user is present")
    );
    assert!(
        session
            .fail(&ClarifyTool::new(None), json!({}))
            .await
            .contains("required")
    );
}

#[tokio::test]
async fn a_session_has_the_tools_it_has_the_means_for() {
    let names = |means| -> Vec<String> {
        built_in_tools(means)
            .iter()
            .map(|tool| tool.definition().name)
            .collect()
    };
    let few = names(ToolDeps::default());
    assert_eq!(
        few,
        [
            "read_file",
            "write_file",
            "patch",
            "search_files",
            "todo",
            "memory",
            "clarify"
        ]
    );
    let more = names(ToolDeps {
        skills: Some(Arc::new(TwoSkills)),
        ..ToolDeps::default()
    });
    assert!(more.contains(&"skill_view".to_owned()) && more.contains(&"skills_list".to_owned()));
    for tool in built_in_tools(ToolDeps::default()) {
        let parameters = tool.definition().parameters;
        assert_eq!(parameters["type"], "object", "{parameters}");
        for required in parameters["required"].as_array().unwrap() {
            assert!(
                parameters["properties"][required.as_str().unwrap()].is_object(),
                "{parameters}"
            );
        }
    }
}

struct TwoSkills;

impl Skills for TwoSkills {
    fn list(&self) -> Vec<SkillSummary> {
        [("a", Some("work")), ("b", None)]
            .map(|(name, category)| SkillSummary {
                name: name.into(),
                description: "…".into(),
                category: category.map(str::to_owned),
            })
            .into()
    }

    fn category_description(&self, _category: &str) -> Option<String> {
        None
    }

    fn view(&self, name: &str) -> Result<SkillText, String> {
        Ok(SkillText {
            text: format!("do {name}"),
            files: vec!["references/x.md".into()],
        })
    }

    fn view_file(&self, name: &str, path: &str) -> Result<String, String> {
        Err(format!("{name} has no {path}"))
    }
}

#[tokio::test]
async fn skills_are_listed_and_shown() {
    let session = ToolSession::new();
    let list = SkillsListTool::new(Arc::new(TwoSkills));
    let text = session.succeed(&list, json!({"category": "work"})).await;
    let listed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        listed,
        json!({"count": 1, "skills": [{"name": "a", "description": "…", "category": "work"}]})
    );
    let view = SkillViewTool::new(Arc::new(TwoSkills));
    let text = session.succeed(&view, json!({"name": "a"})).await;
    assert!(
        text.starts_with("do a") && text.contains("references/x.md"),
        "{text}"
    );
    assert_eq!(
        session
            .fail(&view, json!({"name": "a", "file_path": "../x"}))
            .await,
        "a has no ../x"
    );
}

struct Sessions;

fn message(session: &str, id: i64) -> (FoundSession, FoundMessage) {
    let found = FoundSession {
        session_id: session.into(),
        title: None,
        source: "cli".into(),
        started: "today".into(),
    };
    let message = FoundMessage {
        session_id: session.into(),
        message_id: id,
        role: "user".into(),
        time: "today".into(),
        text: "hit".into(),
    };
    (found, message)
}

impl SessionSearch for Sessions {
    fn search(
        &self,
        query: SessionQuery,
    ) -> BoxFuture<'_, Result<Vec<(FoundSession, FoundMessage)>, String>> {
        assert_eq!(query.exclude_session, "session");
        assert_eq!(query.roles, ["user", "tool"]);
        let found = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("a", 5), ("c", 6)]
            .map(|(s, id)| message(s, id));
        Box::pin(std::future::ready(Ok(found.into())))
    }

    fn recent<'a>(
        &'a self,
        _exclude: &'a str,
        _limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundSession>, String>> {
        Box::pin(std::future::ready(Ok(vec![message("recent", 0).0])))
    }

    fn messages<'a>(
        &'a self,
        session: &'a str,
        resolve_context: Option<i64>,
        window: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundMessage>, String>> {
        assert_eq!((resolve_context, window), (Some(7), 5));
        Box::pin(std::future::ready(Ok(vec![message(session, 7).1])))
    }
}

#[tokio::test]
async fn sessions_are_searched_listed_and_read() {
    let session = ToolSession::new();
    let tool = SessionSearchTool::new(Arc::new(Sessions));
    let value = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let found = value(
        session
            .succeed(
                &tool,
                json!({"query": "x", "limit": 2, "role_filter": "user, tool"}),
            )
            .await,
    );
    assert_eq!(found["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(found["sessions"][0]["matches"].as_array().unwrap().len(), 3);
    let resolve_context = json!({"session_id": "a", "around_message_id": 7});
    assert_eq!(
        value(session.succeed(&tool, resolve_context).await)["messages"][0]["message_id"],
        7
    );
    assert_eq!(
        value(session.succeed(&tool, json!({})).await)["sessions"][0]["session_id"],
        "recent"
    );
    session
        .fail(&tool, json!({"query": "x", "role_filter": "god"}))
        .await;
}

#[derive(Default)]
struct Jobs(Mutex<Vec<JobRequest>>);

impl CronJobs for Jobs {
    fn create(&self, job: JobRequest) -> Result<Value, String> {
        self.0.lock().unwrap().push(job);
        Ok(json!({"id": "job_1"}))
    }
    fn list(&self) -> Result<Vec<Value>, String> {
        Ok(vec![json!({"id": "job_1"})])
    }
    fn update(&self, id: &str, changes: JobRequest) -> Result<Value, String> {
        self.0.lock().unwrap().push(changes);
        Ok(json!({"id": id}))
    }
    fn pause(&self, id: &str) -> Result<Value, String> {
        Ok(json!({"id": id, "state": "paused"}))
    }
    fn resume(&self, id: &str) -> Result<Value, String> {
        Err(format!("no job {id}"))
    }
    fn remove(&self, id: &str) -> Result<Value, String> {
        Ok(json!({"id": id}))
    }
    fn run(&self, id: &str) -> Result<Value, String> {
        Ok(json!({"id": id}))
    }
}

#[tokio::test]
async fn jobs_are_made_and_changed() {
    let session = ToolSession::new();
    let jobs = Arc::new(Jobs::default());
    let tool = CronjobTool::new(jobs.clone());
    let create = json!({
        "action": "create", "schedule": "every 2h", "prompt": "look", "skills": ["a"],
        "model": {"provider": "openai", "model": "x"}, "script": "sub/look.sh",
    });
    session.succeed(&tool, create).await;
    session
        .succeed(
            &tool,
            json!({"action": "update", "job_id": "job_1", "repeat": 0}),
        )
        .await;
    let requests = jobs.0.lock().unwrap().clone();
    assert_eq!(requests[0].schedule.as_deref(), Some("every 2h"));
    assert_eq!(requests[0].provider.as_deref(), Some("openai"));
    assert_eq!(
        requests[1],
        JobRequest {
            repeat: Some(0),
            ..JobRequest::default()
        }
    );
    let listed = session.succeed(&tool, json!({"action": "list"})).await;
    assert!(listed.contains("\"count\":1"), "{listed}");
    assert_eq!(
        session
            .fail(&tool, json!({"action": "resume", "job_id": "x"}))
            .await,
        "no job x"
    );
    for wrong in [
        json!({"action": "create", "prompt": "x"}),
        json!({"action": "create", "schedule": "1h"}),
        json!({"action": "create", "schedule": "1h", "no_agent": true, "prompt": "x"}),
        json!({"action": "create", "schedule": "1h", "prompt": "x", "script": "../x.sh"}),
        json!({"action": "create", "schedule": "1h", "prompt": "x", "script": "/x.sh"}),
        json!({"action": "pause"}),
        json!({"action": "explode"}),
    ] {
        session.fail(&tool, wrong).await;
    }
}
