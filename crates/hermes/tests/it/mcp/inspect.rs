//! The commands that tell about servers, with real servers and a real `hermes up`.

mod connecting;
mod demo;
mod doctor;
mod logs;
mod processes;
mod status;

use crate::harness::program::Hermes;

/// A server as it should be.
fn working_server() -> hermes_testkit::Behaviour {
    hermes_testkit::Behaviour::new()
}

#[test]
fn the_version_is_the_same_however_it_is_asked_for() {
    let hermes = Hermes::new();
    // The last way goes through all arguments, the others take the short cut.
    for args in [&["--version"][..], &["-V"], &["--safe-mode", "--version"]] {
        let ran = hermes.run(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert_eq!(
            ran.stdout,
            concat!("hermes ", env!("CARGO_PKG_VERSION"), "\n"),
            "{args:?}"
        );
    }
}
