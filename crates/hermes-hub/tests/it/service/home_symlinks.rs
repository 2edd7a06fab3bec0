//! Symlinks in a tenant's home to files that the tenant may not read.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{link_swapper::LinkSwapper, test_hub::TestHub};

/// Two tenants, the second with something to hide.
async fn two_tenants() -> TestHub {
    let site = TestHub::new().await.with_examples().await;
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
    let site = two_tenants().await;
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
    let site = two_tenants().await;
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
    let site = two_tenants().await;
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

#[tokio::test]
async fn links_swapped_in_while_the_hub_works_lead_to_no_neighbour() {
    const ROUNDS: usize = 12;
    let site = two_tenants().await;
    let (own, theirs) = (site.home("tenant_123"), site.home("neighbour"));
    site.post(
        "/v1/tenants/neighbour/agent-cron",
        &json!({"id": "job_123", "schedule": "0 9 * * *", "prompt": "theirs alone"}),
    )
    .await
    .expect(201);
    fs::create_dir_all(theirs.join("cron/output/job_9")).unwrap();
    fs::write(theirs.join("config.yaml"), "model: theirs\n").unwrap();
    fs::write(own.join("config.yaml"), "model: own\n").unwrap();
    let before = contents(&theirs);
    let pair = |name: &str| {
        let link = own.join(format!("{}.link", name.replace('/', "-")));
        symlink(theirs.join(name), &link).unwrap();
        (own.join(name), link)
    };
    let whole: Vec<_> = ["cron", "skills", "config.yaml"].map(pair).into();
    // Not at the same time as its directory, or the swapper itself would write to the neighbour.
    let single = vec![pair("cron/jobs.json")];
    for pairs in [whole, single] {
        let adversary = LinkSwapper::start(pairs.clone());
        let mut succeeded = 0;
        for round in 0..ROUNDS {
            succeeded += try_all_operations(&site, round).await;
            assert_eq!(contents(&theirs), before, "round {round}");
        }
        let swaps = adversary.stop();
        assert!(swaps > 100, "only {swaps} swaps");
        assert!(succeeded > 0, "no operation ever met the real files");
        for (name, link) in pairs {
            if name.is_symlink() {
                fs::remove_file(&name).unwrap();
                fs::rename(link, name).unwrap();
            }
        }
    }
    assert_eq!(contents(&theirs), before);
}

/// Tries every operation on small files of a home; returns how many succeeded.
async fn try_all_operations(site: &TestHub, round: usize) -> usize {
    let tenant = "/v1/tenants/tenant_123";
    let job = format!("job_{round}");
    let made = json!({"id": job, "schedule": "0 9 * * *", "prompt": "own"});
    let answers = [
        site.get(&format!("{tenant}/agent-cron")).await,
        site.post(&format!("{tenant}/agent-cron"), &made).await,
        site.post(&format!("{tenant}/agent-cron/{job}/pause"), &json!({}))
            .await,
        site.delete(&format!("{tenant}/agent-cron/{job}")).await,
        site.get(&format!("{tenant}/skills")).await,
        site.get(&format!("{tenant}/skill-files/theirs/SKILL.md"))
            .await,
        site.put(
            &format!("{tenant}/skills/writer/state"),
            &json!({"enabled": round.is_multiple_of(2)}),
        )
        .await,
    ];
    let mut succeeded = 0;
    for answer in answers {
        assert!(!answer.text.contains("theirs alone"), "{}", answer.text);
        assert_ne!(answer.status, 500, "{}", answer.text);
        succeeded += usize::from(answer.status < 300);
    }
    succeeded
}

/// All files beneath a directory, and what is in them.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(path) = ahead.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                ahead.push(entry.path());
                found.insert(entry.path(), None);
            } else {
                found.insert(entry.path(), fs::read(entry.path()).ok());
            }
        }
    }
    found
}
