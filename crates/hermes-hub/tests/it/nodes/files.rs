//! Files of shares and homes, on nodes that have no disk in common.

use std::path::{Path, PathBuf};

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::json;

use super::cluster::{Cluster, TIMEOUT};

const CONTENT: &str = "/v1/tenants/acme/shares/team/files/content";

#[tokio::test(flavor = "multi_thread")]
async fn a_share_is_the_same_on_every_node_and_a_home_follows_its_tenant() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    let group = json!({"id": "team", "displayName": "Team"});
    one.site.post("/v1/groups", &group).await.expect(201);
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme", "groups": [{"id": "team", "access": "write"}]}))
        .await;
    let file = json!({"path": "a.md", "content": "from one\n"});
    one.site.put(CONTENT, &file).await.expect(201);
    let more = json!({"path": "a.md", "content": "from the other\n", "mode": "append"});
    other.site.put(CONTENT, &more).await.expect(200);
    for node in [&one, &other] {
        let read = node.site.get(&format!("{CONTENT}?path=a.md")).await;
        assert_eq!(read.expect(200)["content"], "from one\nfrom the other\n");
        assert_eq!(
            node.site.get("/v1/readyz").await.expect(200)["objects"],
            true
        );
    }

    let job = json!({"id": "daily", "schedule": "0 9 * * *", "prompt": "Plan"});
    let jobs = "/v1/tenants/acme/agent-cron";
    one.site.post(jobs, &job).await.expect(201);
    one.site
        .post("/v1/nodes/n1/drain", &json!({}))
        .await
        .expect(202);
    let handed_over = eventually_some(TIMEOUT, async || {
        let found = other.site.get(jobs).await;
        (found.status == 200 && other.holder("acme").await.as_deref() == Some("n2"))
            .then(|| found.json())
    });
    let found = handed_over.await.expect("the home does not follow");
    assert_eq!(found["jobs"][0]["id"], "daily");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_changed_on_one_node_holds_on_the_others() {
    let cluster = Cluster::new().await;
    let (one, other) = (cluster.node("n1").await, cluster.node("n2").await);
    let group = json!({"id": "team", "displayName": "Team"});
    one.site.post("/v1/groups", &group).await.expect(201);
    one.site
        .tenant(json!({"id": "acme", "displayName": "Acme", "groups": [{"id": "team", "access": "write"}]}))
        .await;
    let file = json!({"path": "a.md", "content": "x".repeat(2_000)});
    other.site.put(CONTENT, &file).await.expect(201);
    for bytes in [1_000, 1_000_000] {
        let quota = json!({"quotaBytes": bytes});
        one.site.patch("/v1/groups/team", &quota).await.expect(200);
        let status = if bytes < 2_000 { 507 } else { 200 };
        let more = json!({"path": "a.md", "content": "more", "mode": "append"});
        let holds = eventually_some(TIMEOUT, async || {
            (other.site.put(CONTENT, &more).await.status == status).then_some(())
        });
        assert_eq!(holds.await, Some(()), "a quota of {bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_any_size_comes_through_another_node_and_leaves_nothing_behind() {
    let cluster = Cluster::new().await;
    let (_, other) = cluster.holder_and_other("acme").await;
    // More than one part, and the last one is not full.
    let content: Vec<u8> = (0..9_000_001u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let workspace = cluster.place("n1").join("tenants/acme/home/workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("large.bin"), &content).unwrap();
    std::fs::write(workspace.join("small.bin"), [0, 255]).unwrap();
    let download = async |name: &str| {
        let path = format!("/v1/tenants/acme/files/download?path={name}");
        let request = other.site.request(&other.site.admin, Method::GET, &path);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.bytes().await.unwrap()
    };
    assert!(
        download("large.bin").await == content,
        "the content differs"
    );
    assert_eq!(&download("small.bin").await[..], [0, 255]);
    let replies = cluster.place("objects").join("replies");
    let left = walk(&replies);
    assert!(left.is_empty(), "{left:?}");
}

/// The files below a directory.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
