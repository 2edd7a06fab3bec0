//! Changes of a tenant's workspace.

use std::os::unix::fs::symlink;

use reqwest::Method;
use serde_json::json;

use crate::{
    tenant_fixture::{packed, tar_of},
    test_hub::{HttpAnswer, TestHub},
};

const FILES: &str = "/v1/tenants/tenant_123/files";

async fn upload(site: &TestHub, query: &str, media_type: &str, body: Vec<u8>) -> HttpAnswer {
    let request = site.request(
        &site.admin,
        Method::POST,
        &format!("{FILES}/archive{query}"),
    );
    site.send(request.header("content-type", media_type).body(body))
        .await
}

#[tokio::test]
async fn files_are_written_moved_and_removed_with_the_rules_of_shares() {
    let site = TestHub::new().await.with_examples().await;
    let workspace = site.home("tenant_123").join("workspace");
    let content = format!("{FILES}/content");
    let written = site
        .put(&content, &json!({"path": "a/b.md", "content": "hey\n"}))
        .await;
    let version = written.header("etag").to_owned();
    assert_eq!(written.expect(201)["bytesWritten"], 4);
    site.put(
        &content,
        &json!({"path": "a/b.md", "content": "two\n", "mode": "append"}),
    )
    .await
    .expect(200);
    assert_eq!(
        std::fs::read_to_string(workspace.join("a/b.md")).unwrap(),
        "hey\ntwo\n"
    );
    // The version that was known is not the present one.
    let stale = site
        .request(&site.admin, Method::PUT, &content)
        .header("content-type", "application/json")
        .header("if-match", version)
        .body(json!({"path": "a/b.md", "content": "x"}).to_string());
    site.send(stale).await.expect(412);
    let bytes = site
        .request(&site.admin, Method::PUT, &format!("{content}?path=raw.bin"))
        .header("content-type", "application/octet-stream")
        .body(vec![0, 255, 1]);
    site.send(bytes).await.expect(201);
    assert_eq!(
        std::fs::read(workspace.join("raw.bin")).unwrap(),
        [0, 255, 1]
    );
    site.post(&format!("{FILES}/directories"), &json!({"path": "c/d"}))
        .await
        .expect(201);
    site.post(
        &format!("{FILES}/move"),
        &json!({"from": "a/b.md", "to": "c/d/e.md"}),
    )
    .await
    .expect(200);
    let taken = json!({"from": "raw.bin", "to": "c/d/e.md"});
    site.post(&format!("{FILES}/move"), &taken)
        .await
        .expect(409);
    let full = site.delete(&format!("{content}?path=c")).await.expect(409);
    assert_eq!(full["reason"], "not_empty");
    site.delete(&format!("{content}?path=c&recursive=true"))
        .await
        .expect(204);
    assert!(!workspace.join("c").exists());
    site.delete(&format!("{content}?path=c")).await.expect(404);
    let entries = site.get("/v1/audit?action=write_file").await.expect(200);
    let text = entries.to_string();
    assert!(text.contains("a/b.md") && !text.contains("hey"), "{text}");
}

