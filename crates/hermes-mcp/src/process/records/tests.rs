use std::os::unix::fs::PermissionsExt;

use super::*;

fn write(run_dir: &Path, name: &str, file: &HostFile) -> PathBuf {
    let path = run_dir.join(name);
    file.write(&path).unwrap();
    path
}

/// A process of its own group.
fn sleeper() -> std::process::Child {
    use std::os::unix::process::CommandExt;
    std::process::Command::new("sleep")
        .arg("60")
        .process_group(0)
        .spawn()
        .unwrap()
}

fn entry(pid: u32, start_time: u64) -> ProcessEntry {
    ProcessEntry {
        server: ServerName::new("srv"),
        pid,
        pgid: pid,
        start_time,
        started_at: clock::timestamp(SystemTime::now()),
    }
}

/// The file of a host that has died: this process, but from an earlier time.
fn dead_host(servers: Vec<ProcessEntry>) -> HostFile {
    let mut file = HostFile::for_this_process();
    file.host_start_time -= 1;
    file.servers = servers;
    file
}

#[test]
fn the_file_is_private_and_goes_with_its_owner() {
    let home = tempfile::tempdir().unwrap();
    let run_dir = home.path().join("run");
    let records = ProcessRecords::create(&run_dir).unwrap();
    let path = run_dir.join(format!("host-{}.json", std::process::id()));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&run_dir), mode(&path)), (0o700, 0o600));

    let second = ProcessRecords::create(&run_dir).unwrap();
    drop(records);
    assert!(!path.exists() && second.path.exists());
    drop(second);
    assert_eq!(std::fs::read_dir(&run_dir).unwrap().count(), 0);
}

#[test]
fn the_file_of_an_earlier_process_with_this_pid_is_taken_over() {
    let run_dir = tempfile::tempdir().unwrap();
    let name = format!("host-{}.json", std::process::id());
    let path = write(run_dir.path(), &name, &dead_host(Vec::new()));
    assert_eq!(ProcessRecords::create(run_dir.path()).unwrap().path, path);
}

#[test]
fn a_file_tells_the_present_state_however_many_changes_it_went_through() {
    let run_dir = tempfile::tempdir().unwrap();
    let records = ProcessRecords::create(run_dir.path()).unwrap();
    let pids = |records: &ProcessRecords| -> Vec<u32> {
        let file = HostFile::read(&records.path).unwrap();
        file.servers.iter().map(|entry| entry.pid).collect()
    };
    records.change(RecordChange::Started(entry(7, 1))).unwrap();
    for pid in 1_000..2_000 {
        records
            .change(RecordChange::Started(entry(pid, 1)))
            .unwrap();
        assert_eq!(pids(&records), [7, pid]);
        records.remove(pid).unwrap();
    }
    assert_eq!(pids(&records), [7]);
    let size = std::fs::metadata(&records.path).unwrap().len();
    assert!(size < 50_000, "{size} bytes");
}

#[test]
fn a_line_that_a_dying_host_did_not_finish_is_ignored() {
    let run_dir = tempfile::tempdir().unwrap();
    let records = ProcessRecords::create(run_dir.path()).unwrap();
    records.change(RecordChange::Started(entry(7, 1))).unwrap();
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&records.path)
        .unwrap();
    file.write_all(br#"{"started":{"server":"s","pid":8"#)
        .unwrap();
    assert_eq!(HostFile::read(&records.path).unwrap().servers.len(), 1);
}

#[tokio::test]
async fn the_next_host_ends_what_a_dead_one_left() {
    let run_dir = tempfile::tempdir().unwrap();
    let mut child = sleeper();
    let start = process_table::start_time(child.id()).unwrap();
    let path = write(
        run_dir.path(),
        "host-99-2.json",
        &dead_host(vec![entry(child.id(), start)]),
    );
    let listed = list_processes(run_dir.path());
    assert_eq!(listed[0].state, ProcessState::Orphaned);

    let cleared = stop_stale_processes(run_dir.path()).await;
    assert_eq!(cleared.len(), 1);
    assert!(!child.wait().unwrap().success());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_pid_with_another_start_time_is_left_alone() {
    let run_dir = tempfile::tempdir().unwrap();
    let mut child = sleeper();
    let start = process_table::start_time(child.id()).unwrap();
    let file = dead_host(vec![entry(child.id(), start - 1)]);
    let path = write(run_dir.path(), "host-99.json", &file);
    assert!(list_processes(run_dir.path()).is_empty());
    assert!(stop_stale_processes(run_dir.path()).await.is_empty());
    assert!(!path.exists());
    assert!(child.try_wait().unwrap().is_none(), "the stranger lives");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn records_of_another_boot_mean_nobody() {
    let run_dir = tempfile::tempdir().unwrap();
    let mut child = sleeper();
    let start = process_table::start_time(child.id()).unwrap();
    let mut file = HostFile::for_this_process();
    file.boot_id = "another".into();
    file.servers = vec![entry(child.id(), start)];
    let path = write(run_dir.path(), "host-99.json", &file);
    assert!(list_processes(run_dir.path()).is_empty());
    assert!(stop_stale_processes(run_dir.path()).await.is_empty());
    assert!(!path.exists());
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_living_host_keeps_its_file_and_its_servers() {
    let run_dir = tempfile::tempdir().unwrap();
    let mut child = sleeper();
    let start = process_table::start_time(child.id()).unwrap();
    let mut file = HostFile::for_this_process();
    file.servers = vec![entry(child.id(), start)];
    let path = write(run_dir.path(), "host-99.json", &file);
    assert!(stop_stale_processes(run_dir.path()).await.is_empty());
    assert!(path.exists());
    let listed = list_processes(run_dir.path());
    assert_eq!(listed[0].state, ProcessState::Running);

    stop_recorded_process(&listed[0]).await.unwrap();
    assert!(!child.wait().unwrap().success());
    let error = stop_recorded_process(&listed[0]).await.unwrap_err();
    assert!(matches!(error, KillError::NotRunning { .. }));
}

#[test]
fn a_record_shows_the_members_of_mcp_ps() {
    let record = ProcessRecord {
        server: ServerName::new("srv"),
        pid: 5,
        pgid: 5,
        host_pid: 4,
        started_at: "t".into(),
        rss_bytes: 6,
        state: ProcessState::Running,
        start_time: 7,
    };
    assert_eq!(
        serde_json::to_value(record).unwrap(),
        serde_json::json!({
            "server": "srv", "pid": 5, "pgid": 5, "host_pid": 4,
            "started_at": "t", "rss_bytes": 6, "state": "running",
        })
    );
}
