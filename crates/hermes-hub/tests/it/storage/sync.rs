//! Syncing a tenant's context to a directory.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use hermes_hub::{
    Problem, TenantId,
    storage::sync::{
        DEFAULT_SOURCES, ExtraFiles, SyncMode, SyncReport, SyncRequest, SyncRules, sync_context,
    },
};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

struct SyncFixture {
    directory: tempfile::TempDir,
    rules: SyncRules,
}

impl SyncFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["data/shares", "home", "sync", "other"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let rules = SyncRules {
            data_dir: at("data"),
            allowed_roots: vec![at("sync")],
            sources: DEFAULT_SOURCES.map(str::to_owned).to_vec(),
            protected: vec![at("data/shares")],
            node: "n1".into(),
        };
        let scene = Self { directory, rules };
        scene.put("home/SOUL.md", "soul");
        scene.put("home/context/a.md", "context");
        scene.put("home/skills/x/SKILL.md", "skill");
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    async fn run(
        &self,
        to: &str,
        run: SyncMode,
        extras: ExtraFiles,
    ) -> Result<SyncReport, Problem> {
        self.run_as("tenant_123", to, run, extras).await
    }

    async fn run_as(
        &self,
        tenant: &str,
        to: &str,
        run: SyncMode,
        extras: ExtraFiles,
    ) -> Result<SyncReport, Problem> {
        let destination = if to.starts_with('/') || to.starts_with("relative:") {
            to.trim_start_matches("relative:").to_owned()
        } else {
            self.at(to).to_str().unwrap().to_owned()
        };
        let request = SyncRequest {
            tenant: TenantId::parse(tenant).unwrap(),
            home: self.at("home"),
            destination,
            mode: run,
            extras,
        };
        sync_context(self.rules.clone(), request).await
    }

    async fn sync_now(&self, to: &str) -> SyncReport {
        self.run(to, SyncMode::Real, ExtraFiles::Keep)
            .await
            .unwrap()
    }

    async fn refused(&self, to: &str, extras: ExtraFiles) -> Problem {
        let dry = self.run(to, SyncMode::Dry, extras).await.unwrap_err();
        let real = self.run(to, SyncMode::Real, extras).await.unwrap_err();
        assert_eq!(dry, real);
        real
    }
}

#[tokio::test]
async fn a_dry_run_is_the_plan_of_the_real_one_and_writes_nothing() {
    let scene = SyncFixture::new();
    for round in 0..3 {
        for extras in [ExtraFiles::Keep, ExtraFiles::Delete] {
            let mut dry = scene.run("sync/t/a", SyncMode::Dry, extras).await.unwrap();
            if round == 0 && extras == ExtraFiles::Keep {
                assert!(!scene.at("sync/t").exists());
            }
            let real = scene.run("sync/t/a", SyncMode::Real, extras).await.unwrap();
            assert!(dry.dry_run && !real.dry_run);
            dry.dry_run = false;
            assert_eq!(dry, real);
        }
        scene.put("home/SOUL.md", &format!("soul {round}"));
        scene.put(&format!("home/context/{round}.md"), "new");
        fs::remove_file(scene.at("home/context/a.md")).ok();
        scene.put("sync/t/a/foreign", "stays");
    }
    assert_eq!(scene.text("sync/t/a/foreign"), "stays");
    assert!(!scene.at("sync/t/a/context/a.md").exists());
}

#[tokio::test]
async fn the_report_has_the_shape_that_clients_know() {
    let scene = SyncFixture::new();
    scene.put("home/context/.env", "KEY=1");
    scene.put("sync/t/SOUL.md", "other");
    let report = scene.sync_now("sync/t").await;
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        json!({"dryRun": false, "node": "n1", "copied": ["context/a.md", "skills/x/SKILL.md"],
               "updated": ["SOUL.md"], "deleted": [], "kept": [], "unchanged": 0,
               "skipped": [{"path": "context/.env", "reason": "secret"}],
               "counts": {"copied": 2, "updated": 1, "deleted": 0}, "bytes": 16})
    );
    assert_eq!(scene.text("sync/t/SOUL.md"), "soul");
    let report = scene.sync_now("sync/t").await;
    assert_eq!((report.unchanged, report.bytes), (3, 0));
}

