//! Links that a tenant makes in its home, where the Hub could go and the tenant could not.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::site::Site;

/// Two tenants, the second with something to hide.
async fn neighbours() -> Site {
    let site = Site::new().await.with_examples().await;
    site.tenant(json!({"id": "neighbour"})).await;
    for directory in ["workspace", "skills/theirs"] {
        let directory = site.home("neighbour").join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("SKILL.md"), "theirs alone").unwrap();
    }
    site
}

#[tokio::test]
async fn a_link_in_the_place_of_the_workspace_is_not_followed() {
    let site = neighbours().await;
    let own = site.home("tenant_123").join("workspace");
    let _ = fs::remove_dir_all(&own);
    symlink(site.home("neighbour").join("workspace"), &own).unwrap();
    let files = "/v1/tenants/tenant_123/files";
    for path in [
        files.to_owned(),
        format!("{files}/content?path=SKILL.md"),
        format!("{files}/download?path=SKILL.md"),
    ] {
        let answer = site.get(&path).await;
        assert_eq!(answer.status, 409, "{path}: {}", answer.text);
        assert!(!answer.text.contains("theirs"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_the_skills_is_not_followed() {
    let site = neighbours().await;
    let own = site.home("tenant_123").join("skills");
    fs::remove_dir_all(&own).unwrap();
    symlink(site.home("neighbour").join("skills"), &own).unwrap();
    let skills = site.get("/v1/tenants/tenant_123/skills").await.expect(200);
    assert_eq!(skills["categories"], json!([]));
    let file = "/v1/tenants/tenant_123/skill-files/theirs/SKILL.md";
    let answer = site.get(file).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
}

#[tokio::test]
async fn a_link_in_the_place_of_the_configuration_is_not_written_through() {
    let site = neighbours().await;
    let theirs = site.home("neighbour").join("config.yaml");
    fs::write(&theirs, "model: theirs\n").unwrap();
    let own = site.home("tenant_123").join("config.yaml");
    let _ = fs::remove_file(&own);
    symlink(&theirs, &own).unwrap();
    let state = "/v1/tenants/tenant_123/skills/writer/state";
    site.put(state, &json!({"enabled": false}))
        .await
        .expect(409);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "model: theirs\n");
}
