//! Skills that are installed, removed, and kept in the library.

use std::os::unix::fs::symlink;

use hermes_testkit::eventually;
use reqwest::Method;
use serde_json::json;

use crate::{
    agent_harness::ScriptedRuntime,
    tenant_fixture::{skill_head, tar_of},
    test_hub::{TIMEOUT, TestHub},
};

const SKILLS: &str = "/v1/tenants/tenant_123/skills";

#[tokio::test]
async fn a_skill_is_installed_replaced_in_its_place_and_removed() {
    let site = TestHub::new().await.with_examples().await;
    let home = site.home("tenant_123");
    let files = json!({"files": [skill_head("review"),
        {"path": "references/list.md", "content": "a\n"}, {"path": "assets/x.bin", "contentBase64": "AP8="}]});
    let made = site
        .put(&format!("{SKILLS}/review"), &files)
        .await
        .expect(201);
    assert_eq!(
        (&made["name"], &made["fileCount"]),
        (&json!("review"), &json!(3))
    );
    let bytes = std::fs::read(home.join("skills/review/assets/x.bin")).unwrap();
    assert_eq!(bytes, [0, 255]);
    // What the new one does not have is gone.
    let fewer = json!({"files": [skill_head("review")]});
    site.put(&format!("{SKILLS}/review"), &fewer)
        .await
        .expect(200);
    assert!(!home.join("skills/review/assets").exists());
    // One that is filed elsewhere stays there.
    let writer = json!({"files": [skill_head("writer")]});
    site.put(&format!("{SKILLS}/writer"), &writer)
        .await
        .expect(200);
    let text = std::fs::read_to_string(home.join("skills/content/writer/SKILL.md")).unwrap();
    assert!(text.contains("Work."), "{text}");
    assert!(!home.join("skills/writer").exists());
    let other = json!({"files": [skill_head("writer")], "category": "office"});
    site.put(&format!("{SKILLS}/writer"), &other)
        .await
        .expect(409);
    // As an archive, with its directory around it.
    let head = skill_head("packed");
    let archive = tar_of(
        "packed/SKILL.md",
        head["content"].as_str().unwrap().as_bytes(),
    );
    let request = site
        .request(
            &site.admin,
            Method::PUT,
            &format!("{SKILLS}/packed?category=office"),
        )
        .header("content-type", "application/x-tar");
    site.send(request.body(archive)).await.expect(201);
    assert!(home.join("skills/office/packed/SKILL.md").exists());
    site.put(
        &format!("{SKILLS}/writer/state"),
        &json!({"enabled": false}),
    )
    .await
    .expect(200);
    site.delete(&format!("{SKILLS}/writer")).await.expect(204);
    site.delete(&format!("{SKILLS}/writer")).await.expect(404);
    assert!(!home.join("skills/content/writer").exists());
    let config = std::fs::read_to_string(home.join("config.yaml")).unwrap();
    assert!(!config.contains("writer"), "{config}");
    let left = std::fs::read_dir(home.join("skills")).unwrap();
    let left = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".hub-tmp-")
    });
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn skills_that_break_the_rules_or_lead_out_are_refused() {
    let site = TestHub::new().await.with_examples().await;
    let put = async |name: &str, files: serde_json::Value| {
        site.put(&format!("{SKILLS}/{name}"), &json!({"files": files}))
            .await
    };
    for (name, files) in [
        ("Review", json!([skill_head("Review")])),
        ("review", json!([skill_head("other")])),
        ("review", json!([{"path": "README.md", "content": "x"}])),
        (
            "review",
            json!([{"path": "SKILL.md", "content": "no head"}]),
        ),
        (
            "review",
            json!([{"path": "SKILL.md", "content": "---\nname: review\n---\n"}]),
        ),
        (
            "review",
            json!([{"path": "SKILL.md", "contentBase64": "/w=="}]),
        ),
    ] {
        let refused = put(name, files.clone()).await;
        assert_eq!(refused.status, 422, "{files}: {}", refused.text);
        assert_eq!(refused.json()["reason"], "skill_rules");
    }
    for path in ["../x", "/x", "a/../../x", "SKILL.md/x", "SKILL.md"] {
        let files = json!([skill_head("review"), {"path": path, "content": "x"}]);
        assert_eq!(put("review", files).await.status, 400, "{path}");
    }
    let large = json!([skill_head("review"), {"path": "a", "content": "x".repeat(9 << 20)}]);
    let refused = put("review", large).await.expect(413);
    assert_eq!(refused["reason"], "skill_too_large");
    let both = json!({"files": [skill_head("review")], "library": true});
    site.put(&format!("{SKILLS}/review"), &both)
        .await
        .expect(400);
    // The tenant has put a link where its skills are.
    let home = site.home("tenant_123");
    let outside = site.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, home.join("skills/office")).unwrap();
    let filed = json!({"files": [skill_head("review")], "category": "office"});
    site.put(&format!("{SKILLS}/review"), &filed)
        .await
        .expect(409);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!home.join("skills/review").exists());
}

