//! Hostile homes: a tenant owns its home, and the Hub reads it.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::test_hub::{HttpAnswer, TestHub};

const CRON: &str = "/v1/tenants/tenant_123/agent-cron";

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Checks that an answer arrives soon and is not an internal error.
async fn within_timeout(what: &str, answer: impl Future<Output = HttpAnswer>) -> HttpAnswer {
    let answer = tokio::time::timeout(Duration::from_secs(20), answer).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what} holds the Hub up"));
    assert_ne!(answer.status, 500, "{what}: {}", answer.text);
    answer
}

/// Reads everything in a home that a tenant could have prepared.
async fn read_everything(site: &TestHub, what: &str) -> String {
    let own = "/v1/tenants/tenant_123";
    let mut told = String::new();
    for path in [
        format!("{own}/agent-cron"),
        format!("{own}/agent-cron/job_123"),
        format!("{own}/skills"),
        format!("{own}/skills/content/writer/files"),
        format!("{own}/skill-files/content/writer/SKILL.md"),
        format!("{own}/files"),
        format!("{own}/files/grep?pattern=."),
        format!("{own}/files/find"),
        format!("{own}/files/content?path=a.txt"),
        format!("{own}/files/download?path=a.txt"),
        format!("{own}/agent"),
    ] {
        told += &within_timeout(&format!("{what}: {path}"), site.get(&path))
            .await
            .text;
    }
    let sync = json!({"destination": "copy", "dryRun": true});
    told += &within_timeout(what, site.post(&format!("{own}/context/sync"), &sync))
        .await
        .text;
    let state = json!({"enabled": false});
    told += &within_timeout(
        what,
        site.put(&format!("{own}/skills/writer/state"), &state),
    )
    .await
    .text;
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    told += &within_timeout(what, site.post(&format!("{own}/agent-cron"), &job))
        .await
        .text;
    told += &within_timeout(
        what,
        site.post(&format!("{own}/runs"), &json!({"input": "Hi"})),
    )
    .await
    .text;
    told
}

/// Paths that a tenant can replace.
const HOME_PATHS: [&str; 13] = [
    "cron/jobs.json",
    "cron/.jobs.lock",
    "cron",
    "skills/content/writer/SKILL.md",
    "skills/content/writer",
    "skills",
    "workspace/a.txt",
    "workspace",
    "SOUL.md",
    "memories",
    "config.yaml",
    ".env",
    "gateway.json",
];

fn remove_path(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).unwrap();
    } else {
        let _ = fs::remove_file(path);
    }
}

async fn with_workspace() -> TestHub {
    let site = TestHub::new().await.with_examples().await;
    fs::write(site.home("tenant_123").join("workspace/a.txt"), "text\n").unwrap();
    site
}

