#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn pairs(list: &[(&str, &str)]) -> Environment {
    list.iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn overlay(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn program(directory: &Path, name: &str, mode: u32) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let file = directory.join(name);
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

#[test]
fn only_listed_variables_are_passed_on() {
    let host = pairs(&[
        ("PATH", "/bin"),
        ("HOME", "/h"),
        ("USER", "u"),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("TERM", "dumb"),
        ("SHELL", "/bin/sh"),
        ("TMPDIR", "/t"),
        ("XDG_CONFIG_HOME", "/x"),
        ("path", "/wrong-case"),
        ("Xdg_Data", "no"),
        ("LC_CTYPE", "no"),
        ("HTTPS_PROXY", "http://proxy"),
        ("no_proxy", "x"),
        ("API_KEY", "secret"),
        ("APPDATA", "windows only"),
        ("HERMES_HOME", "/hermes"),
    ]);
    let expected = host[..9].to_vec();
    assert_eq!(build_environment(host, &[]), expected);
}

#[test]
fn the_overlay_replaces_and_adds() {
    let host = pairs(&[("PATH", "/bin"), ("HOME", "/h")]);
    let env = overlay(&[("PATH", "/mine"), ("KEY", "1"), ("KEY", "2"), ("EMPTY", "")]);
    assert_eq!(
        build_environment(host, &env),
        pairs(&[
            ("PATH", "/mine"),
            ("HOME", "/h"),
            ("KEY", "2"),
            ("EMPTY", "")
        ])
    );
}

#[test]
fn names_differ_by_case() {
    let environment = build_environment(pairs(&[("PATH", "/bin")]), &overlay(&[("Path", "/x")]));
    assert_eq!(environment, pairs(&[("PATH", "/bin"), ("Path", "/x")]));
}

#[test]
fn the_child_s_path_is_searched_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("1"), directory.path().join("2"));
    program(&first, "tool", 0o644);
    let wanted = program(&second, "tool", 0o755);
    let path = std::env::join_paths([&first, &second]).unwrap();
    let environment = vec![("PATH".into(), path)];
    assert_eq!(
        find_program("  tool ", &environment, directory.path()),
        Ok(wanted)
    );
}

#[test]
fn a_file_that_is_not_executable_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = program(directory.path(), "tool", 0o644);
    let environment = vec![("PATH".into(), directory.path().into())];
    // Root may not execute a file without any x bit either.
    let error = find_program("tool", &environment, directory.path()).unwrap_err();
    assert_eq!(error, ProgramError::NotExecutable { path });
}

#[test]
fn a_command_with_a_separator_is_taken_as_it_is() {
    let environment = pairs(&[("HOME", "/users/me"), ("PATH", "/bin")]);
    let find = |command| find_program(command, &environment, Path::new("/hermes")).unwrap();
    assert_eq!(find("./run"), Path::new("./run"));
    assert_eq!(find("bin/run"), Path::new("bin/run"));
    assert_eq!(find("/opt/run"), Path::new("/opt/run"));
    assert_eq!(find("~/bin/run"), Path::new("/users/me/bin/run"));
}

#[test]
fn node_programs_are_found_outside_path_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (home, user) = (directory.path().join("hermes"), directory.path().join("me"));
    let npx = program(&home.join("node/bin"), "npx", 0o755);
    let npm = program(&user.join(".local/bin"), "npm", 0o755);
    program(&user.join(".local/bin"), "tool", 0o755);
    let environment = vec![
        ("PATH".into(), "/nowhere".into()),
        ("HOME".into(), user.into()),
    ];
    assert_eq!(find_program("npx", &environment, &home), Ok(npx));
    assert_eq!(find_program("npm", &environment, &home), Ok(npm));
    assert!(matches!(
        find_program("tool", &environment, &home),
        Err(ProgramError::NotFound { .. })
    ));
}

#[test]
fn a_missing_program_comes_with_advice() {
    let environment = pairs(&[("PATH", "/nowhere"), ("HOME", "/nowhere")]);
    let message = |command| {
        find_program(command, &environment, Path::new("/nowhere"))
            .unwrap_err()
            .to_string()
    };
    assert!(message("uvx").contains("install uv"));
    assert!(message("tool").contains("full path"));
    assert!(message("  ").contains("empty"));
    assert!(install_advice(Path::new("/x/npx")).contains("Node.js"));
}

#[test]
fn the_program_s_directory_leads_path_once() {
    let mut environment = pairs(&[("PATH", "/bin:/opt/node")]);
    prepend_to_path(Path::new("/opt/node/npx"), &mut environment);
    assert_eq!(environment, pairs(&[("PATH", "/bin:/opt/node")]));

    prepend_to_path(Path::new("/srv/tool"), &mut environment);
    assert_eq!(environment, pairs(&[("PATH", "/srv:/bin:/opt/node")]));

    prepend_to_path(Path::new("./tool"), &mut environment);
    assert_eq!(environment, pairs(&[("PATH", "/srv:/bin:/opt/node")]));

    let mut bare = pairs(&[]);
    prepend_to_path(Path::new("/srv/tool"), &mut bare);
    assert_eq!(bare, pairs(&[("PATH", "/srv")]));
}

#[test]
fn the_interpreter_is_what_the_line_names_or_what_env_looks_up() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    for (line, interpreter) in [
        (
            "#!/opt/venv/bin/python3\nimport os\n",
            Some("/opt/venv/bin/python3"),
        ),
        ("#!/usr/bin/env node\n", Some("node")),
        ("#! /usr/bin/env -S A=1 node --flag\n", Some("node")),
        ("\u{7f}ELF", None),
        ("", None),
    ] {
        std::fs::write(&script, line).unwrap();
        assert_eq!(
            script_interpreter(&script).as_deref(),
            interpreter,
            "{line}"
        );
    }
    assert_eq!(script_interpreter(Path::new("/nowhere")), None);
}