#[tokio::test]
async fn no_path_and_no_link_leads_out_of_the_workspace() {
    let site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    let outside = site.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("theirs"), "theirs").unwrap();
    symlink(&outside, home.join("workspace/out")).unwrap();
    symlink(outside.join("theirs"), home.join("workspace/link")).unwrap();
    std::fs::hard_link(outside.join("theirs"), home.join("workspace/hard")).unwrap();
    let content = format!("{FILES}/content");
    for (path, status) in [
        ("../SOUL.md", 400),
        ("/etc/passwd", 400),
        ("a/../../x", 400),
        ("out/new", 409),
        ("out/theirs", 409),
        ("link", 409),
        ("hard", 409),
        (".hub-tmp-1", 400),
    ] {
        let body = json!({"path": path, "content": "x"});
        let answer = site.put(&content, &body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    let into = json!({"from": "../SOUL.md", "to": "soul"});
    site.post(&format!("{FILES}/move"), &into).await.expect(400);
    site.delete(&format!("{content}?path=out/theirs"))
        .await
        .expect(409);
    // A link itself can go.
    site.delete(&format!("{content}?path=link"))
        .await
        .expect(204);
    upload(&site, "?path=out", "application/x-tar", tar_of("new", b"x"))
        .await
        .expect(409);
    assert_eq!(
        std::fs::read_to_string(outside.join("theirs")).unwrap(),
        "theirs"
    );
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[tokio::test]
async fn an_archive_is_unpacked_whole_or_not_at_all() {
    let site = TestHub::new().await.with_examples().await;
    let workspace = site.home("tenant_123").join("workspace");
    let plain = tar_of("docs/a.md", b"one");
    let answer = upload(&site, "?path=in", "application/x-tar", plain.clone()).await;
    let unpacked = answer.expect(200);
    assert_eq!(
        unpacked,
        json!({"path": "in", "files": 1, "directories": 2, "bytes": 3})
    );
    assert_eq!(
        std::fs::read(workspace.join("in/docs/a.md")).unwrap(),
        b"one"
    );
    let compressed = zstd::encode_all(&*tar_of("docs/a.md", b"two"), 3).unwrap();
    upload(&site, "?path=in", "application/zstd", compressed)
        .await
        .expect(200);
    assert_eq!(
        std::fs::read(workspace.join("in/docs/a.md")).unwrap(),
        b"two"
    );
    let body = json!({"archive": packed("b.md", b"three")});
    site.post(&format!("{FILES}/archive"), &body)
        .await
        .expect(200);
    assert!(workspace.join("b.md").exists());

    // A good file, then a link: neither is written.
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "good.md", &b"x"[..])
        .unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, "escape", "/etc/passwd")
        .unwrap();
    let refused = upload(
        &site,
        "",
        "application/x-tar",
        builder.into_inner().unwrap(),
    )
    .await
    .expect(400);
    assert_eq!(refused["reason"], "archive_entry");
    assert!(!workspace.join("good.md").exists());
    // Zeros that unpack to a thousand times their size.
    let bomb = zstd::encode_all(&*tar_of("zeros", &vec![0; 40 << 20]), 3).unwrap();
    let refused = upload(&site, "", "application/zstd", bomb)
        .await
        .expect(413);
    assert_eq!(refused["reason"], "archive_too_large");
    upload(&site, "", "application/x-tar", b"no archive".to_vec())
        .await
        .expect(415);
    upload(&site, "", "text/plain", plain).await.expect(415);
    assert!(!workspace.join("zeros").exists());
}

#[tokio::test]
async fn the_quota_of_the_home_holds_for_files_that_are_sent() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "small", "storage": {"quotaBytes": 5000, "filesQuota": 40}}))
        .await;
    let files = "/v1/tenants/small/files";
    let large = json!({"path": "a", "content": "x".repeat(4000)});
    site.put(&format!("{files}/content"), &large)
        .await
        .expect(201);
    let more = json!({"path": "b", "content": "x".repeat(4000)});
    let refused = site
        .put(&format!("{files}/content"), &more)
        .await
        .expect(507);
    assert_eq!(refused["reason"], "quota");
    // The quota does not concern what takes no more space.
    site.put(&format!("{files}/content"), &large)
        .await
        .expect(200);
    let archive = json!({"archive": packed("c", &[7; 4000])});
    site.post(&format!("{files}/archive"), &archive)
        .await
        .expect(507);
    let many = ["d"; 40].join("/");
    site.post(&format!("{files}/directories"), &json!({"path": many}))
        .await
        .expect(507);
    let skill = json!({"files": [crate::tenant_fixture::skill_head("big"),
        {"path": "data", "content": "x".repeat(4000)}]});
    site.put("/v1/tenants/small/skills/big", &skill)
        .await
        .expect(507);
    site.delete(&format!("{files}/content?path=a"))
        .await
        .expect(204);
    site.put(&format!("{files}/content"), &more)
        .await
        .expect(201);
    let tenant = site.get("/v1/tenants/small").await.expect(200);
    let used = tenant["storage"]["usedBytes"].as_u64().unwrap();
    assert!((4000..5000).contains(&used), "{tenant}");
}

#[tokio::test]
async fn a_search_where_there_is_no_workspace_yet_finds_nothing() {
    let site = TestHub::new().await.with_examples().await;
    let workspace = site.home("tenant_123").join("workspace");
    if workspace.exists() {
        std::fs::remove_dir_all(&workspace).unwrap();
    }
    for place in ["", "&path="] {
        let found = site.get(&format!("{FILES}/grep?pattern=x{place}")).await;
        let nothing =
            json!({"matches": [], "truncated": false, "filesSearched": 0, "filesSkipped": 0});
        assert_eq!(found.expect(200), nothing);
        let found = site.get(&format!("{FILES}/find?name=*.md{place}")).await;
        assert_eq!(found.expect(200), json!({"paths": [], "truncated": false}));
    }
    // What is wrong stays wrong.
    site.get(&format!("{FILES}/grep?pattern=("))
        .await
        .expect(400);
    site.get(&format!("{FILES}/find?name=[")).await.expect(400);
    for search in ["grep?pattern=x&path=notes", "find?path=notes"] {
        site.get(&format!("{FILES}/{search}")).await.expect(404);
    }
    assert!(!workspace.exists(), "a search makes nothing");
    std::os::unix::fs::symlink("/etc", &workspace).unwrap();
    site.get(&format!("{FILES}/grep?pattern=x"))
        .await
        .expect(409);
}
