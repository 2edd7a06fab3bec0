//! Skills that tenants are given, wherever their agents run.

use hermes_testkit::eventually;
use serde_json::json;

use super::cluster::{Cluster, Node, TIMEOUT};

async fn put_in_library(node: &Node, name: &str, text: &str) {
    let head = format!("---\nname: {name}\ndescription: How it is done\n---\nBriefly.\n");
    let files =
        json!([{"path": "SKILL.md", "content": head}, {"path": "text.md", "content": text}]);
    let path = format!("/v1/skills/{name}");
    let answer = node.site.put(&path, &json!({"files": files})).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_skill_reaches_an_agent_that_is_awake_on_another_node() {
    let cluster = Cluster::new().await;
    let one = cluster.node("n1").await;
    for name in ["minutes", "review"] {
        put_in_library(&one, name, "first").await;
    }
    let group = one.site.post("/v1/groups", &json!({"id": "team"})).await;
    group.expect(201);
    let of_group = "/v1/groups/team/skills";
    let given = json!({"skills": ["minutes"]});
    one.site.put(of_group, &given).await.expect(200);
    let member = json!([{"id": "team", "access": "read"}]);
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme", "groups": member}))
        .await;
    let agent = "/v1/tenants/acme/agent";
    let start = format!("{agent}/start");
    one.site.post(&start, &json!({})).await.expect(202);
    one.site
        .wait_until(agent, |agent| agent["state"] == "idle")
        .await;
    let other = cluster.node("n2").await;

    let skills = cluster.place("n1").join("tenants/acme/home/skills");
    let read = |name: &str| std::fs::read_to_string(skills.join(name).join("text.md")).ok();
    assert_eq!(read("minutes").as_deref(), Some("first"));
    put_in_library(&other, "minutes", "second").await;
    let has_it = eventually(TIMEOUT, || read("minutes").as_deref() == Some("second"));
    assert!(has_it.await, "the skill stays {:?}", read("minutes"));
    // Without a notice, too.
    cluster.cut_notices().await;
    let given = json!({"skills": ["review"]});
    other.site.put(of_group, &given).await.expect(200);
    let has_it = eventually(TIMEOUT, || {
        read("review").is_some() && read("minutes").is_none()
    });
    assert!(has_it.await, "the skills of the group stay");
    assert_eq!(one.agents.all_begun(), 0);
}
