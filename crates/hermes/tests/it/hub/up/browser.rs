//! The browser that `hermes up` opens on a desktop.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command, time::Duration};

use super::sign_in;
use crate::harness::{
    screen_terminal::ScreenTerminal,
    test_home::{BackgroundProcess, TIMEOUT, TestHome},
};

/// How long nothing is opened where nothing is to be.
const QUIET: Duration = Duration::from_secs(1);

/// A desktop on which something writes down what a browser was to open.
struct Desktop {
    home: TestHome,
    opened: PathBuf,
}

impl Desktop {
    fn new() -> Self {
        let home = TestHome::fresh();
        let programs = home.beside("programs");
        let opened = home.beside("opened");
        fs::create_dir(&programs).unwrap();
        let browser = programs.join("xdg-open");
        // Moved there when it is whole.
        let script = format!(
            "#!/bin/sh\nprintf %s \"$1\" > '{0}.part' && mv '{0}.part' '{0}'\n",
            opened.display()
        );
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        Self { home, opened }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let programs = self.home.beside("programs");
        let mut command = self.home.command(arguments);
        command
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("DISPLAY", ":0");
        command
    }

    fn opened(&self) -> Option<String> {
        fs::read_to_string(&self.opened).ok()
    }

    #[track_caller]
    fn assert_nothing_is_opened(&self) {
        let is_opened = hermes_testkit::wait_until(QUIET, || self.opened().is_some());
        assert!(!is_opened, "{:?}", self.opened());
    }
}

fn terminal(command: Command) -> ScreenTerminal {
    ScreenTerminal::start(command, 200, 40)
}

#[test]
fn at_the_first_start_the_link_is_opened_and_whoever_has_signed_in_gets_no_tab_with_every_start() {
    let desktop = Desktop::new();
    let first = terminal(desktop.command(&["up"]));
    let link = hermes_testkit::wait_for(TIMEOUT, || desktop.opened());
    let link = link.unwrap_or_else(|| panic!("nothing is opened: {}", first.text()));
    assert!(sign_in(&link).is_some(), "{link}");
    drop(first);
    fs::remove_file(&desktop.opened).unwrap();

    let second = terminal(desktop.command(&["up"]));
    second.wait_for("address", |text| text.contains("hermes hub login-link"));
    desktop.assert_nothing_is_opened();
}

#[test]
fn nothing_is_opened_where_nobody_wants_it_or_would_see_it() {
    let unwanted = Desktop::new();
    let shown = terminal(unwanted.command(&["up", "--no-open"]));
    shown.wait_for("link", |text| text.contains("/sign-in#code="));
    unwanted.assert_nothing_is_opened();

    let elsewhere = Desktop::new();
    let mut command = elsewhere.command(&["up"]);
    command.env("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22");
    let shown = terminal(command);
    shown.wait_for("link", |text| text.contains("/sign-in#code="));
    elsewhere.assert_nothing_is_opened();

    let without_terminal = Desktop::new();
    let mut logged = BackgroundProcess::start(without_terminal.command(&["up"]));
    logged.wait_for("hermes hub login-link");
    without_terminal.assert_nothing_is_opened();
}
