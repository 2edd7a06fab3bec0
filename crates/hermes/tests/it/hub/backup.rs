//! `hermes hub backup` and `restore`.

use std::fs;

use hermes_testkit::postgres::TestDatabase;
use serde_json::Value;

use crate::{
    harness::{program::assert_private, test_home::TestHome},
    hub::hub_process::HubProcess,
};

#[test]
fn a_backup_of_a_running_hub_restores_to_an_equal_one() {
    let hub = HubProcess::with_acme();
    hub.run_with_input(
        &["share", "write", "team", "a.md", "--tenant", "acme"],
        "text",
    )
    .ok();
    hub.run_with_input(&["tenant", "env", "set", "acme", "API_KEY"], "secret-1234")
        .ok();
    let file = hub.home.beside("hub.tar.zst");
    let path = file.to_str().unwrap();
    hub.run(&["hub", "backup", path, "--with-key"]).ok();
    // What came after it is not in it.
    hub.run(&["tenant", "create", "later"]).ok();

    let fresh = TestHome::fresh();
    fs::create_dir(fresh.path()).unwrap();
    fresh.run(&["hub", "restore", path]).ok();
    fresh.run(&["hub", "restore", path]).exits_with(2);
    let restored = HubProcess::in_home(fresh);
    let tenants = restored.json(&["tenant", "list"]);
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1, "{tenants}");
    let text = restored
        .run(&["share", "cat", "team", "a.md", "--tenant", "acme"])
        .ok();
    assert_eq!(text.stdout, "text");
    let env = restored.json(&["tenant", "env", "list", "acme"]);
    assert_eq!(env["env"][0]["name"], "API_KEY");
}

#[test]
fn the_positions_of_database_and_objects_are_written_and_their_backups_left_to_others() {
    let database = TestDatabase::create();
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let objects = format!("file://{}", home.beside("objects").display());
    let settings = home.beside("shared.yaml");
    let text = format!(
        "database:\n  url: {}\nobjects:\n  url: {objects}\n",
        database.url()
    );
    fs::write(&settings, text).unwrap();
    let file = home.beside("positions.json");
    let place = ["--config", settings.to_str().unwrap()];
    let backup = ["hub", "backup", file.to_str().unwrap()];
    let metadata = [&backup[..], &["--metadata"], &place].concat();
    let refused = home.run(&metadata).exits_with(2);
    assert!(
        refused.stderr.contains("does not contain a Hub"),
        "{refused:?}"
    );

    let database_setting = format!("database.url={}", database.url());
    let objects_setting = format!("objects.url={objects}");
    let hub = HubProcess::with_settings(home, &[&database_setting, &objects_setting]);
    hub.run(&["group", "create", "team"]).ok();
    let before = database.run_sql("SELECT pg_current_wal_flush_lsn()");
    hub.run(&metadata).ok();
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let found = &written["database"];
    let wal = found["walPosition"].as_str().unwrap();
    let is_later = format!("SELECT '{wal}'::pg_lsn >= '{before}'::pg_lsn");
    assert_eq!(database.run_sql(&is_later), "t");
    let system = database.run_sql("SELECT system_identifier FROM pg_control_system()");
    assert_eq!(found["systemIdentifier"], system.as_str());
    let tables = database.run_sql("SELECT version FROM hub_schema");
    assert_eq!(found["tablesVersion"].to_string(), tables);
    assert_eq!(written["objects"]["url"], objects.as_str());
    assert_eq!(written["objects"]["time"], found["time"]);

    let refused = hub.run(&[&backup[..], &place].concat()).exits_with(2);
    assert!(refused.stderr.contains("--metadata"), "{refused:?}");
    let refused = HubProcess::new().run(&["hub", "backup", "-", "--metadata"]);
    let refused = refused.exits_with(2);
    assert!(
        refused.stderr.contains("contains everything"),
        "{refused:?}"
    );
}

#[test]
fn without_the_key_that_is_told() {
    let hub = HubProcess::with_acme();
    hub.run_with_input(&["tenant", "env", "set", "acme", "API_KEY"], "secret-1234")
        .ok();
    let file = hub.home.beside("hub.tar.zst");
    hub.run(&["hub", "backup", file.to_str().unwrap()]).ok();
    let fresh = TestHome::fresh();
    let restored = fresh.run(&["hub", "restore", file.to_str().unwrap()]).ok();
    assert!(restored.stderr.contains("secret.key"), "{restored:?}");
    let refused = fresh.run(&["hub", "serve"]).exits_with(1);
    assert!(refused.stderr.contains("secret.key"), "{refused:?}");
}

