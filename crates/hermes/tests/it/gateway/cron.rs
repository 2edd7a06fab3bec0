//! Cron jobs while a gateway runs.

use hermes_testkit::model::ScriptedAnswer;

use super::*;
use crate::harness::test_home::wait_until;

fn job(place: &GatewayHome, id: &str) -> Value {
    let json = place
        .home
        .run(&["cron", "list", "--all", "--json"])
        .ok()
        .json();
    let jobs = json["jobs"].as_array().unwrap().clone();
    jobs.into_iter()
        .find(|job| job["id"] == id)
        .unwrap_or_default()
}

#[test]
fn a_job_runs_at_once_under_a_gateway() {
    let place = GatewayHome::new(ModelScript::new([ScriptedAnswer::text("All is well.")]));
    place
        .home
        .run(&["cron", "create", "every 1h", "Look", "--id", "look"])
        .ok();
    let gateway = place.start();
    wait_until("the ticker", || {
        let status = place.home.run(&["cron", "status", "--json"]).ok().json();
        status["ticker"] == true
    });
    let ran = place.home.run(&["cron", "run", "look"]).ok();
    assert!(ran.stderr.contains("runs now"), "{}", ran.stderr);
    wait_until("the run", || job(&place, "look")["last_status"] == "ok");
    let runs = place.home.run(&["cron", "runs", "--json"]).ok().json();
    assert_eq!(runs["runs"][0]["status"], "completed");
    assert_eq!(runs["runs"][0]["source"], "gateway");
    drop(gateway);
}

#[test]
fn a_job_that_is_due_runs_by_itself() {
    let place = GatewayHome::new(ModelScript::new([ScriptedAnswer::text("All is well.")]));
    place
        .home
        .run(&["cron", "create", "every 1h", "Look", "--id", "look"])
        .ok();
    // Its time has come while no gateway ran.
    place.home.run(&["cron", "run", "look"]).ok();
    let _gateway = place.start();
    wait_until("the run", || job(&place, "look")["last_status"] == "ok");
}
