//! The files of groups, as agents reach them: `teams/<group>/…` in their file tools.

use hermes_testkit::model::{ModelScript, ScriptedAnswer};
use reqwest::Method;
use serde_json::{Value, json};

use super::real_hub::{RealHub, tool_results};

/// One call of a tool, and then the end.
fn calling(tool: &str, arguments: &Value) -> ModelScript {
    ModelScript::new([
        ScriptedAnswer::call(tool, arguments),
        ScriptedAnswer::text("done"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_group_share_files_as_far_as_they_are_members() {
    let hub = RealHub::start();
    for group in ["division1", "secret"] {
        hub.request(Method::POST, "/v1/groups", &json!({"id": group}))
            .await
            .expect(201);
    }
    let member = |access: &str| json!({"groups": [{"id": "division1", "access": access}]});
    let patch =
        "*** Begin Patch\n*** Update File: teams/division1/notes/a.md\n-two\n+2\n*** End Patch";
    let writer = ModelScript::new([
        ScriptedAnswer::call(
            "write_file",
            &json!({"path": "teams/division1/notes/a.md", "content": "one\ntwo\n"}),
        ),
        ScriptedAnswer::call("patch", &json!({"mode": "patch", "patch": patch})),
        ScriptedAnswer::text("done"),
    ]);
    let _writer = hub.tenant("writer", member("write"), writer).await;
    let run = hub.run("writer", "write").await;
    assert_eq!(run["status"], "completed", "{run}");
    let share = "/v1/tenants/writer/shares/division1/files/content?path=notes/a.md";
    assert_eq!(hub.get(share).await["content"], "one\n2\n");
    assert!(!hub.tenant_home("writer").join("workspace/teams").exists());

    let reader = ModelScript::new([
        ScriptedAnswer::call("search_files", &json!({"path": "teams", "pattern": "."})),
        ScriptedAnswer::call(
            "search_files",
            &json!({"path": "teams/division1", "pattern": "o.e"}),
        ),
        ScriptedAnswer::call("read_file", &json!({"path": "teams/division1/notes/a.md"})),
        ScriptedAnswer::call(
            "write_file",
            &json!({"path": "teams/division1/notes/a.md", "content": "mine"}),
        ),
        ScriptedAnswer::call("read_file", &json!({"path": "teams/secret/a.md"})),
        ScriptedAnswer::text("done"),
    ]);
    let reader = {
        let model = hub.tenant("reader", member("read"), reader).await;
        let run = hub.run("reader", "read").await;
        assert_eq!(run["status"], "completed", "{run}");
        tool_results(&model)
    };
    for expected in [
        "teams/division1/ (read)",
        "teams/division1/notes/a.md:1:one",
        "     1|one",
        "may only read the share",
        "there is no share `secret`",
    ] {
        assert!(reader.contains(expected), "{expected}: {reader}");
    }
    assert_eq!(hub.get(share).await["content"], "one\n2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_a_group_reaches_its_files_no_more() {
    let hub = RealHub::start();
    hub.request(Method::POST, "/v1/groups", &json!({"id": "division1"}))
        .await
        .expect(201);
    let read = json!({"path": "teams/division1/a.md"});
    let model = hub
        .tenant(
            "acme",
            json!({"groups": [{"id": "division1", "access": "write"}]}),
            calling("read_file", &read),
        )
        .await;
    let members = "/v1/groups/division1/members/acme";
    hub.request(Method::DELETE, members, &Value::Null)
        .await
        .expect(204);
    let run = hub.run("acme", "read").await;
    assert_eq!(run["status"], "completed", "{run}");
    assert!(
        tool_results(&model).contains("there is no share `division1`"),
        "{}",
        tool_results(&model)
    );
}
