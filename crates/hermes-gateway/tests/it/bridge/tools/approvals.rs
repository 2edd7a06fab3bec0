//! Approvals: listed, decided, refused.

use hermes_agent::approval::{AnswerRule, DecisionRegistry};
use hermes_mcp::process::start_time;
use hermes_store::runtime::{ApprovalOutcome, NewApproval, RuntimeStore};

use super::*;

fn question(name: &str) -> NewApproval {
    let pid = std::process::id();
    NewApproval {
        id: name.into(),
        kind: "exec".into(),
        session_key: Some(SessionKey::new(KEY)),
        session: None,
        run_id: None,
        command: "rm -r build".into(),
        description: "deletes files".into(),
        pattern_keys: vec!["rm".into()],
        allow_permanent: true,
        timeout: Some(Duration::from_mins(5)),
        owner_pid: pid,
        owner_start: start_time(pid).and_then(|start| i64::try_from(start).ok()),
    }
}

/// Makes a request as a gateway does, and acts on the decision.
async fn answer_as_owner(decisions: DecisionRegistry, runtime: RuntimeStore, name: &'static str) {
    let waiting = decisions.register_request(name, AnswerRule::Any).await;
    let given = waiting.wait().await;
    runtime
        .answer_approval(name, given.answer, &given.by, None)
        .await
        .unwrap();
    runtime
        .resolve_approval(name, ApprovalOutcome::Answered(given.answer))
        .await
        .unwrap();
}

/// Waits until a process that asks can be reached.
async fn wait_until_reachable(place: &BridgeFixture) {
    let is_there = || {
        std::fs::read_dir(place.home.run_dir()).is_ok_and(|entries| {
            entries.flatten().any(|entry| {
                entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with("approvals-")
            })
        })
    };
    assert!(hermes_testkit::eventually(TIMEOUT, is_there).await);
}

async fn respond(client: &Client, name: &str, decision: &str) -> Value {
    client
        .call_document(
            "permissions_respond",
            json!({"id": name, "decision": decision}),
        )
        .await
}

#[tokio::test]
async fn an_open_question_is_listed_decided_and_logged() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    let runtime = RuntimeStore::open(&place.home).await.unwrap();
    runtime.publish_approval(&question("ap_1")).await.unwrap();
    let listed = client
        .call_document("permissions_list_open", json!({}))
        .await;
    assert_eq!(listed["count"], 1);
    let open = &listed["approvals"][0];
    assert_eq!(
        (&open["id"], &open["kind"], &open["session_key"]),
        (&json!("ap_1"), &json!("exec"), &json!(KEY))
    );
    assert_eq!(
        (&open["command"], &open["allow_permanent"]),
        (&json!("rm -r build"), &json!(true))
    );
    for time in ["created_at", "expires_at"] {
        assert!(open[time].as_str().unwrap().ends_with('Z'), "{open}");
    }
    let mut owner = JoinSet::new();
    let decisions = DecisionRegistry::new(place.home.clone());
    owner.spawn(answer_as_owner(decisions, runtime.clone(), "ap_1"));
    wait_until_reachable(&place).await;
    assert_eq!(
        respond(&client, "ap_1", "allow-always").await,
        json!({"resolved": true, "approval_id": "ap_1", "decision": "allow-always"})
    );
    assert_eq!(
        client
            .call_document("permissions_list_open", json!({}))
            .await["count"],
        0
    );
    let events = client.poll_events(&json!({}), 2).await;
    let kinds: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["type"])
        .collect();
    assert_eq!(kinds, ["approval_requested", "approval_resolved"]);
    assert_eq!(events["events"][1]["decision"], "allow-always");
    assert_eq!(
        respond(&client, "ap_1", "deny").await,
        json!({"error": "Approval already resolved: ap_1"})
    );
}

#[tokio::test]
async fn the_first_of_two_answers_counts() {
    let place = BridgeFixture::new();
    let (one, two) = (place.client().await, place.client().await);
    let runtime = RuntimeStore::open(&place.home).await.unwrap();
    runtime.publish_approval(&question("ap_2")).await.unwrap();
    let mut owner = JoinSet::new();
    let decisions = DecisionRegistry::new(place.home.clone());
    owner.spawn(answer_as_owner(decisions, runtime.clone(), "ap_2"));
    wait_until_reachable(&place).await;
    let (first, second) = tokio::join!(
        respond(&one, "ap_2", "allow-once"),
        respond(&two, "ap_2", "deny")
    );
    let resolved = [&first, &second]
        .iter()
        .filter(|answer| answer["resolved"] == true)
        .count();
    assert_eq!(resolved, 1, "{first} {second}");
    let late = json!({"error": "Approval already resolved: ap_2"});
    assert!(first == late || second == late, "{first} {second}");
}

#[tokio::test]
async fn an_answer_that_nobody_takes_leaves_the_question_open() {
    let place = BridgeFixture::new();
    let client = place.client().await;
    let runtime = RuntimeStore::open(&place.home).await.unwrap();
    runtime.publish_approval(&question("ap_3")).await.unwrap();
    assert_eq!(
        respond(&client, "ap_3", "deny").await,
        json!({"error": "Approval not acknowledged: ap_3"})
    );
    assert_eq!(
        client
            .call_document("permissions_list_open", json!({}))
            .await["count"],
        1
    );
}

#[tokio::test]
async fn what_cannot_be_decided_says_why() {
    let place = BridgeFixture::new();
    let runtime = RuntimeStore::open(&place.home).await.unwrap();
    let once_only = NewApproval {
        allow_permanent: false,
        ..question("once_only")
    };
    let expired = NewApproval {
        timeout: Some(Duration::ZERO),
        ..question("expired")
    };
    // A process that had the number of this one, long ago.
    let orphan = NewApproval {
        owner_start: Some(1),
        ..question("orphan")
    };
    for approval in [&once_only, &expired, &orphan] {
        runtime.publish_approval(approval).await.unwrap();
    }
    // What was asked before the bridge began is listed, too.
    let client = place.client().await;
    let listed = client
        .call_document("permissions_list_open", json!({}))
        .await;
    assert_eq!(listed["count"], 1, "{listed}");
    assert_eq!(listed["approvals"][0]["id"], "once_only");
    for (name, decision, error) in [
        (
            "once_only",
            "allow-always",
            "allow-always is not available for this approval",
        ),
        (
            "once_only",
            "maybe",
            "Invalid decision: maybe. Must be allow-once, allow-always, or deny",
        ),
        ("expired", "deny", "Approval already resolved: expired"),
        ("orphan", "allow-once", "Approval not acknowledged: orphan"),
        ("unknown", "deny", "Approval not found: unknown"),
    ] {
        assert_eq!(
            respond(&client, name, decision).await,
            json!({"error": error}),
            "{name}"
        );
    }
}
