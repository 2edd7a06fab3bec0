//! Cron jobs: made, changed, and run at once.

use hermes_store::cron::{Claim, CronFile};
use hermes_testkit::{
    model::ScriptedAnswer,
    platform::{PlatformFault, PlatformRequest, PlatformServer},
};

use super::*;

impl ApiFixture {
    async fn job(&self, body: &Value) -> Value {
        let (status, answer) = self.post("/api/jobs", body).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        answer["job"].clone()
    }

    async fn patch(&self, id: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.request(Method::PATCH, &format!("/api/jobs/{id}"));
        send(request.body(body.to_string())).await
    }
}

#[tokio::test]
async fn a_job_is_made_shown_changed_and_removed() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let job = service
        .job(&json!({
            "id": "job_123", "name": "Daily", "schedule": "0 9 * * *", "prompt": "Sum up", "color": "red",
        }))
        .await;
    assert_eq!(
        (&job["id"], &job["name"], &job["color"]),
        (&json!("job_123"), &json!("Daily"), &json!("red"))
    );
    assert_eq!(job["schedule"]["kind"], "cron");
    let changes =
        json!({"name": "Weekly", "schedule": "every 30m", "skills": ["plan"], "repeat": 3});
    let (status, patched) = service.patch("job_123", &changes).await;
    assert_eq!(status, StatusCode::OK, "{patched}");
    let job = &patched["job"];
    assert_eq!(
        (&job["name"], &job["skill"]),
        (&json!("Weekly"), &json!("plan"))
    );
    assert_eq!(
        (&job["schedule"]["minutes"], &job["repeat"]["times"]),
        (&json!(30), &json!(3))
    );
    let paused = service.post("/api/jobs/job_123/pause", &json!({})).await.1;
    assert_eq!(paused["job"]["state"], "paused");
    assert_eq!(service.get("/api/jobs").await, json!({"jobs": []}));
    let all = service.get("/api/jobs?include_disabled=true").await;
    assert_eq!(all["jobs"].as_array().unwrap().len(), 1);
    let resumed = service.post("/api/jobs/job_123/resume", &json!({})).await.1;
    assert_eq!(resumed["job"]["enabled"], true);
    let removed = send(service.request(Method::DELETE, "/api/jobs/job_123")).await;
    assert_eq!(removed, (StatusCode::OK, json!({"ok": true})));
    let gone = send(service.request(Method::GET, "/api/jobs/job_123")).await;
    assert_eq!(gone.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let long = "x".repeat(5001);
    for body in [
        json!({"prompt": "x"}),
        json!({"prompt": "x", "schedule": "whenever"}),
        json!({"prompt": long, "schedule": "1h"}),
        json!({"prompt": "x", "schedule": "1h", "name": "x".repeat(201)}),
        json!({"prompt": "x", "schedule": "1h", "no_agent": true}),
    ] {
        let (status, answer) = service.post("/api/jobs", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    }
    service
        .job(&json!({"id": "a", "prompt": "x", "schedule": "1h"}))
        .await;
    for body in [json!({}), json!({"id": "b"}), json!({"last_status": "ok"})] {
        assert_eq!(
            service.patch("a", &body).await.0,
            StatusCode::BAD_REQUEST,
            "{body}"
        );
    }
    assert_eq!(
        service.patch("b", &json!({"name": "x"})).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_key_makes_one_job_of_two_requests() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let post = || {
        let body = json!({"prompt": "x", "schedule": "every 1h"}).to_string();
        let request = service.request(Method::POST, "/api/jobs").body(body);
        request.header("Idempotency-Key", "k")
    };
    let first = send(post()).await;
    assert_eq!(send(post()).await, first);
    let jobs = service.get("/api/jobs").await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_makes_one_job_even_if_the_reply_was_lost() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    for id in [Value::Null, json!("job_123")] {
        let body = json!({"id": id, "prompt": "x", "schedule": "every 1h"}).to_string();
        let post = || {
            let request = service.request(Method::POST, "/api/jobs");
            request.header("Idempotency-Key", "k").body(body.clone())
        };
        let (status, first) = send(post()).await;
        assert_eq!(status, StatusCode::CREATED, "{first}");
        // As if the gateway had been killed after the job was stored and before the reply was.
        let store = service.gateway.store();
        store.prune_replies(Duration::ZERO).await.unwrap();
        let (status, again) = send(post()).await;
        assert_eq!(status, StatusCode::CREATED, "{again}");
        assert_eq!(again["job"]["id"], first["job"]["id"]);
        store.prune_replies(Duration::ZERO).await.unwrap();
    }
    let jobs = service.get("/api/jobs").await;
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2, "{jobs}");
}

#[tokio::test]
async fn a_job_whose_target_cannot_be_resolved_is_refused() {
    let service = ApiFixture::start(ModelScript::echo()).await;
    let body = json!({"prompt": "Look", "schedule": "every 1h", "deliver": "telegram"});
    let (status, refused) = service.post("/api/jobs", &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    assert_eq!(refused["error"]["param"], "deliver", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("not configured"), "{message}");
    service
        .job(&json!({"id": "j", "prompt": "Look", "schedule": "every 1h"}))
        .await;
    let change = service.request(Method::PATCH, "/api/jobs/j");
    let change = change.body(json!({"deliver": "slack:nobody"}).to_string());
    let (status, refused) = send(change).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
}

#[tokio::test]
async fn what_a_job_says_is_kept_and_brought_to_where_it_belongs() {
    const TOKEN: &str = "123456:AAF-very-secret-token";
    let platform = PlatformServer::telegram(TOKEN);
    let config = format!(
        "telegram: {{token: '{TOKEN}', home_channel: 5, extra: {{base_url: '{}'}}}}\n",
        platform.base_url()
    );
    let said = ScriptedAnswer::text("All is well.");
    let script = ModelScript::new([said.clone(), said.clone(), said]);
    let service = ApiFixture::start_with(script, &config, ControlMode::Own).await;
    for (id, deliver, sent) in [
        ("stays", "local", 0),
        ("goes", "telegram", 1),
        ("fails", "telegram:7,local", 1),
    ] {
        if id == "fails" {
            let gone = json!({"ok": false, "description": "Forbidden: bot was blocked"});
            platform.fail("sendMessage", PlatformFault::Status(403, gone));
        }
        service
            .job(&json!({"id": id, "prompt": "Look", "schedule": "every 1h", "deliver": deliver}))
            .await;
        let before = platform.requests().len();
        let (_, started) = service
            .post(&format!("/api/jobs/{id}/run"), &json!({}))
            .await;
        let run = service
            .wait_for_end(started["run_id"].as_str().unwrap())
            .await;
        assert_eq!(run["status"], "completed", "{run}");
        let requests = platform.requests().split_off(before);
        assert_eq!(requests.len(), sent, "{id}: {requests:?}");
        let has_text = |request: &PlatformRequest| request.body.to_string().contains("All is well");
        assert!(requests.iter().all(has_text), "{requests:?}");
        let job = service.get(&format!("/api/jobs/{id}")).await["job"].clone();
        assert_eq!(job["last_status"], "ok", "{job}");
        let failed = job["last_delivery_error"].as_str();
        assert_eq!(failed.is_some(), id == "fails", "{job}");
        let delivery = match id {
            "stays" => "none",
            "goes" => "delivered",
            _ => "failed",
        };
        assert_eq!(job["last_delivery_status"], delivery, "{job}");
        let message = &job["last_deliveries"][0]["message_id"];
        assert_eq!(message.is_string(), id == "goes", "{job}");
        let output = service.home.path().join("cron/output").join(id);
        let kept = std::fs::read_dir(output).unwrap().next().unwrap().unwrap();
        let kept = std::fs::read_to_string(kept.path()).unwrap();
        assert!(kept.contains("All is well."), "{kept}");
    }
}

#[tokio::test]
async fn a_job_runs_at_once_and_its_run_can_be_watched() {
    let service = ApiFixture::start(ModelScript::new([ScriptedAnswer::text("All is well.")])).await;
    service
        .job(&json!({"id": "j", "prompt": "Look", "schedule": "every 1h"}))
        .await;
    let request = || {
        let request = service.request(Method::POST, "/api/jobs/j/run");
        request.header("Idempotency-Key", "fire 1")
    };
    let (status, started) = send(request()).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{started}");
    assert_eq!(started["job"]["id"], "j");
    let run = started["run_id"].as_str().unwrap();
    let events = service.events(run, 0).await;
    assert_eq!(
        names(&events),
        ["run.started", "message.delta", "run.completed"]
    );
    let shown = service.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["output"], &shown["source"]),
        (&json!("All is well."), &json!("cron"))
    );
    assert_eq!(shown["job_id"], "j");
    assert!(shown["session_id"].as_str().unwrap().starts_with("cron_j_"));
    let job = service.get("/api/jobs/j").await;
    assert_eq!(job["job"]["last_status"], "ok");
    let (_, again) = send(request()).await;
    assert_eq!(again["run_id"], run);
    assert_eq!(service.model.requests().len(), 1);
}

