//! `hermes hub node`

use std::fs;

use hermes_testkit::postgres::TestDatabase;

use crate::{
    harness::test_home::{TestHome, wait_until},
    hub::hub_process::HubProcess,
};

const LIST: [&str; 3] = ["hub", "node", "list"];

#[test]
fn nodes_are_listed_and_drained_if_that_is_confirmed() {
    let database = TestDatabase::create();
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let settings = [
        format!("database.url={}", database.url()),
        format!("objects.url=file://{}", home.beside("objects").display()),
    ];
    let mut settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    settings.extend(["node.id=n1", "node.capacity=7"]);
    let hub = HubProcess::with_settings(home, &settings);
    let node = || hub.json(&LIST)["nodes"][0].clone();
    wait_until("the node is listed", || node()["id"] == "n1");
    assert_eq!(node()["capacity"], 7);
    let shown = hub.run(&LIST).ok().stdout;
    assert!(shown.contains("n1") && shown.contains("active"), "{shown}");

    hub.run(&["hub", "node", "drain", "n1"]).exits_with(5);
    assert_eq!(node()["state"], "active");
    hub.run(&["hub", "node", "drain", "n9", "--yes"])
        .exits_with(3);
    hub.run(&["hub", "node", "drain", "n1", "--yes"]).ok();
    assert_eq!(node()["state"], "draining");
}

#[test]
fn the_only_node_is_not_drained() {
    let hub = HubProcess::new();
    let nodes = hub.json(&LIST);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1, "{nodes}");
    let id = nodes["nodes"][0]["id"].as_str().unwrap();
    let refused = hub.run(&["hub", "node", "drain", id, "--yes"]);
    let refused = refused.exits_with(1);
    assert!(refused.stderr.contains("the only node"), "{refused:?}");
}
