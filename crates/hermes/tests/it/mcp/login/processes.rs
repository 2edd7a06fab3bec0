//! Several processes with one login.

use std::thread;

use super::*;

/// A login that every use has to renew, at a server that takes its time over it.
fn slow() -> OAuthHome {
    let setup = AuthorizationSetup::with(|setup| setup.lifetime = SHORT_LIFETIME);
    let place = OAuthHome::new(setup, Resource::default());
    place.log_in().ok();
    place
}

#[test]
fn two_processes_that_renew_one_token_at_once_send_one_refresh() {
    let place = slow();
    // What comes back lasts, so that the second has nothing left to do.
    place.server.set_lifetime(Duration::from_hours(1));
    let delay = EndpointFault::Delay(Duration::from_secs(1));
    place.server.fail(Endpoint::Token, delay);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| place.works());
        }
    });
    assert_eq!(place.grants("refresh_token"), 1);
}

#[test]
fn processes_that_renew_again_and_again_never_use_a_token_twice() {
    let place = slow();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..3 {
                    place.works();
                }
            });
        }
    });
    // One that was used twice would have ended the login.
    place.works();
    let used: Vec<Option<String>> = place
        .server
        .requests_to(Endpoint::Token)
        .iter()
        .map(|request| request.parameter("refresh_token"))
        .collect();
    let distinct: std::collections::HashSet<_> = used.iter().collect();
    assert_eq!(used.len(), distinct.len(), "{} requests", used.len());
}

#[test]
fn a_process_that_dies_while_it_renews_does_not_stop_the_next() {
    let place = slow();
    place.server.fail(Endpoint::Token, EndpointFault::Hang);
    let arguments = ["mcp", "call", "remote", "echo", r#"{"text":"hello"}"#];
    let mut first = place.hermes.command(&arguments).spawn().unwrap();
    let asked = hermes_testkit::wait_until(crate::harness::test_home::TIMEOUT, || {
        place.grants("refresh_token") == 1
    });
    assert!(asked);
    first.kill().unwrap();
    first.wait().unwrap();
    place.server.clear_fault(Endpoint::Token);
    place.works();
}

#[test]
fn a_running_process_takes_up_a_login_of_another() {
    let place = OAuthHome::usual();
    let hub = tempfile::tempdir().unwrap();
    let mut command = place.hermes.command(&["up"]);
    command.env("HERMES_HUB_DATA_DIR", hub.path());
    let mut up = crate::harness::test_home::BackgroundProcess::start(command);
    up.wait_for("needs_auth");
    place.log_in().ok();
    up.wait_for("remote: ready");
}
