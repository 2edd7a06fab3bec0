//! What the README shows about the Hub works as it is written.

use std::{fs, path::Path};

use crate::hub::hub_process::HubProcess;

#[test]
fn the_two_minutes_of_the_readme_work() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let section = readme.split("## The Hub in two minutes").nth(1).unwrap();
    let block = section
        .split("```sh")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let hub = HubProcess::new();
    let mut count = 0;
    for line in block
        .lines()
        .filter(|line| line.contains("hermes") && !line.contains("hub serve"))
    {
        let program = env!("CARGO_BIN_EXE_hermes");
        let mut command = hub.command(&[]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &line.replace("hermes ", &format!("'{program}' "))])
            .env_clear();
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        shell.current_dir(hub.home.path());
        command.arg("--version");
        let ran = crate::harness::program::run(shell, "");
        assert_eq!(ran.code, 0, "{line}: {ran:#?}");
        count += 1;
    }
    assert!(count >= 6, "only {count} commands were found");
}
