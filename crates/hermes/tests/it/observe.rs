//! The commands that tell about servers, with real servers and a real `hermes up`.

mod demo;
mod doctor;
mod logs;
mod processes;
mod status;

/// A server as it should be.
fn well() -> hermes_testkit::Behaviour {
    hermes_testkit::Behaviour::new()
}
