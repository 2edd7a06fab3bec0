//! Any request may go to any node.

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::{Value, json};

use super::cluster::{Cluster, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_watched_decided_and_stopped_on_other_nodes_than_its_own() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    other.site.get("/v1/tenants/acme").await.expect(200);

    let run = other.run("acme", "say=3 ask=ls say=2").await;
    other
        .run_becomes("acme", &run, "waiting_for_approval")
        .await;
    let watching = other.watch("acme", &run);
    let deciding = async {
        let path = format!("/v1/tenants/acme/runs/{run}/approval");
        let decision = json!({"choice": "once"});
        other.site.post(&path, &decision).await.expect(200);
    };
    let (names, ()) = tokio::join!(watching, deciding);
    assert_eq!(names.first().map(String::as_str), Some("run.started"));
    assert_eq!(names.last().map(String::as_str), Some("run.completed"));
    assert!(
        names.contains(&"approval.responded".to_owned()),
        "{names:?}"
    );
    assert_eq!(names, one.watch("acme", &run).await);
    assert_eq!(one.agents.all_begun(), 1);
    assert_eq!(other.agents.all_begun(), 0);

    let run = one.run("acme", "wait").await;
    one.run_becomes("acme", &run, "running").await;
    let path = format!("/v1/tenants/acme/runs/{run}/stop");
    other.site.post(&path, &json!({})).await.expect(202);
    other.run_becomes("acme", &run, "cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_home_is_made_by_the_node_that_works_for_the_tenant() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let job = json!({"id": "daily", "schedule": "0 9 * * *", "prompt": "Plan"});
    let made = other.site.post("/v1/tenants/acme/agent-cron", &job).await;
    assert_eq!(made.expect(201)["job"]["id"], "daily");
    // A second one of that name is refused there, and here.
    let again = other.site.post("/v1/tenants/acme/agent-cron", &job).await;
    assert_eq!(again.status, 409, "{}", again.text);
    for node in [&one, &other] {
        let jobs = node
            .site
            .get("/v1/tenants/acme/agent-cron")
            .await
            .expect(200);
        assert_eq!(jobs["jobs"][0]["id"], "daily");
    }
    // The entry is in the chain of the node that did it, once.
    let entries = other.site.get("/v1/audit?action=create_tenant_cron").await;
    let entries = entries.expect(200);
    let done = entries["entries"].as_array().unwrap().iter();
    let done = done.filter(|entry| entry["phase"] == "done" && entry["status"] == 201);
    assert_eq!(done.count(), 1, "{entries}");
    assert_eq!(one.holder("acme").await.as_deref(), Some("n1"));

    let state = other
        .site
        .post("/v1/tenants/acme/agent/start", &json!({}))
        .await;
    assert_eq!(state.expect(202)["node"], "n1");
    let started = eventually_some(TIMEOUT, async || {
        let agent = other.site.get("/v1/tenants/acme/agent").await.expect(200);
        (agent["state"] == "idle" && agent["node"] == "n1").then_some(())
    });
    started.await.expect("the agent does not run on its node");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_policy_reach_the_agent_whichever_node_got_them() {
    let cluster = Cluster::new().await;
    let one = cluster.node("n1").await;
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme"}))
        .await;
    let run = one.run("acme", "say=1").await;
    one.run_becomes("acme", &run, "completed").await;
    // The lease is taken: the second node cannot have the agent.
    let other = cluster.node("n2").await;
    let tenant = hermes_hub::TenantId::parse("acme").unwrap();
    let text = json!({"content": "Be brief."});
    other
        .site
        .put("/v1/agent-specialization", &text)
        .await
        .expect(200);
    let model = json!({"agent": {"model": "p/other"}});
    let patched = other
        .site
        .send_json(Method::PATCH, "/v1/tenants/acme", &model);
    patched.await.expect(200);
    let told = eventually_some(TIMEOUT, async || {
        let directives = one.agents.directives(&tenant)?;
        let is_told = directives.specialization.contains("Be brief")
            && directives.model.as_deref() == Some("p/other");
        is_told.then_some(())
    });
    told.await.expect("the agent is not told");
    // Blocked on one node, stopped on the other.
    let blocked = json!({"status": "blocked"});
    other
        .site
        .put("/v1/tenants/acme/access", &blocked)
        .await
        .expect(200);
    let stopped = eventually_some(TIMEOUT, async || {
        let agent = one.site.get("/v1/tenants/acme/agent").await.expect(200);
        (agent["state"] == "stopped").then_some(())
    });
    stopped
        .await
        .expect("the agent of a blocked tenant goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_lost_notices_does_no_harm() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let run = one.run("acme", "wait say=2").await;
    one.run_becomes("acme", &run, "running").await;
    let watching = other.watch("acme", &run);
    let ending = async {
        // No connection that listens or notifies survives this.
        cluster.cut_notices().await;
        one.agents.release("wait say=2");
    };
    let (names, ()) = tokio::join!(watching, ending);
    assert_eq!(names.last().map(String::as_str), Some("run.completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_listed_and_a_drained_one_hands_its_tenants_over() {
    let cluster = Cluster::new().await;
    let (one, other) = cluster.holder_and_other("acme").await;
    let nodes = other.site.get("/v1/nodes").await.expect(200);
    let ids: Vec<&Value> = nodes["nodes"].as_array().unwrap().iter().collect();
    assert_eq!((&ids[0]["id"], &ids[1]["id"]), (&json!("n1"), &json!("n2")));
    assert_eq!(ids[0]["tenants"], 1);
    // A run goes on to its end before the tenant is handed over.
    let run = one.run("acme", "wait").await;
    one.run_becomes("acme", &run, "running").await;
    let drained = other.site.post("/v1/nodes/n1/drain", &json!({})).await;
    assert_eq!(drained.expect(202)["state"], "draining");
    one.agents.release("wait");
    one.run_becomes("acme", &run, "completed").await;
    let handed_over = eventually_some(TIMEOUT, async || {
        let nodes = other.site.get("/v1/nodes").await.expect(200);
        (nodes["nodes"][0]["tenants"] == 0).then_some(())
    });
    handed_over.await.expect("the node keeps its tenants");
    // The next run is on the other node, also if the drained one gets the request.
    let run = one.run("acme", "say=1").await;
    other.run_becomes("acme", &run, "completed").await;
    assert_eq!(one.holder("acme").await.as_deref(), Some("n2"));
    // So are a new tenant and changes of its home.
    let made = json!({"id": "later", "displayName": "Later"});
    one.site.tenant(made).await;
    let job = json!({"id": "daily", "schedule": "0 9 * * *", "prompt": "Plan"});
    let path = "/v1/tenants/later/agent-cron";
    one.site.post(path, &job).await.expect(201);
    assert_eq!(one.holder("later").await.as_deref(), Some("n2"));
    other
        .site
        .post("/v1/nodes/n9/drain", &json!({}))
        .await
        .expect(404);
}
