//! Logins that MCP servers of tenants wait for: a condition of the tenant, and an event.

use hermes_hub::TenantId;
use hermes_protocol::{AgentReply, ServerState};
use serde_json::{Value, json};

use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

fn servers(states: &[(&str, &str)]) -> AgentReply {
    let states = states.iter().map(|(name, status)| ServerState {
        name: (*name).to_owned(),
        status: (*status).to_owned(),
        error: None,
        tools: 0,
        era: None,
        pid: None,
        restarts: 0,
        since: 0,
        login_ends_at: None,
    });
    AgentReply::Servers(states.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_a_login_is_told_of_until_somebody_logs_in() {
    let agent = ScriptedRuntime::new();
    let site = TestHub::with_runtime(agent.clone(), |_, _| {}).await;
    site.tenant(json!({"id": "acme"})).await;
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
    let tenant = TenantId::parse("acme").unwrap();
    let check = async |reply: AgentReply| {
        agent.reply_with(reply);
        site.hub.check_logins(&tenant).await.unwrap();
        let tenant = site.get("/v1/tenants/acme").await.expect(200);
        let conditions = tenant["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter();
        let mut found = found.filter(|condition| condition["type"] == "LoginsValid");
        found.next().unwrap_or(Value::Null)
    };
    assert_eq!(check(servers(&[("time", "ready")])).await, Value::Null);
    let waiting = [("linear", "needs_auth"), ("time", "ready")];
    let told = check(servers(&waiting)).await;
    assert_eq!(told["status"], "False");
    assert!(
        told["message"].as_str().unwrap().contains("`linear`"),
        "{told}"
    );
    check(servers(&waiting)).await;
    let mut ending = servers(&[("linear", "ready"), ("time", "ready")]);
    if let AgentReply::Servers(states) = &mut ending {
        states[0].login_ends_at = Some(1_800_000_000);
    }
    let told = check(ending.clone()).await;
    assert_eq!(told["status"], "False");
    assert_eq!(told["reason"], "1 ending");
    assert_eq!(
        told["message"],
        "logins to MCP servers end soon, log in again: `linear` at 2027-01-15T08:00:00.000Z"
    );
    assert_eq!(check(ending).await, told, "it is told once");
    let overview = site.get("/v1/overview").await.expect(200);
    assert_eq!(overview["troubles"][0]["kind"], "login");
    let told = check(servers(&[("linear", "ready")])).await;
    assert_eq!(told["status"], "True");
    let path = "/v1/events?after=0&follow=false&type=login.needed";
    let told = site.get(path).await.text;
    // That one is missing, and that one ends.
    assert_eq!(told.matches("\"login.needed\"").count(), 2, "{told}");
}
