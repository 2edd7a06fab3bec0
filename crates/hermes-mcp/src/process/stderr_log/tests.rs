use std::os::unix::fs::PermissionsExt;

use hermes_config::Secret;
use tokio::io::AsyncWriteExt;

use super::{MAX_LINE_BYTES, *};

fn name(text: &str) -> ServerName {
    ServerName::new(text)
}

/// Drains `bytes` to the end and returns the tail.
async fn drain(log: &StderrLog, bytes: &[u8]) -> Vec<String> {
    let (mut write, read) = tokio::io::duplex(64 * 1024);
    let redactor = Arc::new(Redactor::new([Secret::new("a quiet secret".to_owned())]));
    let mut stderr = log.drain(&name("srv"), 7, "run", redactor, read);
    write.write_all(bytes).await.unwrap();
    drop(write);
    stderr.reader.join_next().await;
    stderr.tail()
}

#[tokio::test]
async fn each_line_has_time_and_server_after_a_separator() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let tail = drain(&log, b"one\r\ntwo \xff\nlast").await;
    assert_eq!(tail, ["one", "two \u{fffd}", "last"]);
    drop(log);

    let path = home.path().join("logs/mcp-stderr.log");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("---- 20") && lines[0].ends_with("Z [srv] pid 7: run ----"));
    assert!(lines[1].ends_with("Z [srv] one"));
    assert!(lines[3].ends_with("Z [srv] last"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn what_must_not_be_known_is_not_in_the_file() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    drain(&log, b"begins with a quiet secret\nends\n").await;
    drop(log);
    let text = std::fs::read_to_string(home.path().join("logs/mcp-stderr.log")).unwrap();
    assert!(text.contains("begins with [REDACTED]\n"), "{text}");
    assert!(text.contains("ends\n"), "{text}");
}

#[tokio::test]
async fn a_name_cannot_fake_a_line() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let mut stderr = log.drain(&name("a\nb"), 7, "x\ny", Arc::default(), tokio::io::empty());
    stderr.wait_for_end().await;
    drop(log);
    let text = std::fs::read_to_string(home.path().join("logs/mcp-stderr.log")).unwrap();
    assert!(text.contains("[a b] pid 7: x y ----"));
    assert_eq!(text.lines().count(), 1);
}

#[tokio::test]
async fn a_long_line_is_cut_and_the_next_one_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let mut bytes = vec![b'x'; 3 * READ_CHUNK];
    bytes.extend_from_slice(b"\nnext\n");
    let tail = drain(&log, &bytes).await;
    assert!(tail[0].starts_with(&"x".repeat(MAX_LINE_BYTES)));
    assert!(tail[0].len() < MAX_LINE_BYTES + 20);
    assert_eq!(tail[1], "next");
}

#[tokio::test]
async fn the_tail_keeps_the_newest_lines_and_shows_a_prompt() {
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let (mut write, read) = tokio::io::duplex(1024);
    let stderr = log.drain(&name("srv"), 7, "run", Arc::default(), read);
    for number in 0..30 {
        write
            .write_all(format!("line {number}\n").as_bytes())
            .await
            .unwrap();
    }
    write.write_all(b"Password: ").await.unwrap();
    let wait = async {
        while stderr.tail().last().map(String::as_str) != Some("Password: ") {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), wait).await.unwrap();
    let tail = stderr.tail();
    assert_eq!((tail.len(), tail[0].as_str()), (21, "line 10"));
}

#[tokio::test]
async fn stderr_is_drained_where_no_log_can_be_written() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("logs"), "a file in the way").unwrap();
    let log = StderrLog::new(home.path());
    let tail = drain(&log, "line\n".repeat(100_000).as_bytes()).await;
    assert_eq!(tail.len(), 20);
}

#[tokio::test]
async fn what_was_printed_before_is_forgotten_even_if_nobody_has_read_it_yet() {
    use std::io::Write;
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let (read, mut write) = std::io::pipe().unwrap();
    let read = Receiver::from_owned_fd(read.into()).unwrap();
    let mut stderr = log.drain_pipe(&name("srv"), 7, "run", Arc::default(), read);
    // The reading task has not had its turn: all of this is in the pipe.
    write
        .write_all(b"Failed to validate request\nand a warning\n")
        .unwrap();
    stderr.clear();
    write.write_all(b"out of memory\n").unwrap();
    drop(write);
    stderr.wait_for_end().await;
    assert_eq!(stderr.tail(), ["out of memory"]);
    drop(log);
    let text = std::fs::read_to_string(home.path().join("logs/mcp-stderr.log")).unwrap();
    assert!(
        text.contains("Failed to validate") && text.contains("out of memory"),
        "{text}"
    );
}

#[tokio::test]
async fn what_was_read_before_is_forgotten_and_a_line_goes_on() {
    use std::io::Write;
    let home = tempfile::tempdir().unwrap();
    let log = StderrLog::new(home.path());
    let (read, mut write) = std::io::pipe().unwrap();
    let read = Receiver::from_owned_fd(read.into()).unwrap();
    let mut stderr = log.drain_pipe(&name("srv"), 7, "run", Arc::default(), read);
    write.write_all(b"old\nhalf").unwrap();
    while stderr.tail().len() < 2 {
        tokio::task::yield_now().await;
    }
    write.write_all(b" a line\nunread").unwrap();
    stderr.clear();
    assert_eq!(stderr.tail(), [""; 0]);
    write.write_all(b" and more\n").unwrap();
    drop(write);
    stderr.wait_for_end().await;
    assert_eq!(stderr.tail(), ["unread and more"]);
}