#[tokio::test]
async fn tenants_take_skills_from_the_library() {
    let site = TestHub::new().await.with_examples().await;
    let take = json!({"library": true});
    let missing = site
        .put(&format!("{SKILLS}/minutes"), &take)
        .await
        .expect(422);
    assert_eq!(missing["reason"], "not_in_library");
    let skill = json!({"files": [skill_head("minutes"), {"path": "a.md", "content": "text"}]});
    let made = site.put("/v1/skills/minutes", &skill).await.expect(201);
    assert_eq!(
        (&made["revision"], &made["fileCount"]),
        (&json!(1), &json!(2))
    );
    site.put(&format!("{SKILLS}/minutes"), &take)
        .await
        .expect(201);
    let home = site.home("tenant_123");
    let text = std::fs::read_to_string(home.join("skills/minutes/a.md")).unwrap();
    assert_eq!(text, "text");
    let shown = site.get("/v1/skills/minutes").await;
    let version = shown.header("etag").to_owned();
    let shown = shown.expect(200);
    assert_eq!(
        shown["files"][1],
        json!({"path": "a.md", "size": 4, "content": "text"})
    );
    let fewer = json!({"files": [skill_head("minutes")]});
    site.put("/v1/skills/minutes", &fewer).await.expect(200);
    let stale = site
        .request(&site.admin, Method::DELETE, "/v1/skills/minutes")
        .header("if-match", version);
    site.send(stale).await.expect(412);
    // Who took it keeps it until it is taken again.
    assert!(home.join("skills/minutes/a.md").exists());
    site.put(&format!("{SKILLS}/minutes"), &take)
        .await
        .expect(200);
    assert!(!home.join("skills/minutes/a.md").exists());
    site.delete("/v1/skills/minutes").await.expect(204);
    site.delete("/v1/skills/minutes").await.expect(404);
    assert_eq!(
        site.get("/v1/skills").await.expect(200)["skills"],
        json!([])
    );
    // A token of one tenant takes from it, and puts nothing there.
    site.put("/v1/skills/minutes", &fewer).await.expect(201);
    let bound = json!({"name": "bound", "role": "operator", "tenants": ["tenant_123"]});
    let bound = site.token(bound).await;
    let ask = async |path: &str, body: &serde_json::Value| {
        let request = site.request(&bound, Method::PUT, path);
        let request = request.header("content-type", "application/json");
        site.send(request.body(body.to_string())).await
    };
    ask("/v1/skills/minutes", &fewer).await.expect(403);
    ask(&format!("{SKILLS}/minutes"), &take).await.expect(200);
}

#[tokio::test]
async fn a_new_tenant_gets_the_skills_of_its_flavor() {
    let site = TestHub::new().await;
    let skill = json!({"files": [skill_head("minutes"), {"path": "a/b.md", "content": "text"}]});
    site.put("/v1/skills/minutes", &skill).await.expect(201);
    let office = json!({"flavors": {"office": {"skills": ["minutes", "gone"]}}});
    site.patch("/v1/config/tenant-impact", &office)
        .await
        .expect(200);
    site.tenant(json!({"id": "clerk", "flavor": "office"}))
        .await;
    let text = std::fs::read_to_string(site.home("clerk").join("skills/minutes/a/b.md")).unwrap();
    assert_eq!(text, "text");
    let tenant = site.get("/v1/tenants/clerk").await.expect(200);
    let mut conditions = tenant["conditions"].as_array().unwrap().iter();
    let condition = conditions.find(|known| known["type"] == "FlavorSkillsInstalled");
    let condition = condition.unwrap_or_else(|| panic!("{tenant}"));
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with(": gone"), "{message}");
    site.tenant(json!({"id": "plain"})).await;
    assert!(!site.home("plain").join("skills/minutes").exists());
}

