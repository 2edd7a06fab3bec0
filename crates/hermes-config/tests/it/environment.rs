//! What depends on the process environment, seen from child processes that have their own.

use std::{
    env, fs,
    process::{Command, Output},
};

use hermes_config::{Home, ProfileName, Variables};

use crate::home;

/// Set in the child processes.
const CHILD: &str = "TEST_IS_CHILD";

/// Runs the test of that name again, in a process with exactly these variables.
fn rerun_in_child(test: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("environment::{test}"), "--nocapture"])
        .env_clear()
        .env(CHILD, "yes")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

fn line<'o>(output: &'o Output, label: &str) -> &'o str {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .find_map(|line| line.split_once(&format!("{label}=")))
        .map_or_else(|| panic!("no {label} in {text}"), |(_, value)| value)
}

fn print_home() {
    let profile = env::var("TEST_PROFILE").ok();
    let profile = profile.map(|name| ProfileName::parse(&name).unwrap());
    match Home::locate(profile.as_ref()) {
        Ok(home) => println!("\nhome={}", home.path().display()),
        Err(error) => println!("\nerror={error}"),
    }
}

fn print_variables() {
    let home = Home::locate(None).unwrap();
    let project = env::var("TEST_PROJECT").unwrap();
    let (variables, _) = Variables::load(&home, Some(project.as_ref()));
    for name in [
        "BOTH",
        "SHELL_ONLY",
        "HOME_ONLY",
        "PROJECT_ONLY",
        "EVERYWHERE",
        "SHELL_PROJECT",
    ] {
        println!("\n{name}={}", variables.get(name).unwrap_or("unset"));
    }
}

#[test]
fn hermes_home_wins_over_the_user_directory() {
    if is_child() {
        return print_home();
    }
    let output = rerun_in_child(
        "hermes_home_wins_over_the_user_directory",
        &[("HERMES_HOME", "/srv/hermes"), ("HOME", "/home/me")],
    );
    assert_eq!(line(&output, "home"), "/srv/hermes");
    let output = rerun_in_child(
        "hermes_home_wins_over_the_user_directory",
        &[("HOME", "/home/me")],
    );
    assert_eq!(line(&output, "home"), "/home/me/.hermes");
    let output = rerun_in_child(
        "hermes_home_wins_over_the_user_directory",
        &[("HERMES_HOME", ""), ("HOME", "/home/me")],
    );
    assert_eq!(line(&output, "home"), "/home/me/.hermes");
    let output = rerun_in_child(
        "hermes_home_wins_over_the_user_directory",
        &[("HERMES_HOME", "~/h"), ("HOME", "/home/me")],
    );
    assert_eq!(line(&output, "home"), "/home/me/h");
}

#[test]
fn a_profile_is_a_directory_below_the_home() {
    if is_child() {
        return print_home();
    }
    let (directory, _) = home(&[]);
    let root = directory.path().to_str().unwrap();
    let variables = [("HERMES_HOME", root), ("TEST_PROFILE", "work")];
    let output = rerun_in_child("a_profile_is_a_directory_below_the_home", &variables);
    assert!(line(&output, "error").contains("no profile `work`"));
    fs::create_dir_all(directory.path().join("profiles/work")).unwrap();
    let output = rerun_in_child("a_profile_is_a_directory_below_the_home", &variables);
    assert_eq!(line(&output, "home"), format!("{root}/profiles/work"));
}

#[test]
fn the_home_overrides_the_shell_and_the_project_fills_gaps() {
    if is_child() {
        return print_variables();
    }
    let (directory, _) = home(&[(".env", "BOTH=home\nHOME_ONLY=home\nEVERYWHERE=home\n")]);
    let (project, _) = home(&[(
        ".env",
        "PROJECT_ONLY=project\nEVERYWHERE=project\nSHELL_PROJECT=project\n",
    )]);
    let output = rerun_in_child(
        "the_home_overrides_the_shell_and_the_project_fills_gaps",
        &[
            ("HERMES_HOME", directory.path().to_str().unwrap()),
            ("TEST_PROJECT", project.path().to_str().unwrap()),
            ("BOTH", "shell"),
            ("SHELL_ONLY", "shell"),
            ("EVERYWHERE", "shell"),
            ("SHELL_PROJECT", "shell"),
        ],
    );
    for (name, value) in [
        ("BOTH", "home"),
        ("SHELL_ONLY", "shell"),
        ("HOME_ONLY", "home"),
        ("PROJECT_ONLY", "project"),
        ("EVERYWHERE", "home"),
        ("SHELL_PROJECT", "shell"),
    ] {
        assert_eq!(line(&output, name), value, "{name}");
    }
}
