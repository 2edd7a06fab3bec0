//! Commands that talk to a running host over its socket.

use std::{
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::{Home, ServerName, Settings};
use hermes_mcp::{
    Host, HostOptions, LinkStatus,
    control::{ControlRequest, ControlResponse, ControlSocket, ProcessResponse, query_processes},
};
use hermes_testkit::Behaviour;
use serde_json::json;
use tokio::task::JoinSet;

mod requests;

use crate::test_host::{BehaviourFile, TIMEOUT, TestHost, config, guard, stdio, stdio_from, with};

/// Asks from another thread, as another process would.
async fn asked(home: &Path, question: ControlRequest) -> Vec<ProcessResponse> {
    let home = Home::at(home);
    tokio::task::spawn_blocking(move || query_processes(&home, &question, TIMEOUT))
        .await
        .unwrap()
}

/// Serves questions about a host until the set is dropped.
fn serve(host: &Host) -> JoinSet<()> {
    let socket = ControlSocket::open(host.home()).unwrap();
    let host = host.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { socket.serve(&host).await });
    tasks
}

fn socket_path(home: &Path) -> PathBuf {
    home.join("run")
        .join(format!("host-{}.sock", std::process::id()))
}

#[tokio::test]
async fn a_running_host_tells_the_state_of_its_servers() {
    let good = stdio(&Behaviour::new());
    let host = TestHost::start(&[
        ("good", good.clone()),
        ("off", with(good, "enabled", false)),
    ])
    .await;
    host.ready("good").await;
    let _serving = serve(&host.host);
    let replies = asked(host.home.path(), ControlRequest::Status).await;
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].pid, std::process::id());
    let ControlResponse::Status { servers } = &replies[0].response else {
        panic!("{replies:?}");
    };
    let states: Vec<_> = servers.iter().map(|s| (&*s.name, s.status)).collect();
    assert_eq!(
        states,
        [("good", LinkStatus::Ready), ("off", LinkStatus::Disabled)]
    );
    assert_eq!(servers[0].pid, Some(host.pid("good")));
    assert!(servers[0].tools > 20);

    let metadata = std::fs::metadata(socket_path(host.home.path())).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_reload_is_done_and_reported() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    let session = host.ready("server").await;
    let _serving = serve(&host.host);
    host.home.write_config(&config(&[
        ("server", stdio(&Behaviour::new())),
        ("new", stdio(&Behaviour::new())),
    ]));
    let replies = asked(host.home.path(), ControlRequest::Reload).await;
    let ControlResponse::Reloaded { report } = &replies[0].response else {
        panic!("{replies:?}");
    };
    assert_eq!(report.added, ["new"]);
    assert_eq!(report.unchanged, ["server"]);
    host.ready("new").await;
    assert!(Arc::ptr_eq(&session, &host.ready("server").await));

    host.home.write_config("mcp_servers: {unclosed");
    let replies = asked(host.home.path(), ControlRequest::Reload).await;
    let ControlResponse::Refused { reason } = &replies[0].response else {
        panic!("{replies:?}");
    };
    assert!(reason.contains("line"), "{reason}");
    assert_eq!(host.status("new").status, LinkStatus::Ready);
}

#[tokio::test]
async fn a_server_is_woken() {
    let directory = tempfile::tempdir().unwrap();
    let file = BehaviourFile::new(directory.path(), &Behaviour::new());
    let entry = with(stdio_from(&file), "lazy", true);
    let servers = [("server", entry)];
    let host = TestHost::start(&servers).await;
    host.ready("server").await;
    host.remembered("server").await;
    let home = host.end().await;
    let host = TestHost::start_in(home, &servers).await;
    host.reaches("server", LinkStatus::Lazy).await;
    let _serving = serve(&host.host);
    let server = ServerName::new("server");
    let replies = asked(host.home.path(), ControlRequest::Wake { server }).await;
    assert!(
        matches!(replies[0].response, ControlResponse::Woken),
        "{replies:?}"
    );
    host.ready("server").await;
}

#[tokio::test]
async fn nonsense_is_refused_and_the_next_question_answered() {
    use std::io::{BufRead, BufReader, Write};
    let host = TestHost::start(&[]).await;
    let _serving = serve(&host.host);
    let path = socket_path(host.home.path());
    let answers = tokio::task::spawn_blocking(move || {
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(b"what?\n{\"ask\":\"status\"}\n").unwrap();
        let lines = BufReader::new(stream).lines();
        lines.take(2).map(Result::unwrap).collect::<Vec<_>>()
    });
    let answers = answers.await.unwrap();
    assert!(answers[0].contains("refused"), "{answers:?}");
    assert!(answers[1].contains("\"servers\":[]"), "{answers:?}");
}

#[tokio::test]
async fn a_socket_that_nobody_serves_is_cleared_away() {
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let stale = run.join("host-1.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let dangling = run.join("host-2.sock");
    std::os::unix::fs::symlink("/tmp/no/such.sock", &dangling).unwrap();
    let unrelated = run.join("notes.txt");
    std::fs::write(&unrelated, "").unwrap();
    assert!(asked(home.path(), ControlRequest::Status).await.is_empty());
    assert!(!stale.exists());
    assert!(dangling.symlink_metadata().is_err());
    assert!(unrelated.exists());
}

#[tokio::test]
async fn the_socket_goes_with_its_host() {
    let host = TestHost::start(&[]).await;
    let path = socket_path(host.home.path());
    let serving = serve(&host.host);
    assert_eq!(
        asked(host.home.path(), ControlRequest::Status).await.len(),
        1
    );
    drop(serving);
    let gone = || path.symlink_metadata().is_err();
    assert!(hermes_testkit::eventually(TIMEOUT, gone).await);
    assert!(
        asked(host.home.path(), ControlRequest::Status)
            .await
            .is_empty()
    );
}

/// A host in a home whose path is too long for a socket.
async fn far_away(root: &Path, server: &str) -> Host {
    let path = root.join("a-directory-with-quite-a-long-name/".repeat(5));
    let path = path.join(server);
    std::fs::create_dir_all(&path).unwrap();
    let entry = json!({ "command": "unused", "enabled": false });
    std::fs::write(path.join("config.yaml"), config(&[(server, entry)])).unwrap();
    let home = Home::at(path);
    let settings = Settings::load(&home).unwrap();
    Host::start(HostOptions::new(home, guard()), &settings).await
}

#[tokio::test]
async fn homes_with_long_paths_have_sockets_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let one = far_away(directory.path(), "one").await;
    let other = far_away(directory.path(), "other").await;
    let serving = [serve(&one), serve(&other)];
    for (host, name) in [(&one, "one"), (&other, "other")] {
        let replies = asked(host.home().path(), ControlRequest::Status).await;
        let Some(ControlResponse::Status { servers }) =
            replies.first().map(|reply| &reply.response)
        else {
            panic!("{name}: {replies:?}");
        };
        assert_eq!(servers[0].name, name);
        let link = socket_path(host.home().path());
        let target = std::fs::read_link(link).unwrap();
        let metadata = std::fs::metadata(&target).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let directory = std::fs::metadata(target.parent().unwrap()).unwrap();
        assert_eq!(directory.permissions().mode() & 0o777, 0o700);
    }
    let targets =
        [&one, &other].map(|host| std::fs::read_link(socket_path(host.home().path())).unwrap());
    drop(serving);
    let gone = || !targets.iter().any(|target| target.exists());
    assert!(hermes_testkit::eventually(Duration::from_secs(10), gone).await);
}
