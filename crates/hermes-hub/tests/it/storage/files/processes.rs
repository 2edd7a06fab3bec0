//! Crashes and full disks, in a child process: this test binary again.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use hermes_hub::{
    Problem, ProblemCode,
    storage::files::{
        CreateOutcome, DirectoryFiles, FileLimits, Files, LineRange, WriteMode, WrittenFile,
    },
};
use hermes_testkit::wait_until;

use crate::storage::files::fixture::path;

/// The child's working directory.
const STAGE_VARIABLE: &str = "HERMES_HUB_TEST_STAGE";
const SIZE: usize = 3_000_000;
const LAST_ROUND: u64 = 11;

fn open(stage: &Path) -> DirectoryFiles {
    DirectoryFiles::open(
        &stage.join("share"),
        &stage.join("trash"),
        FileLimits::default(),
    )
    .unwrap()
}

fn prepare(stage: &Path) {
    for name in ["share", "trash"] {
        fs::create_dir(stage.join(name)).unwrap();
    }
}

/// This binary, told to run one test.
fn rerun_command(test: &str) -> Vec<String> {
    let binary = env::current_exe().unwrap().to_str().unwrap().to_owned();
    [
        &binary,
        "--exact",
        &format!("storage::files::processes::{test}"),
        "--nocapture",
    ]
    .map(str::to_owned)
    .to_vec()
}

async fn write(
    files: &DirectoryFiles,
    to: &str,
    content: Vec<u8>,
) -> Result<(CreateOutcome, WrittenFile), Problem> {
    files
        .write(&path(to), content.into(), WriteMode::Overwrite, None)
        .await
}

async fn append(
    files: &DirectoryFiles,
    to: &str,
    content: Vec<u8>,
) -> Result<(CreateOutcome, WrittenFile), Problem> {
    files
        .write(&path(to), content.into(), WriteMode::Append, None)
        .await
}

#[tokio::test]
async fn a_process_killed_in_an_overwrite_leaves_the_old_or_the_new_content() {
    if let Some(stage) = env::var_os(STAGE_VARIABLE) {
        let files = open(Path::new(&stage));
        for letter in (b'a'..=b'z').cycle() {
            write(&files, "f", vec![letter; SIZE]).await.unwrap();
        }
    }
    let stage = tempfile::tempdir().unwrap();
    prepare(stage.path());
    let place = stage.path().join("share/f");
    fs::write(&place, vec![b'-'; SIZE]).unwrap();
    let command =
        rerun_command("a_process_killed_in_an_overwrite_leaves_the_old_or_the_new_content");
    let mut changed = 0;
    for round in 0..=LAST_ROUND {
        let before = fs::read(&place).unwrap();
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env(STAGE_VARIABLE, stage.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Wait until it writes, then a little more, each time to another point of some write.
        let writes = || fs::read_dir(stage.path().join("share")).unwrap().count() >= 2;
        assert!(
            wait_until(Duration::from_mins(1), writes),
            "the other process does not write"
        );
        thread::sleep(Duration::from_micros(3700 * round));
        // A disk may be slower than all these moments: at last, one is waited for.
        let is_changed = || fs::read(&place).unwrap() != before;
        if round == LAST_ROUND && changed == 0 && wait_until(Duration::from_mins(1), is_changed) {
            changed += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let content = fs::read(&place).unwrap();
        assert_eq!(content.len(), SIZE);
        assert!(
            content.iter().all(|byte| *byte == content[0]),
            "the content is mixed"
        );
        changed += usize::from(content != before);
        // As at the next start: temporary files are removed.
        assert_eq!(open(stage.path()).recount().await.unwrap().files, 1);
        let left = fs::read_dir(stage.path().join("share")).unwrap().count();
        assert_eq!(left, 1, "remnants were not cleared");
    }
    assert!(changed > 0, "no overwrite was ever completed");
}

/// Ways to get a small disk: a small file system as root, one in a user namespace, a limit on file sizes.
const SMALL_DISKS: [(&str, &[&str]); 3] = [
    (
        "own mounts",
        &["unshare", "--mount", "sh", "-c", MOUNT, "sh"],
    ),
    (
        "own user and mounts",
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            MOUNT,
            "sh",
        ],
    ),
    (
        "file sizes",
        &[
            "sh",
            "-c",
            "trap '' XFSZ; ulimit -f 2048; STAGE_KIND=limit \"$@\"",
            "sh",
        ],
    ),
];
const MOUNT: &str =
    "mount -t tmpfs -o size=2m,mode=0700 tmpfs \"$HERMES_HUB_TEST_STAGE\" || exit 77; exec \"$@\"";

#[tokio::test]
async fn on_a_full_disk_writes_are_refused_reads_go_on_and_nothing_is_torn() {
    if let Some(stage) = env::var_os(STAGE_VARIABLE) {
        return fill_the_disk(Path::new(&stage)).await;
    }
    let command =
        rerun_command("on_a_full_disk_writes_are_refused_reads_go_on_and_nothing_is_torn");
    let mut tried = Vec::new();
    for (kind, prefix) in SMALL_DISKS {
        let stage = tempfile::tempdir().unwrap();
        let output = Command::new(prefix[0])
            .args(&prefix[1..])
            .args(&command)
            .env(STAGE_VARIABLE, stage.path())
            .output()
            .unwrap();
        if output.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A missing permission to mount is not a failure.
        let not_allowed = output.status.code() == Some(77) || said.contains("unshare");
        assert!(
            not_allowed,
            "with {kind}: {said}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        tried.push(said);
    }
    panic!("there is no way to make a small disk here: {tried:?}");
}

async fn fill_the_disk(stage: &Path) {
    prepare(stage);
    let files = open(stage);
    let is_limit = env::var_os("STAGE_KIND").is_some();
    let full = if is_limit {
        ProblemCode::PayloadTooLarge
    } else {
        ProblemCode::OutOfSpace
    };
    write(&files, "old", b"old content\n".to_vec())
        .await
        .unwrap();
    append(&files, "log", b"first\n".to_vec()).await.unwrap();

    for refused in [
        write(&files, "old", vec![b'x'; SIZE]).await,
        write(&files, "new/big", vec![b'x'; SIZE]).await,
        append(&files, "log", vec![b'x'; SIZE]).await,
        append(&files, "other", vec![b'x'; SIZE]).await,
    ] {
        let problem = refused.unwrap_err();
        assert_eq!(problem.code, full, "{problem}");
        if !is_limit {
            assert_eq!(
                (problem.code.status(), problem.reason),
                (507, Some("disk_full"))
            );
        }
    }
    let old = files
        .read(&path("old"), LineRange::default())
        .await
        .unwrap();
    assert_eq!(old.content, "old content\n");
    let log = files
        .read(&path("log"), LineRange::default())
        .await
        .unwrap();
    assert_eq!(log.content, "first\n");
    assert!(files.stat(&path("other")).await.is_err());
    let kept = files.usage().await.unwrap();
    assert_eq!(files.recount().await.unwrap(), kept);
    // No temporary file takes up space: a small write succeeds.
    write(&files, "old", b"new content\n".to_vec())
        .await
        .unwrap();
    append(&files, "log", b"second\n".to_vec()).await.unwrap();
    let log = files
        .read(&path("log"), LineRange::default())
        .await
        .unwrap();
    assert_eq!(log.content, "first\nsecond\n");
}
