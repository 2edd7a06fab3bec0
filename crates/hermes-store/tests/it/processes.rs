//! Several processes on one home, some of them killed. Children are this test binary again.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use hermes_config::Home;
use hermes_store::{Access, MessageQuery, MessageRows, NewSession, Store, mirror};
use jiff::Zoned;

use crate::{assistant, database, empty_home, id, python_sql, user, with_session};

/// In a child: the home to work on.
const HOME: &str = "TEST_CHILD_HOME";
const SESSION: &str = "20260101_010101_abcdef";

/// Runs the child's part of the test of that name in a process of its own.
fn child(test: &str, home: &Home) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("processes::{test}"), "--nocapture"])
        .env(HOME, home.path())
        .stdout(Stdio::piped());
    command
}

/// The home given to a child; none in the test itself.
fn given_home() -> Option<Home> {
    env::var_os(HOME).map(Home::at)
}

/// Waits until a child says it is at work.
fn wait_for_work(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = lines.map_while(Result::ok);
    assert!(said.any(|line| line.contains("at work")));
}

#[tokio::test]
async fn four_processes_append_a_thousand_messages_each() {
    if let Some(home) = given_home() {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        for number in 0..1000 {
            let message = user(&format!("message {number}"));
            store.append(&id(SESSION), &message).await.unwrap();
        }
        store.close().await;
        return;
    }
    let (_directory, home, store, session) = with_session().await;
    let children: Vec<_> = (0..4)
        .map(|_| {
            child("four_processes_append_a_thousand_messages_each", &home)
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(store.count_active(&session).await.unwrap(), 4000);
    let counted = store.session(&session).await.unwrap().unwrap();
    assert_eq!(counted.message_count, 4000);
    store.close().await;
    assert_eq!(python_sql(&home, "PRAGMA integrity_check"), "ok");
}

/// Lets children of that test work for a moment each, kills them, and looks at what they leave.
async fn kill_repeatedly(test: &str, home: &Home, rounds: u64) {
    for round in 0..rounds {
        let mut child = child(test, home).spawn().unwrap();
        wait_for_work(&mut child);
        std::thread::sleep(Duration::from_millis(7 + 13 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(home, Access::ReadWrite).await.unwrap();
        let session = store.session(&id(SESSION)).await.unwrap().unwrap();
        let live = store.count_active(&session.id).await.unwrap();
        assert_eq!(session.message_count, live, "counted with the rows");
        store.close().await;
        assert_eq!(python_sql(home, "PRAGMA integrity_check"), "ok");
        assert_eq!(
            python_sql(home, "SELECT COUNT(*) FROM messages"),
            python_sql(home, "SELECT COUNT(*) FROM messages_fts"),
        );
    }
}

#[tokio::test]
async fn a_process_killed_while_appending_leaves_no_half_message() {
    if let Some(home) = given_home() {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        println!("at work");
        loop {
            let turn = [user("question"), assistant(&"answer ".repeat(500))];
            store.append_all(&id(SESSION), &turn).await.unwrap();
        }
    }
    let (_directory, home, store, session) = with_session().await;
    store.close().await;
    kill_repeatedly(
        "a_process_killed_while_appending_leaves_no_half_message",
        &home,
        8,
    )
    .await;
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let count = store.count_active(&session).await.unwrap();
    assert!(count > 0 && count % 2 == 0, "{count}");
    store.close().await;
}

#[tokio::test]
async fn a_process_killed_while_compacting_leaves_the_old_list_or_the_new() {
    const LIVE: usize = 40;
    let list = |round: usize| {
        (0..LIVE)
            .map(|_| user(&format!("round {round} {}", "x".repeat(1000))))
            .collect::<Vec<_>>()
    };
    if let Some(home) = given_home() {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        // One holder for all of them, so that nobody waits for the lease of one that was killed.
        let (holder, lease) = ("one after the other", Duration::from_mins(10));
        for round in 0.. {
            let locked = store.lock_compaction(&id(SESSION), holder, lease).await;
            assert!(locked.unwrap());
            let live = store.active_messages(&id(SESSION)).await.unwrap();
            let through = live.last().unwrap().id;
            store
                .compact(&id(SESSION), holder, through, &list(round))
                .await
                .unwrap();
            if round == 0 {
                println!("at work");
            }
        }
    }
    let (_directory, home, store, session) = with_session().await;
    store.append_all(&session, &list(0)).await.unwrap();
    store.close().await;
    let test = "a_process_killed_while_compacting_leaves_the_old_list_or_the_new";
    kill_repeatedly(test, &home, 6).await;
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let live = store.active_messages(&session).await.unwrap();
    assert_eq!(live.len(), LIVE);
    let first = live[0].body.content.clone();
    assert!(live.iter().all(|message| message.body.content == first));
    let all = MessageQuery {
        rows: MessageRows::All,
        limit: u32::MAX,
        ..MessageQuery::default()
    };
    let rows = store.read_messages(&session, &all).await.unwrap().len();
    assert!(rows > LIVE && rows.is_multiple_of(LIVE), "{rows}");
    store.close().await;
}

#[tokio::test]
async fn a_process_killed_while_rewriting_files_leaves_whole_ones() {
    if let Some(home) = given_home() {
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let now = Zoned::now();
        println!("at work");
        for round in 0.. {
            let entries: Vec<_> = (0..50)
                .map(|chat| {
                    let origin = hermes_store::Origin {
                        platform: "telegram".into(),
                        chat_id: Some(format!("{chat}")),
                        chat_type: "dm".into(),
                        chat_name: Some(format!("round {round}")),
                        ..hermes_store::Origin::default()
                    };
                    let key = origin.session_key(&hermes_store::SessionKeyPolicy::default());
                    mirror::RoutingEntry::new(key, id(SESSION), origin)
                })
                .collect();
            mirror::save_routing(&home, &store, &entries, mirror::SessionsJson::Written)
                .await
                .unwrap();
            hermes_store::cron::CronFile::change(&home, &now, |file| {
                let schedule = hermes_store::cron::Schedule::Interval { minutes: 5 };
                file.create(hermes_store::cron::NewJob::new("x", schedule), &now)
            })
            .unwrap();
        }
    }
    let (_directory, home, store, _) = with_session().await;
    store.close().await;
    let test = "a_process_killed_while_rewriting_files_leaves_whole_ones";
    for round in 0..6 {
        let mut child = child(test, &home).spawn().unwrap();
        wait_for_work(&mut child);
        std::thread::sleep(Duration::from_millis(30 + 17 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let path = home.path().join("sessions/sessions.json");
        if path.exists() {
            assert_eq!(mirror::read_sessions_file(&home).unwrap().len(), 50);
        }
        hermes_store::cron::CronFile::load(&home).unwrap();
    }
}

/// As root, permissions mean nothing: the child becomes nobody first.
#[cfg(unix)]
fn as_nobody(command: &mut Command, files: &Path) {
    use std::os::unix::{fs::MetadataExt, process::CommandExt};
    if fs::metadata(files).unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
}

#[tokio::test]
#[cfg(unix)]
async fn a_home_that_cannot_be_written_is_still_read() {
    use std::os::unix::fs::PermissionsExt;
    if let Some(home) = given_home() {
        let store = Store::open(&home, Access::ReadOnly).await.unwrap();
        assert_eq!(store.active_messages(&id(SESSION)).await.unwrap().len(), 1);
        store.close().await;
        let error = Store::open(&home, Access::ReadWrite).await.unwrap_err();
        println!("read it; writing: {error}");
        return;
    }
    let (directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    store
        .create_session(&NewSession::new(id(SESSION), "cli"))
        .await
        .unwrap();
    store.append(&id(SESSION), &user("x")).await.unwrap();
    store.close().await;
    let set =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&database(&home), 0o444);
    set(home.path(), 0o555);
    let mut command = child("a_home_that_cannot_be_written_is_still_read", &home);
    as_nobody(&mut command, home.path());
    let output = command.output().unwrap();
    set(home.path(), 0o755);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("read it"),
        "{output:?}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
