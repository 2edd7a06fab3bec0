//! In a chat, with `terminal.sandbox: workspace` and, to see that the corpus is worth something, without.

use std::{fs, path::PathBuf, process::Command};

use hermes_testkit::{Behaviour, TemporaryHome};

use super::{
    attacks, failures, honest_commands, outputs, plant_secrets, script, snapshot_files, successes,
    tenant::as_user,
};
use crate::{
    embedded_hub::has_landlock,
    harness::{chat_terminal::ChatHome, test_home::BackgroundProcess},
};

/// Runs all commands in a chat whose working directory is beside its home. Tells what they printed.
fn run_commands(sandbox: &str, commands: &[String]) -> (ChatHome, TemporaryHome, Vec<String>) {
    // The corpus is one turn.
    let more = format!(
        "approvals: {{mode: 'off'}}\nterminal: {{sandbox: {sandbox}}}\nagent: {{max_turns: 1000}}\n"
    );
    let place = ChatHome::new(Some(script(commands)), &[], &more);
    plant_secrets(place.home.path());
    let work = TemporaryHome::new();
    let mut command = place.command(&["-q", "begin"], &[]);
    command
        .current_dir(work.path())
        .env("OPENAI_API_KEY", "sk-planted-provider-key");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let outputs = outputs(place.model.as_ref().unwrap());
    (place, work, outputs)
}

#[test]
fn no_command_of_a_chat_gets_out_of_its_workspace() {
    if !has_landlock() {
        return;
    }
    let attacks = attacks();
    let commands: Vec<String> = attacks.iter().cloned().chain(honest_commands()).collect();
    let (place, _work, outputs) = run_commands("workspace", &commands);
    let (attacked, worked) = outputs.split_at(attacks.len());
    let successes = successes(&attacks, attacked);
    println!("{} attacks, {} successes", attacks.len(), successes.len());
    assert!(successes.is_empty(), "{successes:#?}");
    let failures = failures(worked);
    assert!(failures.is_empty(), "{failures:#?}");
    let config = fs::read_to_string(place.home.path().join("config.yaml")).unwrap();
    assert!(config.contains("sandbox: workspace") && !config.contains("x: 1"));
    for (path, text) in snapshot_files(place.home.path()) {
        let is_sown = path.to_string_lossy().contains("sown") || path.ends_with("SOUL.md");
        assert!(!is_sown || text.is_none(), "{}", path.display());
    }
}

#[test]
fn no_command_of_an_ordinary_users_chat_gets_out_either() {
    if rustix::process::geteuid().is_root() {
        let test = "attacks::chat::no_command_of_a_chat_gets_out_of_its_workspace";
        let said = as_user(test, &[]);
        assert!(said.contains("1 passed"), "{said}");
    }
}

#[test]
fn a_strict_sandbox_leaves_no_network() {
    if !has_landlock() {
        return;
    }
    let connect = "/usr/bin/python3 -c 'import socket; socket.socket()'";
    let commands = [connect.to_owned(), "echo hi > made && cat made".to_owned()];
    let (_place, work, outputs) = run_commands("strict", &commands);
    assert!(
        outputs[0].contains("Operation not permitted"),
        "{outputs:?}"
    );
    assert!(outputs[1].contains("\"exit_code\":0"), "{outputs:?}");
    let made: PathBuf = work.path().join("made");
    assert_eq!(fs::read_to_string(made).unwrap(), "hi\n");
}