#[tokio::test]
async fn secrets_and_links_are_never_copied() {
    let scene = SyncFixture::new();
    for secret in [
        ".env",
        "auth.json",
        "context/server.key",
        "context/ca.pem",
        "skills/x/mcp-tokens/a.json",
    ] {
        scene.put(&format!("home/{secret}"), "SECRET");
    }
    scene.put("outside", "SECRET");
    symlink(scene.at("outside"), scene.at("home/context/link")).unwrap();
    symlink(scene.at(""), scene.at("home/memories")).unwrap();
    let mut rules = scene.rules.clone();
    rules.sources.extend([".env".into(), "auth.json".into()]);
    let scene = SyncFixture { rules, ..scene };
    let report = scene.sync_now("sync/t").await;
    let mut skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| (skipped.path.as_str(), skipped.reason))
        .collect();
    skipped.sort_unstable();
    assert_eq!(
        skipped,
        [
            (".env", "secret"),
            ("auth.json", "secret"),
            ("context/ca.pem", "secret"),
            ("context/link", "symlink"),
            ("context/server.key", "secret"),
            ("memories", "symlink"),
            ("skills/x/mcp-tokens/a.json", "secret"),
        ]
    );
    let copied = fs::read_dir(scene.at("sync/t/context")).unwrap().count();
    assert_eq!(copied, 1);
}