/// Checks that another tenant is still served.
async fn check_neighbour(site: &TestHub, what: &str) {
    let other = "/v1/tenants/neighbour";
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    within_timeout(what, site.post(&format!("{other}/agent-cron"), &job))
        .await
        .expect(201);
    let run = within_timeout(
        what,
        site.post(&format!("{other}/runs"), &json!({"input": "Hi"})),
    )
    .await
    .expect(202);
    let run = run["runId"].as_str().unwrap();
    let events = within_timeout(what, site.get(&format!("{other}/runs/{run}/events"))).await;
    assert!(
        events.text.contains("run.completed"),
        "{what}: {}",
        events.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_in_a_home_hold_nobody_up() {
    for place in HOME_PATHS {
        let site = with_workspace().await;
        site.tenant(json!({"id": "neighbour"})).await;
        let path = site.home("tenant_123").join(place);
        remove_path(&path);
        pipe(&path);
        read_everything(&site, place).await;
        check_neighbour(&site, place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_and_files_in_each_others_place_are_not_a_fault_of_the_hub() {
    for place in HOME_PATHS {
        let site = with_workspace().await;
        let path = site.home("tenant_123").join(place);
        let was_directory = path.is_dir();
        remove_path(&path);
        if was_directory {
            fs::write(&path, "a file").unwrap();
        } else {
            fs::create_dir(&path).unwrap();
        }
        read_everything(&site, place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn giants_in_the_place_of_small_files_are_not_read_whole() {
    for place in [
        "cron/jobs.json",
        "cron/.jobs.lock",
        "skills/content/writer/SKILL.md",
        "config.yaml",
        ".env",
        "gateway.json",
    ] {
        let site = with_workspace().await;
        let path = site.home("tenant_123").join(place);
        remove_path(&path);
        // A sparse file takes no disk space, but would take memory.
        fs::File::create(&path).unwrap().set_len(64 << 30).unwrap();
        for path in [CRON, "/v1/tenants/tenant_123/skills"] {
            within_timeout(place, site.get(path)).await;
        }
        let own = "/v1/tenants/tenant_123";
        let state = json!({"enabled": false});
        within_timeout(
            place,
            site.put(&format!("{own}/skills/writer/state"), &state),
        )
        .await;
        let job = json!({"schedule": "every 1h", "prompt": "x"});
        within_timeout(place, site.post(CRON, &job)).await;
        within_timeout(
            place,
            site.post(&format!("{own}/runs"), &json!({"input": "Hi"})),
        )
        .await
        .expect(202);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_a_home_lead_to_nothing_of_others() {
    const SECRET: &str = "THEIR-SECRET";
    for place in HOME_PATHS {
        let site = with_workspace().await;
        site.tenant(json!({"id": "neighbour"})).await;
        let theirs = site.home("neighbour");
        let skill = theirs.join("skills/content/writer");
        fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: {SECRET}\ndescription: {SECRET}\n---\n{SECRET}\n");
        fs::write(skill.join("SKILL.md"), &text).unwrap();
        fs::write(theirs.join("workspace/a.txt"), SECRET).unwrap();
        for file in ["SOUL.md", "memories/MEMORY.md", ".env"] {
            fs::write(theirs.join(file), SECRET).unwrap();
        }
        fs::write(
            theirs.join("config.yaml"),
            format!("skills: {{disabled: [{SECRET}]}}\n"),
        )
        .unwrap();
        let job = json!({"id": "job_123", "schedule": "every 1h", "prompt": SECRET});
        site.post("/v1/tenants/neighbour/agent-cron", &job)
            .await
            .expect(201);
        let before = fs::read(theirs.join("cron/jobs.json")).unwrap();
        let own = site.home("tenant_123").join(place);
        remove_path(&own);
        symlink(theirs.join(place), &own).unwrap();
        let told = read_everything(&site, place).await;
        assert!(!told.contains(SECRET), "{place}: {told}");
        assert_eq!(
            fs::read(theirs.join("cron/jobs.json")).unwrap(),
            before,
            "{place}"
        );
        assert_eq!(fs::read_to_string(skill.join("SKILL.md")).unwrap(), text);
    }
}

#[tokio::test]
async fn deleting_a_job_removes_nothing_that_a_link_leads_to() {
    let site = TestHub::new().await.with_examples().await;
    site.tenant(json!({"id": "neighbour"})).await;
    let cron = site.home("tenant_123").join("cron");
    // The output directory of a job named like a tenant would be that tenant's.
    let tenants = site.directory.path().join("hub/tenants");
    let _ = fs::remove_dir_all(cron.join("output"));
    symlink(&tenants, cron.join("output")).unwrap();
    let job = json!({"id": "neighbour", "schedule": "every 1h", "prompt": "x"});
    site.post(CRON, &job).await.expect(201);
    site.delete(&format!("{CRON}/neighbour")).await.expect(204);
    assert!(
        tenants.join("neighbour/home").is_dir(),
        "a tenant was removed"
    );
    // The job's own output is removed with it.
    fs::remove_file(cron.join("output")).unwrap();
    fs::create_dir_all(cron.join("output/job_123")).unwrap();
    fs::write(cron.join("output/job_123/1.md"), "done").unwrap();
    site.delete(&format!("{CRON}/job_123")).await.expect(204);
    assert!(!cron.join("output/job_123").exists());
    let jobs: Value = site.get(CRON).await.expect(200);
    assert_eq!(jobs["jobs"], json!([]));
}