/// The data of a Hub in the working directory is not part of it.
#[test]
fn a_hub_in_the_working_directory_is_closed() {
    if !has_landlock() {
        return;
    }
    let commands = [
        "cat hub/admin.token",
        "cp -r hub other; cat other/admin.token",
        "ln -sfn hub made/l; cat made/l/admin.token",
        "find . -type f -exec cat {} +",
        "echo 'x: 1' >> hub/hub.yaml && echo GOT-$((6+1))-IN",
        "echo fine > made/x && cat made/x",
    ];
    let commands = commands.map(str::to_owned);
    let more = "approvals: {mode: 'off'}\nterminal: {sandbox: workspace}\n";
    let place = ChatHome::new(Some(script(&commands)), &[], more);
    let work = TemporaryHome::new();
    fs::create_dir_all(work.path().join("hub")).unwrap();
    fs::create_dir_all(work.path().join("made")).unwrap();
    fs::write(work.path().join("hub/admin.token"), "planted-hub-token").unwrap();
    let mut command = place.command(&["-q", "begin"], &[]);
    command
        .current_dir(work.path())
        .env("HERMES_HUB_DATA_DIR", work.path().join("hub"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let outputs = outputs(place.model.as_ref().unwrap());
    let (attacked, worked) = outputs.split_at(5);
    let successes = successes(&commands[..5], attacked);
    assert!(successes.is_empty(), "{successes:#?}");
    assert!(worked[0].contains("fine"), "{worked:?}");
}

/// Sends what would reload the servers and call a tool to each running process, and prints what it is answered.
const ASK_RUNNING: &str = "import glob, json, os, socket\n\
    ask = {'ask': 'request', 'server': 'kit', 'can_answer': False}\n\
    call = ask | {'request': {'kind': 'call_tool', 'tool': 'echo', 'arguments': {'text': 'got in'}, 'is_raw': False}}\n\
    for path in glob.glob(os.environ['HERMES_HOME'] + '/run/host-*.sock'):\n    \
        for line in [{'ask': 'reload'}, {'ask': 'wake', 'server': 'kit'}, call, {'ask': 'status'}]:\n        \
            s = socket.socket(socket.AF_UNIX); s.connect(path); s.sendall(json.dumps(line).encode() + b'\\n')\n        \
            print(s.makefile().readline()[:60])";

#[test]
fn running_processes_answer_commands_of_a_chat_with_states_and_lists_only() {
    let command = format!("/usr/bin/python3 - <<'END'\n{ASK_RUNNING}\nEND");
    // Detached, and without its variables but for the one it needs.
    let detached = format!("setsid -w env -i HERMES_HOME=\"$HERMES_HOME\" {command}");
    let commands = [command, detached];
    let more = "approvals: {mode: 'off'}\n";
    let kit = Behaviour::new();
    let place = ChatHome::new(Some(script(&commands)), &[("kit", &kit)], more);
    let hub = TemporaryHome::new();
    let mut up = Command::new(env!("CARGO_BIN_EXE_hermes"));
    up.args(["up"])
        .env("HERMES_HUB_DATA_DIR", hub.path())
        .env("HERMES_HOME", place.home.path())
        .env("HOME", place.home.path())
        .env("HERMES_HUB_LISTEN", "127.0.0.1:0")
        .env("HERMES_HUB_METRICS__LISTEN", "off");
    let mut up = BackgroundProcess::start(up);
    up.wait_for("kit: ready");
    let mut chat = place.command(&["-q", "begin"], &[]);
    let output = chat.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for output in outputs(place.model.as_ref().unwrap()) {
        let refusals = output.matches("refused").count();
        assert_eq!(refusals, 3, "{output}");
        assert!(output.contains("status"), "{output}");
    }
}

/// Without it rules for commands are all there is, and approvals are off here: the corpus has to find ways in.
#[test]
fn without_a_sandbox_many_of_the_same_commands_work() {
    let commands = [
        "cat \"$HERMES_HOME/.env\"",
        "ln -sfn \"$HERMES_HOME\" l; cat l/.env",
        "echo 'x: 1' >> \"$HERMES_HOME/config.yaml\" && echo GOT-$((6+1))-IN",
        "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX); print(\"GOT-%d-IN\" % 7)'",
    ];
    let commands = commands.map(str::to_owned);
    let (_place, _work, outputs) = run_commands("off", &commands);
    assert_eq!(successes(&commands, &outputs).len(), 4, "{outputs:?}");
}

/// Ways into the process that runs the commands, which has keys in its variables and in its memory.
const LOOKING_INSIDE: [&str; 6] = [
    "ps eww -o args= -p $PPID | grep -q HERMES_HOME= && echo GOT-$((6+1))-IN",
    "grep -qa HERMES_HOME= /proc/$PPID/environ && echo GOT-$((6+1))-IN",
    "readlink /proc/$PPID/cwd && echo GOT-$((6+1))-IN",
    "ls /proc/$PPID/fd | grep -q 0 && echo GOT-$((6+1))-IN",
    "grep -q rw /proc/$PPID/maps && echo GOT-$((6+1))-IN",
    "exec 9</proc/$PPID/mem && echo GOT-$((6+1))-IN",
];

/// The same by system calls that trace it and take one of its open files.
const LOOKING_BY_CODE: [&str; 2] = [
    "ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0",
    "(c := ctypes.CDLL(None).syscall)(438, c(434, int(sys.argv[1]), 0), 0, 0) >= 0",
];

#[test]
fn keys_of_the_process_stay_closed_without_a_sandbox_too() {
    if rustix::process::geteuid().is_root() {
        // Nothing is closed to root.
        let test = "attacks::chat::keys_of_the_process_stay_closed_without_a_sandbox_too";
        let said = as_user(test, &[]);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let by_code = LOOKING_BY_CODE.map(|code| {
        format!(
            "/usr/bin/python3 -c 'import ctypes, sys; {code} and print(\"GOT-%d-IN\" % 7)' $PPID"
        )
    });
    let attacks: Vec<String> = LOOKING_INSIDE
        .map(str::to_owned)
        .into_iter()
        .chain(by_code)
        .collect();
    // The shell itself is open to all of them, so they work; and its parent is the one that has the keys.
    let own = LOOKING_INSIDE.map(|command| command.replace("$PPID", "$$"));
    let parent = "ps ww -o args= -p $PPID".to_owned();
    let commands: Vec<String> = attacks
        .iter()
        .cloned()
        .chain(own.clone())
        .chain([parent])
        .collect();
    let (_place, _work, outputs) = run_commands("off", &commands);
    let (attacked, others) = outputs.split_at(attacks.len());
    let seen = successes(&attacks, attacked);
    assert!(seen.is_empty(), "{seen:#?}");
    let (looked, parent) = others.split_at(own.len());
    assert_eq!(successes(&own, looked).len(), own.len(), "{looked:#?}");
    assert!(parent[0].contains("-q begin"), "{parent:?}");
}