#[tokio::test]
async fn destinations_are_beneath_roots() {
    let scene = SyncFixture::new();
    for outside in [
        "other/x", "syncx", "home/x", "data/x", "data", "/etc/x", "/",
    ] {
        let problem = scene.refused(outside, ExtraFiles::Keep).await;
        assert_eq!(problem.code.status(), 403, "{outside}");
        assert!(problem.message.contains("sync.allowed_roots"));
    }
    for malformed in [
        "sync/../other",
        "relative:../x",
        "relative:a/../../x",
        "sync/a\u{202e}b",
    ] {
        assert_eq!(
            scene
                .refused(malformed, ExtraFiles::Keep)
                .await
                .code
                .status(),
            400,
            "{malformed}"
        );
    }
    scene.sync_now("relative:tenant_123").await;
    assert_eq!(scene.text("data/sync/tenant_123/SOUL.md"), "soul");
    scene.sync_now("data/sync/absolute").await;
    scene.sync_now("sync").await;
    assert_eq!(scene.text("sync/SOUL.md"), "soul");
    assert_eq!(fs::read_dir(scene.at("other")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_overlaps_or_is_not_a_directory_is_refused() {
    let scene = SyncFixture::new();
    let mut rules = scene.rules.clone();
    rules.allowed_roots.push(scene.at(""));
    let scene = SyncFixture { rules, ..scene };
    for overlapping in [
        "home",
        "home/context",
        "data",
        "data/tenants/x",
        "data/shares/g",
        "",
    ] {
        let problem = scene.refused(overlapping, ExtraFiles::Keep).await;
        assert_eq!(
            (problem.code.status(), problem.reason),
            (409, Some("overlap")),
            "{overlapping}"
        );
    }
    symlink(scene.at("home"), scene.at("sync/link")).unwrap();
    symlink(scene.at("other"), scene.at("sync/link2")).unwrap();
    scene.put("sync/file", "x");
    for occupied in [
        "sync/link",
        "sync/link/x",
        "sync/link2",
        "sync/link2/deep",
        "sync/file",
        "sync/file/x",
    ] {
        let problem = scene.refused(occupied, ExtraFiles::Keep).await;
        assert_eq!(problem.code.status(), 409, "{occupied}");
    }
    assert_eq!(fs::read_dir(scene.at("other")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_dry_run_needs_no_root_and_a_real_one_does() {
    let scene = SyncFixture::new();
    fs::remove_dir(scene.at("sync")).unwrap();
    let report = scene
        .run("sync/t", SyncMode::Dry, ExtraFiles::Keep)
        .await
        .unwrap();
    assert_eq!(report.counts.copied, 3);
    let problem = scene
        .run("sync/t", SyncMode::Real, ExtraFiles::Keep)
        .await
        .unwrap_err();
    assert_eq!(problem.code.status(), 409);
    assert!(!scene.at("sync").exists());
}

#[tokio::test]
async fn only_our_own_unchanged_files_are_deleted() {
    let scene = SyncFixture::new();
    scene.put("home/context/b.md", "b");
    scene.put("home/context/c.md", "c");
    scene.sync_now("sync/t").await;
    for gone in ["a.md", "b.md", "c.md"] {
        fs::remove_file(scene.at(&format!("home/context/{gone}"))).unwrap();
    }
    scene.put("sync/t/context/b.md", "somebody changed it");
    scene.put("sync/t/foreign.md", "not ours");
    // Without `delete` everything is kept, and stays in the manifest.
    let report = scene.sync_now("sync/t").await;
    assert_eq!(
        report.kept,
        ["context/a.md", "context/b.md", "context/c.md", "foreign.md"]
    );
    let report = scene
        .run("sync/t", SyncMode::Real, ExtraFiles::Delete)
        .await
        .unwrap();
    assert_eq!(report.deleted, ["context/a.md", "context/c.md"]);
    assert_eq!(report.kept, ["context/b.md", "foreign.md"]);
    assert!(!scene.at("sync/t/context/a.md").exists());
    assert_eq!(scene.text("sync/t/context/b.md"), "somebody changed it");
    assert_eq!(scene.text("sync/t/foreign.md"), "not ours");
}

#[tokio::test]
async fn deleting_is_refused_at_roots_and_in_the_built_in_one() {
    let scene = SyncFixture::new();
    for to in ["relative:t", "relative:", "sync", "data/sync/t"] {
        scene
            .run(to, SyncMode::Real, ExtraFiles::Keep)
            .await
            .unwrap();
        fs::remove_file(scene.at("home/context/a.md")).ok();
        let problem = scene.refused(to, ExtraFiles::Delete).await;
        assert_eq!(problem.code.status(), 403, "{to}");
        assert!(problem.message.contains("sync.allowed_roots"));
        scene.put("home/context/a.md", "context");
    }
    assert_eq!(scene.text("data/sync/t/context/a.md"), "context");
    assert_eq!(scene.text("sync/context/a.md"), "context");
}

#[tokio::test]
async fn a_manifest_that_names_paths_outside_deletes_nothing_there() {
    let scene = SyncFixture::new();
    scene.put("other/victim", "");
    scene.sync_now("sync/t").await;
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let forged = json!({"version": 1, "tenant": "tenant_123",
                        "files": {"../../other/victim": empty, "/etc/hostname": empty}});
    scene.put("sync/t/.hub-sync.json", &forged.to_string());
    let report = scene
        .run("sync/t", SyncMode::Real, ExtraFiles::Delete)
        .await
        .unwrap();
    assert_eq!(report.deleted, [""; 0]);
    assert!(scene.at("other/victim").exists());
}

#[tokio::test]
async fn another_tenants_destination_and_a_damaged_manifest_are_refused() {
    let scene = SyncFixture::new();
    scene.sync_now("sync/t").await;
    for run in [SyncMode::Dry, SyncMode::Real] {
        let problem = scene
            .run_as("other", "sync/t", run, ExtraFiles::Keep)
            .await
            .unwrap_err();
        assert_eq!(
            (problem.code.status(), problem.reason),
            (409, Some("foreign_manifest"))
        );
    }
    scene.put("sync/t/.hub-sync.json", "{");
    let problem = scene
        .run("sync/t", SyncMode::Real, ExtraFiles::Keep)
        .await
        .unwrap_err();
    assert_eq!(
        (problem.code.status(), problem.reason),
        (409, Some("manifest"))
    );
}

#[tokio::test]
async fn a_destination_is_written_by_one_at_a_time() {
    let scene = SyncFixture::new();
    scene.sync_now("sync/t").await;
    let held = fs::File::open(scene.at("sync/t")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let problem = scene
        .run("sync/t", SyncMode::Real, ExtraFiles::Keep)
        .await
        .unwrap_err();
    assert_eq!(
        (problem.code.status(), problem.reason),
        (409, Some("already_running"))
    );
    drop(held);
    scene.sync_now("sync/t").await;
}

#[tokio::test]
async fn what_stands_in_the_way_is_left_and_told() {
    let scene = SyncFixture::new();
    fs::create_dir_all(scene.at("sync/t/SOUL.md")).unwrap();
    scene.put("sync/t/context", "a file");
    fs::create_dir_all(scene.at("sync/t/skills/x")).unwrap();
    symlink(
        scene.at("other/victim"),
        scene.at("sync/t/skills/x/SKILL.md"),
    )
    .unwrap();
    let report = scene.sync_now("sync/t").await;
    assert_eq!(report.skipped.len(), 3);
    assert!(
        report
            .skipped
            .iter()
            .all(|skipped| skipped.reason == "occupied")
    );
    assert!(!scene.at("other/victim").exists());
}
