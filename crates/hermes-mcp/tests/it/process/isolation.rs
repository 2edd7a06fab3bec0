//! What a server gets from its host, and what it does not.

use hermes_mcp::process::environment::build_environment;

use super::*;

#[tokio::test]
async fn a_server_sees_exactly_its_environment() {
    let host = [
        (os("PATH"), os("/usr/bin:/bin")),
        (os("HOME"), os("/somewhere")),
        (os("XDG_CACHE_HOME"), os("/cache")),
        (os("HTTPS_PROXY"), os("http://proxy")),
        (os("SECRET"), os("x")),
    ];
    let overlay = [("HOME", "/else"), ("B", "two words"), ("A", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut request = MarkedProcess::new("environment").program("/usr/bin/env", &["-0"]);
    request.environment = build_environment(host, &overlay);
    let mut child = guard().spawn(request).await.unwrap();
    let text = output(&mut child).await;
    let mut variables: Vec<&str> = text.split_terminator('\0').collect();
    variables.sort_unstable();
    assert_eq!(
        variables,
        [
            "A=",
            "B=two words",
            "HOME=/else",
            "PATH=/usr/bin:/bin",
            "XDG_CACHE_HOME=/cache"
        ]
    );
}

#[tokio::test]
async fn a_server_has_three_files_and_default_signals() {
    let marked = MarkedProcess::new("clean");
    let mut child = guard().spawn(marked.program("cat", &[])).await.unwrap();
    echo(&mut child).await;
    let pid = child.process.pid();
    let mut files: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["0", "1", "2"]);
    for set in ["SigIgn", "SigBlk", "SigCgt"] {
        let bits = u64::from_str_radix(&status(pid, set).unwrap(), 16).unwrap();
        // The C library keeps signals 32 and 33 to itself.
        assert_eq!(bits & !0x1_8000_0000, 0, "{set} is {bits:x}");
    }
}

#[tokio::test]
async fn the_guard_holds_no_pipe_of_a_server() {
    let marked = MarkedProcess::new("guard-files");
    let guard = guard();
    let mut first = guard
        .spawn(marked.script("exec >&-; read line"))
        .await
        .unwrap();
    let _second = guard.spawn(marked.program("cat", &[])).await.unwrap();
    // Only the server had the write end, so closing it there is the end.
    assert_eq!(output(&mut first).await, "");

    let sockets = |pid: u32| {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let guard_pid = below_watchdog(&guard);
    assert_eq!(parent(first.process.pid()), guard_pid);
    assert_eq!(
        sockets(guard_pid),
        5,
        "one for orders, two for servers, two for SIGCHLD"
    );
    assert_eq!(sockets(parent(guard_pid)), 0, "the watchdog needs none");
}

#[tokio::test]
async fn a_server_leads_its_own_group_outside_the_host_s() {
    let marked = MarkedProcess::new("group");
    let mut child = guard()
        .spawn(marked.script("ps -o pgid= -p $$; ps -o tty= -p $$"))
        .await
        .unwrap();
    let text = output(&mut child).await;
    let mut words = text.split_whitespace();
    assert_eq!(words.next(), Some(child.process.pid().to_string().as_str()));
    assert_eq!(words.next(), Some("?"));
    assert_eq!(child.process.pgid(), child.process.pid());
    assert_ne!(child.process.start_time(), 0);
}

#[tokio::test]
async fn the_working_directory_is_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let guard = guard();
    let marked = MarkedProcess::new("cwd");

    let mut request = marked.program("/bin/pwd", &[]);
    request.cwd = Some(path.clone());
    let mut child = guard.spawn(request).await.unwrap();
    assert_eq!(output(&mut child).await.trim_end(), path.to_str().unwrap());

    let mut child = guard.spawn(marked.program("/bin/pwd", &[])).await.unwrap();
    let own = std::env::current_dir().unwrap();
    assert_eq!(output(&mut child).await.trim_end(), own.to_str().unwrap());
}

#[tokio::test]
async fn two_guards_share_nothing() {
    let (one, other) = (guard(), guard());
    let (marked_one, marked_other) = (MarkedProcess::new("one"), MarkedProcess::new("other"));
    let first = one.spawn(marked_one.program("cat", &[])).await.unwrap();
    let second = other.spawn(marked_other.program("cat", &[])).await.unwrap();
    assert_ne!(one.pid(), other.pid());
    drop(one);
    drop(first);
    assert!(within(TIMEOUT, || marked_one.pids().is_empty()).await);
    assert_eq!(marked_other.pids(), [second.process.pid()]);
}