/// A skill whose second file has this text.
async fn put_in_library(site: &TestHub, name: &str, text: &str) {
    let skill = json!({"files": [skill_head(name), {"path": "text.md", "content": text}]});
    let path = format!("/v1/skills/{name}");
    let answer = site.put(&path, &skill).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text);
}

async fn wait_for_text(site: &TestHub, tenant: &str, skill: &str, text: Option<&str>) {
    let file = site.home(tenant).join("skills").join(skill).join("text.md");
    let read = || std::fs::read_to_string(&file).ok();
    let is_so = eventually(TIMEOUT, || read().as_deref() == text).await;
    assert!(is_so, "{tenant} has {:?} in {skill}, not {text:?}", read());
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_of_groups_and_flavors_follow_every_change_and_leave_own_ones_alone() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    for name in ["minutes", "review", "letters"] {
        put_in_library(&site, name, "first").await;
    }
    site.post("/v1/groups", &json!({"id": "team"}))
        .await
        .expect(201);
    let skills = "/v1/groups/team/skills";
    let refused = site.put(skills, &json!({"skills": ["none"]})).await;
    assert_eq!(refused.expect(422)["reason"], "not_in_library");
    let set = json!({"skills": ["minutes", "minutes"]});
    let set = site.put(skills, &set).await.expect(200);
    assert_eq!(set["skills"], json!(["minutes"]));
    assert_eq!(site.get(skills).await.expect(200), set);

    // A new member has them, and a running one gets what changes.
    let member = json!([{"id": "team", "access": "read"}]);
    site.tenant(json!({"id": "clerk", "groups": member})).await;
    wait_for_text(&site, "clerk", "minutes", Some("first")).await;
    let agent = "/v1/tenants/clerk/agent";
    site.post(&format!("{agent}/start"), &json!({}))
        .await
        .expect(202);
    site.wait_until(agent, |agent| agent["state"] == "idle")
        .await;
    put_in_library(&site, "minutes", "second").await;
    wait_for_text(&site, "clerk", "minutes", Some("second")).await;
    site.put(skills, &json!({"skills": ["review"]}))
        .await
        .expect(200);
    wait_for_text(&site, "clerk", "review", Some("first")).await;
    wait_for_text(&site, "clerk", "minutes", None).await;

    // A sleeping one gets them when it starts; its own one of that name stays.
    site.tenant(json!({"id": "sleeper", "start": false})).await;
    let own = site.home("sleeper").join("skills/review");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("text.md"), "own").unwrap();
    let office = json!({"flavors": {"office": {"skills": ["letters", "review"]}}});
    site.patch("/v1/config/tenant-impact", &office)
        .await
        .expect(200);
    site.patch("/v1/tenants/sleeper", &json!({"flavor": "office"}))
        .await
        .expect(200);
    let runs = "/v1/tenants/sleeper/runs";
    let run = site.post(runs, &json!({"input": "say=1"})).await;
    let run = run.expect(202)["runId"].as_str().unwrap().to_owned();
    site.wait_until(&format!("{runs}/{run}"), |run| run["status"] == "completed")
        .await;
    wait_for_text(&site, "sleeper", "letters", Some("first")).await;
    wait_for_text(&site, "sleeper", "review", Some("own")).await;
    let fewer = json!({"flavors": {"office": {"skills": []}}});
    site.patch("/v1/config/tenant-impact", &fewer)
        .await
        .expect(200);
    wait_for_text(&site, "sleeper", "letters", None).await;
    wait_for_text(&site, "sleeper", "review", Some("own")).await;

    // Who leaves the group leaves its skills.
    let path = "/v1/groups/team/members/clerk";
    let left = site
        .send(site.request(&site.admin, Method::DELETE, path))
        .await;
    assert_eq!(left.status, 204, "{}", left.text);
    wait_for_text(&site, "clerk", "review", None).await;
}