#[tokio::test]
async fn the_only_run_of_a_job_can_be_repeated_when_it_was_cut_off() {
    let service = ApiFixture::start(ModelScript::new([ScriptedAnswer::text("All is well.")])).await;
    for id in ["cut-off", "used-up"] {
        let job = json!({"id": id, "prompt": "Look", "schedule": "30m"});
        service.job(&job).await;
        // By a process that is not there any more.
        let (home, now) = (Home::at(service.home.path()), jiff::Zoned::now());
        let claimed = CronFile::change(&home, &now, |file| {
            file.claim(id, "hermes:1:1", std::time::Duration::from_mins(5), &now)
        });
        assert!(matches!(claimed.unwrap(), Claim::Won(_)));
    }
    let run = async |path: &str| service.post(path, &json!({})).await;
    // Without being told so, nobody repeats what may have been done.
    assert_eq!(run("/api/jobs/used-up/run").await.0, StatusCode::CONFLICT);
    let (status, started) = run("/api/jobs/cut-off/run?again=true").await;
    assert_eq!(status, StatusCode::ACCEPTED, "{started}");
    let ended = service.wait_for_end(started["run_id"].as_str().unwrap());
    assert_eq!(ended.await["status"], "completed");
    // It has ended, so it is not there any more.
    let (status, _) = run("/api/jobs/cut-off/run?again=true").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_job_does_not_overlap_itself_and_can_be_stopped() {
    let script =
        ModelScript::new(
            [ScriptedAnswer::pieces(["a", "b"]).with(|reply| reply.pause_ms = 60_000)],
        );
    let service = ApiFixture::start(script).await;
    service
        .job(&json!({"id": "j", "prompt": "Look", "schedule": "every 1h"}))
        .await;
    let (_, started) = service.post("/api/jobs/j/run", &json!({})).await;
    let run = started["run_id"].as_str().unwrap();
    service.watch(run, 0).await.next().await.unwrap();
    let (status, refused) = service.post("/api/jobs/j/run", &json!({})).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::CONFLICT, &json!("job_running"))
    );
    service
        .post(&format!("/v1/runs/{run}/stop"), &json!({}))
        .await;
    assert_eq!(service.wait_for_end(run).await["status"], "cancelled");
    let job = service.get("/api/jobs/j").await;
    assert_eq!(job["job"]["last_status"], "error");
}

#[tokio::test]
async fn a_job_that_fails_fails_its_run() {
    let service = ApiFixture::start(ModelScript::new([ScriptedAnswer::status(400, "no")])).await;
    service
        .job(&json!({"id": "j", "prompt": "Look", "schedule": "1h"}))
        .await;
    let (_, started) = service.post("/api/jobs/j/run", &json!({})).await;
    let shown = service
        .wait_for_end(started["run_id"].as_str().unwrap())
        .await;
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["error"]["code"], "job_failed");
}