#[test]
fn a_backup_is_a_private_file_also_where_a_link_was() {
    let hub = HubProcess::with_acme();
    let (file, theirs) = (hub.home.beside("hub.tar.zst"), hub.home.beside("theirs"));
    fs::write(&theirs, "theirs").unwrap();
    std::os::unix::fs::symlink(&theirs, &file).unwrap();
    hub.run(&["hub", "backup", file.to_str().unwrap()]).ok();
    assert!(!file.is_symlink());
    assert_private(&file);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    let missing = hub.home.beside("missing/hub.tar.zst");
    let refused = hub.run(&["hub", "backup", missing.to_str().unwrap()]);
    let refused = refused.exits_with(1);
    assert!(
        refused.stderr.contains("missing/hub.tar.zst"),
        "{refused:?}"
    );
}

#[test]
fn a_hub_whose_key_is_lost_goes_on_without_its_secrets() {
    let hub = HubProcess::with_acme();
    hub.run_with_input(&["tenant", "env", "set", "acme", "API_KEY"], "secret-1234")
        .ok();
    let file = hub.home.beside("hub.tar.zst");
    let path = file.to_str().unwrap();
    let backup = hub.json(&["hub", "backup", path]);
    assert_eq!(backup["withKey"], false, "{backup}");
    let token = fs::read_to_string(hub.home.beside(".local/share/hermes-hub/admin.token")).unwrap();

    let fresh = TestHome::fresh();
    fs::create_dir(fresh.path()).unwrap();
    let restored = fresh
        .run(&["hub", "restore", path, "--forget-secrets"])
        .ok();
    assert!(
        restored.stderr.contains("set the variables"),
        "{restored:?}"
    );
    fs::write(fresh.beside(".local/share/hermes-hub/admin.token"), token).unwrap();
    let restored = HubProcess::in_home(fresh);
    let env = restored.json(&["tenant", "env", "list", "acme"]);
    assert_eq!(env["env"], serde_json::json!([]), "{env}");
    restored
        .run(&["tenant", "run", "acme", "hello", "--watch"])
        .ok();
    let acme = restored.json(&["tenant", "get", "acme"]);
    assert_eq!(acme["keys"]["runtimeKey"]["present"], true, "{acme}");
}

#[test]
fn a_damaged_backup_leaves_nothing_behind() {
    let hub = HubProcess::with_acme();
    let file = hub.home.beside("hub.tar.zst");
    hub.run(&["hub", "backup", file.to_str().unwrap()]).ok();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&file, bytes).unwrap();
    let fresh = TestHome::fresh();
    let refused = fresh
        .run(&["hub", "restore", file.to_str().unwrap()])
        .exits_with(1);
    assert!(refused.stderr.contains("damaged"), "{refused:?}");
    let left = fs::read_dir(fresh.beside(".local/share/hermes-hub"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

#[test]
fn commands_in_a_backup_are_listed_and_not_run() {
    let hub = HubProcess::with_acme();
    let marker = hub.home.beside("ran");
    let command = format!("touch {}; echo http://a.example", marker.display());
    let settings = format!("public_url: ${{cmd:{command}}}\n");
    fs::write(hub.data().join("hub.yaml"), settings).unwrap();
    let file = hub.home.beside("hub.tar.zst");
    let path = file.to_str().unwrap();
    // The command of the Hub itself would run it.
    let other = hub.home.beside("other.yaml");
    fs::write(&other, "{}\n").unwrap();
    let config = ["--config", other.to_str().unwrap()];
    let backup = [&["hub", "backup", path, "--with-key"][..], &config].concat();
    hub.run(&backup).ok();
    let fresh = TestHome::fresh();
    let restored = fresh.run(&["hub", "restore", path]).ok();
    let told = &restored.stderr;
    assert!(told.contains(&format!("hub.yaml: {command}")), "{told}");
    let other = TestHome::fresh();
    let restored = other.run(&["hub", "restore", path, "--json"]).ok().json();
    assert_eq!(restored["commands"][0]["file"], "hub.yaml", "{restored}");
    assert_eq!(restored["commands"][0]["command"], command, "{restored}");
    assert!(!marker.exists());
}
